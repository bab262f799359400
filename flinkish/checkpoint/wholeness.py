"""Whether the files of a checkpoint are whole, checked without reading the state.

A cut names the required files. This module checks their ends (:mod:`.format.file_ends`) and, on a
local disk, the Hadoop checksum file next to each file. The checksum file of a state file must only
fit its size; other files must also have the recorded checksums.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flinkish import storage
from flinkish.checkpoint.cut import (
    Cut,
    checksum_fault,
    committed_batches,
    newest_committed_batch,
    read_cut,
)
from flinkish.checkpoint.errors import HINT_WHOLE, FilesVanished, missing
from flinkish.checkpoint.fileset import ListedFile
from flinkish.checkpoint.format.file_ends import (
    TAIL,
    blocks_of,
    checksum_file_of,
    end_fault,
    has_end,
    size_of_checksum_file,
    source_log_fault,
)
from flinkish.checkpoint.format.logs import is_file_source_log, log_offset
from flinkish.checkpoint.format.names import (
    SOURCES,
    STATE,
    is_state_data,
)
from flinkish.checkpoint.format.pins import PIN_CODEC, pinned
from flinkish.checkpoint.operators import read_operator
from flinkish.errors import Corrupt, FlinkishError, NoCommittedBatch
from flinkish.units import first_of

#: Bytes up to which an entry of a source's log is read as a whole.
_WHOLE_LOG = 1 << 18
#: The number of damaged files that an error names.
_NAMED = 3
#: Maximum number of batches that are tried to find a whole one.
MAX_BATCHES = 100


@dataclass(frozen=True)
class DamagedFile:
    """A damaged file: its path in the checkpoint, and what is wrong with it."""

    path: str
    reason: str


def damaged_files(
    root: str,
    files: Iterable[ListedFile],
    pins: Mapping[str, str],
    offsets: Sequence[str],
    *,
    written: str | None = None,
) -> Iterator[DamagedFile]:
    """Yield the damaged files, in the order of ``files``; those that a cut has parsed are skipped.

    Skipped are offset and commit logs and ``metadata``. ``root`` is the directory that the files
    are read from. ``written`` is the directory to which Spark wrote them, with their checksum
    files, if it is not ``root``. If only ``written`` is on a local disk, the ends of files that
    still have their stamps are read there, which saves a request for each. ``offsets`` are those of
    all sources. Raises FileNotFoundError if a file has vanished.
    """
    root, beside = root.rstrip("/"), (written or root).rstrip("/")
    codec = pinned(pins, PIN_CODEC)
    only_files = all(log_offset(offset) is not None for offset in offsets)
    has_sidecars = storage.is_local(beside)
    was_uploaded = has_sidecars and not storage.is_local(root)

    def look(file: ListedFile) -> DamagedFile | None:
        path, size = file.path, file.size
        location = f"{root}/{path}"
        reason = None
        if is_state_data(path):
            original = (f"{beside}/{path}", file.stamp) if was_uploaded else None
            tail = storage.read_tail(location, size, TAIL, original) if has_end(path) else b""
            reason = end_fault(path, size, tail, codec)
            if (
                reason is None
                and has_sidecars
                and _is_sidecar_for_another_size(f"{beside}/{path}", size)
            ):
                reason = f"has {size} bytes, but its checksum file is for another size"
        elif path.startswith((f"{SOURCES}/", f"{STATE}/")):  # the cut has parsed all others
            if path.startswith(f"{SOURCES}/"):
                reason = _source_fault(location, size, strict=only_files)
            if reason is None and has_sidecars:
                reason = checksum_fault(f"{beside}/{path}", size, _blocks(location))
        return None if reason is None else DamagedFile(path, reason)

    for damaged in storage.in_flight(root, look, files):
        if damaged is not None:
            yield damaged


def _source_fault(location: str, size: int, *, strict: bool) -> str | None:
    """Return what is wrong with a file of a source; ``strict``: it is a file source's log."""
    if size <= _WHOLE_LOG:
        data = storage.read_bytes(location)
    else:
        head, tail = storage.read_head(location, 1024), storage.read_tail(location, size, TAIL)
        data = head + tail
    if not data:
        return "is empty"
    if not (strict or is_file_source_log(data)):
        return None
    return source_log_fault(data, complete=size <= _WHOLE_LOG)


def _blocks(location: str) -> Iterator[bytes]:
    with storage.open_file(location) as file:
        yield from blocks_of(file)


def _is_sidecar_for_another_size(path: str, size: int) -> bool:
    """Return whether Hadoop's checksum file (a checksum per 512 bytes) is for another size."""
    try:
        size_on_disk = os.stat(checksum_file_of(path)).st_size
    except OSError:
        return False
    return size_on_disk != size_of_checksum_file(size)


def damage_error(root: str, batch: int, damaged: Sequence[DamagedFile]) -> Corrupt:
    """Return the error for a checkpoint with damaged files; the error names the first of them."""
    named = first_of([f"{each.path} {each.reason}" for each in damaged], limit=_NAMED)
    return Corrupt(
        f"the checkpoint {root} is damaged at batch {batch}: {named}",
        hint=HINT_WHOLE,
        path=storage.join(root, damaged[0].path),
        batch=batch,
        bad_files=len(damaged),
    )


def read_whole_cut(root: str, batch_id: int | None = None) -> Cut:
    """Return the cut at a batch after checking its files, see :func:`damaged_files`.

    Raises the errors of :func:`~flinkish.checkpoint.cut.read_cut`, and Corrupt for damaged files.
    """
    cut = read_cut(root, batch_id)
    try:
        damaged = list(damaged_files(cut.root, cut.files.entries(), cut.pins, cut.offsets))
    except FileNotFoundError as error:
        lost = str(error.filename)
        raise missing(cut.root, cut.batch_id, lost, newest_committed_batch) from error
    if damaged:
        raise damage_error(cut.root, cut.batch_id, damaged)
    return cut


def planned_state(cut: Cut) -> tuple[str, ...]:
    """Return the state files that the planned batch of a cut has written, if all are whole.

    They exist if the query was killed between the sink's commit and the batch's. With unique ids
    (checkpoint format 2) only the missing commit would say which files those are.
    """
    if cut.planned_batch is None or cut.checkpoint_format != 1:
        return ()
    in_cut = {file.path for file in cut.files.entries()}
    files: dict[str, ListedFile] = {}
    try:
        for operator in cut.operators:
            planned = read_operator(
                cut.root,
                operator.ordinal,
                version=cut.planned_batch + 1,
                pins=cut.pins,
                state_ids=None,
            )
            if planned is None or planned[0].partitions != operator.partitions:
                return ()
            files |= {file.path: file for file in planned[1].entries()}
        new = [file for path, file in files.items() if path not in in_cut]
        if any(damaged_files(cut.root, new, cut.pins, cut.offsets)):
            return ()
    except (FileNotFoundError, FlinkishError):
        return ()
    return tuple(file.path for file in new)


@dataclass(frozen=True)
class WholeBatch:
    """The newest whole batch of a checkpoint.

    ``batch`` is None if none was found; ``skipped`` is what is wrong with the newer batches, the
    newest batch first.
    """

    batch: int | None
    skipped: tuple[FlinkishError, ...] = ()


def newest_whole_batch(root: str) -> WholeBatch:
    """Return the newest committed batch whose files are whole, and why newer ones are not.

    At most :data:`MAX_BATCHES` are tried.

    Raises NoCommittedBatch; Corrupt if all commits are lost; and StorageError, UnsupportedFormat or
    NotSavepointable if the checkpoint cannot be read.
    """
    root = storage.locate(root)
    committed = committed_batches(root)
    skipped: list[FlinkishError] = []
    for batch in committed[: -MAX_BATCHES - 1 : -1]:
        try:
            read_whole_cut(root, batch)
        except (Corrupt, FilesVanished) as error:
            skipped.append(error)
        except NoCommittedBatch:
            if not skipped:
                raise
            break  # trimmed while a newer batch was read, and so are all older ones
        else:
            return WholeBatch(batch, tuple(skipped))
    return WholeBatch(None, tuple(skipped))
