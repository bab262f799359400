"""The cut: the files of a live checkpoint that make up one committed batch, and no later one.

A checkpoint usually holds several batches and state versions; Spark writes the next and trims the
oldest while flinkish reads. :func:`read_cut` lists the files of batch N and of state version N + 1
(plus a planned, uncommitted batch N + 1, so that a restart replays the same range). Nothing is
locked. If a file is trimmed in the meantime, :class:`FilesVanished` is raised, and the caller takes
the newer batch.

Why these files and no others: Spark reads ``offsets/<N-1>`` (N if N + 1 is planned) at restart, and
refuses to start without it. A source log entry later than the offsets makes the file source skip
files. An interrupted batch leaves an incomplete later state version.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish import storage as fs
from flinkish.checkpoint.errors import HINT_WHOLE, FilesVanished, missing, unreadable
from flinkish.checkpoint.fileset import FileSet, ListedFile
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.file_ends import (
    checksum_file_of,
    checksums_of,
    recorded_checksums,
    size_of_checksum_file,
)
from flinkish.checkpoint.format.logs import (
    NO_OFFSET,
    CommitEntry,
    OffsetEntry,
    compacted_number,
    is_file_source_log,
    log_offset,
    parse_commit,
    parse_offsets,
    parse_query_id,
    source_log_entries,
)
from flinkish.checkpoint.format.names import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    numbers_among,
    parse_number,
)
from flinkish.checkpoint.format.pins import backend_of
from flinkish.checkpoint.operators import StateOnDisk, read_operator
from flinkish.errors import Corrupt, NoCommittedBatch
from flinkish.storage import local

__all__ = [
    "CommittedBatch",
    "Cut",
    "FilesVanished",
    "newest_committed_batch",
    "newest_planned_batch",
    "read_cut",
]


@dataclass(frozen=True)
class CommittedBatch:
    """One committed batch N of one query, as its logs record it.

    ``planned_batch`` is N + 1 if its offsets are written. ``watermark_ms`` is the watermark of the
    next batch, in milliseconds since the epoch. ``offsets`` are the JSON of each source, or ``-``;
    ``pins`` the settings pinned in the offset log. ``backend`` is None without stateful operators,
    or if it is unknown. ``checkpoint_format`` is the commit's version: 2 if it may have unique ids
    of state files (a restart then needs ``spark.sql.streaming.stateStore.checkpointFormatVersion``
    set to 2), else 1.
    """

    query_id: str
    batch_id: int
    planned_batch: int | None = None
    watermark_ms: int | None = None
    offsets: tuple[str, ...] = ()
    pins: Mapping[str, str] = field(default_factory=dict)
    backend: str | None = None
    checkpoint_format: int = 1


@dataclass(frozen=True, kw_only=True)
class Cut(CommittedBatch):
    """A committed batch in a checkpoint, and the files it consists of.

    ``planned_fault`` is not empty if the offsets of the planned batch are damaged: the cut then
    leaves them out, and Spark plans the batch again. ``files`` have posix paths relative to
    ``root``.
    """

    root: str
    operators: tuple[StateOnDisk, ...]
    files: FileSet
    planned_fault: str = ""


def newest_committed_batch(root: str) -> int | None:
    """Return the newest batch with a commit log entry; None if there is no entry."""
    batches = numbers_among(fs.list_names(os.path.join(fs.locate(root), COMMITS)))
    return batches[-1] if batches else None


def committed_batches(root: str) -> list[int]:
    """Return the batches with a commit log entry, in order: at least one.

    Raises NoCommittedBatch if there is no entry, or Corrupt if a second batch is planned even so.
    """
    root = fs.locate(root)
    place = os.path.join(root, COMMITS)
    batches = numbers_among(fs.list_names(place))
    # Spark commits a batch before it plans the next; the entry may be newer than the listing.
    if not batches and newest_planned_batch(root):
        batches = numbers_among(fs.list_names(place))
        if not batches:
            raise Corrupt(
                f"the checkpoint {root} has planned several batches, but {COMMITS} has no entry",
                hint="put the directory back from a copy",
                path=place,
            )
    if not batches:
        raise NoCommittedBatch(f"the query at {root} has not committed a batch yet")
    return batches


def newest_planned_batch(root: str) -> int | None:
    """Return the newest batch that is planned or committed; None if there is none."""
    batches = numbers_among(fs.list_names(os.path.join(fs.locate(root), OFFSETS)))
    return batches[-1] if batches else None


def newest_watermark(root: str) -> int:
    """Return the watermark of the newest planned batch, in milliseconds since the epoch.

    It is 0 if no batch is planned, or if the newest one's offsets are damaged or gone by now.
    Raises UnsupportedFormat for offsets of a newer Spark, and StorageError.
    """
    batch = newest_planned_batch(root)
    if batch is None:
        return 0
    _, planned = _Reader(fs.locate(root), batch - 1, [])._planned()
    return 0 if planned is None else planned.watermark_ms


def newest_entries(root: str) -> tuple[OffsetEntry, CommitEntry] | None:
    """Return the offsets and the commit of the newest committed batch, if there is one.

    Only these two files and their checksum files are read. Raises FilesVanished, Corrupt or
    UnsupportedFormat as :func:`read_cut` does.
    """
    batch = newest_committed_batch(root)
    if batch is None:
        return None
    reader = _Reader(fs.locate(root), batch, [batch])
    try:
        return reader.entries()
    except FileNotFoundError as error:
        raise missing(root, batch, str(error.filename), newest_committed_batch) from error


def read_cut(root: str, batch_id: int | None = None) -> Cut:
    """Return the cut at a batch of a checkpoint.

    ``batch_id`` is a committed batch; None is the newest.

    Raises NoCommittedBatch if the batch is not committed; FilesVanished if a file is missing and a
    newer batch is committed, so that Spark may have trimmed the file (retry); Corrupt if a file is
    damaged, or is missing while there is no newer batch; UnsupportedFormat for files of a newer
    Spark; NotSavepointable for an unknown state store.
    """
    root = fs.locate(root)
    committed = committed_batches(root)
    batch = committed[-1] if batch_id is None else batch_id
    if batch not in committed:
        if batch < committed[0]:
            raise NoCommittedBatch(
                f"batch {batch} of {root} is older than the oldest one kept ({committed[0]})",
                hint="keep more batches: spark.sql.streaming.minBatchesToRetain",
            )
        raise NoCommittedBatch(f"batch {batch} of {root} is not committed")
    try:
        return _Reader(root, batch, committed).read()
    except FileNotFoundError as error:
        raise missing(root, batch, str(error.filename), newest_committed_batch) from error


def checksum_fault(location: str, size: int, blocks: Iterable[bytes]) -> str | None:
    """Return how a file differs from its Hadoop checksum file; None if it does not.

    A checksum file that is missing, remote or for another size is ignored. ``location`` is where
    Spark wrote the file; the checksum file is next to it. ``blocks`` are the file's bytes in blocks
    of whole chunks (:data:`.file_ends.CHUNK`).
    """
    if not fs.is_local(location):
        return None
    try:  # read no more than a valid one has: its size is untrusted
        content = local.read_range(checksum_file_of(location), 0, size_of_checksum_file(size) + 1)
    except FileNotFoundError:
        return None
    recorded = recorded_checksums(content, size)
    if recorded is None or recorded == b"".join(map(checksums_of, blocks)):
        return None
    return "does not match its checksum file"


class _Reader:
    """Collects one cut. A reader serves one call, and its methods share what they have read."""

    def __init__(self, root: str, batch: int, committed: list[int]) -> None:
        self.root = root
        self.batch = batch
        self.committed = committed
        self.files = FileSet()
        self.planned_fault = ""

    def entries(self) -> tuple[OffsetEntry, CommitEntry]:
        """Return the batch's offsets and its commit; raise FileNotFoundError for a missing file."""
        commit: CommitEntry = self._parse(f"{COMMITS}/{self.batch}", parse_commit)
        return self._offsets(self.batch), commit

    def read(self) -> Cut:
        """Return the cut; raise FileNotFoundError for a missing file."""
        # State before logs and sources: Spark trims it soonest. These entries say which state.
        commits = self._commits()
        offsets = self._offsets(self.batch)
        planned_batch, planned = self._planned()
        operators = self._state(offsets, commits)
        self._logs(planned_batch)
        self._sources(offsets, planned)
        query_id = self._parse(METADATA, parse_query_id)
        self._add(METADATA, fs.list_directory(self.root))
        commit = commits[self.batch]
        # They differ if the planned batch is the last one of a query that is being drained.
        watermark = max(commit.next_watermark_ms, planned.watermark_ms if planned else 0)
        return Cut(
            root=self.root,
            query_id=query_id,
            batch_id=self.batch,
            planned_batch=planned_batch,
            watermark_ms=watermark or None,
            offsets=offsets.offsets,
            pins=offsets.pins,
            backend=backend_of(offsets.pins) if operators else None,
            checkpoint_format=commit.version,
            operators=operators,
            files=self.files,
            planned_fault=self.planned_fault,
        )

    def _add(self, relative: str, listing: fs.Listing) -> None:
        """Add a file of a listed directory; raise FileNotFoundError if it is missing."""
        entry = listing.files.get(relative.rpartition("/")[2])
        if entry is None:
            raise FileNotFoundError(2, "not listed", os.path.join(self.root, relative))
        self.files.add(ListedFile(relative, entry.size(), entry.stamp()))

    def _parse(self, relative: str, parser: Any) -> Any:
        path = os.path.join(self.root, relative)
        data = fs.read_bytes(path)
        try:
            parsed = parser(data, relative)
        except CheckpointFormatError as error:
            raise unreadable(path, error) from error
        fault = checksum_fault(path, len(data), [data])
        if fault is not None:
            raise Corrupt(f"{path} {fault}", hint=HINT_WHOLE, path=path)
        return parsed

    def _commits(self) -> dict[int, CommitEntry]:
        """Return the commit of the batch and, where state files have ids, the preceding ones."""
        newest: CommitEntry = self._parse(f"{COMMITS}/{self.batch}", parse_commit)
        commits = {self.batch: newest}
        if not newest.state_ids:
            return commits
        for number in reversed(self.committed):
            if number >= self.batch:
                continue
            if number != min(commits) - 1:
                break  # a gap: older commits may not belong to the lineage
            try:
                commits[number] = self._parse(f"{COMMITS}/{number}", parse_commit)
            except FileNotFoundError:
                break  # trimmed meanwhile; files of these versions are selected by name
        return commits

    def _offsets(self, batch: int) -> OffsetEntry:
        entry: OffsetEntry = self._parse(f"{OFFSETS}/{batch}", parse_offsets)
        return entry

    def _planned(self) -> tuple[int | None, OffsetEntry | None]:
        """Return batch N + 1, which may be committed by now, and its offsets if they are written.

        Damage to the entry of batch N + 1 is only noted: batch N is whole without it.
        """
        try:
            return self.batch + 1, self._offsets(self.batch + 1)
        except FileNotFoundError:
            return None, None
        except Corrupt as error:
            self.planned_fault = (
                f"{error.message}; batch {self.batch + 1} is planned again, with the data that "
                "its sources have then"
            )
            return None, None

    def _logs(self, planned_batch: int | None) -> None:
        offsets = fs.list_directory(os.path.join(self.root, OFFSETS))
        commits = fs.list_directory(os.path.join(self.root, COMMITS))
        before = str(self.batch - 1)
        # Spark reads the entry before the newest, which is N itself if batch N + 1 is planned.
        needed = planned_batch is None
        if self.batch > 0 and (needed or before in offsets.files):
            self._add_if_whole(f"{OFFSETS}/{before}", offsets, parse_offsets, needed=needed)
        self._add(f"{OFFSETS}/{self.batch}", offsets)
        if planned_batch is not None:
            self._add(f"{OFFSETS}/{planned_batch}", offsets)
        if self.batch - 1 in self.committed and before in commits.files:
            self._add_if_whole(f"{COMMITS}/{before}", commits, parse_commit, needed=False)
        self._add(f"{COMMITS}/{self.batch}", commits)

    def _add_if_whole(
        self, relative: str, listing: fs.Listing, parser: Any, *, needed: bool
    ) -> None:
        """Add a log entry if it can be read; if not, raise the error of a ``needed`` entry."""
        try:
            self._parse(relative, parser)
            self._add(relative, listing)
        except (Corrupt, FileNotFoundError):
            if needed:
                raise

    def _sources(self, offsets: OffsetEntry, planned: OffsetEntry | None) -> None:
        ahead = dict(zip(planned.sources, planned.offsets, strict=True)) if planned else {}
        read: set[str] = set()
        for name, offset in zip(offsets.sources, offsets.offsets, strict=True):
            position = ahead.pop(name, offset)
            position = position if position != NO_OFFSET else offset
            # A DataFrame used twice is one source with two equal entries in the offset log
            # (MicroBatchExecution: toExecutionRelationMap) and one source log, under the first.
            if position in read and not self._source_names(name):
                continue
            read.add(position)
            self._source(name, position, offset)
        for name, offset in ahead.items():  # a source first planned in batch N + 1
            self._source(name, offset)

    def _source_names(self, name: str) -> list[str]:
        return fs.list_names(os.path.join(self.root, SOURCES, name))

    def _source(self, name: str, offset: str, before: str | None = None) -> None:
        """Add a source's files at a position; ``before`` is the committed batch's position."""
        directory = os.path.join(self.root, SOURCES, name)
        limit = log_offset(offset)
        if limit is None and offset == NO_OFFSET and self._is_file_source(directory):
            limit = -1
        if limit is not None:
            self._add_log(name, limit, None if before is None else log_offset(before))
            return
        # Another kind of source: take all its files.
        for relative, entry in fs.walk_files(directory, follow=True):
            path = f"{SOURCES}/{name}/{relative}"
            self.files.add(ListedFile(path, entry.size(), entry.stamp()))

    def _add_log(self, name: str, limit: int, before: int | None) -> None:
        """Add a file source's entries up to ``limit``, which must all be there.

        The entry of ``limit`` may be a compaction, so the position ``before`` may need other
        entries. These are added if none of them is missing.
        """
        directory = os.path.join(self.root, SOURCES, name)
        listing = fs.list_directory(directory)
        present, absent = source_log_entries(listing.files, limit)
        if absent:
            raise FileNotFoundError(2, "not listed", os.path.join(directory, absent[0]))
        if before is not None:
            earlier, lost = source_log_entries(listing.files, before)
            present += [] if lost else earlier
        for entry in dict.fromkeys(present):
            self._add(f"{SOURCES}/{name}/{entry}", listing)

    def _is_file_source(self, directory: str) -> bool:
        entries = (
            name
            for name in fs.list_directory(directory).files
            if parse_number(name) is not None or compacted_number(name) is not None
        )
        first = min(entries, default=None)
        return first is not None and is_file_source_log(
            fs.read_bytes(os.path.join(directory, first))
        )

    def _state(
        self, offsets: OffsetEntry, commits: Mapping[int, CommitEntry]
    ) -> tuple[StateOnDisk, ...]:
        listing = fs.list_directory(os.path.join(self.root, STATE))
        operators: list[StateOnDisk] = []
        state_ids = commits[self.batch].state_ids
        ordinals = numbers_among(listing.directories)
        # Ordinals count from 0 without gaps: a missing one is lost.
        lost = set(state_ids) - set(ordinals)
        lost.update([n for n, ordinal in enumerate(ordinals) if n != ordinal][:1])
        if lost:
            raise FileNotFoundError(2, "not listed", os.path.join(self.root, STATE, str(min(lost))))
        for ordinal in ordinals:
            ids = {n + 1: entry.state_ids.get(ordinal, ()) for n, entry in commits.items()}
            operator = read_operator(
                self.root,
                ordinal,
                version=self.batch + 1,
                pins=offsets.pins,
                state_ids=ids if state_ids else None,
            )
            if operator is None:
                continue
            state, files = operator
            self.files.extend(files)
            operators.append(state)
        return tuple(operators)
