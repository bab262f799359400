"""NumPy's scalars: bits, type, and the same on every machine."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from flinkish.errors import Corrupt, UsageError
from flinkish.state.builtin.numpy_scalars import NAMES, NumpyScalarSerializer
from flinkish.state.builtin.primitives import LongSerializer
from flinkish.state.serializers import Verdict
from flinkish.state.snapshots import read_snapshot, write_snapshot


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name: str) -> None:
    serializer = NumpyScalarSerializer(name)
    scalar = np.dtype(name).type
    for value in (scalar(0), scalar(1), scalar(100) if name != "bool" else scalar(True)):
        found = serializer.deserialize(serializer.serialize(value))
        assert type(found) is type(value)
        assert found == value
    data = write_snapshot(serializer.snapshot_configuration())
    assert read_snapshot(data, "the state x").restore_serializer() == serializer


def test_the_lowest_byte_is_first() -> None:
    assert NumpyScalarSerializer(np.int32).serialize(np.int32(1)) == b"\1\0\0\0"


def test_the_type_may_not_change() -> None:
    snapshot = NumpyScalarSerializer(np.int32).snapshot_configuration()
    same = snapshot.resolve_schema_compatibility(NumpyScalarSerializer("int32"))
    assert same.verdict is Verdict.AS_IS
    for other in (NumpyScalarSerializer(np.int64), LongSerializer()):
        (reason,) = snapshot.resolve_schema_compatibility(other).reasons
        assert f"numpy.int32 -> {other.type_name}" in reason


@pytest.mark.parametrize("value", [1, 1.0, np.int64(1), np.float32(1), None])
def test_values_of_other_types_are_refused(value: Any) -> None:
    with pytest.raises(UsageError, match=r"is not of type numpy\.int32"):
        NumpyScalarSerializer(np.int32).serialize(value)


@pytest.mark.parametrize("scalar", [np.longdouble, np.datetime64, np.str_, object, "what"])
def test_types_without_a_fixed_form_are_refused(scalar: Any) -> None:
    with pytest.raises(UsageError, match="not a NumPy scalar type that state can contain"):
        NumpyScalarSerializer(scalar)


def test_damaged_bytes() -> None:
    with pytest.raises(Corrupt):
        NumpyScalarSerializer(np.int32).deserialize(b"\0")
    with pytest.raises(Corrupt):
        NumpyScalarSerializer(np.bool_).deserialize(b"\2")
    good = write_snapshot(NumpyScalarSerializer(np.int32).snapshot_configuration())
    with pytest.raises(Corrupt):
        read_snapshot(good.replace(b"int32", b"intxx"), "the state x")


def test_numpy_is_imported_when_it_is_used() -> None:
    program = (
        "import sys; from flinkish.state import ValueStateDescriptor, resolve;"
        "ValueStateDescriptor('n', list[int]); resolve('int', 'long');"
        "print('numpy' in sys.modules, 'pyspark' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("False False\n", "")
