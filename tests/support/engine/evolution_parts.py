"""Parts of an operator's state and what they become, see :mod:`.evolution_oracle`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish.checkpoint.format.schema_files import FamilySchemas
from flinkish.engine.errors import CannotMigrate
from flinkish.engine.migration.migration_planner import FamilyChange, TargetState, plan_operator
from flinkish.engine.stores.checkpoints import OperatorState, StoreState
from flinkish.engine.stores.files import LocalDirectory
from flinkish.engine.stores.partitioning import partition_paths
from tests.support.engine.evolutions import KEY_RULE, RULES, Evolved, evolve


@dataclass(frozen=True)
class Part:
    """A part of the state: how Spark reads it, where the engine has it, what of it evolves.

    Attributes:
        options: of Spark's reader.
        store, family: the engine's names.
        inside: the field of the value that evolves; "" is all of it.
        keep: fields of the value that Spark itself needs as they are.
        user_key: the user's key of a map evolves too.
    """

    options: dict[str, str]
    store: str = "default"
    family: str = "default"
    inside: str = ""
    keep: tuple[str, ...] = ()
    user_key: bool = False


@dataclass(frozen=True)
class Change:
    """What a part of the state becomes; ``key`` is that of the user's key of a map."""

    value: Evolved
    key: Evolved | None


def change(operator: OperatorState, part: Part, rule: str, columns: list[str]) -> Change:
    """The change of a part, and of the columns that Spark's reader has it in."""
    [store] = [s for s in operator.stores if s.name == part.store]
    [family] = [f for f in store.families if f.name == part.family]
    value = next(c for c in ("value", "user_map_value", "list_element") if c in columns)
    made = evolve(family.value, value, RULES[rule], inside=part.inside, keep=part.keep)
    if not part.user_key:
        return Change(made, None)
    [_, user_key] = family.key["fields"]
    return Change(made, evolve(user_key["type"], "user_map_key", KEY_RULE))


def family_change(operator: OperatorState, part: Part, made: Change) -> FamilyChange:
    """The same for the engine; columns of the key may be null from then on."""
    [store] = [s for s in operator.stores if s.name == part.store]
    [family] = [f for f in store.families if f.name == part.family]
    key = None if part.store != "default" or store.schema_version == 3 else nullable(family.key)
    if made.key is not None:
        [grouping, user_key] = family.key["fields"]
        fields = [grouping, {**user_key, "type": made.key.schema}]
        key = {**family.key, "fields": fields}
    value = made.value
    return FamilyChange(key, value.schema, value.renames, value.defaults)


def nullable(key: dict[str, Any]) -> dict[str, Any]:
    """A key whose columns may all be null."""
    return {**key, "fields": [{**f, "nullable": True} for f in key["fields"]]}


def refusals(operator: OperatorState) -> dict[str, str]:
    """What the engine says to changes of keys that cannot be; "" where it did not refuse."""
    found = {}
    for store in operator.stores:
        for family in store.families:
            fields = family.key["fields"]
            for place, *_ in partition_paths(operator, store, family):
                column = fields[place]
                for what, other in (
                    ("type", {**column, "type": "binary"}),
                    ("name", {**column, "name": "other"}),
                    ("place", None),
                ):
                    rest = [*fields[:place], *fields[place + 1 :]]
                    new = rest if other is None else [*fields[:place], other, *fields[place + 1 :]]
                    name = f"{store.name}/{family.name} {column['name']} {what}"
                    found[name] = _refusal(operator, store, family, new)
            if fields and fields[-1]["name"] == "userKey":
                inner = fields[-1]["type"]["fields"]
                less = {**fields[-1], "type": {**fields[-1]["type"], "fields": inner[:-1]}}
                name = f"{store.name}/{family.name} {inner[-1]['name']} dropped"
                found[name] = _refusal(operator, store, family, [*fields[:-1], less])
    return found


def _refusal(
    operator: OperatorState, store: StoreState, family: FamilySchemas, fields: list[Any]
) -> str:
    changed = FamilyChange(key={**family.key, "fields": fields})
    target_state = TargetState(changes={(store.name, family.name): changed})
    try:
        plan_operator(LocalDirectory(""), operator, target_state)
    except CannotMigrate as error:
        return str(error)
    return ""


def ttl_changes(
    operator: OperatorState, parts: tuple[Part, ...], made: list[Change]
) -> dict[tuple[str, str], FamilyChange]:
    """The index by time of a map that expires has the user's key too."""
    found = {}
    for part, each in zip(parts, made, strict=True):
        for store in operator.stores:
            for family in store.families:
                if each.key is None or family.name != f"$ttl_{part.family}":
                    continue
                [at, element] = family.key["fields"]
                [grouping, user_key] = element["type"]["fields"]
                inner = [grouping, {**user_key, "type": each.key.schema}]
                below = {**element, "type": {**element["type"], "fields": inner}}
                key = {**family.key, "fields": [at, below]}
                found[store.name, family.name] = FamilyChange(key=key)
    return found
