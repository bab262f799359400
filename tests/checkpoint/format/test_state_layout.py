"""What counts in a directory of state, and that both who read one see the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from flinkish.checkpoint.cut import read_cut
from flinkish.checkpoint.format.logs import parse_offsets
from flinkish.checkpoint.format.names import JOIN_STORES
from flinkish.checkpoint.format.operator_files import (
    OperatorMetadata,
    OperatorStore,
    expected_partitions,
    metadata_path,
    schema_path,
    store_names,
)
from flinkish.checkpoint.format.pins import PIN_SHUFFLE_PARTITIONS
from flinkish.checkpoint.operators import read_operator, store_info
from flinkish.engine.errors import StateFormatError
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.files import LocalDirectory
from flinkish.errors import Corrupt
from tests.support.checkpoints.recorded import NAMES, fast_of, unpack


@pytest.mark.parametrize(
    ("v2", "batch", "path"),
    [
        ([], 3, "_metadata/metadata"),
        (["0", "2", "10"], 3, "_metadata/v2/2"),
        (["0", "2", "10"], 10, "_metadata/v2/10"),
        (["4"], 3, "_metadata/metadata"),
        (["x", "-1", ".2.crc"], 3, "_metadata/metadata"),
    ],
)
def test_the_metadata_of_a_batch(v2: list[str], batch: int, path: str) -> None:
    assert metadata_path(v2, batch) == path


def metadata(*names: str, schemas: tuple[str, ...] | None = None) -> OperatorMetadata:
    stores = tuple(OperatorStore(name, 0, 2, schemas) for name in names)
    return OperatorMetadata(2, 0, "an operator", stores)


@pytest.mark.parametrize(
    ("known", "directories", "names"),
    [
        (None, [], ("default",)),
        (None, ["SSTs", "_metadata", "left over"], ("default",)),
        (None, ["right-keyToNumValues"], JOIN_STORES),
        (metadata(), ["right-keyToNumValues"], JOIN_STORES),
        (metadata("default"), ["left over", "right-keyToNumValues"], ("default",)),
        (metadata(*reversed(JOIN_STORES)), [], JOIN_STORES),
    ],
)
def test_stores(
    known: OperatorMetadata | None, directories: Iterable[str], names: tuple[str, ...]
) -> None:
    assert store_names(known, directories) == names


def test_schemas() -> None:
    moved = metadata(
        "default", schemas=("/old/_stateSchema/default/0_a", "/old/_stateSchema/x/3_b/")
    )
    assert schema_path(moved, "default") == "_stateSchema/default/3_b"
    for known in (None, metadata("default"), metadata("default", schemas=())):
        assert schema_path(known, "default") == "0/_metadata/schema"
        assert schema_path(known, JOIN_STORES[0]) == f"0/{JOIN_STORES[0]}/_metadata/schema"


NO_KEY = {"type": "struct", "fields": []}
NULL_KEY = {"type": "struct", "fields": [{"name": "value", "type": "void"}]}
KEY = {"type": "struct", "fields": [{"name": "value", "type": "long"}]}


@pytest.mark.parametrize(
    ("pins", "keys", "found", "expected"),
    [
        ({PIN_SHUFFLE_PARTITIONS: "4"}, [KEY], 2, 4),
        ({PIN_SHUFFLE_PARTITIONS: "4"}, [NO_KEY], 1, 1),
        ({PIN_SHUFFLE_PARTITIONS: "4"}, [NULL_KEY], 1, 1),
        ({PIN_SHUFFLE_PARTITIONS: "4"}, [], 1, 1),
        ({PIN_SHUFFLE_PARTITIONS: "4"}, [], 2, 4),
        ({PIN_SHUFFLE_PARTITIONS: "4"}, [NULL_KEY, KEY], 1, 4),
        ({}, [KEY], 3, 3),
    ],
)
def test_partitions(pins: dict[str, str], keys: list[object], found: int, expected: int) -> None:
    assert expected_partitions(pins, keys, found) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("name", fast_of(NAMES))
def test_the_engine_reads_the_stores_that_a_savepoint_keeps(name: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    state = read_checkpoint(LocalDirectory(str(root)))
    pins = parse_offsets((root / f"offsets/{state.batch}").read_bytes(), "offsets").pins
    for operator in state.operators:
        ids = operator.unique_ids
        read = read_operator(
            str(root),
            operator.ordinal,
            version=operator.version,
            pins=pins,
            state_ids=None if ids is None else {operator.version: ids},
        )
        assert read is not None
        kept, _ = read
        assert kept.partitions == operator.partitions
        assert kept.kind == operator.name
        assert kept.stores == tuple(
            store_info(store.name, family) for store in operator.stores for family in store.families
        )


@pytest.mark.parametrize(("name", "lost"), [("spark43-hdfs-agg", "1"), ("spark35-hdfs-join", "0")])
def test_state_without_one_of_its_partitions_is_refused(
    name: str, lost: str, tmp_path: Path
) -> None:
    root = unpack(name, tmp_path)
    shutil.rmtree(root / "state/0" / lost)
    with pytest.raises(StateFormatError, match=f"state/0/{lost}: the state partition is missing"):
        read_checkpoint(LocalDirectory(str(root)))
    with pytest.raises(Corrupt, match=f"lacks .*/state/0/{lost},"):
        read_cut(str(root))


def test_directories_that_spark_does_not_know_are_left_alone(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    before = read_checkpoint(LocalDirectory(str(root))), read_cut(str(root)).operators
    stray = root / "state/0/0/copy"
    stray.mkdir()
    (stray / "1.delta").write_bytes(b"x")
    assert (read_checkpoint(LocalDirectory(str(root))), read_cut(str(root)).operators) == before


def test_a_join_without_one_of_its_stores(tmp_path: Path) -> None:
    root = unpack("spark35-hdfs-join", tmp_path)
    for path in (root / "state/0").glob(f"*/{JOIN_STORES[0]}"):
        shutil.rmtree(path)
    with pytest.raises(StateFormatError, match="the state schema is missing"):
        read_checkpoint(LocalDirectory(str(root)))
    with pytest.raises(Corrupt, match=JOIN_STORES[0]):
        read_cut(str(root))
