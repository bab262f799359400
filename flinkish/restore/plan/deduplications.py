"""``dropDuplicates`` that becomes ``dropDuplicatesWithinWatermark``, and back. Pure.

Both keep the keys they have seen, in the same way. The value of the first is empty. The value of
the second is the time at which the key expires: its event time plus the delay of the watermark
(Spark's ``StreamingDeduplicateExec`` and ``StreamingDeduplicateWithinWatermarkExec``).

The state of ``dropDuplicates`` does not have the event times of its keys. If the query has one
watermark, no event time is above the watermark plus the delay that it had before. So a key that
expires one new delay after that time is not forgotten too early. The earlier delay is known only if
the event time is one of the key's columns, and only as it was when Spark wrote the schema; it is
taken to be at least the new delay. The user is told that keys may expire too early if the earlier
delay was longer, or if the query has several watermarks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Final

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.messages.plan import StateChange, StateVerdict
from flinkish.operators.state_semantics import WATERMARK_DELAY
from flinkish.restore.origin.restore_inputs import NewOperator, SavedOperator, SavedQueryFacts
from flinkish.restore.plan.schema_messages import ACCEPT_PARTIAL, KEEP_OR_DROP
from flinkish.restore.plan.state_columns import StateColumn, columns_of
from flinkish.restore.plan.state_evolution import StoreEvolution

_FOR_EVER: Final = "dedupe"
_WITHIN: Final = "dedupeWithinWatermark"
_KINDS: Final = {_FOR_EVER, _WITHIN}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: The stable id of the change.
DEDUPLICATION_CHANGED: Final = "deduplication-changed"


@dataclass(frozen=True)
class Conversion:
    """How the state of one deduplication becomes that of the other.

    Attributes
    ----------
    compared
        The saved and the new stores, without the values, which need no comparison.
    change
        The difference between the two states.
    expires_us
        When the existing keys expire, in microseconds since 1970; None for never.
    """

    compared: tuple[tuple[StoreInfo, ...], tuple[StoreInfo, ...]]
    change: StateChange
    expires_us: int | None

    def evolution(self, evolved: Mapping[str, StoreEvolution]) -> dict[str, StoreEvolution]:
        """Return the evolution with the new values; ``evolved`` has that of the keys."""
        begins = {} if self.expires_us is None else {0: self.expires_us}
        return {
            name: replace(store, places=(None,), begins=begins) for name, store in evolved.items()
        }


def is_other_deduplication(new: NewOperator, saved: SavedOperator) -> bool:
    """Return whether one kind of deduplication takes the state of the other."""
    return {new.node.kind, saved.state.kind} == _KINDS


def convert_deduplication(
    new: NewOperator, saved: SavedOperator, giver: SavedQueryFacts | None
) -> Conversion | None:
    """Return how a deduplication continues with the state of the other kind.

    None if both are of one kind. ``giver`` is the saved query that has this state. Its watermark
    counts, because another query that takes the state may be at an earlier one. The change is
    INCOMPATIBLE if it is unknown when the existing keys may be forgotten.
    """
    if not is_other_deduplication(new, saved):
        return None
    compared = (_without_values(saved.state.stores), _without_values(new.node.stores))
    if new.node.kind == _FOR_EVER:
        return Conversion(compared, _kept_for_ever(new), None)
    watermark = giver.watermark_ms if giver is not None else None
    delay = new.node.meaning.delay_ms
    if not watermark or delay is None:
        text = (
            "it was dropDuplicates and is now dropDuplicatesWithinWatermark; the "
            "savepoint has no watermark, so the expiry of the keys it has seen is unknown"
        )
        advice = (
            "add a watermark (withWatermark) to the old program, let it run and take "
            f"another savepoint; {KEEP_OR_DROP}"
        )
        change = StateChange("", StateVerdict.INCOMPATIBLE, DEDUPLICATION_CHANGED, text, advice)
        return Conversion(compared, change, None)
    before = max([delay, *_delays(saved.state.stores)])
    expires_ms = watermark + before + delay
    text = (
        "it was dropDuplicates and is now dropDuplicatesWithinWatermark: the keys it has "
        f"seen are forgotten once the watermark reaches {utc_text(expires_ms)}; "
        "that is too early, and duplicates pass, if the watermark's delay was above "
        f"{before / 1000:g} s before, or if the query has several watermarks"
    )
    return Conversion(compared, _change(text, partial=True), expires_ms * 1000)


def _delays(stores: tuple[StoreInfo, ...]) -> list[int]:
    """Return the delays of the watermarks on columns of the keys, in milliseconds."""
    fields = [f for store in stores for f in (store.key_schema or {}).get("fields", ())]
    delays = [(each.get("metadata") or {}).get(WATERMARK_DELAY) for each in fields]
    return [delay for delay in delays if type(delay) is int]


def _kept_for_ever(new: NewOperator) -> StateChange:
    by_time = any(column.event_time for store in new.node.stores for column in _columns(store, new))
    was = "it was dropDuplicatesWithinWatermark and is now dropDuplicates"
    if by_time:  # a row with an expired key is late, and is dropped
        return _change(
            f"{was}, with the event time among its columns: no key is lost", partial=False
        )
    return _change(
        f"{was}: expired keys count as new again, the others are kept forever",
        partial=True,
    )


def _columns(store: StoreInfo, new: NewOperator) -> tuple[StateColumn, ...]:
    columns = columns_of(store, new.node.meaning, is_key=True)
    return () if columns is None else columns.columns


def _change(text: str, *, partial: bool) -> StateChange:
    advice = f"agree with {ACCEPT_PARTIAL} NAME, or {KEEP_OR_DROP}" if partial else KEEP_OR_DROP
    return StateChange(
        "", StateVerdict.MIGRATE, DEDUPLICATION_CHANGED, text, advice, partial=partial
    )


def _without_values(stores: tuple[StoreInfo, ...]) -> tuple[StoreInfo, ...]:
    return tuple(replace(store, value_schema=None) for store in stores)


def utc_text(milliseconds: int) -> str:
    """Return a time, in milliseconds since the epoch, as text."""
    try:
        return f"{_EPOCH + timedelta(milliseconds=milliseconds):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{milliseconds} ms"
