"""What a restore says of parts that nothing takes, and of a query that the savepoint lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.messages.plan import QueryRow, RestoreOutcome
from flinkish.messages.requests import LeftOut
from flinkish.messages.restore_options import RestoreOptions
from flinkish.restore.plan.document import restore_plan
from flinkish.restore.plan.non_restored_state import LostOrigin, NonRestored, check_left_out
from tests.support.restore.query_builders import old, saved_query, source

PENDING = LeftOut("q", "it has committed no batch yet", pending=True)
ENDED = LeftOut("q", "it ended before it committed a batch")


@pytest.mark.parametrize(
    ("left_out", "complete", "agreed", "outcome"),
    [
        ([], True, False, None),
        ([PENDING], True, False, RestoreOutcome.CONSENT),
        ([PENDING], True, True, RestoreOutcome.NOTE),
        ([ENDED], True, False, RestoreOutcome.NOTE),
        ([LeftOut("other", "x", pending=True)], True, False, None),
        ([], False, False, RestoreOutcome.CONSENT),
        ([], False, True, RestoreOutcome.NOTE),
    ],
)
def test_outcome(
    left_out: list[LeftOut], complete: bool, agreed: bool, outcome: RestoreOutcome | None
) -> None:
    check = check_left_out("q", left_out, complete=complete, agreed=agreed)
    assert (check and check.outcome) == outcome
    if check is not None:
        assert "'q'" in check.text
        assert ("-n" in check.advice) == (outcome is RestoreOutcome.CONSENT)
        assert ("would start empty" in check.text) == (outcome is RestoreOutcome.CONSENT)


def test_the_reason_is_said() -> None:
    check = check_left_out("q", [PENDING], complete=True, agreed=False)
    assert check is not None
    assert PENDING.reason in check.text


def test_a_query_that_a_lost_origin_may_have_is_not_started_empty() -> None:
    lost = LostOrigin("j", "/sp", "it is damaged", names=("q",))
    refusal = lost.refusal("q")
    assert refusal is not None
    assert "because /sp can no longer be read: it is damaged" in refusal.message
    assert lost.refusal("other") is None


def test_the_refusal_speaks_of_one_part_or_of_several() -> None:
    one, two = saved_query(old("x"), key="a"), saved_query(old("y"), key="b")
    error = NonRestored(queries=(one,)).error()
    assert error.message.startswith("nothing in the program takes this part of the savepoint: uid")
    assert error.hint is not None
    assert error.hint.startswith("start a query named 'a' (.queryName)")
    error = NonRestored(queries=(one, two)).error()
    assert error.message.startswith("nothing in the program takes these parts of the savepoint: ")
    assert error.hint is not None
    assert error.hint.startswith("start queries named 'a', 'b' (.queryName)")
    error = NonRestored(operators=(old("x"), old("y"))).error()
    assert error.hint == (
        "name the operator that takes each state with --uid-map OLD=NEW; or "
        "use -n (--allowNonRestoredState) to drop them on purpose"
    )


STATELESS = saved_query(key="plain", sources=None)


@pytest.mark.parametrize(
    ("left", "dropped", "lost"),
    [
        (NonRestored((STATELESS,)), NonRestored(), "the position of query 'plain'"),
        (NonRestored((saved_query(key="a", sources=None),)), NonRestored(), ""),
        (NonRestored((saved_query(old("x")),)), NonRestored(), "uid 'x'"),
        (NonRestored((saved_query(old("x")),)), NonRestored(operators=(old("x"),)), ""),
        (NonRestored(operators=(old("x"), old("y", 1))), NonRestored((), (old("x"),)), "uid 'y'"),
        (NonRestored(sources=(source("file[a]"),)), NonRestored(), "file[a]"),
        (NonRestored(sources=(source("file[a]"),)), NonRestored((), (), (source("file[a]"),)), ""),
    ],
)
def test_what_is_left_beyond_what_a_plan_drops(
    left: NonRestored, dropped: NonRestored, lost: str
) -> None:
    plan = restore_plan([], dropped, RestoreOptions(allow_non_restored=True), frozenset())
    plan = replace(plan, queries=(QueryRow("plain", origin="plain", from_batch=7),))
    beyond = left.beyond(plan)
    assert bool(beyond) is bool(lost)
    assert lost in "; ".join(beyond.lines())
