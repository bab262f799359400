"""What a Delta source meets that continues from a saved position."""

from __future__ import annotations

import json

import pytest

from flinkish.connectors.base import with_answer
from flinkish.connectors.delta import (
    DeltaAnswer,
    DeltaPosition,
    parse_delta_position,
)
from flinkish.connectors.source_plan import SourcePlan
from flinkish.connectors.sources import Consent, Finding, NewSource, SavedSource
from flinkish.messages.plan import RestoreOutcome
from flinkish.messages.restore_options import RestoreOptions

#: As Delta 3.3.2 and 4.0.1 write it.
OFFSET = (
    '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":3,"index":-1,'
    '"isStartingVersion":false}'
)
CONSENT = Consent("--reset-source in")


def met(answer: DeltaAnswer, offset: str = OFFSET) -> list[Finding]:
    return list(answer.judge(offset, CONSENT))


def test_a_position_is_parsed() -> None:
    assert parse_delta_position(OFFSET) == DeltaPosition("t", 3, -1)
    changed = json.loads(OFFSET)
    for name, value in (("reservoirId", 1), ("reservoirVersion", "3"), ("index", True)):
        assert parse_delta_position(json.dumps({**changed, name: value})) is None
    for text in ("-", "[]", '{"a":{"0":5}}', "[" * 100_000):
        assert parse_delta_position(text) is None


def test_a_table_that_has_what_is_next_goes_on() -> None:
    assert met(DeltaAnswer("t", 0, 2)) == []
    (lag,) = met(DeltaAnswer("t", 0, 7, dict.fromkeys(range(8), "WRITE")))
    assert (lag.reason, lag.outcome) == ("table-lag", RestoreOutcome.NOTE)
    assert lag.text == "unread versions: 5"


@pytest.mark.parametrize(
    ("answer", "reason", "outcome"),
    [
        (DeltaAnswer(None), "table-missing", RestoreOutcome.REFUSED),
        (DeltaAnswer("u", 0, 9), "table-made-again", RestoreOutcome.CONSENT),
        (DeltaAnswer("t", 4, 9), "versions-gone", RestoreOutcome.CONSENT),
        (DeltaAnswer("t", 0, 1), "table-behind", RestoreOutcome.CONSENT),
    ],
)
def test_what_the_query_would_fail_of(
    answer: DeltaAnswer, reason: str, outcome: RestoreOutcome
) -> None:
    (found,) = met(answer)
    assert (found.reason, found.outcome) == (reason, outcome)
    assert "--reset-source in" in found.advice


def test_rows_that_were_changed_after_the_position() -> None:
    changes = {2: "UPDATE", 3: "DELETE", 4: "WRITE", 5: "RESTORE"}
    found = {each.reason: each for each in met(DeltaAnswer("t", 0, 5, changes))}
    assert set(found) == {"table-lag", "rows-changed"}
    assert "3 (DELETE), 5 (RESTORE)" in found["rows-changed"].text
    assert found["rows-changed"].outcome is RestoreOutcome.WARNING
    passed = DeltaAnswer("t", 0, 5, changes, {"skipchangecommits": "true"})
    assert [each.reason for each in met(passed)] == ["table-lag"]


def test_ignore_deletes_does_not_hide_commits_that_also_add_files() -> None:
    changes = {3: "DELETE", 4: "UPDATE", 5: "MERGE"}
    options = {"ignoredeletes": "true"}
    _, found = met(DeltaAnswer("t", 0, 5, changes, options))
    assert found.reason == "rows-changed"
    assert "4 (UPDATE), 5 (MERGE): the query may fail" in found.text
    assert "DELETE" not in found.text
    removed = DeltaAnswer("t", 0, 3, {3: "DELETE"}, options)
    assert [each.reason for each in met(removed)] == ["table-lag"]


def test_the_commit_of_a_version_that_is_read_as_a_snapshot_does_not_count() -> None:
    answer = DeltaAnswer("t", 0, 3, {3: "MERGE"})
    snapshot = OFFSET.replace("false", "true").replace("-1", "2")
    assert parse_delta_position(snapshot) == DeltaPosition("t", 3, 2, in_snapshot=True)
    assert [each.reason for each in met(answer, snapshot)] == ["table-lag"]
    assert [each.reason for each in met(answer)] == ["table-lag", "rows-changed"]
    schema = DeltaAnswer("t", 0, 3, {3: "ADD COLUMNS"})
    assert [each.reason for each in met(schema, snapshot)] == ["table-lag"]


def test_a_schema_that_changed_after_the_position() -> None:
    changes = {2: "DROP COLUMNS", 4: "ADD COLUMNS"}
    found = {each.reason: each for each in met(DeltaAnswer("t", 0, 4, changes))}
    assert "in version 4 (ADD COLUMNS)" in found["schema-changed"].text
    before = DeltaAnswer("t", 0, 4, {2: "ADD COLUMNS"})
    assert [each.reason for each in met(before)] == ["table-lag"]


def test_another_form_of_position_says_nothing() -> None:
    assert met(DeltaAnswer("t", 9, 9), '{"a":{"0":5}}') == []


@pytest.mark.parametrize(
    ("answer", "lost"),
    [
        (DeltaAnswer("t", 0, 7), 0),
        (DeltaAnswer("t", 0, 7, {4: "DELETE", 5: "ADD COLUMNS"}), 0),
        (DeltaAnswer("t", 0, 1), None),
    ],
)
def test_how_many_rows_are_lost(answer: DeltaAnswer, lost: int | None) -> None:
    source = NewSource(0, "0", "delta[/t]", (), uid="in")
    saved = SavedSource(None, 0, "0", OFFSET, signature="delta[/t]")
    row = SourcePlan(source, saved, "as-is", "same-source", "")
    judged = with_answer(row, answer, RestoreOptions(accept_lost_rows=True))
    assert (judged.verdict, judged.lost_rows) == ("as-is", lost)
