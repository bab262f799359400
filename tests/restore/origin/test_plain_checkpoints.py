from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.checkpoint.cut import read_cut
from flinkish.errors import SavepointNotFound, UsageError
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.origin.restore_origin import adopt_cuts
from flinkish.restore.recipe import OriginCheckpoint, Recipe
from tests.support.checkpoints.handwritten import CheckpointLikeness


def test_a_checkpoint_as_it_is(tmp_path: Path) -> None:
    cut = read_cut(str(CheckpointLikeness(tmp_path / "c").run_to(3).root))
    origin = OriginCheckpoint(cut.root, tuple(cut.files), cut.batch_id)
    make_checkpoint(Recipe((origin,), query_id="another"), f"file:{tmp_path}/fork")
    again = read_cut(str(tmp_path / "fork"))
    assert (again.query_id, again.files) == ("another", cut.files)


def test_adopting(tmp_path: Path) -> None:
    one = CheckpointLikeness(tmp_path / "all" / "one").run_to(1)
    CheckpointLikeness(tmp_path / "all" / "two").run_to(2)
    (tmp_path / "all" / "other").mkdir()
    assert {k: c.batch_id for k, c in adopt_cuts(str(one.root)).items()} == {None: 1}
    found = adopt_cuts(f"file://{tmp_path}/all")
    assert {k: c.batch_id for k, c in found.items()} == {"one": 1, "two": 2}
    for path in ("all/other", "missing", "all/one/offsets"):
        with pytest.raises(SavepointNotFound, match="neither a savepoint nor a Spark checkpoint"):
            adopt_cuts(str(tmp_path / path))
    (tmp_path / "sps" / "savepoint-1").mkdir(parents=True)
    with pytest.raises(
        SavepointNotFound, match="is not a savepoint, but a directory of savepoints"
    ):
        adopt_cuts(str(tmp_path / "sps"))


def test_the_flows_of_a_pipeline(tmp_path: Path) -> None:
    """The newest checkpoint of each flow, from the storage or the directory of the checkpoints."""
    root = tmp_path / "storage" / "_checkpoints"
    table = root / "spark_catalog" / "default" / "counts"
    CheckpointLikeness(table / "counts" / "0").run_to(1)
    CheckpointLikeness(table / "counts" / "10").run_to(2)
    (table / "counts" / "11").mkdir()  # a full refresh that has not begun
    CheckpointLikeness(table / "backfill" / "9").run_to(3)
    CheckpointLikeness(root / "alerts" / "to_kafka" / "0").run_to(4)
    expected = {
        "spark_catalog.default.counts": 2,
        "spark_catalog.default.backfill": 3,
        "to_kafka": 4,
    }
    for path in (root, root.parent):
        assert {k: c.batch_id for k, c in adopt_cuts(str(path)).items()} == expected
    one = {"spark_catalog.default.counts": 2}
    for path in (table / "counts", table / "counts" / "10"):
        assert {k: c.batch_id for k, c in adopt_cuts(str(path)).items()} == one


def test_none_of_two_checkpoints_of_one_flow_is_chosen(tmp_path: Path) -> None:
    """A flow that was moved to another table: its old checkpoint stays beside the new one."""
    schema = tmp_path / "_checkpoints/spark_catalog/default"
    old, new = (
        CheckpointLikeness(schema / table / "flow/0").run_to(batch).root
        for table, batch in (("t1", 1), ("t2", 3))
    )
    with pytest.raises(UsageError, match=f"flow spark_catalog.default.flow: {old} and {new}"):
        adopt_cuts(str(tmp_path))
    assert [cut.batch_id for cut in adopt_cuts(str(new)).values()] == [3]
