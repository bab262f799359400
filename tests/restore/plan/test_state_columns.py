"""Joins of state format 4 keep their rows by an event time, which has to stay the same column."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.messages.plan import StateVerdict
from flinkish.operators.state_semantics import WATERMARK_DELAY, Column, StateSemantics
from flinkish.restore.plan.schema_compatibility import JOIN, compare_states

STORES = ("left-keyWithTsToValues", "left-tsWithKey")


def left(*names: str, by: str = "") -> tuple[list[StoreInfo], StateSemantics]:
    """The left side of a join; the column ``by`` has the watermark."""

    def field(name: str) -> dict[str, object]:
        metadata = {WATERMARK_DELAY: 1000} if name == by else {}
        return {"name": name, "type": "timestamp", "nullable": True, "metadata": metadata}

    def struct(of: Sequence[str]) -> dict[str, object]:
        return {"type": "struct", "fields": [field(name) for name in of]}

    key = struct(["field0", "__event_time"])
    stores = [StoreInfo(name, key, struct(names)) for name in STORES[:1]]
    stores.append(StoreInfo(STORES[1], key, struct(["__dummy__"])))
    values = tuple(Column(name, name, "", True) for name in names)
    return stores, StateSemantics({"left": (Column("k", "k", "", True),)}, {"left": values})


SAME: list[str] = []
CHANGED = ["event-time-changed"]


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        (left("a", "b", by="a"), left("a", "b", by="a"), SAME),
        (left("a", "b", by="a"), left("b", "a", by="a"), ["columns-reordered"]),
        (left("a", "b", by="a"), left("a", "b", by="b"), CHANGED),
        # Kept by a number below 1024, the rows would be removed at the first watermark.
        (left("a", "b"), left("a", "b", by="b"), CHANGED),
        # Nothing is removed any more, and all that is kept is found.
        (left("a", "b", by="a"), left("a", "b"), SAME),
        (left("a", "b", by="a"), left("b"), ["column-removed"]),
        (left("a", "b", by="a"), left("b", by="b"), [*CHANGED, "column-removed"]),
    ],
)
def test_the_event_time_stays(
    before: tuple[list[StoreInfo], StateSemantics],
    after: tuple[list[StoreInfo], StateSemantics],
    reasons: list[str],
) -> None:
    def found(*, rows_by_time: bool) -> list[str]:
        (stores, meaning), (wanted, now) = before, after
        changes = compare_states(JOIN, stores, wanted, meaning, now, rows_by_time=rows_by_time)
        assert all(
            change.verdict is StateVerdict.INCOMPATIBLE and change.store == STORES[0]
            for change in changes
            if change.reason in CHANGED
        )
        return [change.reason for change in changes]

    assert found(rows_by_time=True) == reasons
    # In the other formats Spark reads the time from the row.
    assert found(rows_by_time=False) == [reason for reason in reasons if reason not in CHANGED]


def test_the_message_names_both_columns() -> None:
    stores, meaning = left("sent", "seen", by="sent")
    wanted, now = left("sent", "seen", by="seen")
    (change,) = compare_states(JOIN, stores, wanted, meaning, now, rows_by_time=True)
    assert change.text.startswith(
        "the join's left input: its event time was `sent` and is now `seen`; joins"
    )
