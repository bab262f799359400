"""Which queries fail after a replayed batch: those of Kafka that have one, on Spark 4.1 alone."""

from __future__ import annotations

import pytest

from flinkish.messages.plan import RestoreOutcome
from flinkish.restore.plan.repeated_batches import check_replay
from flinkish.restore.recipe import FreshSource, OriginCheckpoint, Recipe, TakenSource
from tests.support.restore.query_builders import reads, starting

PLANNED = OriginCheckpoint("/c", ("offsets/3", "offsets/4"), 3)
COMMITTED = OriginCheckpoint("/c", ("offsets/3",), 3)
KAFKA, FILES = reads("kafka[subscribe=a]", 0, uid="in"), reads("file[in]", 1)
TAKEN = TakenSource(0, 0, "0", "0"), TakenSource(0, 1, "1", "1")
MOVED = TakenSource(0, 0, "0", "0", '{"a":{"0":1}}')


@pytest.mark.parametrize(
    ("recipe", "spark", "warns"),
    [
        (Recipe((PLANNED,)), "4.1.4", True),
        (Recipe((PLANNED,)), "4.0.5", False),
        (Recipe((PLANNED,)), "4.2.0", False),
        (Recipe((PLANNED,)), "", False),
        (Recipe((COMMITTED,)), "4.1.4", False),
        (Recipe((PLANNED,), sources=TAKEN), "4.1.4", True),
        (Recipe((PLANNED,), sources=(MOVED, TAKEN[1])), "4.1.4", False),
        (Recipe((PLANNED,), sources=(FreshSource(), TAKEN[1])), "4.1.4", False),
    ],
)
def test_who_is_warned(recipe: Recipe, spark: str, warns: bool) -> None:
    found = check_replay(starting(sources=(KAFKA, FILES)), recipe, spark)
    assert (found is not None) is warns
    if found is not None:
        assert (found.id, found.outcome) == ("kafka-replay-fails", RestoreOutcome.WARNING)
        assert "source 'in' replays a planned batch" in found.text
        assert f"the Kafka connector of Spark {spark} may fail" in found.text


def test_other_sources_do_not_fail() -> None:
    assert check_replay(starting(sources=(FILES,)), Recipe((PLANNED,)), "4.1.4") is None
