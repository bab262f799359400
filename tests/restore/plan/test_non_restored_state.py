"""What a restore says of a query that the savepoint leaves out."""

from __future__ import annotations

import pytest

from flinkish.messages.plan import RestoreOutcome
from flinkish.messages.requests import LeftOut
from flinkish.restore.plan.non_restored_state import LostOrigin, check_left_out

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
