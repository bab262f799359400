"""The bytes of a state over several restores, eager and lazy."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from flinkish.errors import Corrupt, Incompatible
from flinkish.state.avro.serializer import AvroSerializer
from flinkish.state.builtin.primitives import LongSerializer, StringSerializer
from flinkish.state.generations import (
    MAX_GENERATIONS,
    ResolvedState,
    StateFormat,
    resolve_state,
    restore_state,
)
from flinkish.state.serializers import TypeSerializer, Verdict
from flinkish.state.snapshots import ModuleLoader, StatePlace, write_snapshot
from tests.state.programs import ScaleSerializer

LOADER = ModuleLoader(StatePlace("stats", "per-plane"), ("flinkish", "tests"))
INT, DOUBLE, OPTIONAL = (AvroSerializer(each) for each in ("int", "double", ["null", "double"]))


@dataclass(frozen=True)
class Run:
    """A program that has written a state, and the snapshots of its savepoint."""

    format: StateFormat
    snapshots: tuple[bytes, ...]


def first(serializer: TypeSerializer[Any]) -> Run:
    snapshot = write_snapshot(serializer.snapshot_configuration())
    return Run(StateFormat.of(serializer), (snapshot,))


def restored(run: Run, new: TypeSerializer[Any], *, eager: bool) -> ResolvedState:
    return resolve_state(run.snapshots, new, LOADER, eager=eager)


def test_a_value_says_its_generation() -> None:
    stored = first(INT).format.write(7)
    assert stored == b"\x00" + INT.serialize(7)
    assert first(INT).format.read(stored) == 7


def test_eager_all_values_are_written_again_and_one_snapshot_stays() -> None:
    old = first(INT)
    found = restored(old, DOUBLE, eager=True)
    assert found.verdict is Verdict.AFTER_MIGRATION
    assert found.rewriting is not None
    assert not found.is_mixed
    migrated = found.rewriting.rewrite(old.format.write(7))
    assert migrated == b"\x00" + DOUBLE.serialize(7.0)
    assert found.format.read(migrated) == 7.0
    assert found.snapshots == first(DOUBLE).snapshots


def test_lazy_old_values_stay_until_they_are_touched() -> None:
    old = first(INT)
    found = restored(old, DOUBLE, eager=False)
    assert found.rewriting is None
    assert found.is_mixed
    assert found.format.read(old.format.write(7)) == 7.0
    assert found.format.write(7.5)[:1] == b"\x01"
    assert found.snapshots == (*old.snapshots, *first(DOUBLE).snapshots)


def test_lazy_twice_then_eager() -> None:
    """Three generations lie side by side; each is read as what the newest program has."""
    one = first(INT)
    two = restored(one, DOUBLE, eager=False)
    three = restored(Run(two.format, two.snapshots), OPTIONAL, eager=False)
    stored = [one.format.write(1), two.format.write(2.5), three.format.write(None)]
    assert [each[0] for each in stored] == [0, 1, 2]
    assert [three.format.read(each) for each in stored] == [1.0, 2.5, None]
    last = restored(Run(three.format, three.snapshots), OPTIONAL, eager=True)
    assert last.rewriting is not None
    assert [last.rewriting.rewrite(each) for each in stored] == [
        b"\x00" + OPTIONAL.serialize(value) for value in (1.0, 2.5, None)
    ]
    assert last.snapshots == first(OPTIONAL).snapshots


def test_lazy_the_same_program_again_adds_no_generation() -> None:
    one = first(INT)
    two = restored(one, DOUBLE, eager=False)
    again = restored(Run(two.format, two.snapshots), DOUBLE, eager=False)
    assert again.snapshots == two.snapshots
    assert again.is_mixed
    assert again.format.read(one.format.write(3)) == 3.0


@pytest.mark.parametrize("eager", [True, False])
def test_as_is_nothing_is_rewritten(eager: bool) -> None:
    found = restored(first(LongSerializer()), LongSerializer(), eager=eager)
    assert (found.verdict, found.rewriting, found.is_mixed) == (Verdict.AS_IS, None, False)


@pytest.mark.parametrize("eager", [True, False])
def test_reconfigured_the_verdicts_serializer_writes_and_is_kept(eager: bool) -> None:
    old = first(ScaleSerializer(1))
    found = restored(old, ScaleSerializer(4), eager=eager)
    assert found.verdict is Verdict.RECONFIGURED
    assert found.format.write(1.5) == b"\x0015"
    assert found.snapshots == old.snapshots


def test_incompatible_names_the_state_and_the_operator() -> None:
    with pytest.raises(Incompatible, match="the state stats of the operator per-plane"):
        restored(first(DOUBLE), INT, eager=True)
    two = restored(first(INT), DOUBLE, eager=False)
    with pytest.raises(Incompatible, match="the state stats"):
        restored(Run(two.format, two.snapshots), AvroSerializer("boolean"), eager=False)


def test_bytes_of_another_generation_or_of_no_state() -> None:
    written = first(StringSerializer()).format
    with pytest.raises(Incompatible, match="generation 1"):
        written.read(b"\x01abc")
    for damaged in (b"", b"\xff\x01"):
        with pytest.raises(Corrupt, match="generation"):
            written.read(damaged)


def test_too_many_generations() -> None:
    snapshots = first(INT).snapshots * MAX_GENERATIONS
    with pytest.raises(Incompatible, match="100 serializers"):
        resolve_state(snapshots, DOUBLE, LOADER, eager=False)
    assert resolve_state(snapshots, DOUBLE, LOADER, eager=True).snapshots == first(DOUBLE).snapshots
    for damaged in ((), snapshots + snapshots):
        with pytest.raises(Corrupt, match="1 to 100"):
            resolve_state(damaged, DOUBLE, LOADER, eager=True)


def test_a_format_travels_to_the_executors() -> None:
    old = first(INT)
    found = pickle.loads(pickle.dumps(restored(old, DOUBLE, eager=True)))
    assert found.rewriting.rewrite(old.format.write(7)) == b"\x00" + DOUBLE.serialize(7.0)


PLACE = StatePlace("stats", "per-plane")


def test_as_is_the_new_serializer_does_everything() -> None:
    found = restore_state(LongSerializer().snapshot_configuration(), LongSerializer(), PLACE)
    assert found.serializer is found.reader
    data = LongSerializer().serialize(5)
    assert found.migrate(data) is data


def test_reconfigured_the_verdicts_serializer_does() -> None:
    new = ScaleSerializer(4)
    found = restore_state(ScaleSerializer(1).snapshot_configuration(), new, PLACE)
    assert found.serializer is not new
    assert found.serializer.serialize(1.5) == b"15"


def test_migrated_the_old_is_read_and_the_new_written() -> None:
    old, new = AvroSerializer("int"), AvroSerializer(["null", "double"])
    found = restore_state(old.snapshot_configuration(), new, PLACE)
    assert found.needs_migration
    assert new.deserialize(found.migrate(old.serialize(7))) == 7.0
    again = pickle.loads(pickle.dumps(found))
    assert again.migrate(old.serialize(7)) == found.migrate(old.serialize(7))


def test_incompatible_names_the_state_its_operator_and_the_reasons() -> None:
    with pytest.raises(Incompatible) as caught:
        restore_state(LongSerializer().snapshot_configuration(), StringSerializer(), PLACE)
    error = caught.value
    assert error.message.startswith("the state stats of the operator per-plane cannot be restored")
    assert "int -> str" in error.message
    assert len(error.data["reasons"]) == 1
    assert Verdict.INCOMPATIBLE.value == "incompatible"
