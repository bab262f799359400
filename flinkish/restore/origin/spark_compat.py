"""The rewrites that a savepoint's state needs for the Spark that will run. Pure.

If the version matrix says that this Spark needs rewritten state, and the engine can rewrite it, the
planner gets the savepoint as it will be after the rewrite: with the pins, the stores and the
checkpoint format that this Spark will find. The planner therefore compares the program with the
state that the program will really get.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT, pinned
from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.compat.model import Rewrite
from flinkish.restore.origin.restore_inputs import SavedOperator, SavedQueryFacts

_JOIN = "symmetricHashJoin"
_TRANSFORM = "transformWithState"  # the common prefix of its operators' names
_NEW_JOIN_FORMAT = "2"
_SIDES = ("left", "right")


@dataclass(frozen=True)
class SparkFit:
    """The rewrite of a saved query's state for a Spark.

    Attributes
    ----------
    formats
        The new state formats, by the settings that pin them.
    checkpoint_format
        The new checkpoint format; None if it stays.
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
    """Return a saved query as it will be after the rewrite, and the rewrite.

    Spark rejects an offset log that pins an unknown value, even if the query has no operator that
    uses the setting. So the log's pin alone decides whether the format of joins changes.

    ``needed`` are the rewrites that the version matrix requires for any query of the savepoint,
    because operators of several queries may be merged into one, whose state has one format.
    ``spark`` is (major, minor) of the Spark that will run, ``named`` its version for messages.
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
        state = operator.state
        kind = state.kind or ""
        why = [f"checkpoint format {checkpoint_format} becomes 1"] if to_format_1 else []
        if formats and kind == _JOIN:
            why.insert(0, f"join state format {old_join} becomes {_NEW_JOIN_FORMAT}")
            stores = _stores_of_format_2(state.stores)
            regrouped = stores != state.stores
            operator = replace(operator, state=replace(state, stores=stores), regrouped=regrouped)
        if Rewrite.LISTS in needed and kind.startswith(_TRANSFORM):
            why.append("lists get the form that this Spark reads")
        operators.append(_rewritten(operator, why, named))
    changed = replace(query, operators=tuple(operators), pins={**query.pins, **formats})
    return changed, SparkFit(formats, 1 if to_format_1 else None)


def knows_join_format(spark: tuple[int, int], version: str) -> bool:
    """Return whether a Spark (major, minor) accepts a join format, as tried on 3.5 to 4.3."""
    newest = "2" if spark < (4, 1) else "3" if spark < (4, 2) else "4"
    return version <= newest


def _rewritten(operator: SavedOperator, why: Iterable[str], spark: str) -> SavedOperator:
    said = ", ".join(why)
    return replace(operator, rewritten=f"rewritten for Spark {spark}: {said}") if said else operator


def _stores_of_format_2(stores: tuple[StoreInfo, ...]) -> tuple[StoreInfo, ...]:
    """Return a join's stores in format 2, from the stores of format 3 or the families of format 4.

    Other stores stay as they are. ``engine/migration/join_formats`` describes the formats. It is
    not imported here, as a driver's Python may lack the libraries that it imports.
    """
    by_name = {store.name: store for store in stores}
    if not {f"{side}-keyWithTsToValues" for side in _SIDES} <= by_name.keys():
        return stores
    stores_of_2 = []
    for side in _SIDES:
        rows = by_name[f"{side}-keyWithTsToValues"]
        if rows.key_schema is None:
            return ()  # without a known schema nothing is compared
        keys = rows.key_schema["fields"][:-1]
        index, count = _long("index"), _long("value")
        counts = {**rows.key_schema, "fields": keys}
        indexed = {**rows.key_schema, "fields": [*keys, index]}
        number = {"type": "struct", "fields": [count]}
        stores_of_2.append(StoreInfo(f"{side}-keyToNumValues", counts, number))
        stores_of_2.append(StoreInfo(f"{side}-keyWithIndexToValue", indexed, rows.value_schema))
    return tuple(stores_of_2)


def _long(name: str) -> dict[str, Any]:
    return {"name": name, "type": "long", "nullable": True, "metadata": {}}
