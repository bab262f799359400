"""The newest batch of a file sink, which its log has: ``_spark_metadata`` below its path."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Protocol

from flinkish.checkpoint.format.source_logs import COMPACT_SUFFIX
from flinkish.errors import StorageError
from flinkish.restore.plan.sinks import SinkPosition
from flinkish.storage import locate

FILE_LOG = "_spark_metadata"
#: Sinks of Spark and others that keep no batch numbers, or none that flinkish can read.
NO_LOG = frozenset({"console", "foreach", "foreachbatch", "hudi", "kafka", "memory", "noop"})


class Storage(Protocol):
    """Read access to a file system, as :mod:`flinkish.storage` has it."""

    def list_names(self, path: str) -> list[str]:
        """Return the names in a directory without hidden ones; none when it does not exist."""


def file_sink_position(
    format: str | None, path: str | None, storage: Storage
) -> SinkPosition | None:
    """Return the newest batch of a file sink; None for a sink that does not record it.

    Parameters
    ----------
    format
        The format that the program passed to ``DataStreamWriter.format``; None is a file format
        (``spark.sql.sources.default``).
    path
        The location that it writes to: a path or a URL; None for a sink without one.
    """
    kind = (format or "parquet").lower()
    if path is None or kind in NO_LOG:
        return None
    try:
        names = storage.list_names(os.path.join(locate(path), FILE_LOG))
    except StorageError as error:
        return SinkPosition(kind, path, unreadable=error.message)
    return SinkPosition(kind, path, _newest_batch(names))


def _newest_batch(names: Iterable[str]) -> int | None:
    """Return the newest entry of a file sink's log: ``<batch>`` or ``<batch>.compact``."""
    batches = [name.removesuffix(COMPACT_SUFFIX) for name in names]
    return max((int(b) for b in batches if b.isascii() and b.isdigit()), default=None)
