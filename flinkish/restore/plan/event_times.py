"""Compare the event times by which joins of state format 4 keep the rows that wait. Pure.

Source: ``SymmetricHashJoinStateManagerV4``. Spark removes rows by the time that they are kept by,
and where a join key is the event time it finds them by it. A join key with a watermark is a column
of the rows too, so that their schema tells. Without an event time a row is kept by a number below
1024, which every watermark is above.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flinkish.messages.plan import StateChange, StateVerdict
from flinkish.restore.plan.schema_messages import KEEP_OR_DROP, StatePart
from flinkish.restore.plan.state_columns import StateColumn, same_columns


def event_time_changes(
    store: str, part: StatePart, saved: Sequence[StateColumn], new: Sequence[StateColumn]
) -> Iterator[StateChange]:
    """Yield the change where another column gives the time by which rows of a store are kept.

    A program without an event time removes no rows, and finds those that are kept by one.
    """
    same = same_columns(saved, new)
    before = [column for column in saved if column.event_time]
    after = [column for column in new if column.event_time]
    if not after or {same.get(column.name) for column in before} == {c.name for c in after}:
        return
    yield StateChange(
        store,
        StateVerdict.INCOMPATIBLE,
        "event-time-changed",
        f"{part.subject}: its event time was {_named(before)} and is now {_named(after)}; "
        "joins of state format 4 store waiting rows by that time, and would remove them "
        "too early or too late",
        f"keep the watermark on the column that had it; {KEEP_OR_DROP}",
    )


def _named(columns: list[StateColumn]) -> str:
    return " and ".join(f"`{column.shown}`" for column in columns) or "none"
