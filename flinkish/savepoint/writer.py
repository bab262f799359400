"""Taking a savepoint: every query's cut, linked or copied, digested, and sealed by ``_metadata``.

The job goes on meanwhile, so a file may be trimmed by Spark between the moment its cut was read
and the moment it is linked. Then that query is taken again at its newer batch: files that still
belong stay, the others go. When all are in place the new directory is read back as a checkpoint,
and must give the same cut. ``_metadata`` comes last: a directory without it is no savepoint.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from flinkish.checkpoint.cut import Cut, FilesVanished, newest_committed_batch, read_cut
from flinkish.checkpoint.trouble import missing
from flinkish.errors import Corrupt, FlinkishError, NoCommittedBatch, WaitTimeout, WrongState
from flinkish.savepoint import digest, storage
from flinkish.savepoint.metadata import MetadataWriter
from flinkish.savepoint.model import (
    FORMAT_NATIVE,
    FileRecord,
    Header,
    OperatorFacts,
    OperatorRecord,
    QueryRecord,
    QuerySource,
    SavedQuery,
    SavepointInfo,
    SavepointJob,
)
from flinkish.savepoint.reporter import Reporter

#: How often a query is taken again when Spark trims its files meanwhile.
ATTEMPTS = 20
#: Pause between two looks for the first committed batch, seconds.
POLL = 0.1
_WORKERS = 4
#: Files a worker handles at a time; also the step of progress reports.
_BATCH = 128


@dataclass(frozen=True)
class _File:
    """A file in place."""

    path: str
    size: int
    digest: str
    linked: bool


@dataclass(frozen=True)
class _Saved:
    """A query in place."""

    record: QueryRecord
    files: tuple[_File, ...]


def write_savepoint(
    target: str,
    job: SavepointJob,
    queries: Sequence[QuerySource],
    *,
    trigger: str,
    reporter: Reporter,
    deadline: float | None = None,
) -> SavepointInfo:
    """Take a savepoint of ``job`` below the directory ``target`` (created where missing).

    Parameters
    ----------
    trigger: ``savepoint``, ``stop`` or ``cancel``.
    deadline: until when (``time.monotonic()``) to wait for a query's first committed batch;
        None: for ever. It does not interrupt work under way.

    Returns the finished savepoint. On any error the unfinished directory is removed. Raises
    WrongState (no queries; a query's files vanish faster than they are taken), WaitTimeout,
    StorageError, Corrupt, and what :func:`~flinkish.checkpoint.cut.read_cut` raises.
    """
    if not queries:
        raise WrongState(
            f"job {job.name} has no streaming query to save",
            hint="a savepoint holds the state of streaming queries; this program started none",
        )
    started = time.monotonic()
    created = time.time()
    parent = storage.local_path(target)
    storage.make_directory(parent)
    path = os.path.join(parent, f"savepoint-{job.job_id[:6]}-{secrets.token_hex(6)}")
    storage.make_new_directory(path)
    try:
        taker = _Taker(path, reporter, deadline)
        saved = [taker.take(index, query) for index, query in enumerate(queries)]
        reporter.phase("metadata")
        header = _header(job, created, trigger)
        with MetadataWriter(path, header, [s.record for s in saved]) as metadata:
            for index, query_saved in enumerate(saved):
                for file in query_saved.files:
                    metadata.add(FileRecord(index, file.path, file.size, file.digest))
            metadata_size = metadata.commit()
        storage.sync_directory(parent)
    except BaseException:
        storage.remove_tree(path)
        raise
    files = [file for query_saved in saved for file in query_saved.files]
    linked = sum(file.linked for file in files)
    return SavepointInfo(
        path=path,
        job_id=job.job_id,
        created=created,
        format=FORMAT_NATIVE,
        trigger=trigger,
        bytes=sum(file.size for file in files) + metadata_size,
        files=len(files) + 1,
        duration=time.monotonic() - started,
        linked=linked,
        copied=len(files) - linked,
        queries=tuple(
            SavedQuery(s.record.name, s.record.batch_id, s.record.query_id) for s in saved
        ),
    )


def _header(job: SavepointJob, created: float, trigger: str) -> Header:
    import platform

    import flinkish

    return Header(
        job_id=job.job_id,
        job_name=job.name,
        created=created,
        trigger=trigger,
        spark_version=job.spark_version,
        python_version=job.python_version or platform.python_version(),
        flinkish_version=job.flinkish_version or flinkish.__version__,
        host=job.host,
    )


def query_directory(index: int, name: str) -> str:
    """Directory of a query inside its savepoint: its number, and its name made safe."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._-")[:60]
    return f"{index}-{safe or 'query'}"


class _Taker:
    """Takes one query after the other into the savepoint at ``path``."""

    def __init__(self, path: str, reporter: Reporter, deadline: float | None) -> None:
        self._path = path
        self._reporter = reporter
        self._deadline = deadline

    def take(self, index: int, query: QuerySource) -> _Saved:
        """Bring one query's cut into place, again at a newer batch as often as needed."""
        directory = query_directory(index, query.name)
        target = os.path.join(self._path, directory)
        done: dict[str, _File] = {}
        trouble: FlinkishError | None = None
        for _ in range(ATTEMPTS):
            try:
                cut = self._read_cut(query)
                _remove_others(target, done, cut)
                self._place(cut, target, done)
                _verify(cut, target)
            except FilesVanished as error:
                trouble = error
                continue
            except Corrupt as error:
                # Seen once it may be a compaction under way (the new file not yet listed, the old
                # one gone): damage says the same twice.
                if trouble is not None and trouble.message == error.message:
                    raise
                trouble = error
                time.sleep(POLL)
                continue
            files = tuple(done[path] for path in cut.files)
            return _Saved(_query_record(query, directory, cut, files), files)
        raise WrongState(
            f"query {query.name}: Spark trims its checkpoint faster than it can be saved"
            f" ({trouble.message if trouble else 'no attempt was made'})",
            hint="raise spark.sql.streaming.minBatchesToRetain of the job, or use a longer trigger",
        )

    def _read_cut(self, query: QuerySource) -> Cut:
        """The query's cut, waiting for its first commit; FilesVanished as ``read_cut`` does."""
        waiting = False
        while True:
            try:
                cut = read_cut(query.checkpoint, query.batch_id)
                break
            except NoCommittedBatch as error:
                if newest_committed_batch(query.checkpoint) is not None:
                    if query.batch_id is not None:
                        raise  # the batch asked for is not there, and will not come
                    continue  # the first commit came just now
                if not waiting:
                    self._reporter.phase("waiting")
                    waiting = True
                if self._deadline is not None and time.monotonic() >= self._deadline:
                    raise WaitTimeout(
                        f"query {query.name} has not committed its first batch in time",
                        hint="trigger the savepoint again later, or give a longer --timeout",
                    ) from error
                time.sleep(POLL)
        _check_operators(query, cut)
        self._reporter.phase("files")
        return cut

    def _place(self, cut: Cut, target: str, done: dict[str, _File]) -> None:
        wanted = [path for path in cut.files if path not in done]
        for directory in sorted({path.rpartition("/")[0] for path in wanted}):
            storage.make_directory(os.path.join(target, directory))
        total_bytes = sum(operator.bytes for operator in cut.operators)
        placed = sum(file.size for file in done.values())
        pieces = [wanted[at : at + _BATCH] for at in range(0, len(wanted), _BATCH)]
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="flinkish-savepoint") as pool:
            futures = [pool.submit(_place_files, cut, target, piece) for piece in pieces]
            try:
                for future in futures:
                    for file in future.result():
                        done[file.path] = file
                        placed += file.size
                    self._reporter.files(len(done), len(cut.files))
                    self._reporter.bytes(placed, max(total_bytes, placed))
            except BaseException:
                for future in futures:
                    future.cancel()
                # What is under way ends before anybody looks at the directory; what it has
                # placed is not in ``done``, and the next attempt removes it.
                pool.shutdown(wait=True)
                raise


def _place_files(cut: Cut, target: str, paths: Sequence[str]) -> list[_File]:
    placed: list[_File] = []
    for path in paths:
        source = os.path.join(cut.root, path)
        final = os.path.join(target, path)
        try:
            put = storage.place(source, final)
            found = digest.of_checkpoint_file(source, put.size, data_path=final)
        except FileNotFoundError as error:
            raise missing(cut.root, cut.batch_id, source, newest_committed_batch) from error
        placed.append(_File(path, put.size, found, put.linked))
    return placed


def _remove_others(target: str, done: dict[str, _File], cut: Cut) -> None:
    """Remove from an earlier attempt what does not belong to the new cut (or was not finished)."""
    if not os.path.isdir(target):
        return
    wanted = set(cut.files)
    for path in list(_files_below(target)):
        if path not in wanted or path not in done:
            storage.remove_file(os.path.join(target, path))
            done.pop(path, None)


def _files_below(root: str) -> Iterator[str]:
    for directory, _, names in os.walk(root):
        relative = os.path.relpath(directory, root)
        for name in names:
            yield name if relative == "." else f"{relative}/{name}"


def _verify(cut: Cut, target: str) -> None:
    """Read the new directory back as a checkpoint: it must be complete and give the same cut.

    It differs when a file was replaced between reading and linking (an executor that repeats a
    task writes a new RocksDB archive, which names other shared files).
    """
    try:
        again = read_cut(target, cut.batch_id)
    except (Corrupt, NoCommittedBatch) as error:
        raise _changed(cut, error.message) from error
    if again.files != cut.files:
        different = sorted(set(again.files) ^ set(cut.files))
        raise _changed(cut, f"{different[0]} changed")


def _changed(cut: Cut, reason: str) -> FilesVanished:
    return FilesVanished(f"batch {cut.batch_id} of {cut.root} changed while it was saved: {reason}")


def _check_operators(query: QuerySource, cut: Cut) -> None:
    """Every stateful operator the driver runs must have its state in the cut."""
    found = {operator.ordinal for operator in cut.operators}
    lost = sorted(facts.ordinal for facts in query.operators if facts.ordinal not in found)
    if lost:
        raise Corrupt(
            f"query {query.name}: the checkpoint {cut.root} has no state of operator {lost[0]} "
            f"at batch {cut.batch_id}",
            hint="the checkpoint directory has been changed by hand or by another program",
        )


def _query_record(
    query: QuerySource, directory: str, cut: Cut, files: Sequence[_File]
) -> QueryRecord:
    facts = {fact.ordinal: fact for fact in query.operators}
    # Counts of an older batch are not this cut's; a newer number is an idle trigger's, which
    # has changed nothing (Spark reports it under the number of the batch to come).
    counted = query.rows_batch is None or query.rows_batch >= cut.batch_id
    operators = []
    for operator in cut.operators:
        fact = facts.get(operator.ordinal, OperatorFacts(operator.ordinal))
        operators.append(
            OperatorRecord(
                ordinal=operator.ordinal,
                kind=operator.kind or fact.kind,
                partitions=operator.partitions,
                bytes=operator.bytes,
                files=operator.files,
                stores=operator.stores,
                uid=fact.uid,
                operator_id=fact.operator_id,
                operator_id_v2=fact.operator_id_v2,
                operator_id_v3=fact.operator_id_v3,
                rows=fact.rows if counted else None,
                meaning=fact.meaning,
            )
        )
    return QueryRecord(
        name=query.name,
        directory=directory,
        query_id=cut.query_id,
        run_id=query.run_id,
        batch_id=cut.batch_id,
        planned_batch=cut.planned_batch,
        watermark_ms=cut.watermark_ms,
        offsets=cut.offsets,
        pins=cut.pins,
        source=query.source,
        sink=query.sink,
        backend=cut.backend,
        checkpoint_format=cut.checkpoint_format,
        checkpoint=cut.root,
        operators=tuple(operators),
        files=len(files),
        bytes=sum(file.size for file in files),
    )
