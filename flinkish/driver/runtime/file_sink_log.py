"""Complete the log of a file sink up to the batch from which its query resumes.

The sink's own objects in the JVM read and write the log, with the program's credentials. So the log
is found wherever Spark writes it, even for a new table whose place the catalog has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from flinkish import storage
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.names import COMMITS
from flinkish.connectors.path_map import NO_MAP, PathMap
from flinkish.driver.log import log
from flinkish.driver.runtime.start_listener import at_start
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import Corrupt, FlinkishError, StorageError
from flinkish.restore.check.file_sinks import batch_of, keeps_log, missing_entries
from flinkish.restore.materialize.source_logs import with_other_files


@contextmanager
def file_sink_log_ready(
    session: Any,
    name: str,
    format: str | None,
    checkpoint: str | None,
    paths: PathMap = NO_MAP,
    fail: Callable[[FlinkishError], None] | None = None,
) -> Iterator[None]:
    """Complete the log of the file sink of query ``name``, which is started inside the block.

    ``paths`` maps the paths in the log, through which readers find the output's files.

    Nothing is done for other sinks, or for a query that starts at batch 0. The query plans no batch
    before its log is complete.

    ``format`` is the program's ``DataStreamWriter.format``. ``checkpoint`` is where the query's
    checkpoint is or will be; None if Spark chooses it. If the log cannot be completed, ``fail`` is
    called with the error, and the query runs no batch; without ``fail``, it runs all the same.
    """
    if not keeps_log(format) or not _may_have_batches(checkpoint):
        yield
        return

    def complete(jsq: Any) -> None:
        if spark_jvm.is_told_to_end(jsq):
            return  # the query was held, and the job's start is refused
        error = make_log_ready(jsq, session, name, paths)
        if error is not None and fail is not None:
            spark_jvm.end_after_batch(session._jvm, jsq)
            fail(error)

    with at_start(session, name, complete):
        yield


def make_log_ready(jsq: Any, session: Any, name: str, paths: PathMap) -> FlinkishError | None:
    """Map and complete the log of a query's file sink; return the error if that is not possible.

    Called like :func:`complete_log`, on a thread of Spark's that swallows errors.
    """
    try:
        for note in (map_log(jsq, session, paths) if paths else None, complete_log(jsq)):
            if note is not None:
                log(f"query '{name}': {note}")
    except FlinkishError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - Py4J's, of any storage
        failure = StorageError(str(error))
    else:
        return None
    failure.message = (
        f"query '{name}': the log of its file sink cannot be made ready for the next batch, and "
        f"readers of the output would miss files: {failure.message}"
    )
    log(failure.message)
    return failure


def complete_log(jsq: Any) -> str | None:
    """Write the entries that the log of a query's file sink lacks for the query's next batch.

    ``jsq`` is the JVM's query before its first batch. Returns what was done, as a clause, or None.
    """
    execution = spark_jvm.stream_execution(jsq)
    sink = execution.sink()
    if sink.getClass().getSimpleName() != "FileStreamSink":
        return None
    committed = execution.commitLog().getLatestBatchId()
    if committed.isEmpty():
        return None
    # This is the sink's own log object: Spark keeps the compact interval that is read here.
    sink_log = spark_jvm.field_of(sink, "fileLog")
    entries = sink_log.fileManager().list(sink_log.metadataPath(), sink_log.batchFilesFilter())
    names = [str(entry.getPath().getName()) for entry in entries]
    next_batch = int(committed.get()) + 1
    missing = missing_entries(names, next_batch, int(sink_log.compactInterval()))
    if not missing:
        return None
    _write(sink_log, missing.before, frozenset())
    _write(sink_log, missing.after, missing.compact)
    newest = max((n for name in names if (n := batch_of(name)) is not None), default=None)
    had = "had no batch" if newest is None else f"had the batches up to {newest}"
    return (
        f"the log of the file sink {sink_log.metadataPath().getParent()} {had}: it was given "
        f"empty entries, so that Spark can continue at batch {next_batch}"
    )


def map_log(jsq: Any, session: Any, paths: PathMap) -> str | None:
    """Map the files that the log of a query's file sink names; called like :func:`complete_log`.

    Paths below the sink's own path stay: an earlier start has mapped them, or they are newer.
    Returns what was done, as a clause, or None. Raises Corrupt if an entry is damaged.
    """
    sink = spark_jvm.stream_execution(jsq).sink()
    if sink.getClass().getSimpleName() != "FileStreamSink":
        return None
    sink_log = spark_jvm.field_of(sink, "fileLog")
    files, changed = sink_log.fileManager(), 0
    where = str(sink_log.metadataPath().getParent())
    if not files.exists(sink_log.metadataPath()):
        return None
    for entry in files.list(sink_log.metadataPath(), sink_log.batchFilesFilter()):
        path = entry.getPath()
        stream = files.open(path)
        try:
            data = bytes(session._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()
        try:
            mapped = with_other_files(data, str(path), partial(paths.url_from_outside, place=where))
        except CheckpointFormatError as error:
            raise Corrupt(f"{path} is damaged: {error.detail}", path=str(path)) from error
        if mapped != data:
            _replace(files, path, mapped)
            changed += 1
    return f"{changed} entries of the log of the file sink {where} were mapped" if changed else None


def _replace(files: Any, path: Any, content: bytes) -> None:
    stream = files.createAtomic(path, True)
    try:
        stream.write(content)
        stream.close()
    except BaseException:
        stream.cancel()
        raise


def _write(sink_log: Any, batches: Iterable[int], with_files: frozenset[int]) -> None:
    """Write missing entries: those of ``with_files`` with all files of the log, others empty."""
    header = f"v{sink_log.VERSION()}".encode()
    files = None
    for batch in batches:
        path = sink_log.batchIdToPath(batch)
        if batch in with_files and files is None:
            files = sink_log.allFiles()
        if sink_log.fileManager().exists(path):
            continue
        stream = sink_log.fileManager().createAtomic(path, False)
        try:
            if batch in with_files:
                sink_log.serialize(files, stream)
            else:
                stream.write(header)
            stream.close()
        except BaseException:
            stream.cancel()
            raise


def _may_have_batches(checkpoint: str | None) -> bool:
    """Return whether a checkpoint may have committed batches; True if it cannot be read."""
    if checkpoint is None:
        return False
    try:
        return storage.is_directory(storage.join(storage.locate(checkpoint), COMMITS))
    except StorageError:
        return True  # Spark may reach storage that flinkish cannot
