"""What follows from a verdict: who reads the old bytes, who writes from now on."""

from __future__ import annotations

import pickle

import pytest

from flinkish.errors import Incompatible
from flinkish.state.avro.serializer import AvroSerializer
from flinkish.state.builtin.primitives import LongSerializer, StringSerializer
from flinkish.state.restored import restore_state
from flinkish.state.serializers import Verdict
from flinkish.state.snapshots import StatePlace
from tests.state.programs import ScaleSerializer

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
