"""The pure decisions of a restore."""

from __future__ import annotations

import pytest

from flinkish.connectors.sources import QueryKey
from flinkish.errors import Incompatible
from flinkish.messages.plan import (
    OperatorOrigin,
    OperatorRow,
    QueryRow,
    RestorePlan,
    SourceOrigin,
    SourceRow,
    StateVerdict,
)
from flinkish.registry.jobs import JobState
from flinkish.restore.origin.restore_inputs import NewQuery, SavedQueryFacts
from flinkish.restore.plan.decisions import QueryPlan, plan_query, recipe_for
from flinkish.restore.plan.non_restored_state import find_non_restored, taken_before
from flinkish.restore.plan.query_id import OtherRun, decide_query_id
from flinkish.restore.recipe import (
    EmptyState,
    FreshSource,
    OriginCheckpoint,
    Recipe,
    TakenSource,
    TakenState,
)
from tests.support.restore.query_builders import AGG, new, old, reads, saved_query, source, starting


def planned(
    new_query: NewQuery, *saved: SavedQueryFacts, started: tuple[QueryKey, ...] = ()
) -> QueryPlan:
    return plan_query(new_query, saved, started)


def verdicts(plan: QueryPlan) -> list[str]:
    return [operator.verdict.value for operator in plan.operators or ()]


def recipe(plan: QueryPlan, **batches: int) -> Recipe:
    origins: dict[str | None, OriginCheckpoint] = {
        key: OriginCheckpoint(f"/sp/{key}", (), batch) for key, batch in batches.items()
    }
    return recipe_for(plan, origins, {n: EmptyState(2) for n in range(5)})


@pytest.mark.parametrize(
    ("name", "keys", "started", "base"),
    [
        ("a", ["a", "b"], [], "a"),
        ("b", ["a", "b"], ["a"], "b"),
        ("new", ["a"], ["a"], "nothing"),
        ("new", ["a"], [], "nothing"),
        ("a", ["a"], ["a"], "nothing"),
        ("anything", [None], [], None),
        ("second", [None], [None], "nothing"),
    ],
)
def test_a_query_goes_on_with_the_logs_of_its_name(
    name: str, keys: list[str | None], started: list[str | None], base: str | None
) -> None:
    plan = plan_query(starting(name=name), [saved_query(key=k) for k in keys], started)
    assert (plan.base.key if plan.base else "nothing") == base
    assert plan.own is (base != "nothing")


def test_the_same_program_takes_all_as_it_is() -> None:
    saved = saved_query(old("x", 0), old("y", 1), sources=(source("a"),))
    plan = planned(starting(new("x", 0), new("y", 1), sources=(reads("a"),)), saved)
    assert verdicts(plan) == ["as-is", "as-is"]
    assert plan.unchanged
    assert not plan.notes
    assert recipe(plan, q=7) == Recipe((OriginCheckpoint("/sp/q", (), 7),))


def test_added_and_swapped_operators() -> None:
    plan = planned(
        starting(new("y", 0), new("fresh", 1), new("x", 2)), saved_query(old("x", 0), old("y", 1))
    )
    assert verdicts(plan) == ["renumbered", "new", "renumbered"]
    assert recipe(plan, q=7).states == {
        0: TakenState(0, 1),
        1: EmptyState(2),
        2: TakenState(0, 0),
    }
    assert any("'fresh'" in note and "starts empty" in note for note in plan.notes)


def test_a_removed_operator_is_left() -> None:
    saved = saved_query(old("x", 0), old("y", 1, AGG))
    plan = planned(starting(new("x", 0)), saved)
    assert not plan.unchanged
    assert recipe(plan, q=7).states == {0: TakenState(0, 0)}
    left = find_non_restored([saved], [plan])
    assert [op.uid for op in left.operators] == ["y"]
    error = left.error()
    assert error.code == 5
    for fact in ("uid 'y'", "stateStoreSave", "120 rows", "2.0 KiB", "query 'q'"):
        assert fact in error.message
    assert "-n" in error.hint
    assert "--uid-map" in error.hint


def test_merged_queries() -> None:
    one = saved_query(old("x", query="one"), key="one", sources=(source("a", query="one"),))
    two = saved_query(
        old("y", query="two"), key="two", batch=9, sources=(source("b", query="two"),)
    )
    both = starting(
        new("y", 0),
        new("x", 1),
        name="both",
        sources=(reads("b", 0, feeds=(0,)), reads("a", 1, feeds=(1,))),
    )
    plan = planned(both, one, two)
    assert verdicts(plan) == ["renumbered", "renumbered"]
    made = recipe(plan, one=7, two=9)
    assert made.batch_id == 9
    assert made.origins[0].root == "/sp/one"
    assert made.states == {0: TakenState(1, 0), 1: TakenState(0, 0)}
    assert made.sources == (TakenSource(1, 0, "0", "0"), TakenSource(0, 0, "0", "1"))
    assert not plan.own
    assert not find_non_restored([one, two], [plan])


def test_split_query() -> None:
    saved = saved_query(old("x", 0), old("y", 1), sources=(source("a", 0), source("b", 1)))
    left = planned(starting(new("x"), name="left", sources=(reads("a", feeds=(0,)),)), saved)
    assert [op.uid for op in find_non_restored([saved], [left]).operators] == ["y"]
    assert [s.signature for s in find_non_restored([saved], [left]).sources] == ["b"]
    right = planned(starting(new("y"), name="right", sources=(reads("b", feeds=(0,)),)), saved)
    assert not find_non_restored([saved], [left, right])


def test_queries_that_nothing_was_taken_of_are_left_as_a_whole() -> None:
    saved = [saved_query(key="a"), saved_query(old("x", query="b"), key="b")]
    plan = plan_query(starting(name="a"), saved, [])
    left = find_non_restored(saved, [plan])
    assert [query.key for query in left.queries] == ["b"]
    assert "'b'" in left.error().hint
    nothing = find_non_restored(saved, [])
    assert "query 'a' (batch 7, no state)" in nothing.error().message


TAKEN = OperatorRow("q", "x", origin=OperatorOrigin("q", 0))
DROPPED = OperatorRow("q", "y", verdict="dropped", origin=OperatorOrigin("q", 1))
READ = SourceRow("q", entry=0, origin=SourceOrigin("q", 0))
BEGUN = QueryRow("q", origin="q", from_batch=7)


@pytest.mark.parametrize(
    ("plans", "left"),
    [
        ({}, ["q", "b"]),
        ({"q": RestorePlan(queries=(BEGUN,), operators=(TAKEN,), sources=(READ,))}, ["y", "b"]),
        ({"q": RestorePlan(queries=(BEGUN,), operators=(TAKEN, DROPPED))}, ["y", "in", "b"]),
        (
            {"q": RestorePlan(operators=(TAKEN, DROPPED), sources=(READ,), complete=True)},
            ["b"],
        ),
        ({"q": RestorePlan(queries=(BEGUN,))}, ["b"]),  # its plan could not be read
        ({"q": None}, ["b"]),  # the program has started it once more
        ({"new": RestorePlan(queries=(QueryRow("new"),))}, ["q", "b"]),
    ],
)
def test_what_earlier_drivers_took_is_not_left(
    plans: dict[str, RestorePlan | None], left: list[str]
) -> None:
    saved = [saved_query(old("x"), old("y", 1, AGG), sources=(source("in"),)), saved_query(key="b")]
    found = find_non_restored(saved, [], taken_before(plans))
    parts = [op.uid for op in found.operators] + [s.signature for s in found.sources]
    assert parts + [query.key for query in found.queries] == left


def test_an_added_source_starts_afresh() -> None:
    saved = saved_query(sources=(source("a"),))
    plan = planned(starting(sources=(reads("b", 0), reads("a", 1))), saved)
    assert recipe(plan, q=7).sources == (FreshSource(), TakenSource(0, 0, "0", "1"))


def test_a_program_that_cannot_be_read_takes_only_state_without_ids() -> None:
    unread = NewQuery("q", None, None)
    plain = saved_query(old("", named=False, ids=False))
    plan = planned(unread, plain)
    assert plan.unchanged
    assert not find_non_restored([plain], [plan])
    with pytest.raises(Incompatible, match="cannot be read"):
        planned(unread, saved_query(old("x")))
    assert planned(NewQuery("other", None, None), plain).base is None


def test_verdicts_are_the_words_of_the_contract() -> None:
    assert {v.value for v in StateVerdict} >= {"as-is", "renumbered", "new"}


_F, _R = JobState.FINISHED, JobState.RUNNING


@pytest.mark.parametrize(
    ("batch", "runs", "fork", "keep", "word"),
    [
        (7, [], False, True, "ended"),
        (7, [OtherRun("a", _F, 7)], False, True, "ended"),
        (7, [OtherRun("a", _F, None)], False, True, "ended"),
        (7, [OtherRun("a", _F, 6)], False, True, "ended"),
        (7, [OtherRun("a", _F, 7)], True, False, "--fork"),
        (7, [OtherRun("a", _R, 7)], False, False, "RUNNING"),
        (7, [OtherRun("a", _F, 7), OtherRun("b", JobState.FAILED, 9)], False, False, "batch 9"),
        (7, [OtherRun("a", JobState.SUSPENDED, 7)], False, False, "SUSPENDED"),
    ],
)
def test_decide_query_id(
    batch: int, runs: list[OtherRun], fork: bool, keep: bool, word: str
) -> None:
    identity = decide_query_id(batch, runs, fork=fork)
    assert identity.keep is keep
    assert word in identity.reason


def test_a_query_that_cannot_be_read_has_no_part_in_the_reset_of_anothers_source() -> None:
    saved = (saved_query(key="p"), saved_query(key="q"))
    unread = NewQuery("q", None, None)
    assert plan_query(unread, saved, (), reset=["p/0"]).base is saved[1]
    for name in ("q/0", "0"):
        with pytest.raises(Incompatible, match="none of its sources can be reset"):
            plan_query(unread, saved, (), reset=["p/0", name])
