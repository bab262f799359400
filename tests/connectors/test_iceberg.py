"""What an Iceberg source meets that continues from a saved position."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from flinkish.connectors.iceberg import (
    IcebergAnswer,
    IcebergPosition,
    Written,
    parse_iceberg_position,
)
from flinkish.connectors.sources import Consent, Finding
from flinkish.messages.plan import RestoreOutcome

#: As Iceberg 1.10.1 and 1.11.0 write it.
OFFSET = '{"version":1,"snapshot_id":8386126518303314735,"position":2,"scan_all_files":false}'
START = '{"version":1,"snapshot_id":-1,"position":-1,"scan_all_files":false}'
CONSENT = Consent("--reset-source in")
AT = IcebergPosition(8386126518303314735, 2)
#: A table that has the snapshot of the position, and nothing after it.
FINE = IcebergAnswer(AT, {}, has_snapshots=True, there=True, ancestor=True, before=5)


def met(answer: IcebergAnswer, offset: str = OFFSET, consent: Consent = CONSENT) -> list[Finding]:
    return list(answer.judge(offset, consent))


def outcome(answer: IcebergAnswer, *, lost_rows: bool = False) -> tuple[str, RestoreOutcome]:
    offset = START if answer.position.snapshot is None else OFFSET
    (finding,) = met(answer, offset, replace(CONSENT, lost_rows=lost_rows))
    return finding.reason, finding.outcome


def test_a_position_is_parsed() -> None:
    assert parse_iceberg_position(OFFSET) == AT
    assert parse_iceberg_position(START) == IcebergPosition(None, 0)
    changed = json.loads(OFFSET)
    for name, value in (("version", 2), ("snapshot_id", "7"), ("position", True)):
        assert parse_iceberg_position(json.dumps({**changed, name: value})) is None
    delta = '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":3,"index":-1}'
    for text in ("-", "[]", "{}", '{"a":{"0":5}}', delta, "[" * 100_000):
        assert parse_iceberg_position(text) is None


def test_a_table_that_has_the_snapshot_goes_on() -> None:
    assert met(FINE) == []
    since = (Written(2, "append", 3), Written(3, "replace", 9), Written(4, "append", 1_000))
    (lag,) = met(replace(FINE, since=since))
    assert (lag.reason, lag.outcome) == ("table-lag", RestoreOutcome.NOTE)
    assert lag.text == "unread rows: 1,003 in 2 snapshots"


def test_another_position_is_not_judged() -> None:
    assert met(replace(FINE, there=False), START) == []


@pytest.mark.parametrize("whole", [False, True])
def test_a_snapshot_that_is_gone_needs_a_new_start(whole: bool) -> None:
    answer = replace(FINE, there=False, ancestor=False, whole=whole)
    assert outcome(answer) == ("snapshot-gone", RestoreOutcome.CONSENT)
    assert outcome(answer, lost_rows=True)[1] is RestoreOutcome.CONSENT, "it fails all the same"
    (finding,) = met(answer)
    assert ("has expired" in finding.text) is not whole
    assert CONSENT.reset in finding.advice
    assert "stream-from-timestamp" in finding.advice


def test_a_snapshot_off_the_way_to_the_current_one() -> None:
    answer = replace(FINE, ancestor=False)
    assert outcome(answer) == ("snapshot-not-current", RestoreOutcome.CONSENT)
    assert "rolled back to an earlier snapshot" in met(answer)[0].text


def test_a_table_made_again_without_rows_loses_them_silently() -> None:
    answer = IcebergAnswer(AT, {})
    assert outcome(answer) == ("table-recreated", RestoreOutcome.CONSENT)
    assert "--accept-lost-rows" in met(answer)[0].advice
    assert outcome(answer, lost_rows=True) == ("table-recreated", RestoreOutcome.WARNING)


def test_a_position_before_all_snapshots() -> None:
    nothing = IcebergPosition(None, 0)
    assert met(IcebergAnswer(nothing, {}), START) == []
    first = Written(1, "append", 4)
    fresh = IcebergAnswer(nothing, {}, has_snapshots=True, since=(first,))
    assert [each.reason for each in met(fresh, START)] == ["table-lag"]
    expired = replace(fresh, whole=False)
    assert outcome(expired) == ("snapshots-expired", RestoreOutcome.CONSENT)
    (agreed, lag) = met(expired, START, replace(CONSENT, lost_rows=True))
    assert (agreed.outcome, lag.reason) == (RestoreOutcome.WARNING, "table-lag")


@pytest.mark.parametrize("operation", ["delete", "overwrite"])
def test_rows_removed_or_replaced_since(operation: str) -> None:
    since = (Written(2, operation, 3), Written(3, "append", 1))
    answer = replace(FINE, since=since)
    refused = met(answer)[0]
    assert (refused.reason, refused.outcome) == (f"table-{operation}", RestoreOutcome.REFUSED)
    assert refused.advice.endswith(f"streaming-skip-{operation}-snapshots=true")
    other = {"delete": "overwrite", "overwrite": "delete"}[operation]
    given = {f"streaming-skip-{other}-snapshots": "true"}
    assert met(replace(answer, options=given))[0].outcome is RestoreOutcome.REFUSED
    given = {f"Streaming-Skip-{operation}-Snapshots": "TRUE"}
    passed, lag = met(replace(answer, options=given))
    assert (passed.outcome, passed.rows) == (RestoreOutcome.WARNING, 3)
    assert "which added 3 rows" in passed.text
    assert lag.reason == "table-lag"


def test_many_snapshots_are_named_in_short() -> None:
    since = tuple(Written(number, "delete", None) for number in range(1, 6))
    (refused,) = met(replace(FINE, since=since))
    assert "snapshots 1, 2, 3 and 2 more of operation delete" in refused.text


def cost(answer: IcebergAnswer) -> str:
    (found,) = answer.judge_reset("")
    return found.text


def test_what_a_new_start_costs() -> None:
    begins = "it starts at the oldest snapshot that the table has"
    assert cost(FINE) == f"{begins}: 5 rows are read again"
    expired = replace(FINE, whole=False, before=1)
    assert cost(expired) == (
        f"{begins}: 1 row is read again, and rows added by expired snapshots are not read"
    )
    timed = replace(FINE, options={"stream-from-timestamp": "1700000000000"})
    assert cost(timed) == "it starts at stream-from-timestamp"
