"""The rows of an HDFS-backed state store (Spark's ``HDFSBackedStateStoreProvider``).

Spark holds the whole map in memory. Here the snapshot is streamed, and later changes override its
rows; a bounded part of the changes is in memory. A version without an earlier snapshot (Spark
writes one every ten versions) consists of changes only.
"""

from __future__ import annotations

from collections.abc import Iterator

from flinkish.engine.errors import StateFormatError
from flinkish.engine.stores.chain import find_chain
from flinkish.engine.stores.codecs import decompressed
from flinkish.engine.stores.disk_spill import LastChanges
from flinkish.engine.stores.files import StoreFiles
from flinkish.engine.stores.records import Content, plain_records
from flinkish.engine.stores.sidecars import open_checked


def read_hdfs_store(files: StoreFiles) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and value of every row of ``files.version``, in no particular order.

    Raises StateFormatError if a file is damaged, or missing (MissingStateFile).
    """
    chain = find_chain(files, lambda _: None)
    with LastChanges(files.scratch) as changes:
        for name in chain.changes:
            changes.add(_records(files, name))
        if chain.snapshot is not None:
            yield from changes.unchanged(_snapshot_rows(files, chain.snapshot))
        yield from changes.rows()


def _snapshot_rows(files: StoreFiles, name: str) -> Iterator[tuple[bytes, bytes]]:
    for key, value in _records(files, name):
        if value is None:
            raise StateFormatError(name, None, "a snapshot removes a row")
        yield key, value


def _records(files: StoreFiles, name: str) -> Iterator[tuple[bytes, bytes | None]]:
    with open_checked(files, name) as file:
        yield from plain_records(Content(decompressed(file, files.compression, name), name))
