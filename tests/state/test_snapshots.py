"""Snapshots as bytes: class, version, content; every way in which a restore can fail by name."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.errors import Corrupt, FlinkishError, Incompatible, UnsupportedFormat, UsageError
from flinkish.state import serializer_of
from flinkish.state.avro.serializer import AvroSerializer
from flinkish.state.serializers import TypeSerializerSnapshot
from flinkish.state.snapshots import (
    MAX_BYTES,
    MAX_DEPTH,
    ModuleLoader,
    StatePlace,
    check_findable,
    check_snapshot_class,
    read_snapshot,
    write_snapshot,
)
from flinkish.state.wire import put_part, put_size, put_text
from tests.state import programs
from tests.state.programs import CelsiusSerializer, CelsiusSerializerSnapshot

PLACE = StatePlace("temperature", "per-city")
OWN = ("flinkish", "tests.state")
NAME = "tests.state.programs:CelsiusSerializerSnapshot"


def frame(name: str = NAME, version: int = 1, content: bytes = b"", framing: int = 1) -> bytes:
    out = bytearray([framing])
    put_text(out, name)
    put_size(out, version)
    put_part(out, content)
    return bytes(out)


def fails(data: bytes, kind: type[FlinkishError], modules: tuple[str, ...] = OWN) -> FlinkishError:
    with pytest.raises(kind) as caught:
        read_snapshot(data, PLACE, modules)
    error = caught.value
    assert error.message.startswith("the state temperature of the operator per-city: ")
    assert error.data["place"] == str(PLACE)
    assert error.hint
    return error


def test_a_snapshot_is_read_as_it_was_written() -> None:
    data = write_snapshot(CelsiusSerializerSnapshot("a note"))
    found = read_snapshot(data, PLACE, OWN)
    assert isinstance(found, CelsiusSerializerSnapshot)
    assert (found.version, found.note) == (2, "a note")
    assert data == frame(version=2, content=b"a note")


def test_the_framing_stays_what_it_is() -> None:
    """Savepoints have it."""
    inner = b"flinkish.state.builtin.primitives:LongSerializerSnapshot"
    outer = b"flinkish.state.builtin.containers:ListSerializerSnapshot"
    nested = b"\x01" + bytes([len(inner)]) + inner + b"\x01\x00"
    content = b"\x00\x01" + bytes([len(nested)]) + nested
    assert write_snapshot(serializer_of(list[int]).snapshot_configuration()) == (
        b"\x01" + bytes([len(outer)]) + outer + b"\x01" + bytes([len(content)]) + content
    )


def test_an_older_version_is_read_as_such() -> None:
    found = read_snapshot(frame(version=1, content=b"old"), PLACE, OWN)
    assert isinstance(found, CelsiusSerializerSnapshot)
    assert (found.version, found.note) == (1, "old")


def test_a_newer_version_is_refused() -> None:
    error = fails(frame(version=3), UnsupportedFormat)
    assert f"version 3 of the snapshot {NAME} was written" in error.message
    assert "reads up to 2" in error.message
    assert error.data["class_name"] == NAME


def test_a_newer_framing_is_refused() -> None:
    assert "a newer flinkish wrote" in fails(frame(framing=2), UnsupportedFormat).message


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends within a size"),
        (b"\0", "does not start like a snapshot"),
        (frame() + b"\0", "1 extra bytes"),
        (frame(content=b"abc")[:-1], "cut off"),
        (frame(version=0), "version 0"),
        (frame(version=1 << 40), "version 1099511627776"),
        (frame(name="x" * 5000), "a part of 5000 bytes; the maximum is 2000"),
        (frame(name="no name"), "'no name' is not a class name"),
        (frame(name="os.path:join.x"), "is not a class name"),
        (frame(name="a:b:c"), "is not a class name"),
        (frame(name="..:x"), "is not a class name"),
        (frame(content=b"\xff"), "UnicodeDecodeError"),
        (frame(content=b"broken"), "KeyError"),
        (b"\x01" + b"x" * MAX_BYTES, "the maximum is"),
    ],
)
def test_bad_bytes(data: bytes, reason: str) -> None:
    assert reason in fails(data, Corrupt).message


@given(st.binary(max_size=60))
def test_bytes_from_anywhere_are_an_error_of_ours(data: bytes) -> None:
    with pytest.raises((Corrupt, UnsupportedFormat, Incompatible)):
        read_snapshot(data, PLACE, OWN)


@given(st.data())
def test_one_wrong_byte_is_an_error_of_ours_or_a_snapshot(data: st.DataObject) -> None:
    good = write_snapshot(
        serializer_of(dict[str, list[tuple[int, bytes]]]).snapshot_configuration()
    )
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    try:
        found = read_snapshot(bad, PLACE, ("flinkish",))
    except FlinkishError as error:
        assert str(PLACE) in error.message  # noqa: PT017 - either is right
    else:
        assert isinstance(found, TypeSerializerSnapshot)


def test_the_class_is_missing() -> None:
    error = fails(frame(name="tests.state.programs:Gone"), Incompatible)
    assert "the class tests.state.programs:Gone is needed" in error.message
    assert "has no class Gone" in error.message
    assert error.hint == "move the class back to where it was: tests.state.programs:Gone"


def test_the_class_is_missing_where_a_module_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tests.state.blocked", None)
    error = fails(frame(name="tests.state.programs:Gone"), Incompatible)
    assert "has no class Gone" in error.message


def test_the_module_is_missing() -> None:
    error = fails(frame(name="tests.state.gone.deeper:Snapshot"), Incompatible)
    assert "there is no module tests.state.gone" in error.message


@pytest.mark.parametrize("module", ["tests.state.gone", "tests.state.test_wire"])
def test_the_class_was_moved_to_another_module(module: str) -> None:
    error = fails(frame(name=f"{module}:CelsiusSerializerSnapshot"), Incompatible)
    assert "there is a class CelsiusSerializerSnapshot in tests.state.programs" in error.message
    assert error.hint == (
        "if it was moved, keep its old name: from tests.state.programs import "
        f"CelsiusSerializerSnapshot in {module}"
    )


@pytest.fixture
def old_home() -> Iterator[types.ModuleType]:
    module = types.ModuleType("tests.state.old_home")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_a_class_that_was_moved_is_found_where_its_old_name_is_kept(old_home: Any) -> None:
    old_home.CelsiusSerializerSnapshot = CelsiusSerializerSnapshot
    data = frame(name="tests.state.old_home:CelsiusSerializerSnapshot")
    assert isinstance(read_snapshot(data, PLACE, OWN), CelsiusSerializerSnapshot)


@pytest.mark.parametrize(
    "name", [NAME, "os:PathLike", "flinkishx.state:Snapshot", "testsx:A", "builtins:dict"]
)
def test_a_module_that_is_not_allowed_is_not_imported(name: str) -> None:
    error = fails(frame(name=name), Incompatible, ("flinkish",))
    assert f"the class {name} is needed, but its module is not one of those" in error.message
    assert "engine.snapshot-modules" in error.hint


def test_the_hint_to_allow_a_module_keeps_those_that_are_allowed() -> None:
    allowed = ("flinkish", "__main__", "beside")
    error = fails(frame(name="other.deep:Snapshot"), Incompatible, allowed)
    assert error.hint == (
        "if you trust that module, set engine.snapshot-modules to __main__,beside,other"
    )


def test_a_module_that_is_not_allowed_does_not_run() -> None:
    assert "antigravity" not in sys.modules
    fails(frame(name="antigravity:Snapshot"), Incompatible)
    assert "antigravity" not in sys.modules


def test_a_class_that_is_no_snapshot_is_not_made() -> None:
    error = fails(frame(name="tests.state.programs:Celsius"), Incompatible)
    assert "is not a TypeSerializerSnapshot" in error.message
    fails(frame(name="tests.state.programs:changed_type"), Incompatible)


def test_a_module_that_cannot_be_imported(old_home: Any, tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "flinkish_test_broken.py").write_text("import flinkish_no_such_module\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    error = fails(frame(name="flinkish_test_broken:S"), Incompatible, ("flinkish_test_broken",))
    assert "importing flinkish_test_broken failed: ModuleNotFoundError" in error.message


def test_snapshots_within_snapshots_are_counted() -> None:
    hint: Any = int
    for _ in range(MAX_DEPTH + 5):
        hint = list[hint]
    data = write_snapshot(serializer_of(hint).snapshot_configuration())
    assert f"nested more than {MAX_DEPTH} deep" in fails(data, Corrupt).message


def test_the_innermost_error_names_the_place_once() -> None:
    inner = frame(name="flinkish.state.builtin.primitives:LongSerializerSnapshot", content=b"x")
    out = bytearray(b"\0\1")
    put_part(out, inner)
    name = "flinkish.state.builtin.containers:ListSerializerSnapshot"
    message = fails(frame(name=name, content=bytes(out)), Corrupt).message
    assert message.count("the state temperature") == 1
    assert "LongSerializerSnapshot" in message


def test_an_avro_snapshot_is_damaged() -> None:
    name = "flinkish.state.avro.serializer:AvroSerializerSnapshot"
    for content in (b"", b"{", b'{"type":"what"}', b"[" * 100_000):
        fails(frame(name=name, content=content), Corrupt)
    good = write_snapshot(AvroSerializer("long").snapshot_configuration())
    assert read_snapshot(good, PLACE).restore_serializer() == AvroSerializer("long")


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (programs.NeedsArguments, "has a constructor that needs arguments"),
        (programs.Unfinished, "lacks read_snapshot, resolve_schema_compatibility"),
        (programs.WithoutVersion, "has no current_version"),
        (programs.PRIVATE, "is not public"),
        (programs.Outer.Nested, "is not at the top level of its module"),
        (programs.Celsius, "is not a TypeSerializerSnapshot"),
    ],
)
def test_a_class_that_would_not_be_found_again_is_refused(cls: type, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        check_snapshot_class(cls)
    assert cls.__qualname__ in caught.value.message
    check_snapshot_class(CelsiusSerializerSnapshot)


def test_a_class_made_in_a_function_is_refused() -> None:
    class Local(CelsiusSerializerSnapshot):
        pass

    with pytest.raises(UsageError, match="not at the top level"):
        write_snapshot(Local())
    hidden = type("CelsiusSerializerSnapshot", (CelsiusSerializerSnapshot,), {})
    hidden.__module__ = programs.__name__
    with pytest.raises(UsageError, match="is not the object that its module has under that name"):
        check_findable(hidden, "the class")


def test_a_snapshot_that_would_not_be_read_is_not_written() -> None:
    with pytest.raises(UsageError, match="the maximum is"):
        write_snapshot(CelsiusSerializerSnapshot("x" * MAX_BYTES))


def test_classes_of_the_main_program_are_found_when_it_is_allowed() -> None:
    program = (
        "from dataclasses import dataclass\n"
        "from flinkish.state import *\n"
        "@dataclass\n"
        "class Stats:\n"
        "    n: int\n"
        "data = write_snapshot(serializer_of(Stats).snapshot_configuration())\n"
        "back = read_snapshot(data, 'it', ('flinkish', '__main__')).restore_serializer()\n"
        "print(back.deserialize(serializer_of(Stats).serialize(Stats(3))))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("Stats(n=3)\n", "")


def test_a_loader_finds_classes_of_a_kind() -> None:
    loader = ModuleLoader("the state x", OWN)
    assert loader.load("tests.state.programs:CelsiusSerializer") is CelsiusSerializer
    with pytest.raises(Incompatible, match=r"the state x: .* is not a dict"):
        loader.load("tests.state.programs:CelsiusSerializer", dict)
