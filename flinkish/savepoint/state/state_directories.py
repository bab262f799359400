"""Directories of state for the engine: a savepoint's, and a temporary one next to savepoints.

See :class:`flinkish.engine.stores.files.StateSource`. A :class:`SavedDirectory` is sent to Spark's
workers, which access the storage with their own environment.

The temporary directory is named like a savepoint and has no ``_metadata``. Other processes treat
it as an unfinished savepoint, and ``savepoint prune --garbage`` removes what a killed process left.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, BinaryIO, cast

from flinkish import storage
from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.savepoint.directory.catalog import new_name
from flinkish.savepoint.directory.leases import Kind, Lease
from flinkish.savepoint.format import digests
from flinkish.savepoint.format.contents import QueryRecord
from flinkish.savepoint.format.digests import FileTable, RecordedFile
from flinkish.savepoint.format.reader import OpenSavepoint
from flinkish.storage.directory import StorageDirectory

#: Bytes of a remote file that are held in memory; a larger one goes to a temporary file.
_SPOOLED = 16 << 20
_BLOCK = 1 << 20


@dataclass(frozen=True)
class SavedDirectory:
    """A query inside a savepoint, or a copy of its files.

    ``held`` are the locations of files that other savepoints hold, by path; ``recorded`` the sizes
    and digests that files must have when they are opened. If ``complete``, a file without a record
    does not count as there: whoever can write to the place may have put it there.
    """

    root: str
    held: Mapping[str, str] = field(default_factory=dict)
    recorded: FileTable = field(default_factory=FileTable, repr=False)
    complete: bool = False

    def names(self, path: str) -> list[str]:
        recorded = set(self.recorded.names(path))
        if self.complete and not recorded:
            return []
        names = set(StorageDirectory(self.root).names(path))
        prefix = f"{path}/" if path else ""
        names |= {p[len(prefix) :].partition("/")[0] for p in self.held if p.startswith(prefix)}
        return sorted(names & recorded if self.complete else names)

    def _location(self, path: str) -> str:
        return self.held.get(path) or storage.join(self.root, path)

    def open(self, path: str) -> BinaryIO:
        """Open a file, comparing it with its record if there is one.

        Raises StateFormatError if the file is not the recorded one, UnsupportedState if the form of
        the recorded digest is unknown, FileNotFoundError for a file that does not count as there,
        and the errors of :func:`flinkish.storage.open_file`.
        """
        location = self._location(path)
        recorded = self.recorded.get(path)
        if recorded is None:
            if self.complete:
                raise FileNotFoundError(errno.ENOENT, "it is not in the savepoint", path)
            return storage.open_file(location)
        return _open_recorded(location, path, recorded)

    def local_path(self, path: str) -> str | None:
        """Return the file's local path; None on remote storage, or if it does not count as there.

        The file need not exist. One that exists and has a record is first compared with the record.
        Raises the errors of :meth:`open`.
        """
        location = self._location(path)
        recorded = self.recorded.get(path)
        if not storage.is_local(location) or (self.complete and recorded is None):
            return None
        if recorded is not None and os.path.lexists(location):
            self.open(path).close()
        return location


def _open_recorded(location: str, path: str, recorded: RecordedFile) -> BinaryIO:
    """Open a file and compare it with its record; the caller then reads the bytes compared."""
    file = storage.open_file(location)
    try:
        if storage.is_local(location):
            size = os.fstat(file.fileno()).st_size
        else:
            fetched = tempfile.SpooledTemporaryFile(_SPOOLED)  # noqa: SIM115 - returned open
            size = _fetch(file, fetched, recorded.size + 1)
            file.close()
            file = cast("BinaryIO", fetched)
            file.seek(0)
        if size != recorded.size:
            reason = f"it has {size} bytes instead of the {recorded.size} recorded"
            raise StateFormatError(path, None, reason)
        try:
            whole = digests.stream_matches(file, recorded.digest)
        except digests.UnknownDigest as error:
            raise UnsupportedState(
                path, None, f"its digest has an unknown form: {error}"
            ) from error
        if not whole:
            raise StateFormatError(path, None, "it does not have its recorded digest")
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _fetch(file: IO[bytes], target: IO[bytes], most: int) -> int:
    """Copy up to ``most`` bytes and return their number."""
    left = most
    while left and (data := file.read(min(left, _BLOCK))):
        target.write(data)
        left -= len(data)
    return most - left


def saved_directory(savepoint: OpenSavepoint, query: QueryRecord) -> SavedDirectory:
    """Return the files of a savepoint's query, in the layout of a checkpoint."""
    index = savepoint.queries.index(query)
    held = {}
    if not savepoint.is_relocatable:
        held = {
            record.path: savepoint.locate_file(record)
            for record in savepoint.iter_files()
            if record.query == index and record.held is not None
        }
    recorded = savepoint.recorded_files(index)
    return SavedDirectory(savepoint.query_root(query), held, recorded, complete=True)


@contextmanager
def scratch_directory(target: str, job_id: str, owner: str | None) -> Iterator[str]:
    """Yield the location of a new directory below ``target``; remove it when the block ends.

    ``target`` is a directory of savepoints, created if missing; ``job_id`` is the job whose state
    is rewritten. ``owner`` is the user (``user@host``) for the lease that is held inside the block.
    Raises StorageError, and UnsafePath if the directory of leases is a link.
    """
    parent = storage.locate(target)
    storage.make_directory(parent)
    path = storage.join(parent, new_name(job_id))
    with Lease.take(parent, Kind.REWRITE, owner=owner or "flinkish", job_id=job_id, path=path):
        try:
            storage.make_directory(path)
            yield path
        finally:
            storage.remove_tree(*storage.split(path))
