"""State rewritten from recorded checkpoints of real Spark runs: rows, their places, errors."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.checkpoint.format.names import HDFS, ROCKSDB
from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.engine.errors import CannotMigrate, StateFormatError
from flinkish.engine.migration.checkpoint_migration import Rewritten, rewrite_checkpoint
from flinkish.engine.migration.migration_plan import OperatorMigration
from flinkish.engine.migration.migration_planner import FamilyChange, TargetState, plan_operator
from flinkish.engine.migration.row_transforms import BlockTransform
from flinkish.engine.rows.encodings import normal_value
from flinkish.engine.stores.checkpoints import CheckpointState, read_checkpoint, store_files
from flinkish.engine.stores.files import LocalDirectory
from flinkish.engine.stores.partitioning import has_one_partition
from flinkish.engine.stores.store_rows import read_store
from tests.support.checkpoints.recorded import NAMES, fast_of, unpack
from tests.support.engine.inline_spark import InlineContext

#: (operator, store or family, key, value)
Row = tuple[int, str, bytes, bytes]
WITH_FAMILIES = [name for name in NAMES if "tws" in name or "join3" in name]
SWITCHED = [name for name in NAMES if name not in WITH_FAMILIES]


@pytest.fixture(params=fast_of(NAMES))
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpack(request.param, tmp_path / "recorded")


def rewrite(source: Path, target: Path, target_state: TargetState, **more: object) -> Rewritten:
    return rewrite_checkpoint(
        InlineContext(),
        LocalDirectory(str(source)),
        LocalDirectory(str(target)),
        target_state,
        **more,  # type: ignore[arg-type]
    )


def state_of(checkpoint: Path) -> CheckpointState:
    return read_checkpoint(LocalDirectory(str(checkpoint)))


def rows_of(checkpoint: Path) -> dict[int, list[Row]]:
    """The rows by their partitions; lists as they are written."""
    found: dict[int, list[Row]] = {}
    source = LocalDirectory(str(checkpoint))
    for operator in state_of(checkpoint).operators:
        for partition in range(operator.partitions):
            for store in operator.stores:
                for block in read_store(store_files(source, operator, partition, store)):
                    name = block.family if block.family != "default" else store.name
                    for key, value in zip(block.keys, block.values, strict=True):
                        written = normal_value(value) if block.framed else value
                        row = (operator.ordinal, name, key, written)
                        found.setdefault(partition, []).append(row)
    return {partition: sorted(rows) for partition, rows in found.items()}


def all_rows(checkpoint: Path) -> list[Row]:
    return sorted(row for rows in rows_of(checkpoint).values() for row in rows)


def shuffle_all(patch: pytest.MonkeyPatch) -> None:
    """Let all rows that change their partition go through a shuffle."""
    reason = property(lambda move: "for comparison" if move.moved else None)
    patch.setattr(OperatorMigration, "shuffle", reason)


def tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_spark_has_put_every_row_where_we_would(recorded: Path) -> None:
    source = LocalDirectory(str(recorded))
    seen = 0
    for operator in state_of(recorded).operators:
        move = plan_operator(source, operator, TargetState())
        for store, store_move in zip(operator.stores, move.stores, strict=True):
            for partition in range(operator.partitions):
                for block in read_store(store_files(source, operator, partition, store)):
                    _, family = store_move.by_family[block.family]
                    moved = BlockTransform(family, operator.partitions, "here")(block)
                    assert set(moved.partitions.tolist()) == {partition}
                    seen += len(moved.keys)
    assert seen


@pytest.mark.parametrize("shuffled", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_rescaled_and_back_is_what_it_was(
    recorded: Path, tmp_path: Path, shuffled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shuffled:
        shuffle_all(monkeypatch)
    before = tree(recorded)
    count = state_of(recorded).operators[0].partitions
    current = recorded
    for number, partitions in enumerate((5, 1, count)):
        target = tmp_path / str(number)
        result = rewrite(current, target, TargetState(partitions=partitions))
        for operator in state_of(target).operators:
            expected = 1 if has_one_partition(operator) else partitions
            assert operator.partitions == expected
        assert all_rows(target) == all_rows(recorded)
        assert sum(op.digest.rows for op in result.operators) == len(all_rows(recorded))
        current = target
    assert rows_of(current) == rows_of(recorded)
    assert tree(recorded) == before


@pytest.mark.parametrize("name", fast_of(SWITCHED))
def test_the_other_backend_and_back(name: str, tmp_path: Path) -> None:
    recorded = unpack(name, tmp_path / "recorded")
    state = state_of(recorded)
    here = state.operators[0].backend
    other = HDFS if here == ROCKSDB else ROCKSDB
    ids = bool(state.operators[0].unique_ids)
    rewrite(recorded, tmp_path / "other", TargetState(backend=other, unique_ids=False))
    moved = state_of(tmp_path / "other").operators[0]
    assert (moved.backend, moved.unique_ids) == (other, None)
    rewrite(tmp_path / "other", tmp_path / "back", TargetState(backend=here, unique_ids=ids))
    assert rows_of(tmp_path / "back") == rows_of(recorded)
    assert bool(state_of(tmp_path / "back").operators[0].unique_ids) == ids


@pytest.mark.parametrize("name", WITH_FAMILIES)
def test_column_families_need_rocksdb(name: str, tmp_path: Path) -> None:
    recorded = unpack(name, tmp_path / "recorded")
    with pytest.raises(CannotMigrate, match="column families, which only RocksDB has"):
        rewrite(recorded, tmp_path / "new", TargetState(backend=HDFS))
    assert not (tmp_path / "new").exists()


def test_joins_change_their_format_and_back(tmp_path: Path) -> None:
    recorded = unpack("spark43-changelog-join3", tmp_path / "recorded")
    rewrite(recorded, tmp_path / "two", TargetState(formats={PIN_JOIN_FORMAT: "2"}))
    [operator] = state_of(tmp_path / "two").operators
    assert [store.name for store in operator.stores] == [
        *("left-keyToNumValues", "left-keyWithIndexToValue"),
        *("right-keyToNumValues", "right-keyWithIndexToValue"),
    ]
    assert operator.metadata is not None
    assert operator.metadata.version == 1
    assert operator.pins[PIN_JOIN_FORMAT] == "2"
    rewrite(tmp_path / "two", tmp_path / "three", TargetState(formats={PIN_JOIN_FORMAT: "3"}))
    assert rows_of(tmp_path / "three") == rows_of(recorded)
    [again] = state_of(tmp_path / "three").operators
    assert again.metadata is not None
    assert again.metadata.version == 2


def test_an_older_batch_is_continued_by_the_next_with_the_same_data(tmp_path: Path) -> None:
    recorded = unpack("spark43-hdfs-agg", tmp_path / "recorded")
    rewrite(recorded, tmp_path / "new", TargetState(), batch=3)
    logs = {
        str(path.relative_to(tmp_path / "new"))
        for name in ("offsets", "commits", "sources")
        for path in (tmp_path / "new" / name).rglob("*")
        if path.is_file()
    }
    # Batch 4 was planned up to position 4 of the source: later files are not read yet.
    assert '{"logOffset":4}' in (tmp_path / "new" / "offsets" / "4").read_text()
    assert logs == {
        *("offsets/3", "offsets/4", "commits/3"),
        *("sources/0/2.compact", "sources/0/3", "sources/0/4"),
    }


def test_the_directories_of_a_source_are_copied_with_their_files(tmp_path: Path) -> None:
    recorded = unpack("spark43-hdfs-agg", tmp_path / "recorded")
    shutil.rmtree(recorded / "sources" / "0")
    own = recorded / "sources" / "0" / "offsets"  # as Iceberg has it
    own.mkdir(parents=True)
    (own / "0").write_text('{"version":1,"snapshot_id":5,"position":0,"scan_all_files":false}')
    (own / ".0.crc").write_bytes(b"crc")
    for entry in (recorded / "offsets").glob("[0-9]*"):
        entry.write_text(re.sub('{"logOffset":.*}', '{"snapshot_id":5}', entry.read_text()))
    rewrite(recorded, tmp_path / "new", TargetState(partitions=3))
    assert tree(tmp_path / "new" / "sources") == {
        "0/offsets/0": hashlib.sha256((own / "0").read_bytes()).hexdigest()
    }


def test_an_older_batch_without_its_sources_entries_is_refused(tmp_path: Path) -> None:
    recorded = unpack("spark43-hdfs-agg", tmp_path / "recorded")
    log = recorded / "sources" / "0"
    for name in ("2.compact", "3", "4"):  # Spark removes old entries that it has compacted
        (log / name).unlink()
    assert (log / "5.compact").exists()
    with pytest.raises(CannotMigrate, match=r"source 0 no longer has .* up to 4, .* a newer batch"):
        rewrite(recorded, tmp_path / "new", TargetState(), batch=3)
    assert not (tmp_path / "new").exists()


def test_settings_of_single_operators_are_not_ignored(tmp_path: Path) -> None:
    recorded = unpack("spark43-rocksdb-dedup", tmp_path / "recorded")
    for each, why in (
        ({9: TargetState(ordinal=1)}, "there is no operator 9"),
        ({0: TargetState(partitions=7)}, "the operator 0 can have an ordinal, changes and a name"),
    ):
        with pytest.raises(CannotMigrate, match=why):
            rewrite(recorded, tmp_path / "new", TargetState(), each=each)
    assert not (tmp_path / "new").exists()


def test_an_operator_gets_another_number(tmp_path: Path) -> None:
    recorded = unpack("spark43-rocksdb-dedup", tmp_path / "recorded")
    rewrite(recorded, tmp_path / "new", TargetState(), each={0: TargetState(ordinal=3)})
    [operator] = state_of(tmp_path / "new").operators
    assert operator.ordinal == 3
    assert operator.metadata is not None
    assert operator.metadata.operator_id == 3
    assert [row[1:] for row in all_rows(tmp_path / "new")] == [
        row[1:] for row in all_rows(recorded)
    ]


def test_values_evolve_and_keys_do_not(tmp_path: Path) -> None:
    recorded = unpack("spark43-rocksdb-tws", tmp_path / "recorded")
    [operator] = state_of(recorded).operators
    [store] = operator.stores
    values = next(f for f in store.families if f.name == "values")
    note = {"name": "note", "type": "string", "nullable": True, "metadata": {}}
    value = {**values.value, "fields": [*values.value["fields"], note]}
    changes = {("default", "values"): FamilyChange(value=value)}
    rewrite(recorded, tmp_path / "new", TargetState(), each={0: TargetState(changes=changes)})
    [changed] = state_of(tmp_path / "new").operators
    families = {f.name: f for f in changed.stores[0].families}
    assert families["values"].value == value
    # A list row had a word of nulls and a long: now a word more each, for the string's place.
    before = [row for row in all_rows(recorded) if row[1] == "values"]
    after = [row for row in all_rows(tmp_path / "new") if row[1] == "values"]
    assert [row[2] for row in after] == [row[2] for row in before]
    for old, new in zip(before, after, strict=True):
        assert len(new[3]) == len(old[3]) // 21 * 29
    other = {**values.key, "fields": [{**values.key["fields"][0], "type": "long"}]}
    with pytest.raises(CannotMigrate, match="'k' of the key"):
        plan_operator(
            LocalDirectory(str(recorded)),
            operator,
            TargetState(changes={("default", "values"): FamilyChange(key=other)}),
        )


def damaged(root: Path) -> Iterator[Path]:
    """Files that hold rows, one of each kind."""
    kinds: dict[str, Path] = {}
    for path in sorted((root / "state").rglob("*")):
        if path.suffix in {".delta", ".snapshot", ".zip", ".changelog", ".sst"}:
            kinds[path.suffix] = path
    yield from kinds.values()


@pytest.mark.parametrize("how", ["truncated", "flipped", "foreign"])
@pytest.mark.parametrize(
    "way", ["moved", *(pytest.param(w, marks=pytest.mark.deep) for w in ("in place", "shuffled"))]
)
def test_damage_is_named_and_nothing_is_left(
    recorded: Path, tmp_path: Path, how: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "shuffled":
        shuffle_all(monkeypatch)
    target_state = TargetState(partitions=None if way == "in place" else 5)
    found = 0
    for number, path in enumerate(damaged(recorded)):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(recorded, copy)
        victim = copy / path.relative_to(recorded)
        data = victim.read_bytes()
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :]
        victim.write_bytes(
            {"truncated": data[:middle], "flipped": flipped, "foreign": b"not state"}[how]
        )
        target = tmp_path / f"new-{number}"
        error = _trouble(copy, target, target_state)
        if error is not None:
            assert error.file
            assert not [p for p in target.rglob("*") if p.is_file()]
            found += 1
        else:  # the file is older than the version, or the flip is in what nobody reads
            assert all_rows(target) == all_rows(recorded)
        shutil.rmtree(copy)
        shutil.rmtree(target, ignore_errors=True)
    assert found or how == "flipped"


def _trouble(source: Path, target: Path, target_state: TargetState) -> StateFormatError | None:
    try:
        rewrite(source, target, target_state)
    except StateFormatError as error:
        return error
    return None


def test_a_missing_partition_is_named(tmp_path: Path) -> None:
    recorded = unpack("spark43-rocksdb-dedup", tmp_path / "recorded")
    shutil.rmtree(recorded / "state" / "0" / "0")
    with pytest.raises(StateFormatError, match="state/0/0: the state partition is missing"):
        state_of(recorded)
    assert os.listdir(recorded)


def test_a_missing_file_of_format_2_is_named_with_its_id(tmp_path: Path) -> None:
    recorded = unpack("spark43-ids-zip-dedup", tmp_path / "recorded")
    [operator] = state_of(recorded).operators
    assert operator.unique_ids is not None
    name = f"{operator.version}_{operator.unique_ids[1][0]}"
    (recorded / "state" / "0" / "1" / f"{name}.zip").unlink()
    with pytest.raises(StateFormatError, match=f"{name}.changelog: version"):
        rewrite(recorded, tmp_path / "new", TargetState(partitions=3))
