"""Rows that go to their new partitions without a shuffle: what Spark's shuffle gives, by digest."""

from __future__ import annotations

import errno
import math
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pytest

from flinkish.checkpoint.format.names import CANONICAL, HDFS, ROCKSDB
from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.engine.errors import LostRows, StateFormatError
from flinkish.engine.migration import direct_tasks
from flinkish.engine.migration.checkpoint_migration import Rewritten, rewrite_checkpoint
from flinkish.engine.migration.direct_tasks import SortedRun, write_sorted
from flinkish.engine.migration.migration_planner import TargetState, plan_operator
from flinkish.engine.migration.store_tasks import transformed
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.files import LocalDirectory
from flinkish.engine.stores.sst_files import SortedRows
from flinkish.engine.stores.store_rows import RowBlock
from tests.engine.migration.test_checkpoint_migration import all_rows, rows_of, shuffle_all
from tests.support.checkpoints.recorded import NAMES, fast_of, unpack
from tests.support.engine.inline_spark import InlineContext

IN_ROCKSDB = [name for name in NAMES if "hdfs" not in name]


@dataclass(frozen=True)
class FarDirectory(LocalDirectory):
    """A directory whose files have no local path, as on an object store."""

    def local_path(self, path: str) -> str | None:
        """See :class:`~flinkish.engine.stores.files.StateSource`."""
        return None


@dataclass(frozen=True)
class ListedDirectory(FarDirectory):
    """One that lists in a file what is created in it."""

    def create(self, path: str) -> BinaryIO:
        """See :class:`~flinkish.engine.stores.files.StateTarget`."""
        with open(f"{self.root}-created", "a") as file:
            file.write(f"{path}\n")
        return super().create(path)


def rescale(source: Path, target: Path, partitions: int, kind: type = LocalDirectory) -> Rewritten:
    state = TargetState(partitions=partitions)
    return rewrite_checkpoint(
        InlineContext(), LocalDirectory(str(source)), kind(str(target)), state
    )


@pytest.fixture
def shuffling(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Everything that moves is shuffled."""
    shuffle_all(monkeypatch)
    return monkeypatch


@pytest.mark.parametrize("name", fast_of(IN_ROCKSDB, ("spark43-rocksdb-tws",)))
@pytest.mark.parametrize(
    "kind", [LocalDirectory, pytest.param(FarDirectory, marks=pytest.mark.deep)]
)
def test_it_is_what_a_shuffle_gives(
    name: str, kind: type, tmp_path: Path, shuffling: pytest.MonkeyPatch
) -> None:
    recorded = unpack(name, tmp_path / "recorded")
    shuffled = [rescale(recorded, tmp_path / "shuffled", 7)]
    shuffled.append(rescale(tmp_path / "shuffled", tmp_path / "again", 3))
    shuffling.undo()
    direct = [rescale(recorded, tmp_path / "direct", 7, kind)]
    # Seven partitions into three: some tasks merge two of them.
    direct.append(rescale(tmp_path / "direct", tmp_path / "merged", 3, kind))
    for one, other in zip(shuffled, direct, strict=True):
        assert [op.digests for op in one.operators] == [op.digests for op in other.operators]
        assert [op.shuffle for op in other.operators] == [None] * len(other.operators)
    assert {op.shuffle for op in shuffled[0].operators} <= {"for comparison", None}
    assert rows_of(tmp_path / "direct") == rows_of(tmp_path / "shuffled")
    assert rows_of(tmp_path / "merged") == rows_of(tmp_path / "again")
    assert all_rows(tmp_path / "merged") == all_rows(recorded)


def test_sorted_files_of_one_task_stay_on_its_machine(tmp_path: Path) -> None:
    recorded = unpack("spark43-rocksdb-dedup", tmp_path / "recorded")
    before = set(Path(tempfile.gettempdir()).glob("runs-*"))
    rewrite_checkpoint(
        InlineContext(),
        LocalDirectory(str(recorded)),
        ListedDirectory(str(tmp_path / "new")),
        TargetState(),
    )
    assert rows_of(tmp_path / "new") == rows_of(recorded)
    created = (tmp_path / "new-created").read_text().splitlines()
    attempts = [Path(path) for path in created if path.startswith("_attempts-")]
    assert {path.parent.name for path in attempts if path.suffix == ".sst"} == {"SSTs"}
    assert set(Path(tempfile.gettempdir()).glob("runs-*")) == before


@pytest.mark.parametrize("kind", [LocalDirectory, FarDirectory])
def test_a_task_that_fails_leaves_no_files(
    kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The files of the binding fail; those of the native functions may be installed or not.
    monkeypatch.setattr(direct_tasks, "native_functions", lambda *_: None)
    recorded = unpack("spark43-rocksdb-dedup", tmp_path / "recorded")
    source, target = LocalDirectory(str(recorded)), kind(str(tmp_path / "new"))
    [operator] = read_checkpoint(source).operators
    move = plan_operator(source, operator, TargetState(partitions=4))
    task = (source, target, "_attempts", 0, move, move.stores[0], [0, 1])
    assert [item for item in write_sorted(*task) if isinstance(item, SortedRun)]
    there = sorted(path for path in (tmp_path / "new").rglob("*") if path.is_file())
    finish, finished = SortedRows.finish, []

    def fail(writer: SortedRows) -> None:
        finish(writer)
        if writer.files:
            finished.append(writer)
        if len(finished) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SortedRows, "finish", fail)
    with pytest.raises(OSError, match="No space left"):
        list(write_sorted(*task))
    assert sorted(path for path in (tmp_path / "new").rglob("*") if path.is_file()) == there


def test_errors_name_all_partitions_that_are_merged(tmp_path: Path) -> None:
    source = LocalDirectory(str(unpack("spark43-rocksdb-dedup", tmp_path)))
    [operator] = read_checkpoint(source).operators
    move = plan_operator(source, operator, TargetState(partitions=4))
    block = RowBlock("default", [b"\x00key"], [b"\x00value"], framed=True)
    for partitions, name in (((1,), "state/0/1/"), ((0, 2), "state/0/{0,2}/")):
        with pytest.raises(StateFormatError) as refused:
            list(transformed([block], move, move.stores[0], partitions))
        assert refused.value.file.startswith(name)


def test_rows_in_wrong_partitions_go_where_their_keys_belong(tmp_path: Path) -> None:
    recorded = unpack("spark43-rocksdb-dedup", tmp_path / "recorded")
    swapped = shutil.copytree(recorded, tmp_path / "swapped")
    for path, new in (("0", "x"), ("1", "0"), ("x", "1")):
        (swapped / "state/0" / path).rename(swapped / "state/0" / new)
    (swapped / "state/0/1/_metadata").rename(swapped / "state/0/0/_metadata")
    rescale(recorded, tmp_path / "right", 4)
    rescale(swapped, tmp_path / "healed", 4)
    assert rows_of(tmp_path / "healed") == rows_of(tmp_path / "right")


def test_a_key_in_two_partitions_is_refused(tmp_path: Path) -> None:
    recorded = unpack("spark43-rocksdb-dedup", tmp_path / "recorded")
    shutil.rmtree(recorded / "state/0/1")
    shutil.copytree(recorded / "state/0/0", recorded / "state/0/1")
    with pytest.raises(LostRows, match="a key repeats"):
        rescale(recorded, tmp_path / "new", 3)
    assert not [path for path in (tmp_path / "new").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "asked", "reason"),
    [
        ("spark43-rocksdb-dedup", TargetState(partitions=3), None),
        ("spark43-rocksdb-dedup", TargetState(), None),
        ("spark43-rocksdb-dedup", TargetState(backend=HDFS), None),
        ("spark43-rocksdb-dedup", TargetState(partitions=256), None),
        ("spark43-rocksdb-dedup", TargetState(partitions=3, backend=HDFS), "the new state is not"),
        ("spark43-rocksdb-dedup", TargetState(partitions=3, backend=CANONICAL), "the new state is"),
        ("spark43-hdfs-agg", TargetState(partitions=3, backend=ROCKSDB), "the old state is not"),
        ("spark43-hdfs-agg", TargetState(partitions=3), "neither the old nor the new state is"),
        ("spark43-rocksdb-dedup", TargetState(partitions=1001), "too many files would go from 2"),
        ("spark43-changelog-join3", TargetState(formats={PIN_JOIN_FORMAT: "2"}), "their store"),
    ],
)
def test_what_is_shuffled_and_why(
    name: str, asked: TargetState, reason: str | None, tmp_path: Path
) -> None:
    source = LocalDirectory(str(unpack(name, tmp_path)))
    [operator] = read_checkpoint(source).operators
    shuffle = plan_operator(source, operator, asked).shuffle
    assert (shuffle is None) if reason is None else (reason in (shuffle or ""))


@pytest.mark.parametrize(
    ("before", "after"), [(8, 12), (8, 16), (200, 64), (64, 1), (5, 7), (3, 3)]
)
@pytest.mark.parametrize("tasks", [1, 100])
def test_every_old_partition_is_read_once(
    before: int, after: int, tasks: int, tmp_path: Path
) -> None:
    """A few tasks write for one new partition, and each of theirs for its congruent ones only."""
    source = LocalDirectory(str(unpack("spark43-rocksdb-dedup", tmp_path)))
    [operator] = read_checkpoint(source).operators
    move = plan_operator(source, operator, TargetState(partitions=after))
    groups = replace(move, operator=replace(operator, partitions=before)).groups(tasks)
    assert sorted(p for group in groups for p in group) == list(range(before))
    divisor = math.gcd(before, after)
    feeding = [
        sum(any(old % divisor == new % divisor for old in group) for group in groups)
        for new in range(after)
    ]
    assert max(feeding) <= (4 if tasks > 1 else 1)
