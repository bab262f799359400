"""The files of a copy: found in place, taken from an earlier savepoint at the target, or sent."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice

from flinkish import storage
from flinkish.errors import Corrupt, FlinkishError, StorageError, UnsupportedFormat, quoted_path
from flinkish.savepoint.format import digests
from flinkish.savepoint.format.contents import FORMAT_CANONICAL, FileRecord
from flinkish.savepoint.format.digests import FileTable
from flinkish.savepoint.format.metadata import CANONICAL_STATE, FILE_NAME, MetadataWriter
from flinkish.savepoint.format.reader import OpenSavepoint, refuse_removed
from flinkish.savepoint.reporter import SavepointReporter
from flinkish.savepoint.write.ledger import newest_of_job
from flinkish.savepoint.write.transfer import ThreadedTransferer, TransferOutcome, first_wrong_size
from flinkish.storage.below import LocalRoot

#: Number of files that are compared together.
_CHUNK = 10_000
#: Number of files between two reports of progress.
_REPORTED = 128


class CopyProgress:
    """Counts and reports the files that are in place."""

    def __init__(
        self, source: OpenSavepoint, reporter: SavepointReporter, *, present: int = 0
    ) -> None:
        self._source = source
        self._reporter = reporter
        self._done = present
        self._done_bytes = 0
        self.present = present
        self.reused = 0
        self.sent = 0
        self.sent_bytes = 0

    def phase(self, name: str) -> None:
        """Report a phase."""
        self._reporter.phase(name)
        self.report()

    def add_present(self, record: FileRecord) -> None:
        """Count a file that was in place."""
        self.present += 1
        self._add(record)

    def add_reused(self, record: FileRecord) -> None:
        """Count a file of an earlier savepoint."""
        self.reused += 1
        self._add(record)

    def add_sent(self, record: FileRecord) -> None:
        """Count a file that was sent."""
        self.sent += 1
        self.sent_bytes += record.size
        self._add(record)

    def _add(self, record: FileRecord) -> None:
        self._done += 1
        self._done_bytes += record.size
        if self._done % _REPORTED == 0:
            self.report()

    def report(self) -> None:
        """Report all that is in place."""
        self._reporter.files(self._done, self._source.files)
        self._reporter.bytes(self._done_bytes, self._source.bytes)


class Copier:
    """Puts the files of a savepoint in place at the target."""

    def __init__(
        self, source: OpenSavepoint, directory: str, final: str, progress: CopyProgress
    ) -> None:
        self._source = source
        self._directory = directory
        self._name = storage.base_name(final)
        self._final = final
        self._progress = progress
        #: One byte for each file: 1 if it is in place. There may be a million files.
        self._placed = bytearray(source.files)
        self._made: set[str] = set()

    def plan(self) -> None:
        """Count what :meth:`copy` would do; nothing is changed."""
        self._compare_present(remove=False)
        earlier = self._earlier_files()
        for _, record in self._missing():
            if earlier(record) is None:
                self._progress.add_sent(record)
            else:
                self._progress.add_reused(record)

    def copy(self) -> None:
        """Put all files in place.

        Raises Corrupt for a bad file of the source, SavepointNotFound if the source was removed
        meanwhile, UnsupportedFormat for a digest of unknown form, UnsafePath for a link at the
        target, and StorageError.
        """
        # A damaged copy must not count as a savepoint either, until it is whole again.
        storage.remove_file(self._directory, f"{self._name}/{FILE_NAME}")
        self._compare_present(remove=True)
        self._progress.phase("files")
        self._place(self._earlier_files(), self._reused)
        self._place(self._source.locate_file, self._sent)
        self._progress.report()

    def seal(self) -> None:
        """Check the sizes of all target files, then write ``_metadata``; raise StorageError."""
        source = self._source
        for index, query in enumerate(source.queries):
            sizes = ((f.path, f.size) for f in source.iter_files() if f.query == index)
            wrong = first_wrong_size(storage.join(self._final, query.directory), sizes)
            if wrong is not None:
                raise StorageError(
                    f"{storage.join(self._final, query.directory, wrong)} is not as it was written",
                    hint="the storage has lost or changed it: run the same command again",
                )
        canonical = source.header.format == FORMAT_CANONICAL
        features = [CANONICAL_STATE] if canonical else []
        with MetadataWriter(
            self._final, source.header, source.queries, features=features
        ) as metadata:
            for record in source.iter_files():
                metadata.add(as_own(record))
            metadata.commit()

    def _path(self, record: FileRecord) -> str:
        """Return a file's path below the directory of the target."""
        return f"{self._name}/{self._source.queries[record.query].directory}/{record.path}"

    def _missing(self) -> Iterator[tuple[int, FileRecord]]:
        for index, record in enumerate(self._source.iter_files()):
            if not self._placed[index]:
                yield index, record

    def _compare_present(self, *, remove: bool) -> None:
        """Find the files that are already in place; with ``remove``, remove wrong ones."""
        if not storage.is_directory(self._final):
            return
        self._progress.phase("reading")
        records = enumerate(self._source.iter_files())
        while chunk := list(islice(records, _CHUNK)):
            places = [storage.join(self._directory, self._path(record)) for _, record in chunk]
            directories = sorted({storage.parent(place) for place in places})
            for each in directories:
                self._refuse_links(each)
            listed = storage.in_flight(self._final, storage.list_directory, directories)
            listings = dict(zip(directories, listed, strict=True))
            there = [
                (index, record, place)
                for (index, record), place in zip(chunk, places, strict=True)
                if storage.base_name(place) in listings[storage.parent(place)].files
            ]
            equal = storage.in_flight(self._final, _is_equal, there)
            wrong = []
            for (index, record, _), is_equal in zip(there, equal, strict=True):
                if is_equal:
                    self._placed[index] = 1
                    self._progress.add_present(record)
                else:
                    wrong.append(self._path(record))
            if remove:
                storage.remove_files(self._directory, wrong)

    def _earlier_files(self) -> Callable[[FileRecord], str | None]:
        """Return a function that finds a file's bytes in an earlier savepoint at the target."""
        earlier = newest_of_job(self._directory, self._source.header.job.job_id)
        if earlier is None or earlier.path == self._final:
            return lambda record: None
        try:
            tables = {
                query.query_id: FileTable.of(
                    (record.path, record.size, record.digest)
                    for record in earlier.iter_files()
                    if record.query == index and record.held is None
                )
                for index, query in enumerate(earlier.queries)
            }
        except FlinkishError:  # it was disposed of since it was opened, or is damaged
            return lambda record: None
        roots = {query.query_id: earlier.query_root(query) for query in earlier.queries}

        def locate(record: FileRecord) -> str | None:
            query_id = self._source.queries[record.query].query_id
            same = tables[query_id].get(record.path) if query_id in tables else None
            if same is None or (same.size, same.digest) != (record.size, record.digest):
                return None
            return storage.join(roots[query_id], record.path)

        return locate

    def _place(
        self,
        locate: Callable[[FileRecord], str | None],
        take: Callable[[FileRecord, str, TransferOutcome], bool],
    ) -> None:
        """Place the missing files that ``locate`` finds; ``take`` returns whether one is good."""
        pending: deque[tuple[int, FileRecord, str]] = deque()

        def transfers() -> Iterator[storage.Placing]:
            for index, record in self._missing():
                location = locate(record)
                if location is not None:
                    pending.append((index, record, location))
                    yield self._transfer(record, location)

        outcomes = ThreadedTransferer().carry(transfers(), total_bytes=self._source.bytes)
        try:
            with closing(outcomes):
                for outcome in outcomes:
                    index, record, location = pending.popleft()
                    self._placed[index] = take(record, location, outcome)
        except digests.UnknownDigest as error:
            raise UnsupportedFormat(
                f"{self._source.path} has a digest of unknown form: {error}",
                hint="use the flinkish that wrote it, or a newer one",
            ) from error

    def _transfer(self, record: FileRecord, location: str) -> storage.Placing:
        place = storage.join(self._directory, self._path(record))
        directory = storage.parent(place)
        if directory not in self._made:
            self._refuse_links(directory)
            storage.make_directory(directory)
            self._made.add(directory)
        return storage.Placing(location, place, None, record.size, record.digest)

    def _refuse_links(self, directory: str) -> None:
        """Raise UnsafePath if the path has a link, which anyone may have created at the target."""
        if storage.is_local(directory):
            with LocalRoot(self._directory) as root:
                root.directory(directory.removeprefix(self._directory).strip("/").split("/"))

    def _reused(self, record: FileRecord, _: str, outcome: TransferOutcome) -> bool:
        """Count a file that an earlier savepoint has; if it is gone or damaged, it will be sent."""
        if outcome.lost is not None or not _fits(record, outcome):
            storage.remove_file(self._directory, self._path(record))
            return False
        self._progress.add_reused(record)
        return True

    def _sent(self, record: FileRecord, location: str, outcome: TransferOutcome) -> bool:
        if outcome.lost is not None:
            refuse_removed(self._source.path)
            raise _damaged(self._source, location, "is missing")
        if not _fits(record, outcome):
            storage.remove_file(self._directory, self._path(record))
            reason = (
                f"has {outcome.size} bytes instead of {record.size}"
                if outcome.size != record.size
                else "does not have its recorded digest"
            )
            raise _damaged(self._source, location, reason)
        self._progress.add_sent(record)
        return True


def _fits(record: FileRecord, outcome: TransferOutcome) -> bool:
    return (outcome.size, outcome.digest) == (record.size, record.digest)


def _is_equal(item: tuple[int, FileRecord, str]) -> bool:
    """Return whether the file at a location is the recorded one, and not a link to it."""
    _, record, place = item
    if storage.is_local(place) and os.path.islink(place):
        return False
    try:
        return storage.size_of(place) == record.size and digests.matches(place, record.digest)
    except (FileNotFoundError, Corrupt, digests.UnknownDigest):
        return False  # what is wrong with the record is reported when the file is copied


def _damaged(source: OpenSavepoint, location: str, reason: str) -> Corrupt:
    return Corrupt(
        f"the savepoint {source.path} cannot be copied: {location} {reason}",
        hint=f"flinkish savepoint verify {quoted_path(source.path)} lists all damage; "
        "the copy is incomplete",
        path=source.path,
    )


def as_own(record: FileRecord) -> FileRecord:
    """Return the record as that of a file which the savepoint itself contains."""
    return replace(record, held=None)
