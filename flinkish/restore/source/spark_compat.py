"""What a savepoint's state has to become for the Spark that will run. Pure.

Where the version matrix says that a Spark needs state rewritten, and the engine can do that, the
savepoint is offered to the planner as it will be then: with the pins, the stores and the checkpoint
format that the Spark will find. So the program is planned as it will run, and its state is compared
with what it will be given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT, pinned
from flinkish.checkpoint.operators import StoreInfo
from flinkish.compat.model import Rewrite
from flinkish.restore.source.restore_inputs import SavedOperator, SavedQueryFacts

_JOIN = "symmetricHashJoin"
_TRANSFORM = "transformWithState"  # what their names begin with
_NEW_JOIN_FORMAT = "2"
_SIDES = ("left", "right")


@dataclass(frozen=True)
class SparkFit:
    """How the state of a saved query is rewritten for a Spark.

    Attributes
    ----------
    formats: state formats by the settings that pin them.
    checkpoint_format: the new one; None where it stays.
    """

    formats: Mapping[str, str] = field(default_factory=dict)
    checkpoint_format: int | None = None


def fit_query(
    query: SavedQueryFacts,
    checkpoint_format: int,
    needed: Collection[Rewrite],
    spark: tuple[int, int],
    named: str,
) -> tuple[SavedQueryFacts, SparkFit]:
    """A saved query as it will be, and how it becomes that.

    Parameters
    ----------
    needed: what the version matrix asks for, of any query of the savepoint: their operators may
        come together in one query, whose state has one format.
    spark: (major, minor) of the one that will run; ``named`` is its version for people.

    Spark takes no setting from an offset log whose value it does not know, whether or not the query
    has an operator that it is for: so the format of joins is looked at in the log.
    """
    formats = {}
    old_join = pinned(query.pins, PIN_JOIN_FORMAT)
    if not knows_join_format(spark, old_join):
        formats[PIN_JOIN_FORMAT] = _NEW_JOIN_FORMAT
    # Spark 3.5 reads no commit log of format 2, whether or not the query has state.
    unread = Rewrite.CHECKPOINT_FORMAT_1 in needed or spark < (4, 0)
    to_format_1 = checkpoint_format > 1 and unread
    operators = []
    for operator in query.operators:
        kind = operator.kind or ""
        why = [f"checkpoint format {checkpoint_format} becomes 1"] if to_format_1 else []
        if formats and kind == _JOIN:
            why.insert(0, f"join state format {old_join} becomes {_NEW_JOIN_FORMAT}")
            operator = replace(operator, stores=_stores_of_format_2(operator.stores))
        if Rewrite.LISTS in needed and kind.startswith(_TRANSFORM):
            why.append("lists become as it reads them")
        operators.append(_rewritten(operator, why, named))
    changed = replace(query, operators=tuple(operators), pins={**query.pins, **formats})
    return changed, SparkFit(formats, 1 if to_format_1 else None)


def knows_join_format(spark: tuple[int, int], version: str) -> bool:
    """Whether a Spark (major, minor) takes this value of the setting; measured on five lines."""
    newest = "2" if spark < (4, 1) else "3" if spark < (4, 2) else "4"
    return version <= newest


def _rewritten(operator: SavedOperator, why: Iterable[str], spark: str) -> SavedOperator:
    said = ", ".join(why)
    return replace(operator, rewritten=f"rewritten for Spark {spark}: {said}") if said else operator


def _stores_of_format_2(stores: tuple[StoreInfo, ...]) -> tuple[StoreInfo, ...]:
    """The stores of a join of format 3, or the column families of one of format 4, as format 2 has
    them; others as they are. The formats are described in ``engine/migration/join_formats``, which
    needs more
    than a driver's Python has to have."""
    by_name = {store.name: store for store in stores}
    if not {f"{side}-keyWithTsToValues" for side in _SIDES} <= by_name.keys():
        return stores
    found = []
    for side in _SIDES:
        rows = by_name[f"{side}-keyWithTsToValues"]
        if rows.key_schema is None:
            return ()  # where a schema is not known, nothing is compared
        keys = rows.key_schema["fields"][:-1]
        index, count = _long("index"), _long("value")
        counts = {**rows.key_schema, "fields": keys}
        indexed = {**rows.key_schema, "fields": [*keys, index]}
        number = {"type": "struct", "fields": [count]}
        found.append(StoreInfo(f"{side}-keyToNumValues", counts, number))
        found.append(StoreInfo(f"{side}-keyWithIndexToValue", indexed, rows.value_schema))
    return tuple(found)


def _long(name: str) -> dict[str, Any]:
    return {"name": name, "type": "long", "nullable": True, "metadata": {}}
