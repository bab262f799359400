"""The state stores of a checkpoint in a local directory, for tests of the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flinkish.checkpoint.format.names import HDFS, ROCKSDB
from flinkish.checkpoint.format.schema_files import parse_schema_file
from flinkish.engine.rows.encodings import FamilyShape, family_shape
from flinkish.engine.stores.files import StoreFiles, local_store

JOIN_STORES = [
    f"{side}-{part}"
    for side in ("left", "right")
    for part in ("keyToNumValues", "keyWithIndexToValue")
]


@dataclass(frozen=True)
class Store:
    """One store of one partition; ``name`` is "" where a partition has only one."""

    operator: int
    partition: int
    name: str
    files: StoreFiles
    shapes: dict[str, FamilyShape]


def stores(checkpoint: Path) -> Iterator[Store]:
    """Every store of a checkpoint at its newest committed batch."""
    batch = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    commit = json.loads((checkpoint / "commits" / str(batch)).read_text().split("\n", 1)[1])
    pins = json.loads((checkpoint / "offsets" / str(batch)).read_text().split("\n")[1])["conf"]
    prefix = "spark.sql.streaming.stateStore."
    backend = HDFS if "HDFS" in pins[f"{prefix}providerClass"] else ROCKSDB
    codec = pins[f"{prefix}compression.codec"]
    for operator in sorted((checkpoint / "state").iterdir()):
        ids = commit.get("stateUniqueIds", {}).get(operator.name)
        for partition in sorted(p for p in operator.iterdir() if p.name.isdigit()):
            names = sorted(p.name for p in partition.iterdir() if "-key" in p.name)
            for name in names or [""]:
                number = int(partition.name)
                unique = ids[number][JOIN_STORES.index(name) if name else 0] if ids else None
                directory = str(partition / name)
                files = local_store(
                    directory, batch + 1, backend, unique_id=unique, compression=codec
                )
                yield Store(int(operator.name), number, name, files, shapes(operator, name))


def shapes(operator: Path, store: str) -> dict[str, FamilyShape]:
    """What an operator's schema files say that rows have to be like."""
    paths = [operator / "0" / store / "_metadata" / "schema"]
    paths += (p for p in operator.glob("_stateSchema/*/*") if not p.name.startswith("."))
    found = (parse_schema_file(p.read_bytes(), p.name) for p in paths if p.exists())
    return {s.name: family_shape(s.key, s.value, s.encoder) for file in found for s in file}
