"""Taking a savepoint: put the files of every query's cut in place, then seal with ``_metadata``.

``_metadata`` is written last: a directory without it is not a savepoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from flinkish import storage
from flinkish.errors import FlinkishError, WrongState
from flinkish.messages.requests import SavedQuery, SavepointSummary
from flinkish.savepoint.directory.catalog import new_name
from flinkish.savepoint.directory.leases import Kind, Lease
from flinkish.savepoint.format.contents import (
    FORMAT_CANONICAL,
    FORMAT_NATIVE,
    Header,
    QueryRecord,
    QuerySource,
    SavepointJob,
)
from flinkish.savepoint.format.metadata import CANONICAL_STATE, SHARED_FILES, MetadataWriter
from flinkish.savepoint.reporter import SavepointReporter
from flinkish.savepoint.write.ledger import Ledger
from flinkish.savepoint.write.query_files import HolderGone, QueryFiles, is_there, target_removed
from flinkish.savepoint.write.transfer import FileTransferer, ThreadedTransferer


def write_savepoint(
    target: str,
    job: SavepointJob,
    queries: Sequence[QuerySource],
    *,
    trigger: str,
    reporter: SavepointReporter,
    deadline: float | None = None,
    full: bool = False,
    transferer: FileTransferer | None = None,
    format_: str = FORMAT_NATIVE,
) -> SavepointSummary:
    """Take a savepoint of ``job`` in the directory ``target``, which is created if missing.

    On any error the unfinished directory is removed, if possible. ``trigger`` is ``savepoint``,
    ``stop``, ``cancel``, ``offline`` or ``migrate``. ``deadline`` (``time.monotonic()``) limits the
    wait for a query's first committed batch, not work in progress; None waits forever. ``full``
    shares no files with earlier savepoints. Without a ``transferer``, threads of this process copy.

    Raises WrongState if there are no queries or a query's files are trimmed faster than they are
    taken, NoCommittedBatch at the deadline or for a batch that does not exist, Corrupt if a
    checkpoint is damaged or the storage has lost a new file, UnsupportedFormat for files of a newer
    Spark, NotSavepointable for an unknown state store or text that is not Unicode, Locked if
    another process writes a savepoint of this job there or removes files, and StorageError.
    """
    if not queries:
        raise WrongState(
            f"job {job.name} has no streaming query to save",
            hint="a savepoint holds the state of streaming queries; this program started none",
        )
    started = time.monotonic()
    created = time.time()
    parent = storage.locate(target)
    storage.make_directory(parent)
    path = storage.join(parent, new_name(job.job_id))
    owner = job.owner or "flinkish"
    ledger = Ledger()
    try:
        with Lease.take(parent, Kind.WRITE, owner=owner, job_id=job.job_id, path=path):
            storage.make_new_directory(path)
            files = QueryFiles(path, ledger, reporter, deadline, transferer or ThreadedTransferer())
            try:
                if not full:
                    files.share(job, queries)
                try:
                    taken = files.take_all(queries)
                except HolderGone:
                    files.share_nothing()
                    taken = files.take_all(queries)
                reporter.phase("metadata")
                _seal(path, ledger, _header(job, created, trigger, format_), taken)
                if storage.is_local(parent):
                    storage.sync_directory(parent)
            except BaseException as error:
                removed = isinstance(error, (FlinkishError, OSError)) and not is_there(path)
                # The first error is the one to report. If the directory cannot be removed, the
                # savepoint in it may be complete, so its lists in other savepoints stay, too.
                with suppress(FlinkishError):
                    storage.remove_tree(*storage.split(path))
                    files.take_back_references()
                if removed:
                    raise target_removed(path) from error
                raise
        totals = ledger.totals()
    finally:
        ledger.close()
    return SavepointSummary(
        path=path,
        job_id=job.job_id,
        created=created,
        format=format_,
        trigger=trigger,
        bytes=totals.bytes,
        files=totals.files,
        duration=round(time.monotonic() - started, 3),
        queries=tuple(SavedQuery(r.name, r.batch_id, r.query_id) for r in taken),
        shared_files=totals.shared,
        moved_bytes=totals.moved_bytes,
    )


def _seal(path: str, ledger: Ledger, header: Header, queries: Sequence[QueryRecord]) -> None:
    """Write ``_metadata``, the last file."""
    features = [SHARED_FILES] if ledger.totals().shared else []
    if header.format == FORMAT_CANONICAL:
        features.append(CANONICAL_STATE)
    with MetadataWriter(path, header, queries, features=features) as metadata:
        for index in range(len(queries)):
            for file in ledger.files(index):
                metadata.add(file)
        metadata.commit()


def _header(job: SavepointJob, created: float, trigger: str, format_: str) -> Header:
    import platform

    import flinkish

    completed = replace(
        job,
        python_version=job.python_version or platform.python_version(),
        flinkish_version=job.flinkish_version or flinkish.__version__,
        host=job.host or os.uname().nodename,
    )
    return Header(completed, created, trigger, format_)
