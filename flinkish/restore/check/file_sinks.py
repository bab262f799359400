"""The newest batch of a file sink, which its log has: ``_spark_metadata`` below its path."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from flinkish.checkpoint.format.logs import COMPACT_SUFFIX
from flinkish.connectors.registry import sink_connector
from flinkish.errors import StorageError
from flinkish.restore.plan.file_sink_log import batch_of
from flinkish.restore.plan.sinks import SinkStatus
from flinkish.storage import is_local, locate

FILE_LOG = "_spark_metadata"
#: Spark's own sinks that keep no batch numbers.
NO_LOG = frozenset({"console", "foreach", "foreachbatch", "memory", "noop"})
#: Bytes of an entry that are read to see whether it names a file.
_HEAD = 256


class Storage(Protocol):
    """Read access to a file system, as :mod:`flinkish.storage` has it."""

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory without hidden ones; none when it does not exist."""

    def read_head(self, location: str, count: int) -> bytes:
        """Return the first bytes of a file."""


def keeps_log(format: str | None) -> bool:
    """Return whether a sink of a format may be a file sink, which keeps a log of its batches.

    ``format`` is the program's, as passed to ``DataStreamWriter.format``; None is a file format
    (``spark.sql.sources.default``).
    """
    return (format or "parquet").lower() not in NO_LOG and sink_connector(format).keeps_log


def file_sink_status(format: str | None, path: str | None, storage: Storage) -> SinkStatus | None:
    """Return the newest batch of a file sink; None for a sink that does not record it.

    ``path`` is the location to which it writes, a path or a URL.
    """
    kind = (format or "parquet").lower()
    if path is None or not keeps_log(format):
        return None
    try:
        log = os.path.join(locate(path), FILE_LOG)  # Spark knows places that flinkish does not
        names = storage.list_names(log)
        batches = {n: name for name in names if (n := batch_of(name)) is not None}
        newest = max(batches, default=None)
        written = None if newest is None else _written(os.path.join(log, batches[newest]))
        empty = newest is not None and not _has_files(log, batches, storage)
    except FileNotFoundError:  # an entry was compacted away meanwhile
        empty, written = False, None
    except StorageError as error:
        return SinkStatus(kind, path, unreadable=error.message)
    return SinkStatus(kind, path, newest, has_files=not empty, written=written)


def _written(entry: str) -> float | None:
    """Return when an entry of a local log was written; None if unknown."""
    if not is_local(entry):
        return None
    try:
        return os.stat(entry).st_mtime
    except OSError:  # whoever reads the entry learns why
        return None


def _has_files(log: str, batches: Mapping[int, str], storage: Storage) -> bool:
    """Return whether a log names any file: in its newest compact entry, or in one after it.

    ``batches`` has the names of its entries.
    """
    for batch in sorted(batches, reverse=True):
        # The version of the log stands in the first line, and each file in one of its own.
        head = storage.read_head(os.path.join(log, batches[batch]), _HEAD).strip()
        if not head.startswith(b"v") or b"\n" in head:
            return True
        if batches[batch].endswith(COMPACT_SUFFIX):
            return False
    return False
