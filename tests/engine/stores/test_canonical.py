"""Canonical state: recorded checkpoints of real Spark runs to Avro files and back; damage."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import fastavro
import pytest

from flinkish.checkpoint.format.names import CANONICAL, COUNTS, HDFS, ROCKSDB
from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.engine.errors import (
    CannotMigrate,
    MissingStateFile,
    StateFormatError,
    UnsupportedState,
)
from flinkish.engine.migration.migration_planner import FamilyChange, TargetState
from flinkish.engine.stores.canonical import (
    read_rows,
)
from flinkish.engine.stores.checkpoints import read_checkpoint, store_files
from flinkish.engine.stores.files import LocalDirectory
from flinkish.engine.stores.rocksdb_store import snapshot_families
from tests.engine.migration.test_checkpoint_migration import (
    SWITCHED,
    all_rows,
    rewrite,
    rows_of,
    state_of,
    tree,
)
from tests.support.checkpoints.recorded import NAMES, fast_of, unpack

TO_AVRO = TargetState(backend=CANONICAL)


@pytest.fixture(params=fast_of(NAMES))
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpack(request.param, tmp_path / "recorded")


@pytest.fixture
def canonical(tmp_path: Path) -> Path:
    """State with lists, values, and a family of Spark's own."""
    rewrite(unpack("spark43-rocksdb-tws", tmp_path), tmp_path / "canonical", TO_AVRO)
    return tmp_path / "canonical"


def counted(checkpoint: Path) -> Counter[tuple[int, str, str]]:
    """Rows by operator, store and family, of any backend."""
    source = LocalDirectory(str(checkpoint))
    found: Counter[tuple[int, str, str]] = Counter()
    for operator in read_checkpoint(source).operators:
        for partition in range(operator.partitions):
            for store in operator.stores:
                files = store_files(source, operator, partition, store)
                for block in read_rows(files, operator, store):
                    found[operator.ordinal, store.name, block.family] += len(block.keys)
    return found


def test_there_and_back_is_what_it_was(recorded: Path, tmp_path: Path) -> None:
    before = tree(recorded)
    state = state_of(recorded)
    ids = bool(state.operators[0].unique_ids)
    rewrite(recorded, tmp_path / "canonical", TO_AVRO)
    there = state_of(tmp_path / "canonical")
    for old, new in zip(state.operators, there.operators, strict=True):
        assert (new.backend, new.unique_ids) == (CANONICAL, None)
        assert (new.partitions, new.version, new.pins) == (old.partitions, old.version, old.pins)
        assert (new.stores, new.metadata) == (old.stores, old.metadata)
    assert counted(tmp_path / "canonical") == counted(recorded)
    back = TargetState(backend=state.operators[0].backend, unique_ids=ids)
    result = rewrite(tmp_path / "canonical", tmp_path / "back", back)
    assert rows_of(tmp_path / "back") == rows_of(recorded)
    straight = rewrite(recorded, tmp_path / "straight", TargetState())
    assert [op.digests for op in result.operators] == [op.digests for op in straight.operators]
    assert tree(recorded) == before


@pytest.mark.parametrize("name", SWITCHED)
def test_back_to_the_other_backend(name: str, tmp_path: Path) -> None:
    recorded = unpack(name, tmp_path / "recorded")
    here = state_of(recorded).operators[0].backend
    other = TargetState(backend=HDFS if here == ROCKSDB else ROCKSDB, unique_ids=False)
    rewrite(recorded, tmp_path / "canonical", TO_AVRO)
    result = rewrite(tmp_path / "canonical", tmp_path / "new", other)
    straight = rewrite(recorded, tmp_path / "straight", other)
    assert rows_of(tmp_path / "new") == rows_of(tmp_path / "straight")
    assert [op.digests for op in result.operators] == [op.digests for op in straight.operators]
    assert state_of(tmp_path / "new").pins == state_of(tmp_path / "straight").pins


def test_rescaled_on_the_way(recorded: Path, tmp_path: Path) -> None:
    operator = state_of(recorded).operators[0]
    five = TargetState(backend=CANONICAL, partitions=5, compression="zstandard")
    first = rewrite(recorded, tmp_path / "five", five)
    second = rewrite(tmp_path / "five", tmp_path / "three", TargetState(partitions=3))
    for one, other in zip(first.operators, second.operators, strict=True):
        assert one.digests == other.digests
    back = TargetState(
        backend=operator.backend,
        partitions=operator.partitions,
        unique_ids=bool(operator.unique_ids),
    )
    rewrite(tmp_path / "three", tmp_path / "back", back)
    assert rows_of(tmp_path / "back") == rows_of(recorded)


def test_any_avro_tool_reads_it(recorded: Path, tmp_path: Path) -> None:
    target_state = TargetState(backend=CANONICAL, partitions=5)
    rewrite(recorded, tmp_path / "canonical", target_state)
    expected = counted(recorded)
    found: Counter[tuple[int, str, str]] = Counter()
    for operator in state_of(tmp_path / "canonical").operators:
        root = tmp_path / "canonical" / operator.directory
        for partition in range(operator.partitions):
            for store in operator.stores:
                directory = root / str(partition) / store.directory
                files = sorted(directory.glob("*.avro"))
                assert len(files) == len(store.families)  # empty ones too
                for path in files:
                    with path.open("rb") as file:
                        reader = fastavro.reader(file)
                        rows = list(reader)
                        header = reader.metadata
                    assert reader.codec == "deflate"  # zstandard needs another library
                    assert all(isinstance(r, dict) and set(r) == {"key", "value"} for r in rows)
                    assert header["state.version"] == str(operator.version)
                    assert header["state.store"] == store.name
                    family = next(f for f in store.families if f.name == header["state.family"])
                    assert json.loads(header["state.key"]) == family.key
                    assert json.loads(header["state.value"]) == family.value
                    found[operator.ordinal, store.name, family.name] += len(rows)
    assert +found == +expected


def test_lists_and_numbers_are_those_of_the_state(canonical: Path) -> None:
    root = canonical / "state" / "0"
    sizes = {}
    for path in root.glob("*/values.avro"):
        with path.open("rb") as file:
            for row in fastavro.reader(file):
                assert isinstance(row, dict)
                sizes[str(row["key"])] = len(row["value"])
    assert sizes
    expected = {}
    for path in root.glob("*/~24rowCounter_values.avro"):
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            for row in reader:
                assert isinstance(row, dict)
                expected[str(row["key"])] = next(iter(row["value"].values()))
            assert reader.metadata["state.internal"] == "true"
    assert sizes == expected


def test_families_are_spark_s_own_as_before(canonical: Path, tmp_path: Path) -> None:
    rewrite(canonical, tmp_path / "back", TargetState(backend=ROCKSDB))
    for name in ("spark43-rocksdb-tws", "back"):
        source = LocalDirectory(str(tmp_path / name))
        [operator] = read_checkpoint(source).operators
        found = snapshot_families(store_files(source, operator, 0, operator.stores[0]))
        assert set(found.ids) == {"default", "$rowCounter_values", "count", "values"}
        assert found.internal == {"$rowCounter_values"}


def test_joins_change_their_format_on_the_way(tmp_path: Path) -> None:
    recorded = unpack("spark43-changelog-join3", tmp_path)
    two = TargetState(backend=CANONICAL, formats={PIN_JOIN_FORMAT: "2"})
    rewrite(recorded, tmp_path / "two", two)
    [operator] = state_of(tmp_path / "two").operators
    assert len(operator.stores) == 4
    assert operator.backend == CANONICAL
    three = TargetState(backend=CANONICAL, formats={PIN_JOIN_FORMAT: "3"}, partitions=3)
    rewrite(tmp_path / "two", tmp_path / "three", three)
    rewrite(tmp_path / "three", tmp_path / "back", TargetState(backend=ROCKSDB, partitions=2))
    assert rows_of(tmp_path / "back") == rows_of(recorded)
    with pytest.raises(CannotMigrate, match="column families, which only RocksDB has"):
        rewrite(tmp_path / "three", tmp_path / "hdfs", TargetState(backend=HDFS))
    rewrite(tmp_path / "two", tmp_path / "hdfs", TargetState(backend=HDFS))
    assert [row[3] for row in all_rows(tmp_path / "hdfs")]


def test_lists_evolve_on_the_way(tmp_path: Path) -> None:
    """The same rows, whether they change before they are canonical, as such, or after."""
    recorded = unpack("spark43-rocksdb-tws", tmp_path)
    note = {"name": "note", "type": "string", "nullable": True, "metadata": {}}
    families = {f.name: f for f in state_of(recorded).operators[0].stores[0].families}
    changes = {}
    for name in ("values", "count"):
        old = families[name].value
        new = FamilyChange(value={**old, "fields": [*old["fields"], note]})
        changes["default", name] = new
    each = {0: TargetState(changes=changes, ordinal=2)}
    rewrite(recorded, tmp_path / "straight", TargetState(), each=each)
    expected = rows_of(tmp_path / "straight")
    rewrite(recorded, tmp_path / "a", TO_AVRO, each=each)
    rewrite(tmp_path / "a", tmp_path / "a-back", TargetState(backend=ROCKSDB))
    assert rows_of(tmp_path / "a-back") == expected
    rewrite(recorded, tmp_path / "b", TO_AVRO)
    rewrite(tmp_path / "b", tmp_path / "b-back", TargetState(backend=ROCKSDB), each=each)
    assert rows_of(tmp_path / "b-back") == expected
    rewrite(tmp_path / "b", tmp_path / "c", TargetState(), each=each)
    rewrite(tmp_path / "c", tmp_path / "c-back", TargetState(backend=ROCKSDB))
    assert rows_of(tmp_path / "c-back") == expected


def test_what_cannot_be_is_refused(canonical: Path, tmp_path: Path) -> None:
    for target_state, reason in (
        (TargetState(backend=CANONICAL, unique_ids=True), "canonical state has no ids"),
        (TargetState(compression="lz4"), "does not support the codec 'lz4'"),
        (TargetState(backend="redis"), "hdfs, rocksdb or avro"),
    ):
        with pytest.raises(CannotMigrate, match=reason):
            rewrite(canonical, tmp_path / "new", target_state)
    assert not (tmp_path / "new").exists()


def trouble(source: Path, target: Path) -> StateFormatError:
    with pytest.raises(StateFormatError) as caught:
        rewrite(source, target, TargetState(backend=ROCKSDB, partitions=3))
    assert not [path for path in target.rglob("*") if path.is_file()]
    return caught.value


def test_damaged_files_are_named(canonical: Path, tmp_path: Path) -> None:
    pristine = tmp_path / "pristine"
    shutil.copytree(canonical, pristine)
    for path in sorted((canonical / "state" / "0" / "1").glob("*.avro")):
        data = path.read_bytes()
        half = len(data) // 2
        flipped = data[:-30] + bytes([data[-30] ^ 0x55]) + data[-29:]
        empty = data[: data.index(b"\0" + data[-16:]) + 17]  # the header: no block at all
        newer = data.replace(b"flinkish.format\x021", b"flinkish.format\x022")
        for content in (data[:half], data[:-5], flipped, b"not state", b"", empty, newer):
            path.write_bytes(content)
            error = trouble(canonical, tmp_path / "new")
            assert error.file == path.name
            assert isinstance(error, UnsupportedState) == (content is newer)
        path.unlink()
        assert isinstance(trouble(canonical, tmp_path / "new"), MissingStateFile)
        path.write_bytes(data)
    assert tree(canonical) == tree(pristine)


def test_files_of_other_places_are_refused(canonical: Path, tmp_path: Path) -> None:
    partition = canonical / "state" / "0" / "0"
    values, count = (partition / f"{name}.avro" for name in ("values", "count"))
    data = count.read_bytes()
    count.write_bytes(values.read_bytes())
    reason = trouble(canonical, tmp_path / "new").reason
    assert re.fullmatch(
        r"it is of store 'default', family 'values', version (\d+), "
        r"not of store 'default', family 'count', version \1",
        reason,
    )
    out = io.BytesIO()
    record = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    fastavro.writer(out, record, [{"a": 1}])
    count.write_bytes(out.getvalue())
    assert "not canonical state" in trouble(canonical, tmp_path / "new").reason
    count.write_bytes(data)
    path = partition / COUNTS
    text = path.read_text()
    for content, reason in (
        (text[:-9], "damaged counts"),
        ("[]", "damaged counts"),
        (text.replace('"format": "1"', '"format": "2"'), "use a newer release"),
        (text.replace('"version": ', '"version": 9'), "the state is of version 9"),
        (text.replace('"count.avro"', '"../count.avro"'), "outside of the store's directory"),
        (text.replace('"count.avro"', '"other.avro"'), "'count' is not in it"),
    ):
        path.write_text(content)
        error = trouble(canonical, tmp_path / "new")
        assert (error.file, reason in error.reason) in {(COUNTS, True), ("other.avro", False)}
    path.unlink()
    assert isinstance(trouble(canonical, tmp_path / "new"), MissingStateFile)
