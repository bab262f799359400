"""The words in which messages describe the schema of an operator's state, by kind of operator.

Modelled on the table of operators with internal state in Flink's "Upgrading Applications and Flink
Versions": there the state of a window holds its input type and key, that of a join both inputs and
the key. Here, by Spark's operator:

==========================  =======================================================================
aggregation, window         the grouping key (windows included), one buffer for each aggregate
session window              the key without the session; the session, the key and the buffers
dropDuplicates              the key: the columns it compares; nothing of the other columns
dropDuplicatesWithin...     the same, and when the key expires
join                        both inputs' keys, and all columns of both that later operators read
limit                       a count
applyInPandasWithState      the grouping key, the state type, and the time-out if there is one
transformWithState          the grouping key, every state variable, timers
==========================  =======================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

#: The option that accepts incomplete results for keys or rows that are in the state already.
ACCEPT_PARTIAL = "--accept-partial"
KEEP_OR_DROP = (
    "keep it as it was, or give the operator another uid (it starts empty) and drop its old state "
    "with -n"
)


@dataclass(frozen=True)
class StatePart:
    """The words for one part of an operator's state.

    Attributes
    ----------
    subject
        What the part comes from.
    because
        How the state depends on it.
    column, columns
        What its fields are called.
    keep
        The advice when a field was removed.
    buffers
        Whether the fields are aggregates.
    nulls_known
        Whether the schema tells which fields may be null.
    evolves
        Whether the state is rewritten by the meaning of its columns.
    """

    subject: str
    because: str
    column: str = "column"
    columns: str = "columns"
    keep: str = "keep it, or let the state be rewritten"
    buffers: bool = False
    nulls_known: bool = True
    evolves: bool = False

    @property
    def agree(self) -> str:
        """The advice where results for rows that are in the state already would be incomplete."""
        return f"agree with {ACCEPT_PARTIAL} NAME, or {KEEP_OR_DROP}"


_KEYS = {
    "stateStoreSave": ("the grouping key", "the aggregation's state is looked up by it"),
    "sessionWindowStateStoreSaveExec": ("the grouping key", "sessions are looked up by it"),
    "dedupe": ("the deduplication key", "the state holds the keys seen so far"),
    "dedupeWithinWatermark": ("the deduplication key", "the state holds the keys seen so far"),
    "symmetricHashJoin": ("the join's {side} key", "the join's state is looked up by it"),
}
_USED_LATER = (
    "use it after the operator again (Spark prunes unused columns), or let the state be rewritten"
)
_VALUES = {
    "stateStoreSave": StatePart(
        "the aggregation",
        "its state holds a buffer for each aggregate",
        "aggregate",
        "aggregates",
        _USED_LATER,
        buffers=True,
    ),
    "sessionWindowStateStoreSaveExec": StatePart(
        "the aggregation",
        "its state holds the session, its key and a buffer for each aggregate",
        "aggregate",
        "aggregates",
        _USED_LATER,
        buffers=True,
    ),
    "applyInPandasWithState": StatePart(
        "the function's state", "it is stored as the state type says", "field", "fields"
    ),
}
_AGGREGATES = "the input columns of its aggregates"
_UNSEEN = {
    "stateStoreSave": _AGGREGATES,
    "sessionWindowStateStoreSaveExec": _AGGREGATES,
    "symmetricHashJoin": "the key columns of the join",
}


def part_of(kind: str, role: str, *, is_key: bool, store: str) -> StatePart:
    """Return the words for the key or the value of one store.

    ``role`` is the side of a join (``left``, ``right``), else empty. ``store`` is the name of the
    store; for ``transformWithState``, that is the name of the state variable.
    """
    if is_key:
        subject, because = _KEYS.get(kind, ("the grouping key", "the state is looked up by it"))
        return StatePart(subject.format(side=role), because)
    if kind == "symmetricHashJoin":
        return StatePart(
            f"the join's {role} input", "the join's state holds its rows", keep=_USED_LATER
        )
    if kind.startswith("transformWithState"):
        subject = f"state variable `{store}`"
        return StatePart(subject, "it is stored as its schema says", "field", "fields")
    return _VALUES.get(kind, StatePart("the operator", "its state holds it"))


def unseen(kind: str) -> str:
    """Return what the state schema of an operator does not show; empty if it shows all."""
    return _UNSEEN.get(kind, "")


def why_trait(kind: str, trait: str) -> str:
    """Return the reason why a trait of an operator, such as a join's type, must not change."""
    if kind == "symmetricHashJoin":
        return "the state has kept and dropped rows as the old type requires"
    return "Spark refuses state that was written with another"
