"""Compare the event times by which joins of state format 4 keep the rows that wait. Pure.

Source: ``SymmetricHashJoinStateManagerV4``. Spark removes rows by the time that they are kept by,
and where a join key is the event time it finds them by it. A join key with a watermark is a column
of the rows too, so that their schema tells. Without an event time a row is kept by a number below
1024, which every watermark is above.
"""

from __future__ import annotations

from collections.abc import Iterator

from flinkish.checkpoint.operators import StoreInfo
from flinkish.operators.state_semantics import StateSemantics
from flinkish.restore.plan import schema_messages
from flinkish.restore.plan.schema_messages import KEEP_OR_DROP
from flinkish.restore.plan.state_columns import (
    StateColumn,
    columns_of,
    means_something,
    role_of,
    same_columns,
)
from flinkish.restore.plan.verdicts import StateChange, Verdict


def event_time_changes(
    kind: str,
    saved: StoreInfo,
    new: StoreInfo,
    saved_meaning: StateSemantics | None,
    new_meaning: StateSemantics,
) -> Iterator[StateChange]:
    """Yield the change where another column gives the time by which rows of a store are kept.

    A program without an event time removes no rows, and finds those that are kept by one.
    """
    meanings = (saved_meaning, new_meaning) if means_something(saved_meaning) else (None, None)
    olds, news = (
        columns_of(store, meaning, is_key=False)
        for store, meaning in zip((saved, new), meanings, strict=True)
    )
    if olds is None or news is None:
        return
    same = same_columns(olds.columns, news.columns)
    before = [column for column in olds.columns if column.event_time]
    after = [column for column in news.columns if column.event_time]
    if not after or {same.get(column.name) for column in before} == {c.name for c in after}:
        return
    part = schema_messages.part_of(kind, role_of(saved.name), is_key=False, store=saved.name)
    yield StateChange(
        saved.name,
        Verdict.INCOMPATIBLE,
        "event-time-changed",
        f"{part.subject}: its event time was {_named(before)} and is {_named(after)}; joins of "
        "state format 4 keep the rows that wait by that time, and would remove them too early or "
        "too late",
        f"keep the watermark on the column that had it; {KEEP_OR_DROP}",
    )


def _named(columns: list[StateColumn]) -> str:
    return " and ".join(f"`{column.shown}`" for column in columns) or "none"
