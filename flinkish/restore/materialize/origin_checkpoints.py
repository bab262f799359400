"""The logs of the origins of a new checkpoint, and the check that their state settings agree.

Reading is a thin layer on :mod:`flinkish.checkpoint.format`; the checks are pure.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, TypeVar

from flinkish import storage
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.logs import (
    CommitEntry,
    OffsetEntry,
    is_file_source_log,
    log_offset,
    parse_commit,
    parse_offsets,
)
from flinkish.checkpoint.format.names import COMMITS, OFFSETS, SOURCES
from flinkish.checkpoint.format.pins import (
    PIN_AGGREGATION_FORMAT,
    PIN_CODEC,
    PIN_DEDUP_ORDER,
    PIN_ENCODING,
    PIN_GROUP_FORMAT,
    PIN_JOIN_FORMAT,
    PIN_MERGE_OPERATOR,
    PIN_PROVIDER,
    PIN_ROW_CHECKSUM,
    PIN_SHUFFLE_PARTITIONS,
    PIN_STRICT_DISTRIBUTION,
    SETTING_CHECKPOINT_FORMAT,
    pinned,
    pinned_partitions,
)
from flinkish.errors import Corrupt, Incompatible, UnsupportedFormat
from flinkish.restore.materialize import source_logs, state_files
from flinkish.restore.materialize.source_logs import SourceFiles
from flinkish.restore.recipe import EmptyState, OriginCheckpoint
from flinkish.savepoint.format import digests
from flinkish.savepoint.format.reader import refuse_removed

_T = TypeVar("_T")

#: Pins that determine the layout of state and how it is found.
_STATE_PINS = (
    PIN_PROVIDER,
    PIN_SHUFFLE_PARTITIONS,
    PIN_CODEC,
    PIN_AGGREGATION_FORMAT,
    PIN_GROUP_FORMAT,
    PIN_JOIN_FORMAT,
    PIN_ENCODING,
    PIN_ROW_CHECKSUM,
    PIN_MERGE_OPERATOR,
    PIN_STRICT_DISTRIBUTION,
    PIN_DEDUP_ORDER,
)


@dataclass(frozen=True)
class OriginLogs:
    """The entries of an origin's logs at its batch, parsed and as bytes.

    The bytes are those of the files, for what must stay as Spark wrote it.

    Attributes
    ----------
    planned
        The entry of the next batch, None if it was not planned.
    """

    origin: OriginCheckpoint
    offsets: OffsetEntry
    offsets_bytes: bytes
    commit: CommitEntry
    commit_bytes: bytes
    planned: OffsetEntry | None = None
    planned_bytes: bytes = b""

    def describe(self) -> str:
        """Return a text for messages."""
        return f"the state of batch {self.origin.batch_id} in {self.origin.root}"


def read_file(origin: OriginCheckpoint, path: str) -> bytes:
    """Return the content of a file of the origin, after a comparison with its record, if any.

    The paths in logs of file sources are mapped (:attr:`.OriginCheckpoint.paths`). Raises Corrupt
    if the file is missing, not the recorded one, or a damaged log whose paths are to be mapped,
    UnsupportedFormat if its digest has an unknown form, and what :func:`missing_file` raises.
    """
    try:
        data = storage.read_bytes(origin.at(path))
    except FileNotFoundError as error:
        raise missing_file(origin, path) from error
    check_digest(origin, path, io.BytesIO(data))
    if origin.paths and path.startswith(f"{SOURCES}/") and is_file_source_log(data):
        change = partial(source_logs.with_other_files, other=origin.paths.url)
        return parsed(origin, path, change, data)
    return data


def check_digest(origin: OriginCheckpoint, path: str, content: IO[bytes]) -> None:
    """Compare the bytes of a file of the origin with its recorded digest, if there is one.

    Raises Corrupt if it does not match, and UnsupportedFormat if it has an unknown form.
    """
    recorded = origin.recorded.get(path)
    try:
        if recorded is None or digests.stream_matches(content, recorded.digest):
            return
    except digests.UnknownDigest as error:
        raise UnsupportedFormat(
            f"{origin.at(path)} has a digest of unknown form: {error}", path=origin.at(path)
        ) from error
    raise not_as_recorded(origin, path, "does not have its recorded digest")


def not_as_recorded(origin: OriginCheckpoint, path: str, reason: str) -> Corrupt:
    """Return the error for a file of a savepoint that differs from its record."""
    return Corrupt(
        f"{origin.at(path)} {reason}",
        hint="use another savepoint, or restore the file from a copy",
        path=origin.at(path),
    )


def missing_file(origin: OriginCheckpoint, path: str) -> Corrupt:
    """Return the error for a missing file; raise SavepointNotFound if its savepoint was removed."""
    if origin.recorded.names(""):
        refuse_removed(storage.parent(storage.locate(origin.root)))
    location = origin.at(path)
    return Corrupt(
        f"{location} is missing",
        hint="use another savepoint, or copy the file back",
        path=location,
    )


def parsed(
    origin: OriginCheckpoint,
    path: str,
    parser: Callable[[bytes, str], _T],
    data: bytes | None = None,
) -> _T:
    """Parse a file of the origin with ``parser``.

    ``parser`` takes the content and the path, and raises ValueError for bad content. ``data`` is
    the content, if it has been read already. Raises what :func:`read_file` does, and Corrupt if the
    parser rejects the content.
    """
    content = read_file(origin, path) if data is None else data
    try:
        return parser(content, path)
    except ValueError as error:
        raise damaged(origin, path, error) from error


def damaged(origin: OriginCheckpoint, path: str, error: ValueError) -> Corrupt:
    """Return the error for a file of the origin with wrong content."""
    location = origin.at(path)
    reason = error.detail if isinstance(error, CheckpointFormatError) else error
    return Corrupt(f"{location} is damaged: {reason}", path=location)


def read_logs(origin: OriginCheckpoint) -> OriginLogs:
    """Read the origin's logs; raise what :func:`read_file` and :func:`parsed` do."""
    offsets, commit = (f"{d}/{origin.batch_id}" for d in (OFFSETS, COMMITS))
    planned = f"{OFFSETS}/{origin.batch_id + 1}"
    offsets_bytes, commit_bytes = read_file(origin, offsets), read_file(origin, commit)
    logs = OriginLogs(
        origin=origin,
        offsets=parsed(origin, offsets, parse_offsets, offsets_bytes),
        offsets_bytes=offsets_bytes,
        commit=parsed(origin, commit, parse_commit, commit_bytes),
        commit_bytes=commit_bytes,
    )
    if planned not in origin.files:
        return logs
    data = read_file(origin, planned)
    entry = parsed(origin, planned, parse_offsets, data)
    return replace(logs, planned=entry, planned_bytes=data)


def source_files(origin: OriginCheckpoint, directory: str, position: str) -> SourceFiles:
    """Return the files of a source's directory, which ends in ``/``, up to its position."""
    names = [p.removeprefix(directory) for p in origin.files if p.startswith(directory)]
    try:
        return source_logs.files_at(
            names, position, lambda name: read_file(origin, directory + name)
        )
    except FileNotFoundError as error:
        raise missing_file(origin, f"{directory}{error.filename}") from error
    except ValueError as error:
        raise damaged(origin, directory, error) from error


def input_files(origin: OriginCheckpoint, source: str, position: str) -> set[str]:
    """Return the files that the source in ``sources/<source>`` has read, if it is a file source."""
    if log_offset(position) is None:
        return set()
    directory = f"{SOURCES}/{source}/"
    chosen = source_files(origin, directory, position)
    logs = [parsed(origin, directory + name, source_logs.read_files) for name in chosen.kept]
    logs += [source_logs.read_files(data, name) for name, data in chosen.written.items()]
    return {file.path for log in logs for file in log}


def not_one_source(
    origin: OriginCheckpoint, source: str, other: OriginCheckpoint, same: str
) -> Incompatible:
    """Return the error for two saved sources that are one now, but have read different input."""
    places = other.at(f"{SOURCES}/{same}"), origin.at(f"{SOURCES}/{source}")
    return Incompatible(
        f"the sources in {places[0]} and {places[1]} are one source of the program now, but have "
        "not read the same input",
        hint="read the source separately in each place, as before, or start it from scratch and "
        "keep the state: --reset-source NAME",
        reasons=["positions-differ"],
    )


def check_states_agree(base: OriginLogs, others: Sequence[OriginLogs]) -> None:
    """Raise Incompatible when state of ``others`` cannot be read with the settings of ``base``.

    The pins of ``base`` become the pins of the new query, and hold for all of its state.
    """
    for other in others:
        for setting in _STATE_PINS:
            ours, theirs = _pin(base, setting), _pin(other, setting)
            if ours != theirs:
                raise _disagree(setting, base, ours, other, theirs)
        if base.commit.version != other.commit.version:
            versions = str(base.commit.version), str(other.commit.version)
            raise _disagree(SETTING_CHECKPOINT_FORMAT, base, versions[0], other, versions[1])


def check_empty_states_fit(base: OriginLogs, states: Iterable[object]) -> None:
    """Raise Incompatible when an empty state has another number of partitions than ``base``.

    The query was then planned with the settings of another saved query. State of an operator that
    needs all rows together has one partition, whatever the settings are.
    """
    pinned_number = pinned_partitions(base.offsets.pins)
    for state in states:
        if not isinstance(state, EmptyState) or (state.partitions == 1 and not state.is_keyed):
            continue
        if state.partitions != pinned_number:
            raise Incompatible(
                f"the query continues with the {pinned_number} state partitions of the saved query "
                f"in {base.origin.root}, but was planned with {state.partitions}, and an operator "
                "of it has no saved state",
                hint="give the query the name that it had in the savepoint",
                reasons=["empty-state"],
            )


def _pin(logs: OriginLogs, setting: str) -> str:
    pins = logs.offsets.pins
    if setting == PIN_SHUFFLE_PARTITIONS:
        return str(pinned_partitions(pins) or "")
    value = pinned(pins, setting)
    return state_files.short_codec(value) if setting == PIN_CODEC else value


def _disagree(
    setting: str, base: OriginLogs, ours: str, other: OriginLogs, theirs: str
) -> Incompatible:
    return Incompatible(
        f"state written with different settings cannot be merged: {setting} is "
        f"{ours or 'unknown'} in {base.describe()}, and {theirs or 'unknown'} in "
        f"{other.describe()}",
        hint=f"{setting} is fixed at the first start of a query: start both with the same "
        "value from the beginning, or keep them separate",
        setting=setting,
        values=[ours, theirs],
        reasons=["state-settings"],
    )
