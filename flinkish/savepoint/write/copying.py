"""Copying a savepoint to another storage, whole, and sealed with ``_metadata`` at the end.

An interrupted copy has no ``_metadata``, so it is not a savepoint. The next attempt continues an
interrupted copy, and repairs a damaged one. A file already in place is read and compared with its
recorded digest, and sent only if it differs. A file that the job's newest savepoint at the target
also has is taken from there. Every file that is taken or sent is digested on its way. Files that
other savepoints hold for the source become the copy's own.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import zip_longest

from flinkish import storage
from flinkish.errors import Corrupt, SavepointNotFound, StorageError, UsageError
from flinkish.messages.results import SavepointCopy
from flinkish.savepoint.directory.leases import DIRECTORY, Kind, Lease
from flinkish.savepoint.directory.places import place_keys
from flinkish.savepoint.format.reader import FULL, OpenSavepoint, check_files, open_savepoint
from flinkish.savepoint.reporter import SavepointReporter
from flinkish.savepoint.write.copied_files import Copier, CopyProgress, as_own


def copy_savepoint(
    path: str,
    target: str,
    *,
    owner: str,
    reporter: SavepointReporter,
    dry_run: bool = False,
) -> SavepointCopy:
    """Copy the savepoint at ``path`` into the directory ``target``, under its own name.

    ``owner`` is ``user@host``. With ``dry_run``, only find out what would be sent; whether two URLs
    lead to one directory is not checked. After an error, the files copied so far stay.

    Raises SavepointNotFound; Corrupt if the metadata of the source is damaged, or a file of it is
    missing or does not have its recorded digest; UnsupportedFormat if this version does not know
    the form of a savepoint or digest; UsageError if the copy would be the source itself, be inside
    it, or have no name; StorageError, also if the target has another savepoint of that name, or an
    unreadable one; UnsafePath if writing the copy would follow a
    link; Locked if another process writes a savepoint of the job or removes files there.
    """
    started = time.monotonic()
    source = open_savepoint(path)
    directory = storage.locate(target)
    final = _copy_location(source, directory)
    existing = _existing(final)
    if existing is not None and not _is_same(source, existing):
        raise StorageError(
            f"another savepoint with this name exists: {final}",
            hint="copy to another directory",
            path=final,
        )
    # On remote storage it may be the source itself under another name, which only a lease tells.
    early = dry_run or storage.is_local(directory)
    if early and (present := _present(source, final, existing, reporter)):
        return present
    progress = CopyProgress(source, reporter)
    copier = Copier(source, directory, final, progress)
    if dry_run:
        copier.plan()
        return _result(source, final, progress, time.monotonic() - started)
    storage.make_directory(directory)
    job_id = source.header.job.job_id
    with Lease.take(directory, Kind.WRITE, owner=owner, job_id=job_id, path=final) as lease:
        if _sees(storage.parent(source.path), lease):
            raise _already_in(directory)
        if not early and (present := _present(source, final, existing, reporter)):
            return present
        copier.copy()
        reporter.phase("metadata")
        copier.seal()
        if storage.is_local(directory):
            storage.sync_directory(directory)
    return _result(source, final, progress, time.monotonic() - started)


def _copy_location(source: OpenSavepoint, directory: str) -> str:
    """Return the copy's location; raise UsageError if it is the source, in it, or has no name."""
    name = storage.base_name(source.path)
    if not name:
        raise UsageError(
            f"{source.path} is a whole bucket, so the copy would have no name",
            hint="only a savepoint in a directory can be copied",
        )
    final = storage.join(directory, name)
    if place_keys(final) & place_keys(source.path):
        raise _already_in(directory)
    if storage.one_name(final).startswith(f"{storage.one_name(source.path)}/"):
        raise UsageError(
            f"{directory} is inside the savepoint {source.path}", hint="name another TARGET"
        )
    return final


def _already_in(directory: str) -> UsageError:
    return UsageError(
        f"the savepoint is already in {directory}",
        hint="name another TARGET; the copy keeps the name of the savepoint",
    )


def _sees(directory: str, lease: Lease) -> bool:
    """Return whether a lease's file is in ``directory``, which then is the lease's own one.

    No name says that two URLs lead to one directory (WebHDFS and HDFS, two names of a host). False
    if the storage refuses to tell.
    """
    with suppress(StorageError):
        return storage.exists(storage.join(directory, DIRECTORY, lease.record.lease_id))
    return False


def _existing(final: str) -> OpenSavepoint | None:
    try:
        return open_savepoint(final)
    except SavepointNotFound:
        return None
    except Corrupt as error:
        raise StorageError(
            f"the copy that is there cannot be read: {error.message}",
            hint="remove its directory, and run the same command again",
            path=final,
        ) from error


def _is_same(one: OpenSavepoint, two: OpenSavepoint) -> bool:
    """Return whether both are the same savepoint, regardless of who holds their files."""
    if (one.header, one.queries) != (two.header, two.queries):
        return False
    pairs = zip_longest(one.iter_files(), two.iter_files())
    return all(a and b and as_own(a) == as_own(b) for a, b in pairs)


def _present(
    source: OpenSavepoint, final: str, existing: OpenSavepoint | None, reporter: SavepointReporter
) -> SavepointCopy | None:
    """Return the result if the copy is already there, and all its files are good; else None."""
    if existing is None:
        return None
    reporter.phase("reading")
    try:
        check_files(existing, FULL)
    except (Corrupt, SavepointNotFound):
        return None
    return _result(source, final, CopyProgress(source, reporter, present=source.files), 0.0)


def _result(
    source: OpenSavepoint, final: str, progress: CopyProgress, duration: float
) -> SavepointCopy:
    return SavepointCopy(
        path=final,
        source=source.path,
        files=source.files,
        bytes=source.bytes,
        sent_files=progress.sent,
        sent_bytes=progress.sent_bytes,
        present_files=progress.present,
        reused_files=progress.reused,
        duration=round(duration, 3),
    )
