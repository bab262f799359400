"""The rows of a HDFS-backed state store (Spark's ``HDFSBackedStateStoreProvider``).

Spark holds the whole map in memory. Here only what changed after the snapshot is: the snapshot
itself is streamed, and its rows give way to the newer ones. A version without a snapshot (Spark
writes one every ten versions) is all changes, and so all in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from flinkish.engine.chain import find_chain
from flinkish.engine.codecs import decompressed
from flinkish.engine.errors import StateFormatError
from flinkish.engine.files import StoreFiles
from flinkish.engine.records import Content, plain_records
from flinkish.engine.sidecars import open_checked


def read_hdfs_store(files: StoreFiles) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of every row of ``files.version``, in no particular order.

    Raises:
        StateFormatError: a file is damaged, or missing (MissingStateFile).
    """
    chain = find_chain(files, lambda _: None)
    changed: dict[bytes, bytes | None] = {}
    for name in chain.changes:
        changed.update(_records(files, name))
    if chain.snapshot is not None:
        for key, value in _records(files, chain.snapshot):
            if value is None:
                raise StateFormatError(chain.snapshot, None, "a snapshot removes a row")
            if key not in changed:
                yield key, value
    for key, value in changed.items():
        if value is not None:
            yield key, value


def _records(files: StoreFiles, name: str) -> Iterator[tuple[bytes, bytes | None]]:
    with open_checked(files, name) as file:
        yield from plain_records(Content(decompressed(file, files.compression, name), name))
