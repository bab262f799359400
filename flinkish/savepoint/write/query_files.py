"""The files of a savepoint's queries: put each query's cut in place, and check what is there.

The job keeps running. Spark may therefore trim a file after its cut was read and before it is
linked or copied. In this case the query is taken again at a newer batch: files of the new cut
stay, and the others are removed. Every file is taken with its listed stamp, so a file that has been
replaced is detected. When all files are in place, the new directory is checked, and so are the
files that it shares with earlier savepoints.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import zip_longest

from flinkish import storage
from flinkish.checkpoint.cut import Cut, FilesVanished, newest_committed_batch, read_cut
from flinkish.checkpoint.errors import missing
from flinkish.checkpoint.fileset import ListedFile
from flinkish.checkpoint.wholeness import damage_error, damaged_files
from flinkish.errors import Corrupt, FlinkishError, NoCommittedBatch, StorageError, WrongState
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.directory.dispose import release_holder
from flinkish.savepoint.format.contents import FileRecord, QueryRecord, QuerySource, SavepointJob
from flinkish.savepoint.reporter import SavepointReporter
from flinkish.savepoint.write.ledger import Ledger, in_directory, newest_of_job, remember
from flinkish.savepoint.write.query_records import check_operators, query_record
from flinkish.savepoint.write.transfer import FileTransferer, TransferOutcome, first_wrong_size

#: Maximum number of attempts per query when Spark trims its files in the meantime.
ATTEMPTS = 20
#: Seconds between two checks for the first committed batch, and after damage before a new attempt.
POLL = 0.1
#: Number of outcomes recorded at a time; also the interval of progress reports.
_BATCH = 128


class HolderGone(Exception):
    """An earlier savepoint is being disposed of, or has lost a file that was to be shared."""


@dataclass(frozen=True)
class _Attempt:
    """One attempt to put a query's cut in place."""

    number: int
    index: int
    cut: Cut
    target: str
    #: Whether an earlier attempt may have put files in place.
    again: bool


class QueryFiles:
    """Puts the files of the queries, one after the other, into the savepoint at ``path``."""

    def __init__(
        self,
        path: str,
        ledger: Ledger,
        reporter: SavepointReporter,
        deadline: float | None,
        transferer: FileTransferer,
    ) -> None:
        self._path = path
        self._parent = storage.parent(path)
        self._ledger = ledger
        self._reporter = reporter
        self._deadline = deadline
        self._transferer = transferer
        #: The location of the earlier savepoint whose files are shared.
        self._earlier: str | None = None
        self._referred: set[str] = set()
        #: The number of the next attempt of any query, and the queries with an attempt so far.
        self._next = 0
        self._tried: set[int] = set()
        self._made: set[str] = set()

    def share(self, job: SavepointJob, queries: Sequence[QuerySource]) -> None:
        """Record the files of an earlier savepoint in the same directory, to share them.

        That is the newest savepoint of the job, or else the one that the job was restored from. If
        the files of all queries can be hard-linked, nothing is shared: a link costs nothing and
        keeps every savepoint self-contained. Nothing is shared either if the earlier savepoint's
        records cannot be read.
        """
        if all(_can_link(query.checkpoint, self._path) for query in queries):
            return
        earlier = newest_of_job(self._parent, job.job_id)
        if earlier is None and job.restored_from is not None:
            earlier = in_directory(self._parent, job.restored_from)
        if earlier is not None:
            self._reporter.phase("reading")
            self._earlier = earlier.path
            try:
                remember(earlier, self._ledger)
            except FlinkishError:  # it was disposed of since it was opened, or is damaged
                self._ledger.forget_earlier()

    def share_nothing(self) -> None:
        """Stop sharing files: all files must be taken."""
        self._ledger.forget_earlier()
        self.take_back_references()

    def take_all(self, queries: Sequence[QuerySource]) -> list[QueryRecord]:
        """Put all queries in place and write the reference lists of files that others hold.

        Raises HolderGone if a holder is disposed of in the meantime or has lost a shared file,
        WrongState if a checkpoint changes in every attempt, and the errors of ``read_cut`` and of
        the storage.
        """
        records = [self._take(index, query) for index, query in enumerate(queries)]
        for name, paths in sharing.by_holder(held for held, _ in self._ledger.held()):
            holder = storage.join(self._parent, name)
            self._referred.add(holder)
            sharing.write_references(holder, storage.base_name(self._path), paths)
            # A holder disposed of in the meantime keeps only what its other users need.
            if not (sharing.is_whole(holder) or self._is_kept(holder)):
                raise HolderGone(holder)
        self._check_held()
        return records

    def _check_held(self) -> None:
        """Check the sizes of the shared files, with one listing per directory; raise HolderGone."""
        lost = first_wrong_size(self._parent, self._ledger.held())
        if lost is not None:
            location = storage.join(self._parent, lost)
            self._reporter.warning(
                f"no files are shared with the earlier savepoint {self._earlier}, which is "
                f"damaged: {location} is missing or has another size"
            )
            raise HolderGone(location)

    def _is_kept(self, holder: str) -> bool:
        """Return whether a disposed holder keeps the files that the earlier savepoint uses.

        A disposal of the earlier savepoint removes its ``_metadata`` first, then reads the lists in
        the holder, and so finds the list of this savepoint.
        """
        earlier = self._earlier
        return (
            earlier is not None
            and storage.exists(sharing.list_of(holder, storage.base_name(earlier)))
            and sharing.is_whole(earlier)
        )

    def take_back_references(self) -> None:
        """Remove the reference lists of this savepoint from other savepoints.

        A list that is damaged or cannot be removed stays, with the files that it may name. Such a
        list must neither prevent this savepoint nor hide the reason for its failure.
        """
        for holder in self._referred:
            with suppress(FlinkishError):
                release_holder(holder, storage.base_name(self._path))
        self._referred.clear()

    def _take(self, index: int, query: QuerySource) -> QueryRecord:
        """Put one query's cut in place; repeat at a newer batch, up to :data:`ATTEMPTS` times."""
        directory = query_directory(index, query.name)
        target = storage.join(self._path, directory)
        base = f"{storage.base_name(self._path)}/{directory}"
        trouble: FlinkishError | None = None
        for _ in range(ATTEMPTS):
            try:
                cut = self._read_cut(query)
                number, self._next = self._next, self._next + 1
                attempt = _Attempt(number, index, cut, target, again=index in self._tried)
                if attempt.again:
                    self._remove_unknown(attempt)
                self._tried.add(index)
                self._place(attempt)
                others = self._ledger.drop_others(index, number)
                storage.remove_files(self._parent, (f"{base}/{path}" for path in others))
                self._check_whole(attempt)
                self._verify(attempt)
            except FilesVanished as error:
                trouble = error
                continue
            except Corrupt as error:
                # The first error may come from a compaction under way (the new file not yet listed,
                # the old one gone). Real damage gives the same error twice.
                if trouble is not None and trouble.message == error.message:
                    raise
                trouble = error
                time.sleep(POLL)
                continue
            if cut.planned_fault:
                self._reporter.warning(f"query {query.name}: {cut.planned_fault}")
            totals = self._ledger.totals(index)
            return query_record(query, directory, cut, totals.files, totals.bytes)
        raise WrongState(
            f"query {query.name}: its checkpoint changed during each of {ATTEMPTS} attempts to "
            f"save it (last: {trouble.message if trouble else 'no attempt was made'})",
            hint="raise spark.sql.streaming.minBatchesToRetain of the job, or use a longer trigger",
        )

    def _read_cut(self, query: QuerySource) -> Cut:
        """Wait for the query's first commit, until the deadline, and read its cut."""
        waiting = False
        while True:
            try:
                cut = read_cut(query.checkpoint, query.batch_id)
                break
            except NoCommittedBatch as error:
                if newest_committed_batch(query.checkpoint) is not None:
                    if query.batch_id is not None:
                        raise  # the requested batch does not exist and will not appear
                    continue  # the first commit has just appeared
                if not waiting:
                    self._reporter.phase("waiting")
                    waiting = True
                if self._deadline is not None and time.monotonic() >= self._deadline:
                    raise NoCommittedBatch(
                        f"query {query.name} has not committed its first batch: there is nothing "
                        "to save"
                    ) from error
                time.sleep(POLL)
        check_operators(query, cut)
        self._reporter.phase("files")
        return cut

    def _place(self, attempt: _Attempt) -> None:
        cut = attempt.cut
        placed, placed_bytes = 0, 0
        sent: list[ListedFile] = []

        def transfers() -> Iterator[storage.Placing]:
            nonlocal placed, placed_bytes
            for file in cut.files.entries():
                if self._is_there(attempt, file):
                    placed, placed_bytes = placed + 1, placed_bytes + file.size
                else:
                    sent.append(file)
                    yield self._transfer(attempt, file)

        outcomes = self._transferer.carry(transfers(), total_bytes=cut.files.bytes)
        batch: list[tuple[FileRecord, bool]] = []
        with closing(outcomes):  # else an error's traceback would keep the transfers running
            for outcome in outcomes:
                record = self._record_outcome(attempt, sent.pop(0), outcome)
                batch.append((record, outcome.linked))
                placed, placed_bytes = placed + 1, placed_bytes + outcome.size
                if len(batch) >= _BATCH:
                    self._ledger.add(attempt.number, batch)
                    batch = []
                    self._report(placed, placed_bytes, cut)
        self._ledger.add(attempt.number, batch)
        self._report(placed, placed_bytes, cut)

    def _remove_unknown(self, attempt: _Attempt) -> None:
        """Remove files that an abandoned attempt wrote and did not record."""
        base = attempt.target.removeprefix(self._parent).lstrip("/")
        unknown = [
            f"{base}/{path}"
            for path, _ in storage.walk_files(attempt.target)
            if not self._ledger.knows(attempt.index, path)
        ]
        storage.remove_files(self._parent, unknown)

    def _report(self, done: int, placed_bytes: int, cut: Cut) -> None:
        self._reporter.files(done, len(cut.files))
        self._reporter.bytes(placed_bytes, max(cut.files.bytes, placed_bytes))

    def _is_there(self, attempt: _Attempt, file: ListedFile) -> bool:
        """Return whether a file is in place already or is shared with an earlier savepoint."""
        if attempt.again and self._ledger.is_placed(attempt.index, file, attempt.number):
            return True
        earlier = self._ledger.find_earlier(attempt.cut.query_id, file)
        if earlier is None:
            return False
        digest, held = earlier
        record = FileRecord(attempt.index, file.path, file.size, digest, held, file.stamp)
        self._ledger.add(attempt.number, [(record, False)])
        return True

    def _transfer(self, attempt: _Attempt, file: ListedFile) -> storage.Placing:
        final = storage.join(attempt.target, file.path)
        directory = storage.parent(final)
        if directory not in self._made:
            storage.make_directory(directory)
            self._made.add(directory)
        source = storage.join(attempt.cut.root, file.path)
        return storage.Placing(source, final, file.stamp, file.size)

    def _record_outcome(
        self, attempt: _Attempt, file: ListedFile, outcome: TransferOutcome
    ) -> FileRecord:
        if outcome.lost == "gone":
            source = storage.join(attempt.cut.root, file.path)
            # An error of os.link does not say which of the two paths is missing.
            if not is_there(storage.parent(storage.join(attempt.target, file.path))):
                raise target_removed(self._path)
            if storage.exists(source):
                raise _changed(attempt.cut, f"{file.path} was missing for a moment")
            raise missing(attempt.cut.root, attempt.cut.batch_id, source, newest_committed_batch)
        if outcome.lost is not None:
            raise _changed(attempt.cut, f"{file.path} was {outcome.lost}")
        return FileRecord(attempt.index, file.path, outcome.size, outcome.digest, stamp=file.stamp)

    def _check_whole(self, attempt: _Attempt) -> None:
        """Check the ends of the files in place, not of the originals, which Spark may have trimmed.

        Raises Corrupt, which names the checkpoint's damaged files, and StorageError if the target
        was removed. The ends of files in an earlier savepoint were checked when it was taken.
        """
        cut = attempt.cut
        own = (
            ListedFile(f.path, f.size, f.stamp or "")
            for f in self._ledger.files(attempt.index)
            if f.held is None
        )
        try:
            damaged = list(
                damaged_files(attempt.target, own, cut.pins, cut.offsets, written=cut.root)
            )
        except FileNotFoundError as error:
            raise target_removed(str(error.filename or attempt.target)) from error
        if damaged:
            raise damage_error(cut.root, cut.batch_id, damaged)

    def _verify(self, attempt: _Attempt) -> None:
        """Check that the new directory is complete.

        On a local disk it is read as a checkpoint and must give the same cut. On other storage, to
        read the directory would download every archive; and if earlier savepoints hold some files,
        the directory is not a complete checkpoint. In both cases only sizes are compared, with one
        listing per directory.
        """
        if storage.is_local(attempt.target) and not self._ledger.totals(attempt.index).shared:
            try:
                _verify_cut(attempt.cut, attempt.target)
            except FilesVanished:
                if (lost := self._first_lost(attempt)) is not None:
                    raise target_removed(storage.join(attempt.target, lost)) from None
                raise
            return
        wrong = self._first_lost(attempt)
        if wrong is not None:
            raise Corrupt(
                f"{storage.join(attempt.target, wrong)} is not as it was written",
                hint="the storage has lost or changed it: try again, and check the storage",
            )

    def _first_lost(self, attempt: _Attempt) -> str | None:
        """Return the savepoint's first own file that is missing or has another size, or None."""
        return first_wrong_size(
            attempt.target,
            ((f.path, f.size) for f in self._ledger.files(attempt.index) if f.held is None),
        )


def query_directory(index: int, name: str) -> str:
    """Return the directory of a query inside its savepoint: its number and its sanitized name."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._-")[:60]
    return f"{index}-{safe or 'query'}"


def is_there(directory: str) -> bool:
    """Return whether a directory that flinkish created still exists.

    True on flat storage, and if the storage does not answer.
    """
    try:
        return storage.is_flat(directory) or storage.is_directory(directory)
    except StorageError:
        return True


def target_removed(path: str) -> StorageError:
    return StorageError(
        f"the savepoint's target was removed while it was written: {path} is gone",
        hint="find out what deletes files there (a cleanup job?), and take the savepoint again",
        path=path,
    )


def _can_link(checkpoint: str, path: str) -> bool:
    """Return whether files of a checkpoint can be hard-linked into the savepoint at ``path``."""
    root = storage.locate(checkpoint)
    if not (storage.is_local(root) and storage.is_local(path)):
        return False
    try:
        return os.stat(root).st_dev == os.stat(path).st_dev
    except FileNotFoundError:
        return False


def _verify_cut(cut: Cut, target: str) -> None:
    """Read the new directory as a checkpoint: it must be complete and give the same cut.

    The cut differs if a file was replaced between reading and linking (an executor that repeats a
    task writes a new RocksDB archive, which names other shared files).
    """
    try:
        again = read_cut(target, cut.batch_id)
    except (Corrupt, NoCommittedBatch) as error:
        raise _changed(cut, error.message) from error
    if again.files != cut.files:
        pairs = zip_longest(cut.files, again.files)
        old, new = next((old, new) for old, new in pairs if old != new)
        raise _changed(cut, f"{old or new} changed")


def _changed(cut: Cut, reason: str) -> FilesVanished:
    return FilesVanished(f"batch {cut.batch_id} of {cut.root} changed while it was saved: {reason}")
