"""Canonical stores by themselves: names, blocks, lists, what cannot be in one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from flinkish.checkpoint.format.names import CANONICAL, COUNTS
from flinkish.checkpoint.format.schema_files import FamilySchemas
from flinkish.engine.errors import (
    PERMANENT,
    StateFormatError,
)
from flinkish.engine.migration.migration_plan import FamilyMigration, RowForm
from flinkish.engine.migration.row_transforms import BlockTransform
from flinkish.engine.rows.encodings import join_list, split_value
from flinkish.engine.rows.row_codec import compile_schema
from flinkish.engine.stores.canonical import internal_families, read_canonical, write_canonical
from flinkish.engine.stores.canonical_families import CanonicalFamily, families_of, list_families
from flinkish.engine.stores.files import local_store
from flinkish.engine.stores.store_rows import DEFAULT_FAMILY, RowBlock
from tests.engine.migration.test_checkpoint_migration import state_of
from tests.support.checkpoints.recorded import unpack


def column(name: str, data_type: object, nullable: bool = True) -> dict[str, object]:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": {}}


def struct(*columns: dict[str, object]) -> dict[str, object]:
    return {"type": "struct", "fields": list(columns)}


def stored(
    tmp_path: Path,
    families: list[CanonicalFamily],
    rows: list[tuple[int, list[bytes], list[bytes]]],
) -> dict[str, list[tuple[bytes, bytes]]]:
    """Rows written and read again, by their families."""
    where = tmp_path / "store"
    where.mkdir()
    assert write_canonical(rows, lambda name: (where / name).open("wb"), families, 7) == sum(
        len(keys) for _, keys, _ in rows
    )
    found: dict[str, list[tuple[bytes, bytes]]] = {family.name: [] for family in families}
    for block in read_canonical(local_store(str(where), 7, CANONICAL), families):
        assert len(block.keys) <= 10_000
        found[block.family] += zip(block.keys, block.values, strict=True)
    return found


def test_names_are_made_safe_and_stay_apart(tmp_path: Path) -> None:
    names = ["$ttl_a/b", "_ttl_a/b", "../x", "ä", "A.b", "x" * 300, "x" * 299 + "y"]
    key, value = struct(column("k", "integer")), struct(column("v", "long"))
    families = [
        CanonicalFamily("default", name, key, value, internal=name.startswith("$"))
        for name in names
    ]
    files = [family.file for family in families]
    assert len(set(files)) == len(names)
    assert all(len(name) < 200 and name[0] not in "._" and "/" not in name for name in files)
    codec = compile_schema(key), compile_schema(value)
    rows = []
    for place in (3, 1, 1, 3, 6, 0):  # families come in any order
        data = bytes(8) + place.to_bytes(8, "little")
        rows.append((place, [data], [data]))
    found = stored(tmp_path, families, rows)
    assert {name: len(rows) for name, rows in found.items() if rows} == {
        "ä": 2, "_ttl_a/b": 2, names[6]: 1, "$ttl_a/b": 1,
    }  # fmt: skip
    assert all(codec[0].decode([k]).num_rows == 1 for rows in found.values() for k, _ in rows)
    assert internal_families(local_store(str(tmp_path / "store"), 7, CANONICAL)) == {"$ttl_a/b"}


def test_more_rows_than_a_block_and_lists_of_any_length(tmp_path: Path) -> None:
    key, value = struct(column("k", "integer", nullable=False)), struct(column("v", "long"))
    family = CanonicalFamily("default", "many", key, value, lists=True)

    def row(number: int) -> bytes:
        return bytes(8) + number.to_bytes(8, "little")

    rows = []
    for start in range(0, 25_000, 500):
        numbers = range(start, start + 500)
        lists = [join_list([row(n)] * (1 + n % 7)) for n in numbers]
        rows.append((0, [row(n) for n in numbers], lists))
    found = stored(tmp_path, [family], rows)["many"]
    assert found == [pair for _, keys, lists in rows for pair in zip(keys, lists, strict=True)]
    assert [len(split_value(value)) for _, value in found[:8]] == [1, 2, 3, 4, 5, 6, 7, 1]


def test_timeouts_keep_all_their_bits(tmp_path: Path) -> None:
    """Of groups of state format 1: the schema says integer, Spark writes a long."""
    key = struct(column("k", "integer"))
    value = struct(column("n", "long"), column("timeoutTimestamp", "integer", nullable=False))
    family = CanonicalFamily("default", DEFAULT_FAMILY, key, value)
    word = (1_785_000_000_123).to_bytes(8, "little")
    pair = (bytes(16), bytes(8) + bytes(8) + word)
    assert stored(tmp_path, [family], [(0, [pair[0]], [pair[1]])]) == {"default": [pair]}
    with (tmp_path / "store" / "default.avro").open("rb") as file:
        [record] = fastavro.reader(file)
    assert isinstance(record, dict)
    assert record["value"]["timeoutTimestamp"] == 1_785_000_000_123


def test_rows_of_another_schema_are_an_error(tmp_path: Path) -> None:
    key = struct(column("k", "integer"))
    family = CanonicalFamily("default", DEFAULT_FAMILY, key, struct(column("v", "string")))
    (tmp_path / "one").mkdir()
    for keys, values in (([bytes(8)], [bytes(16)]), ([bytes(16)], [bytes(8) + b"\xff" * 8])):
        with pytest.raises(PERMANENT, match="default/default"):
            write_canonical(
                [(0, keys, values)],
                lambda name: (tmp_path / "one" / name).open("wb"),
                [family],
                1,
            )
    assert not (tmp_path / "one" / COUNTS).exists()


def test_families_that_spark_keeps_as_lists(tmp_path: Path) -> None:
    [operator] = state_of(unpack("spark43-rocksdb-tws", tmp_path)).operators
    lists = {f.name: f.lists for f in families_of(operator, operator.stores[0])}
    assert lists == {"values": True, "count": False, "$rowCounter_values": False}
    key = struct(column("k", "string"), column("__event_time", "long", nullable=False))
    names = ["left-keyWithTsToValues", "left-tsWithKey", "left-keyToNumValues"]
    families = tuple(FamilySchemas(name, key, key, {}) for name in names)
    join = replace(operator.stores[0], families=families)
    assert list_families(replace(operator, metadata=None), join) == set(names[:2])
    assert operator.metadata is not None
    broken = replace(operator.metadata, properties='{"stateVariables": [{"stateName": "a"}]}')
    with pytest.raises(StateFormatError, match="damaged operator properties"):
        list_families(replace(operator, metadata=broken), join)


def test_what_spark_leaves_in_null_intervals_is_cleaned() -> None:
    """Columns do not have it: what is digested must be what is read again."""
    value = struct(column("i", "interval"))
    codec = compile_schema(value)
    null = pa.RecordBatch.from_arrays([pa.nulls(1, codec.schema.field(0).type)], names=["i"])
    [clean] = codec.encode(null).rows()
    assert clean.endswith(bytes(16))
    left = clean[:-16] + b"\x07" * 16
    key = struct(column("k", "integer"))
    for lists in (True, False):
        before = RowForm(key, value, None, framed=True)
        move = FamilyMigration("f", "f", before, replace(before, framed=False), ())
        rows = [join_list([left, left])] if lists else [b"\0" + left]
        block = RowBlock("f", [bytes(17)], rows, framed=True)
        moved = BlockTransform(move, None, "here", lists=lists, canonical=True)(block)
        assert moved.values == [join_list([clean, clean]) if lists else clean]


def test_lists_where_none_are_expected_and_the_other_way_round(tmp_path: Path) -> None:
    key = struct(column("k", "integer"))
    before = RowForm(key, key, None, framed=True)
    move = FamilyMigration("f", "f", before, replace(before, framed=False), ())
    plain = RowBlock("f", [bytes(17)], [bytes(17)], framed=True)
    with pytest.raises(StateFormatError, match="here: a value is not a list"):
        BlockTransform(move, None, "here", lists=True, canonical=True)(plain)
    some = RowBlock("f", [bytes(17)], [join_list([bytes(16)])], framed=True)
    with pytest.raises(StateFormatError, match="where the operator's metadata does not name them"):
        BlockTransform(move, None, "here", canonical=True)(some)
    family = CanonicalFamily("default", "f", key, key, lists=True)
    stored(tmp_path, [family], [(0, [bytes(16)], [join_list([bytes(16)])])])
    files = local_store(str(tmp_path / "store"), 7, CANONICAL)
    for other, reason in (
        (replace(family, lists=False), "its values are lists"),
        (replace(family, value=struct(column("k", "long"))), "its schema is not that of"),
        (replace(family, store="left"), "it is of"),
    ):
        with pytest.raises(StateFormatError, match=f"f.avro at byte 0: {reason}"):
            list(read_canonical(files, [other]))
