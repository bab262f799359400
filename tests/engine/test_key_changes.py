"""Which changes of keys there are: never of what Spark finds rows by, of a map's own keys some."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flinkish.checkpoint.format.names import ROCKSDB
from flinkish.checkpoint.format.schema_files import FamilySchemas, parse_schema_file
from flinkish.checkpoint.format.text import spark_json
from flinkish.engine.errors import CannotMigrate
from flinkish.engine.migration.migration_plan import OperatorMigration
from flinkish.engine.migration.migration_planner import FamilyChange, TargetState, plan_operator
from flinkish.engine.migration.state_files import operator_files
from flinkish.engine.stores.checkpoints import OperatorState, StoreState
from flinkish.engine.stores.files import LocalDirectory

NOWHERE = LocalDirectory("")


def column(name: str, data_type: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": {}}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


GROUPING = struct(column("k", "string"))
USER = struct(column("a", "integer"), column("b", "string"))
WIDER = struct(column("a", "long"), column("b", "string"), column("c", "string"))


def map_key(grouping: Any, user_key: Any) -> dict[str, Any]:
    return struct(column("key", grouping), column("userKey", user_key))


def ttl_key(grouping: Any, user_key: Any) -> dict[str, Any]:
    return struct(column("expirationMs", "long"), column("elementKey", map_key(grouping, user_key)))


def state() -> OperatorState:
    """A map that expires, as the schemas of transformWithState have it."""
    by = FamilySchemas(
        "by",
        map_key(GROUPING, USER),
        struct(column("v", "long")),
        {"keyStateEncoderType": "PrefixKeyScanStateEncoderSpec", "numColsPrefixKey": 1},
        user_key=spark_json(USER),
    )
    ttl = FamilySchemas(
        "$ttl_by",
        ttl_key(GROUPING, USER),
        struct(column("__empty__", "void")),
        {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [0]},
    )
    store = StoreState("default", "", (by, ttl), "_stateSchema/default/0", 2)
    return OperatorState(0, "transformWithStateInPandasExec", 1, ROCKSDB, 2, (store,))


def planned(family: str, key: dict[str, Any]) -> OperatorMigration:
    changes = {("default", family): FamilyChange(key=key)}
    return plan_operator(NOWHERE, state(), TargetState(changes=changes))


def test_the_keys_of_a_map_may_grow_and_so_may_those_of_its_time_to_live() -> None:
    for family, key in (("by", map_key(GROUPING, WIDER)), ("$ttl_by", ttl_key(GROUPING, WIDER))):
        [store] = planned(family, key).stores
        _, move = store.by_family[family]
        assert move.key is not None
        assert "long" in str(move.key.changes)


def test_the_schema_file_has_a_maps_new_key_in_both_places() -> None:
    """Spark's reader takes the key of a map from the second."""
    move = planned("by", map_key(GROUPING, WIDER))
    [store] = move.operator.stores
    with_families = replace(move.operator, stores=(replace(store, schema_version=3),))
    path, content = next(operator_files(NOWHERE, replace(move, operator=with_families), 2))
    by, ttl = parse_schema_file(content, path)
    assert by.key == map_key(GROUPING, WIDER)
    assert by.user_key == spark_json(WIDER)
    assert ttl == state().stores[0].families[1]


@pytest.mark.parametrize(
    ("family", "key", "name"),
    [
        ("by", map_key(struct(column("k", "binary")), USER), "key"),
        ("$ttl_by", ttl_key(struct(column("k", "binary")), USER), "elementKey.key"),
        ("$ttl_by", struct(column("expirationMs", "long")), "elementKey.key"),
    ],
)
def test_what_spark_partitions_by_cannot_change(family: str, key: Any, name: str) -> None:
    with pytest.raises(CannotMigrate, match=f"the column '{name}' of the key of 0 .* cannot"):
        planned(family, key)


def test_keys_may_not_become_equal() -> None:
    less = struct(column("a", "integer"))
    with pytest.raises(CannotMigrate, match=r"userKey\.b: it is removed from a key"):
        planned("by", map_key(GROUPING, less))
    rounded = struct(column("a", "float"), column("b", "string"))
    with pytest.raises(CannotMigrate, match="two of them may become equal"):
        planned("by", map_key(GROUPING, rounded))
