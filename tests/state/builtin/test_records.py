"""Dataclasses and NamedTuples by Flink's rules for POJOs: a program, and the next version of it."""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.errors import Corrupt, Incompatible, UsageError
from flinkish.state import serializer_of
from flinkish.state.builtin.records import DataclassSerializer, DataclassSerializerSnapshot
from flinkish.state.generations import RestoredState, restore_state
from flinkish.state.serializers import TypeSerializerSnapshot, Verdict
from flinkish.state.snapshots import ModuleLoader, read_snapshot, write_snapshot
from flinkish.state.wire import put_part, put_text

PLACE = "the state stats"
MODULE = "tests.state.builtin.job"
OWN = ("flinkish", "tests.state")
HEAD = """
from __future__ import annotations
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, NamedTuple, Optional
from flinkish.state import AvroSerializer, state_type
from tests.state.programs import ScaleSerializer
"""
BEFORE = """
@dataclass
class Stats:
    n: int
    distance: float
    note: str = ""
"""


@pytest.fixture(autouse=True)
def _no_program_stays() -> Iterator[None]:
    yield
    for name in [MODULE, f"{MODULE}_two"]:
        sys.modules.pop(name, None)


def program(source: str, module: str = MODULE) -> Any:
    """A version of the program: its module is what is imported from now on."""
    made = types.ModuleType(module)
    sys.modules[module] = made
    exec(HEAD + source, vars(made))  # as a file of the program would be
    return made


class Savepoint(NamedTuple):
    """What is left of a program."""

    snapshot: bytes
    state: bytes

    def read(self) -> TypeSerializerSnapshot[Any]:
        return read_snapshot(self.snapshot, PLACE, OWN)

    def restored(self, hint: Any) -> RestoredState:
        return restore_state(self.read(), serializer_of(hint), PLACE)

    def reasons(self, hint: Any) -> tuple[str, ...]:
        return self.read().resolve_schema_compatibility(serializer_of(hint)).reasons


def savepoint(source: str, *arguments: Any, module: str = MODULE, cls: str = "Stats") -> Savepoint:
    made = getattr(program(source, module), cls)
    serializer = serializer_of(made)
    data = write_snapshot(serializer.snapshot_configuration())
    return Savepoint(data, serializer.serialize(made(*arguments)))


def evolved(after: str, before: str = BEFORE, arguments: Any = (3, 1.5, "x")) -> tuple[Any, Any]:
    """The restored state, and the new program."""
    taken = savepoint(before, *arguments)
    new = program(after)
    return (taken.restored(new.Stats), taken), new


def values(found: Any, taken: Savepoint) -> Any:
    """What is read, the same lazily and after the migration."""
    read = found.read(taken.state)
    assert found.serializer.deserialize(found.migrate(taken.state)) == read
    return read


def test_nothing_changed() -> None:
    (found, taken), new = evolved(BEFORE)
    assert found.compatibility.verdict is Verdict.AS_IS
    assert values(found, taken) == new.Stats(3, 1.5, "x")


def test_a_field_more() -> None:
    after = (
        BEFORE + "    extra: list[int] = field(default_factory=list)\n    best: Optional[int] = 7\n"
    )
    (found, taken), new = evolved(after)
    assert found.compatibility.verdict is Verdict.AFTER_MIGRATION
    assert values(found, taken) == new.Stats(3, 1.5, "x", [], 7)
    assert found.read(taken.state).extra is not found.read(taken.state).extra


def test_a_field_more_without_a_default_is_none_if_it_may_be() -> None:
    (found, taken), new = evolved("@dataclass\nclass Stats:\n    best: Optional[int]\n    n: int\n")
    assert values(found, taken) == new.Stats(None, 3)


def test_a_field_more_without_a_default_is_refused() -> None:
    taken = savepoint(BEFORE, 3, 1.5)
    new = program("@dataclass\nclass Stats:\n    n: int\n    best: int\n")
    assert taken.reasons(new.Stats) == (
        "Stats.best: added without a default, and existing state has no value for it; "
        "give it a default, or make it Optional",
    )


def test_a_field_more_that_only_post_init_sets_is_stored_from_then_on() -> None:
    after = (
        BEFORE
        + "    total: int = field(init=False)\n"
        + "    def __post_init__(self):\n        self.total = 0\n"
    )
    (found, taken), _ = evolved(after)
    assert found.compatibility.verdict is Verdict.AFTER_MIGRATION
    value = values(found, taken)
    assert value.total == 0
    value.total = 77
    assert found.serializer.deserialize(found.serializer.serialize(value)).total == 77


def test_a_field_that_was_never_set_is_refused() -> None:
    cls = program("@dataclass\nclass Stats:\n    n: int = field(init=False)\n").Stats
    with pytest.raises(UsageError, match=r"Stats\.n is not set"):
        serializer_of(cls).serialize(cls())


def test_a_field_fewer() -> None:
    (found, taken), new = evolved("@dataclass\nclass Stats:\n    distance: float\n")
    assert found.compatibility.verdict is Verdict.AFTER_MIGRATION
    assert values(found, taken) == new.Stats(1.5)


def test_a_removed_field_is_not_read_and_its_class_not_needed() -> None:
    before = "@dataclass\nclass Gone:\n    x: int\n" + BEFORE + "    gone: Optional[Gone] = None\n"
    (found, taken), new = evolved(BEFORE, before)
    assert values(found, taken) == new.Stats(3, 1.5, "x")


def test_a_field_renamed_by_alias_keeps_its_bytes() -> None:
    after = BEFORE.replace(
        "distance: float", 'km: float = field(metadata={"aliases": ["distance"]})'
    ).replace('note: str = ""', "note: str = ''")
    (found, taken), new = evolved(after)
    assert found.compatibility.verdict is Verdict.AS_IS
    assert values(found, taken) == new.Stats(3, 1.5, "x")
    assert b"distance" not in write_snapshot(found.serializer.snapshot_configuration())


def test_a_field_renamed_without_alias_is_another_field() -> None:
    taken = savepoint(BEFORE, 3, 1.5)
    new = program("@dataclass\nclass Stats:\n    n: int\n    km: float\n    note: str\n")
    assert taken.reasons(new.Stats)[0].startswith("Stats.km: added without a default")


def test_two_fields_with_one_new_name_leave_a_choice() -> None:
    taken = savepoint(BEFORE, 3, 1.5)
    new = program(
        "@dataclass\nclass Stats:\n"
        "    x: float = field(metadata={'aliases': ['distance', 'n']}, default=0.0)\n"
    )
    (reason,) = taken.reasons(new.Stats)
    assert reason.startswith(
        "Stats.x: the state has a field for each of the aliases distance and n"
    )


def test_a_type_that_changed_is_refused_by_field() -> None:
    taken = savepoint(BEFORE, 3, 1.5)
    new = program("@dataclass\nclass Stats:\n    n: float\n    distance: str\n    note: str\n")
    assert taken.reasons(new.Stats) == (
        "Stats.n: int -> float: the type of state may not change; "
        "keep it, or declare the new type under another name",
        "Stats.distance: float -> str: the type of state may not change; "
        "keep it, or declare the new type under another name",
    )
    with pytest.raises(Incompatible, match=r"the state stats cannot be restored: Stats\.n: int"):
        taken.restored(new.Stats)


def test_fields_in_another_order_need_no_migration() -> None:
    after = "@dataclass\nclass Stats:\n    note: str\n    distance: float\n    n: int\n"
    (found, taken), new = evolved(after)
    assert found.compatibility.verdict is Verdict.RECONFIGURED
    value = values(found, taken)
    assert value == new.Stats("x", 1.5, 3)
    assert found.serializer.serialize(value) == taken.state
    again = found.serializer.snapshot_configuration()
    assert list(again.field_types) == ["n", "distance", "note"]


def test_a_class_renamed_or_moved_needs_an_alias() -> None:
    taken = savepoint(BEFORE, 3, 1.5)
    renamed = BEFORE.replace("Stats", "Totals").replace("@dataclass", "{}@dataclass")
    plain = program(renamed.format("")).Totals
    (reason,) = taken.reasons(plain)
    assert f'write @state_type(aliases=["{MODULE}:Stats"])' in reason
    aliased = program(renamed.format("@state_type(aliases=['Stats'])\n")).Totals
    found = taken.restored(aliased)
    assert found.compatibility.verdict is Verdict.AS_IS
    assert found.read(taken.state) == aliased(3, 1.5)
    elsewhere = program(
        renamed.format(f"@state_type(aliases=['{MODULE}:Stats'])\n"), f"{MODULE}_two"
    )
    assert taken.restored(elsewhere.Totals).compatibility.verdict is Verdict.AS_IS
    bare = program(renamed.format("@state_type(aliases=['Stats'])\n"), f"{MODULE}_two")
    assert taken.reasons(bare.Totals), "an alias without a module is of the class's own"


LEGS = """
@dataclass(frozen=True)
class Leg:
    speed: float
    {leg}
@dataclass
class Stats:
    legs: list[Leg]
    by_name: dict[str, Leg]
    last: Optional[tuple[int, Leg]]
    {more}
"""


def test_nested_ones_evolve_too() -> None:
    taken = _legs()
    new = program(LEGS.format(leg="day: Optional[date] = None", more="n: int = 0"))
    found = taken.restored(new.Stats)
    assert found.compatibility.verdict is Verdict.AFTER_MIGRATION
    leg = new.Leg(2.5)
    assert found.read(taken.state) == new.Stats([leg], {"a": leg}, (1, leg))
    assert values(found, taken).legs[0].day is None


def test_nested_ones_are_judged_by_path() -> None:
    taken = _legs()
    new = program(LEGS.replace("speed: float", "speed: str").format(leg="", more=""))
    reasons = taken.reasons(new.Stats)
    paths = [each.partition(":")[0] for each in reasons]
    assert paths == [
        "Stats.legs.element.speed",
        "Stats.by_name.value.speed",
        "Stats.last.value.1.speed",
    ]


def test_nested_ones_in_another_order_are_reconfigured() -> None:
    taken = _legs("day: int = 5")
    swapped = LEGS.replace("speed: float\n    {leg}", "day: int\n    speed: float")
    found = taken.restored(program(swapped.format(more="")).Stats)
    assert found.compatibility.verdict is Verdict.RECONFIGURED
    value = found.read(taken.state)
    assert (value.legs[0].day, value.legs[0].speed) == (5, 2.5)
    assert found.serializer.serialize(value) == taken.state


def _legs(leg: str = "") -> Savepoint:
    old = program(LEGS.format(leg=leg, more=""))
    made = old.Leg(2.5)
    serializer = serializer_of(old.Stats)
    data = write_snapshot(serializer.snapshot_configuration())
    return Savepoint(data, serializer.serialize(old.Stats([made], {"a": made}, (1, made))))


def test_keys_do_not_evolve() -> None:
    before = "class Key(NamedTuple):\n    a: int\n    b: int\n"
    old = program(before).Key
    serializer = serializer_of(dict[old, int])  # type: ignore[valid-type]
    data = Savepoint(write_snapshot(serializer.snapshot_configuration()), b"")
    new = program("class Key(NamedTuple):\n    a: int\n").Key
    (reason,) = data.reasons(dict[new, int])  # type: ignore[valid-type]
    assert "two of them might become equal" in reason


def test_named_tuples_evolve_as_dataclasses() -> None:
    before = "class Stats(NamedTuple):\n    n: int\n    old: str\n    gone: bytes\n"
    after = (
        "@state_type(fields={'new': ['old']})\n"
        "class Stats(NamedTuple):\n    n: int\n    new: str\n    added: float = 0.5\n"
    )
    (found, taken), new = evolved(after, before, (1, "x", b"y"))
    assert values(found, taken) == new.Stats(1, "x", 0.5)


def test_a_field_with_a_serializer_of_its_own() -> None:
    before = "@dataclass\nclass Stats:\n    a: Annotated[Any, AvroSerializer('int')]\n"
    (found, taken), new = evolved(before.replace("'int'", "['null', 'double']"), before, (5,))
    assert found.needs_migration
    assert values(found, taken) == new.Stats(5.0)
    scaled = "@dataclass\nclass Stats:\n    a: Annotated[float, ScaleSerializer({})]\n"
    (found, taken), new = evolved(scaled.format(4), scaled.format(2), (1.25,))
    assert found.compatibility.verdict is Verdict.RECONFIGURED
    assert found.serializer.serialize(new.Stats(1.25)) == taken.state


def test_the_snapshot_restores_what_reads_the_old_bytes() -> None:
    taken = savepoint(BEFORE, 3, 1.5, "x")
    new = program(BEFORE)
    assert taken.read().restore_serializer() == serializer_of(new.Stats)
    new = program(BEFORE.replace("    n: int\n", "") + "    more: int = 9\n")
    restored = taken.read().restore_serializer()
    assert restored.deserialize(taken.state) == new.Stats(1.5, "x", 9)
    with pytest.raises(UsageError, match="only be read"):
        restored.serialize(new.Stats(1.5))
    program("@dataclass\nclass Stats:\n    n: str\n")
    with pytest.raises(Incompatible, match=r"Stats\.n: int -> str"):
        taken.read().restore_serializer()
    program("")
    with pytest.raises(Incompatible, match=f"the class {MODULE}:Stats is needed"):
        taken.read().restore_serializer()


def test_the_snapshot_says_what_the_state_is() -> None:
    snapshot = savepoint(BEFORE, 3, 1.5).read()
    assert isinstance(snapshot, DataclassSerializerSnapshot)
    assert snapshot.class_name == f"{MODULE}:Stats"
    assert snapshot.field_types == {"n": "int", "distance": "float", "note": "str"}
    assert snapshot.type_name == "Stats"


def test_a_type_that_is_no_record_any_more() -> None:
    assert savepoint(BEFORE, 3, 1.5).reasons(int)[0].startswith("int: Stats -> int: ")


def test_wrong_values_are_refused_by_field() -> None:
    made = program(LEGS.format(leg="", more=""))
    serializer = serializer_of(made.Stats)
    with pytest.raises(
        UsageError, match=r"^Stats\.legs: Leg\.speed: 'fast' \(str\) is not of type float"
    ):
        serializer.serialize(made.Stats([made.Leg("fast")], {}, None))
    with pytest.raises(UsageError, match=f"is not of type {MODULE}:Stats"):
        serializer.serialize(made.Leg(1.0))


def test_a_class_that_refuses_old_values_says_so() -> None:
    check = BEFORE + "    def __post_init__(self) -> None:\n        {}\n"
    taken = savepoint(BEFORE, -3, 1.5)
    new = program(check.format("assert self.n >= 0, 'negative'"))
    with pytest.raises(Incompatible, match=r"does not accept the values in the state: .*negative"):
        taken.restored(new.Stats).read(taken.state)


def test_fields_that_the_constructor_does_not_take() -> None:
    before = (
        "@dataclass(frozen=True, slots=True)\nclass Stats:\n    n: int\n"
        "    twice: int = field(init=False, default=0)\n"
    )
    old = program(before).Stats
    value = old(3)
    object.__setattr__(value, "twice", 6)
    serializer = serializer_of(old)
    assert serializer.deserialize(serializer.serialize(value)).twice == 6


def test_damaged_bytes() -> None:
    serializer = serializer_of(program(BEFORE).Stats)
    good = savepoint(BEFORE, 3, 1.5).state
    for bad in (b"", good[:-1], good + b"\0"):
        with pytest.raises(Corrupt):
            serializer.deserialize(bad)
    written = serializer_of(int).snapshot_configuration()
    out = bytearray(b"\1a\2")
    for _ in range(2):
        put_text(out, "n")
        put_part(out, write_snapshot(written))
    with pytest.raises(Corrupt, match="a field twice"):
        DataclassSerializerSnapshot().read_snapshot(1, bytes(out), ModuleLoader(PLACE))


@dataclass
class Plain:
    n: int
    text: str
    some: list[bytes]
    maybe: float | None = None


@given(
    st.builds(Plain, st.integers(-9, 9), st.text(), st.lists(st.binary()), st.none() | st.just(0.5))
)
def test_round_trip(value: Plain) -> None:
    serializer = serializer_of(Plain)
    assert serializer.deserialize(serializer.serialize(value)) == value


def test_it_travels_to_the_executors() -> None:
    serializer = pickle.loads(pickle.dumps(serializer_of(Plain)))
    assert serializer == serializer_of(Plain)
    assert serializer.deserialize(serializer.serialize(Plain(1, "x", []))) == Plain(1, "x", [])


def test_a_class_that_contains_itself_says_what_to_use() -> None:
    made = program("@dataclass\nclass Stats:\n    parts: list[Stats]\n")
    with pytest.raises(UsageError, match="contains itself") as caught:
        DataclassSerializer(made.Stats)
    assert "AvroSerializer" in caught.value.hint
