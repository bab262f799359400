"""Rewrite the state of a checkpoint with the engine's writers: the same rows, new files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from flinkish.checkpoint.format.names import HDFS
from flinkish.engine.rows.encodings import normal_value
from flinkish.engine.stores.hdfs_store import read_hdfs_store
from flinkish.engine.stores.rocksdb_store import open_rocksdb_store
from flinkish.engine.stores.rocksdb_writer import Families, write_snapshot
from flinkish.engine.stores.writers import write_records
from tests.support.checkpoints.streaming_queries import STORE
from tests.support.engine.local_stores import Store, stores


def rewrite(checkpoint: Path, codec: str = "lz4") -> None:
    """Put a snapshot of ours, and nothing else, in place of each store's files."""
    found = list(stores(checkpoint))
    for store in found:
        _rewrite_store(checkpoint, store, codec)
    for path in (checkpoint / "offsets").iterdir():
        if path.name.isdigit():
            lines = path.read_text().split("\n")
            parsed = json.loads(lines[1])
            parsed["conf"][f"{STORE}compression.codec"] = codec
            lines[1] = json.dumps(parsed)
            path.write_text("\n".join(lines))
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def _rewrite_store(checkpoint: Path, store: Store, codec: str) -> None:
    directory = checkpoint / "state" / str(store.operator) / str(store.partition) / store.name
    files = store.files
    target = directory / "_rewritten"
    if files.backend == HDFS:
        rows: Iterator[tuple[bytes, bytes]] = read_hdfs_store(files)
        with creating(target)(f"{files.version}.snapshot") as file:
            write_records(file, rows, codec)
    else:
        unique = f"_{files.unique_id}" if files.unique_id else ""
        with open_rocksdb_store(files) as opened:
            metadata = opened.metadata
            ids = {name: number for number, name in metadata.families.items()}
            count = write_snapshot(
                ((key, normal_value(value)) for key, value in opened.rows()),
                creating(target),
                f"{files.version}{unique}.zip",
                families=Families(ids, metadata.internal),
            )
        assert count
    for path in directory.iterdir():
        if path.is_file():
            path.unlink()
    shutil.rmtree(directory / "SSTs", ignore_errors=True)
    for path in target.iterdir():
        path.rename(directory / path.name)
    target.rmdir()


class creating:
    """Files for writing below a directory, made with the directories they need."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, name: str) -> BinaryIO:
        path = self._directory / name
        os.makedirs(path.parent, exist_ok=True)
        return open(path, "xb")
