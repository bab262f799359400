"""Random schemas, with fastavro as the oracle, and where fastavro is not what Avro says.

Compatible: the old bytes are read, and as fastavro reads them. Incompatible: there is a value that
fastavro cannot read either. Where the two differ, one of ``DEVIATIONS`` must be at work.
"""

from __future__ import annotations

import struct
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, event

from flinkish.errors import Corrupt, UsageError
from flinkish.state.avro.resolution import compile_reader, resolve, why_not
from flinkish.state.avro.schemas import Node, Record, Scalar, Union, parse_schema, walk
from flinkish.state.avro.serializer import AvroSerializer
from flinkish.state.generations import restore_state
from flinkish.state.serializers import Verdict
from tests.state.avro.random_schemas import pairs, values
from tests.state.avro.test_resolution import (
    by_fastavro,
    encode,
    enum,
    field,
    fixed,
    logical,
    read,
    record,
)
from tests.support.examples import attempt, examples

DECIMAL = logical("bytes", "decimal", precision=9, scale=2)

#: Where fastavro 1.13 deviates: writer, reader, value, ours, fastavro's (None: an error), reason.
DEVIATIONS: dict[str, tuple[Any, Any, Any, Any, Any, str]] = {
    "default of bytes": (
        record(),
        record(field("x", "bytes", default="\xff")),
        {},
        {"x": b"\xff"},
        {"x": "\xff"},
        "a default is JSON, where bytes are a string; fastavro gives the JSON",
    ),
    "default of a logical type": (
        record(),
        record(field("x", logical("int", "date"), default=1)),
        {},
        {"x": date(1970, 1, 2)},
        {"x": 1},
        "the same for logical types",
    ),
    "default of a record": (
        record(),
        record(field("x", record(field("y", "int", default=3), name="Inner"), default={})),
        {},
        {"x": {"y": 3}},
        {"x": {}},
        "fields that a default lacks have their own defaults",
    ),
    "float": (
        "int",
        "float",
        16_777_217,
        16_777_216.0,
        16_777_217.0,
        "a float has 32 bits; the value would differ once it is written again",
    ),
    "union order": (
        ["double", "long"],
        ["double", "long", "null"],
        ("long", (1 << 60) + 1),
        (1 << 60) + 1,
        float((1 << 60) + 1),
        "the specification's first match, taken at its word, loses digits (as in Java, we take the "
        "very type that was written before one that it could become)",
    ),
    "reader's logical type": (
        "int",
        logical("int", "date"),
        1,
        date(1970, 1, 2),
        1,
        "values are those of the reader's schema; fastavro's are those of the writer's",
    ),
    "writer's logical type": (
        DECIMAL,
        "bytes",
        Decimal("1.25"),
        b"\x7d",
        Decimal("1.25"),
        "the same the other way round",
    ),
    "decimals": (
        DECIMAL,
        {**DECIMAL, "scale": 3},
        Decimal("1.25"),
        None,
        Decimal("1.25"),
        "decimals match if precision and scale do; fastavro does not look",
    ),
    "units": (
        logical("int", "date"),
        logical("int", "time-millis"),
        date(1970, 1, 2),
        None,
        date(1970, 1, 2),
        "a date is no time of day; fastavro does not look at the reader's logical type",
    ),
    "kinds of named types": (
        fixed(1, name="Same"),
        enum("A", name="Same"),
        b"\x01",
        None,
        b"\x01",
        "types of different kinds do not match; fastavro compares their names alone",
    ),
    "name before alias": (
        record(field("a", "int"), field("b", "int")),
        record(field("b", "int", aliases=["a"])),
        {"a": 1, "b": 2},
        {"b": 2},
        {"b": 1},
        "fastavro takes whichever was written first",
    ),
}


@pytest.mark.parametrize("name", DEVIATIONS)
def test_where_fastavro_deviates(name: str) -> None:
    """When fastavro is mended, the entry goes."""
    writer, reader, value, ours, theirs, reason = DEVIATIONS[name]
    assert reason
    data = encode(writer, value)
    assert by_fastavro(writer, reader, data) == theirs
    if ours is None:
        assert resolve(writer, reader).verdict is Verdict.INCOMPATIBLE
    else:
        found = compile_reader(writer, reader).read(data)
        assert found == ours
        assert type(found) is type(ours)


def deviations(writer: Any, reader: Any) -> set[str]:
    """Which of the deviations a pair of schemas may meet."""
    old, new = (walk(parse_schema(each).root) for each in (writer, reader))
    found = set()
    if any(isinstance(node, Union) and _has_a_choice(node, old) for node in new):
        found.add("union order")
    if any(isinstance(node, Scalar) and node.logical for node in [*old, *new]):
        found |= {"reader's logical type", "writer's logical type", "decimals", "units"}
    return found


def _has_a_choice(union: Union, old: list[Node]) -> bool:
    """Whether a written type matches two of a reader's union."""
    plain = [each for each in old if not isinstance(each, Union)]
    return any(sum(why_not(w, each) is None for each in union.branches) > 1 for w in plain)


def same(ours: Any, theirs: Any) -> bool:
    """Equal, but for fastavro's floats, which it does not round (see "float")."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == theirs or ours == struct.unpack("f", struct.pack("f", theirs))[0]
    return type(ours) is type(theirs) and bool(ours == theirs)


def oracle(writer: Any, reader: Any, data: bytes) -> Any:
    """What fastavro reads, or the error that it happens to raise."""
    return attempt(lambda: by_fastavro(writer, reader, data), Exception)


def written(writer: Any) -> list[bytes]:
    found = values(parse_schema(writer).root)
    assume(found)  # a record that contains itself without end has no values
    return [encode(writer, value) for value in found[:200]]


@examples(200, 5_000, pairs())
def test_the_verdict_is_that_of_fastavro(pair: tuple[Any, Any, bool]) -> None:
    writer, reader, tricky = pair
    resolution = compile_reader(writer, reader)
    verdict = resolution.compatibility.verdict
    event(f"{verdict.value}{', tricky' if tricky else ''}")
    excuses = deviations(writer, reader)
    assert tricky or not excuses, "plain schemas meet no deviation"
    data = written(writer)
    theirs = [oracle(writer, reader, each) for each in data]
    if verdict is Verdict.INCOMPATIBLE:
        failed = any(isinstance(each, Exception) for each in theirs)
        assert failed or excuses, resolution.compatibility.reasons
        return
    for each, expected in zip(data, theirs, strict=True):
        found = attempt(lambda bad=each: resolution.read(bad), Corrupt)  # type: ignore[misc]
        if isinstance(expected, Exception) or not same(found, expected):
            assert excuses, f"{found!r}, and fastavro: {expected!r}"
        if verdict is Verdict.AS_IS and not isinstance(found, Corrupt):
            assert same(found, compile_reader(reader, reader).read(each)), "the bytes stay valid"


@examples(100, 5_000, pairs())
def test_migrated_values_are_written_and_read_again(pair: tuple[Any, Any, bool]) -> None:
    writer, reader, _ = pair
    made = attempt(lambda: (AvroSerializer(writer), AvroSerializer(reader)), UsageError)
    assume(not isinstance(made, UsageError))  # a union whose dicts cannot be told apart
    old, new = made  # type: ignore[misc]
    snapshot = old.snapshot_configuration()
    assume(snapshot.resolve_schema_compatibility(new).verdict is not Verdict.INCOMPATIBLE)
    restored = restore_state(snapshot, new, "the state x")
    for data in written(writer):
        value = attempt(lambda bad=data: restored.read(bad), Corrupt)  # type: ignore[misc]
        if isinstance(value, Corrupt):  # a long that is no date
            assert "reader's logical type" in deviations(writer, reader)
            continue
        assert same(restored.serializer.deserialize(restored.migrate(data)), value)
        assert same(old.deserialize(data), read_plainly(writer, data))


def read_plainly(schema: Any, data: bytes) -> Any:
    return compile_reader(schema, schema).read(data)


@examples(100, 5_000, pairs())
def test_damaged_bytes_are_a_value_or_an_error_of_ours(pair: tuple[Any, Any, bool]) -> None:
    writer, reader, _ = pair
    resolution = compile_reader(writer, reader)
    assume(resolution.compatibility.verdict is not Verdict.INCOMPATIBLE)
    serializer = attempt(lambda: AvroSerializer(writer), UsageError)
    for data in written(writer)[:10]:
        for damaged in (data[:-1], data + b"\0", bytes(b ^ 0x81 for b in data), b"\xff" * 20):
            attempt(lambda bad=damaged: resolution.read(bad), Corrupt)  # type: ignore[misc]
            if isinstance(serializer, AvroSerializer):
                attempt(lambda bad=damaged: serializer.deserialize(bad), Corrupt)  # type: ignore[misc]


def test_the_random_schemas_contain_records_that_contain_themselves() -> None:
    node = parse_schema(record(field("x", {"type": "array", "items": "Stats"}))).root
    assert isinstance(node, Record)
    assert {"x": []} in values(node)
    assert read(record(field("x", "int")), record(field("x", "int")), {"x": 1}) == {"x": 1}
