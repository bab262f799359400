"""Programs with one typed state per key, in two versions each: what a restore between them does.

A version is the source of a module, as a user would have it. It has ``TYPE``, the type or
serializer of the state; ``update(old, values)``, the value after a batch; ``show(value)``, its
text. The new version's ``carry(value)`` says, apart from flinkish, what the old value becomes.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.state.declared import StateDescriptor
from flinkish.state.descriptors import MapStateDescriptor, ValueStateDescriptor

#: The module that each version is, as a program's ``__main__``.
MODULE = "typed_program"
OUTPUT = "k long, shown string"


@dataclass(frozen=True)
class Change:
    """Two versions of a program.

    Attributes
    ----------
    migrates
        Whether the values are written again.
    refused
        A part of the reason why the state cannot be restored; empty where it can.
    is_map
        Whether the state is a map of the serializers ``KEYS`` and ``TYPE``.
    """

    name: str
    old: str
    new: str
    migrates: bool = True
    refused: str = ""
    is_map: bool = False


_DATACLASS = """
from dataclasses import dataclass
from flinkish.state import state_type
"""
_STATS = (
    _DATACLASS
    + """
@dataclass(frozen=True)
class Stats:
    n: int
    total: float
TYPE = Stats
def update(old, values):
    old = old or Stats(0, 0.0)
    return Stats(old.n + len(values), old.total + sum(values))
def show(value):
    return f"{value.n} {value.total}"
"""
)


def _avro(fields: str, update: str, show: str, carry: str = "return old") -> str:
    schema = f'{{"type": "record", "name": "Stats", "fields": [{fields}]}}'
    return f"""
from flinkish.state import AvroSerializer
TYPE = AvroSerializer('{schema}')
def update(old, values):
    {update}
def show(value):
    return {show}
def carry(old):
    {carry}
"""


_COUNT = '{"name": "n", "type": "int"}'
_AVRO = _avro(_COUNT, 'return {"n": (old["n"] if old else 0) + len(values)}', "f\"{value['n']}\"")
_LISTED = (
    _DATACLASS
    + """
@dataclass(frozen=True)
class Seen:
    value: int
TYPE = list[Seen]
def update(old, values):
    return [*(old or []), *map(Seen, values)]
def show(value):
    return " ".join(str(each.value) for each in value)
"""
)
_OLD_STYLE = """
from flinkish.state.legacy import (
    CompatibilityResult, LegacySerializer, TypeSerializerConfigSnapshot,
)
class CountConfig(TypeSerializerConfigSnapshot):
    def write(self):
        return b"count"
    def read(self, version, data):
        if data != b"count":
            raise ValueError("not the configuration of a count")
class CountSerializer:
    def serialize(self, value):
        return str(value).encode()
    def deserialize(self, data):
        return int(data)
    def snapshot_configuration(self):
        return CountConfig()
    def ensure_compatibility(self, config):
        return CompatibilityResult.COMPATIBLE
TYPE = LegacySerializer(CountSerializer())
def update(old, values):
    return (old or 0) + len(values)
def show(value):
    return str(value)
"""
_NEW_STYLE = (
    _OLD_STYLE
    + """
from flinkish.state import TypeSerializerSchemaCompatibility, TypeSerializerSnapshot
class CountSnapshot(TypeSerializerSnapshot):
    def write_snapshot(self):
        return b""
    def read_snapshot(self, version, data, loader):
        if data:
            raise ValueError("a count has nothing to say")
    def resolve_schema_compatibility(self, new_serializer):
        return TypeSerializerSchemaCompatibility.compatible_as_is()
    def restore_serializer(self):
        return TYPE
TYPE = LegacySerializer(CountSerializer(), snapshot=CountSnapshot)
"""
)
_TENS = """
KEYS = {keys}
TYPE = {values}
def update(state, values):
    for value in values:
        key = KEYS(value // 10)
        state.put(key, TYPE((state.get(key) or 0) + 1))
def show(state):
    return " ".join(f"{{k}}:{{v}}" for k, v in sorted(state.items()))
def carry(old):
    return {{k: TYPE(v) for k, v in old.items()}}
"""

CHANGES = (
    Change("nothing", _STATS, _STATS, migrates=False),
    Change(
        "a field more",
        _STATS,
        _DATACLASS
        + """
@dataclass(frozen=True)
class Stats:
    n: int
    total: float
    largest: int = -1
TYPE = Stats
def update(old, values):
    old = old or Stats(0, 0.0)
    return Stats(old.n + len(values), old.total + sum(values), max([old.largest, *values]))
def show(value):
    return f"{value.n} {value.total} {value.largest}"
def carry(old):
    return Stats(old.n, old.total, -1)
""",
    ),
    Change(
        "a field fewer",
        _STATS,
        _DATACLASS
        + """
@dataclass(frozen=True)
class Stats:
    total: float
TYPE = Stats
def update(old, values):
    return Stats((old.total if old else 0.0) + sum(values))
def show(value):
    return f"{value.total}"
def carry(old):
    return Stats(old.total)
""",
    ),
    Change(
        "class and field renamed",
        _STATS,
        _DATACLASS
        + """
@state_type(aliases=["Stats"], fields={"count": ["n"]})
@dataclass(frozen=True)
class Totals:
    count: int
    total: float
TYPE = Totals
def update(old, values):
    old = old or Totals(0, 0.0)
    return Totals(old.count + len(values), old.total + sum(values))
def show(value):
    return f"{value.count} {value.total}"
def carry(old):
    return Totals(old.n, old.total)
""",
        migrates=False,  # names are not in the bytes
    ),
    Change(
        "elements of a list changed",
        _LISTED,
        _LISTED.replace("value: int\n", "value: int\n    weight: float = 0.5\n").replace(
            "str(each.value)", 'f"{each.value}*{each.weight}"'
        )
        + """
def carry(old):
    return [Seen(each.value) for each in old]
""",
    ),
    Change(
        "an Avro promotion",
        _AVRO,
        _avro(
            '{"name": "n", "type": "double"}',
            'return {"n": (old["n"] if old else 0.0) + len(values) / 2}',
            "f\"{value['n']}\"",
            'return {"n": float(old["n"])}',
        ),
    ),
    Change(
        "Avro fields with defaults and another name",
        _AVRO,
        _avro(
            '{"name": "count", "aliases": ["n"], "type": "int"}, '
            '{"name": "unit", "type": {"type": "enum", "name": "Unit", '
            '"symbols": ["ONE", "TWO"], "default": "ONE"}, "default": "TWO"}',
            'return {"count": (old["count"] if old else 0) + len(values), '
            '"unit": old["unit"] if old else "ONE"}',
            "f\"{value['count']} {value['unit']}\"",
            'return {"count": old["n"], "unit": "TWO"}',
        ),
    ),
    Change("out of the old style", _OLD_STYLE, _NEW_STYLE, migrates=False),
    Change(
        "values of a map changed",
        _TENS.format(keys="int", values="int"),
        _TENS.format(keys="int", values="float"),
        refused="int -> float",
        is_map=True,
    ),
    Change(
        "keys of a map changed",
        _TENS.format(keys="int", values="int"),
        _TENS.format(keys="str", values="int"),
        refused="str",
        is_map=True,
    ),
    Change(
        "a field's type changed",
        _STATS,
        _STATS.replace("total: float", "total: str")
        .replace("old.total + sum(values)", "old.total")
        .replace("Stats(0, 0.0)", "Stats(0, '')"),
        refused="total",
    ),
    Change(
        "no Avro promotion",
        _avro(
            '{"name": "n", "type": "float"}',
            'return {"n": (old["n"] if old else 0.0) + len(values)}',
            "f\"{value['n']}\"",
        ),
        _avro(
            '{"name": "n", "type": "string"}',
            'return {"n": (old["n"] if old else "") + "x" * len(values)}',
            "f\"{value['n']}\"",
        ),
        refused="float -> string",
    ),
    Change(
        "the class is gone",
        _STATS,
        _STATS.replace("class Stats", "class Sums")
        .replace("Stats(", "Sums(")
        .replace("TYPE = Stats", "TYPE = Sums"),
        refused="Stats",
    ),
)


def load(source: str) -> Any:
    """Return a version as the module that it is, in place of any other; tasks get it by value."""
    from pyspark import cloudpickle

    module = types.ModuleType(MODULE)
    unload()
    sys.modules[MODULE] = module
    exec(source, module.__dict__)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def unload() -> None:
    """Remove the version that is loaded."""
    from pyspark import cloudpickle

    known = sys.modules.pop(MODULE, None)
    if known is not None:
        cloudpickle.unregister_pickle_by_value(known)  # type: ignore[no-untyped-call]


def descriptor(version: Any, change: Change) -> StateDescriptor:
    """The state of a version."""
    if change.is_map:
        return MapStateDescriptor("stats", version.KEYS, version.TYPE)
    return ValueStateDescriptor("stats", version.TYPE)


def step(version: Any, change: Change, state: Any, values: Sequence[int]) -> str:
    """Bring a key's state up to date, and show it."""
    if change.is_map:
        version.update(state, values)
        return str(version.show(state))
    state.update(version.update(state.value(), values))
    return str(version.show(state.value()))


def per_group(version: Any, change: Change) -> Any:
    """The function for ``apply_in_pandas_with_state``."""
    declared = descriptor(version, change)
    update, show = version.update, version.show
    shell = types.SimpleNamespace(update=update, show=show)

    def call(key: tuple[Any, ...], frames: Iterator[Any], states: Any) -> Iterator[Any]:
        import pandas as pd

        state = (
            states.get_map_state(declared) if change.is_map else states.get_value_state(declared)
        )
        values = [int(v) for frame in frames for v in frame.v]
        shown = step(shell, change, state, sorted(values))
        yield pd.DataFrame({"k": [int(key[0])], "shown": [shown]})

    return call


def processor(version: Any, change: Change) -> Any:
    """The processor for ``transform_with_state``."""
    declared = descriptor(version, change)
    shell = types.SimpleNamespace(update=version.update, show=version.show)

    class PerKey:
        """A ``StatefulProcessor`` of rows."""

        def init(self, handle: Any) -> None:
            get = handle.get_map_state if change.is_map else handle.get_value_state
            self.state = get(declared)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            from pyspark.sql import Row

            shown = step(shell, change, self.state, sorted(int(row.v) for row in rows))
            yield Row(k=int(key[0]), shown=shown)

        def close(self) -> None:
            """Nothing is open."""

    return PerKey()


class PlainMap(dict[Any, Any]):
    """A map state of plain Python."""

    put = dict.__setitem__


def expected(
    change: Change, before: Sequence[tuple[int, int]], after: Sequence[tuple[int, int]]
) -> Mapping[int, str]:
    """What is shown of each key in the end, by plain Python."""
    old = load(change.old)
    states = {k: _folded(old, change, None, before, k) for k in {k for k, _ in before}}
    new = load(change.new)
    carry = getattr(new, "carry", lambda value: value)
    found = {}
    for key in sorted({k for k, _ in after}):
        state = carry(states[key]) if key in states else None
        found[key] = str(new.show(_folded(new, change, state, after, key)))
    return found


def _folded(
    version: Any, change: Change, state: Any, rows: Sequence[tuple[int, int]], key: int
) -> Any:
    values = sorted(v for k, v in rows if k == key)
    if change.is_map:
        state = PlainMap(state or {})
        version.update(state, values)
        return state
    return version.update(state, values)
