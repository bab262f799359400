"""Avro's resolution by the specification's own table: every promotion, every refusal, both ways."""

from __future__ import annotations

import io
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from flinkish.errors import Corrupt, UsageError
from flinkish.state.avro.resolution import compile_reader, resolve
from flinkish.state.serializers import Verdict

AS_IS, MIGRATE, NOT = Verdict.AS_IS, Verdict.AFTER_MIGRATION, Verdict.INCOMPATIBLE

#: A value of each type, as the writer has it.
VALUES: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 7,
    "long": 1 << 40,
    "float": 1.5,
    "double": 2.25,
    "bytes": b"abc",
    "string": "abc",
    "array": [1, 2],
    "map": {"a": 1},
    "fixed": b"abcd",
    "enum": "A",
    "record": {"x": 1},
}
SCHEMAS: dict[str, Any] = {
    **{name: name for name in list(VALUES)[:8]},
    "array": {"type": "array", "items": "int"},
    "map": {"type": "map", "values": "int"},
    "fixed": {"type": "fixed", "name": "F", "size": 4},
    "enum": {"type": "enum", "name": "E", "symbols": ["A", "B"]},
    "record": {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]},
}
#: The specification: "the writer's schema may be promoted to the reader's as follows".
PROMOTED: dict[tuple[str, str], tuple[Verdict, Any]] = {
    ("int", "long"): (AS_IS, 7),
    ("int", "float"): (MIGRATE, 7.0),
    ("int", "double"): (MIGRATE, 7.0),
    ("long", "float"): (MIGRATE, float(1 << 40)),
    ("long", "double"): (MIGRATE, float(1 << 40)),
    ("float", "double"): (MIGRATE, 1.5),
    ("string", "bytes"): (AS_IS, b"abc"),
    ("bytes", "string"): (MIGRATE, "abc"),
}


def encode(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def by_fastavro(writer: Any, reader: Any, data: bytes) -> Any:
    parsed = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    return fastavro.schemaless_reader(io.BytesIO(data), *parsed)


def read(writer: Any, reader: Any, value: Any) -> Any:
    return compile_reader(writer, reader).read(encode(writer, value))


def record(*fields: dict[str, Any], name: str = "Stats", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, of: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": of, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def logical(of: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": of, "logicalType": name, **more}


def reasons(writer: Any, reader: Any) -> tuple[str, ...]:
    found = resolve(writer, reader)
    assert found.verdict is NOT
    return found.reasons


@pytest.mark.parametrize("new", SCHEMAS)
@pytest.mark.parametrize("old", SCHEMAS)
def test_the_table_of_the_specification(old: str, new: str) -> None:
    writer, reader, value = SCHEMAS[old], SCHEMAS[new], VALUES[old]
    verdict, expected = PROMOTED.get((old, new), (AS_IS, value) if old == new else (NOT, None))
    found = resolve(writer, reader)
    assert found.verdict is verdict
    data = encode(writer, value)
    if verdict is not NOT:
        assert read(writer, reader, value) == expected == by_fastavro(writer, reader, data)
        assert type(read(writer, reader, value)) is type(expected)
    else:
        assert len(found.reasons) == 1
        with pytest.raises(Exception):  # noqa: B017, PT011 - it raises what its code happens to meet
            by_fastavro(writer, reader, data)


@pytest.mark.parametrize("new", list(SCHEMAS)[:8])
@pytest.mark.parametrize("old", list(SCHEMAS)[:8])
@pytest.mark.parametrize("around", ["array", "map", "record", "union"])
def test_the_same_table_inside_other_types(around: str, old: str, new: str) -> None:
    def within(schema: str) -> Any:
        return {
            "array": {"type": "array", "items": schema},
            "map": {"type": "map", "values": schema},
            "record": record(field("x", schema)),
            "union": [schema],
        }[around]

    alone = resolve(SCHEMAS[old], SCHEMAS[new]).verdict
    assert resolve(within(old), within(new)).verdict is alone


def test_reasons_name_the_field_and_the_change() -> None:
    leg = record(field("speed", "long"), name="Leg")
    writer = record(field("distance", "float"), field("legs", {"type": "array", "items": leg}))
    new_leg = record(field("speed", "int"), name="Leg")
    reader = record(
        field("distance", "string"),
        field("legs", {"type": "array", "items": new_leg}),
        field("extra", "int"),
    )
    assert reasons(writer, reader) == (
        "Stats.distance: float -> string is not an Avro promotion",
        "Stats.legs.element.speed: long -> int is not an Avro promotion",
        "Stats.extra: added without a default, and existing values lack it; give it a default",
    )


def test_a_field_that_is_added_gets_its_default() -> None:
    reader = record(field("x", "int"), field("y", ["null", "long"], default=None))
    assert resolve(record(field("x", "int")), reader).verdict is MIGRATE
    assert read(record(field("x", "int")), reader, {"x": 1}) == {"x": 1, "y": None}


def test_a_field_that_is_removed_is_skipped() -> None:
    inner = record(field("a", {"type": "map", "values": "string"}), name="Inner")
    writer = record(field("gone", inner), field("x", "int"))
    value = {"gone": {"a": {"k": "v"}}, "x": 5}
    assert resolve(writer, record(field("x", "int"))).verdict is MIGRATE
    assert read(writer, record(field("x", "int")), value) == {"x": 5}


def test_a_removed_date_that_no_calendar_has_does_not_matter() -> None:
    writer = record(field("day", "int"), field("x", "int"))
    data = encode(writer, {"day": 2**31 - 1, "x": 5})
    dated = record(field("day", logical("int", "date")), field("x", "int"))
    assert compile_reader(dated, record(field("x", "int"))).read(data) == {"x": 5}
    with pytest.raises(Corrupt):
        compile_reader(dated, dated).read(data)


def test_fields_are_matched_by_name_whatever_their_order() -> None:
    writer = record(field("a", "int"), field("b", "string"))
    reader = record(field("b", "string"), field("a", "int"))
    assert resolve(writer, reader).verdict is MIGRATE
    assert read(writer, reader, {"a": 1, "b": "x"}) == {"a": 1, "b": "x"}


def test_a_field_is_renamed_by_alias() -> None:
    reader = record(field("new", "int", aliases=["old", "older"]))
    assert resolve(record(field("old", "int")), reader).verdict is AS_IS
    assert read(record(field("older", "int")), reader, {"older": 4}) == {"new": 4}


def test_a_name_counts_before_an_alias() -> None:
    writer = record(field("a", "int"), field("b", "int"))
    reader = record(field("b", "int", aliases=["a"]))
    assert read(writer, reader, {"a": 1, "b": 2}) == {"b": 2}
    both = record(field("b", "int", aliases=["a"], default=0), field("a", "int"))
    assert read(record(field("a", "int")), both, {"a": 1}) == {"a": 1, "b": 0}


def test_aliases_that_leave_a_choice_are_refused() -> None:
    writer = record(field("a", "int"), field("b", "int"))
    (two,) = reasons(writer, record(field("c", "int", aliases=["a", "b"])))
    assert two == "Stats.c: the written fields a, b match aliases of the field; keep only one alias"
    twins = record(field("c", "int", aliases=["a"]), field("d", "int", aliases=["a"]))
    (both,) = reasons(writer, twins)
    assert both == "Stats.d: the field and c both have the alias a; only one may"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda **m: record(field("x", "int"), **m), {"name": "Old"}),
        (lambda **m: enum("A", "B", **m), {"name": "Old"}),
        (lambda **m: fixed(4, **m), {"name": "Old"}),
    ],
    ids=["record", "enum", "fixed"],
)
def test_a_type_keeps_its_name_or_has_it_as_alias(old: Any, new: dict[str, str]) -> None:
    writer = old(name="Old")
    assert resolve(writer, old(name="Old")).verdict is AS_IS
    assert resolve(writer, old(name="space.Old")).verdict is AS_IS, "names without namespaces"
    assert resolve(writer, old(name="New", aliases=["Old"])).verdict is AS_IS
    assert resolve(old(name="a.Old"), old(name="New", aliases=["a.Old"])).verdict is AS_IS
    assert 'give it the alias "Old"' in reasons(writer, old(name="New"))[0]
    assert resolve(old(name="a.Old"), old(name="New", aliases=["b.Old"])).verdict is NOT


def test_the_size_of_a_fixed_may_not_change() -> None:
    (reason,) = reasons(record(field("x", fixed(4))), record(field("x", fixed(5))))
    assert reason.startswith("Stats.x: fixed F (4 bytes) -> fixed F (5 bytes)")


def test_symbols_of_an_enum() -> None:
    assert resolve(enum("A", "B"), enum("A", "B", "C")).verdict is AS_IS
    assert resolve(enum("A", "B"), enum("C", "B", "A")).verdict is MIGRATE
    assert read(enum("A", "B"), enum("C", "B", "A"), "A") == "A"
    assert "the symbols A are gone" in reasons(enum("A", "B"), enum("B"))[0]
    defaulted = enum("B", "C", default="C")
    assert resolve(enum("A", "B"), defaulted).verdict is MIGRATE
    assert read(enum("A", "B"), defaulted, "A") == "C"
    assert read(enum("A", "B"), defaulted, "B") == "B"


UNIONS: list[tuple[Any, Any, Verdict]] = [
    ("int", ["null", "int"], MIGRATE),
    ("int", ["null", "long"], MIGRATE),
    ("int", ["null", "string"], NOT),
    (["null", "int"], "int", NOT),
    (["int"], "int", MIGRATE),
    (["int"], "double", MIGRATE),
    (["null", "int"], ["int", "null"], MIGRATE),
    (["null", "int"], ["null", "int", "string"], AS_IS),
    (["null", "int"], ["null", "long"], AS_IS),
    (["null", "int", "string"], ["null", "int"], NOT),
    (["int", "string"], ["bytes", "double"], MIGRATE),
    (["int", "long"], ["string", "bytes"], NOT),
    ([SCHEMAS["array"], "null"], ["null", SCHEMAS["array"]], MIGRATE),
    ([SCHEMAS["record"]], [SCHEMAS["enum"], SCHEMAS["record"]], MIGRATE),
]


@pytest.mark.parametrize(("writer", "reader", "verdict"), UNIONS)
def test_unions(writer: Any, reader: Any, verdict: Verdict) -> None:
    assert resolve(writer, reader).verdict is verdict


def test_the_reason_names_the_type_of_the_union_that_is_lost() -> None:
    writer, reader = record(field("x", ["null", "int"])), record(field("x", "int"))
    (reason,) = reasons(writer, reader)
    assert reason == "Stats.x: [null, int] -> int: values written as null cannot be read"


def test_a_type_of_a_union_stays_itself() -> None:
    """A long would be a double by the order alone, and lose digits without a word."""
    reader = record(field("x", ["double", "long"]), field("y", "int", default=0))
    found = read(record(field("x", ["double", "long"])), reader, {"x": ("long", (1 << 60) + 1)})
    assert found == {"x": (1 << 60) + 1, "y": 0}


TREE = record(
    field("value", "int"), field("children", {"type": "array", "items": "Tree"}), name="Tree"
)


def test_a_record_that_contains_itself() -> None:
    reader = record(
        field("value", "long"),
        field("children", {"type": "array", "items": "Tree"}),
        field("note", "string", default="-"),
        name="Tree",
    )
    value = {"value": 1, "children": [{"value": 2, "children": []}]}
    assert resolve(TREE, TREE).verdict is AS_IS
    assert resolve(TREE, reader).verdict is MIGRATE
    assert read(TREE, reader, value) == {
        "value": 1,
        "note": "-",
        "children": [{"value": 2, "note": "-", "children": []}],
    }
    worse = record(
        field("value", "string"), field("children", {"type": "array", "items": "Tree"}), name="Tree"
    )
    assert reasons(TREE, worse) == ("Tree.value: int -> string is not an Avro promotion",)


def test_a_record_that_contains_itself_too_often_is_an_error_and_no_crash() -> None:
    assert isinstance(compile_reader(TREE, TREE).read(b"\0\0"), dict)
    with pytest.raises(Corrupt):
        compile_reader(TREE, TREE).read(b"\0\2" * 100_000 + b"\0" * 200_001)


DECIMAL = logical("bytes", "decimal", precision=9, scale=2)
LOGICAL: list[tuple[Any, Any, Verdict, Any, Any]] = [
    (logical("int", "date"), logical("int", "date"), AS_IS, date(2020, 1, 2), date(2020, 1, 2)),
    (logical("int", "date"), "int", AS_IS, date(1970, 1, 3), 2),
    (logical("int", "date"), "long", AS_IS, date(1970, 1, 3), 2),
    ("int", logical("int", "date"), MIGRATE, 2, date(1970, 1, 3)),
    (
        logical("long", "timestamp-millis"),
        logical("long", "timestamp-micros"),
        MIGRATE,
        datetime(2020, 1, 1, 0, 0, 0, 5000, tzinfo=timezone.utc),
        datetime(2020, 1, 1, 0, 0, 0, 5000, tzinfo=timezone.utc),
    ),
    (
        logical("int", "time-millis"),
        logical("long", "time-micros"),
        MIGRATE,
        time(1, 2, 3),
        time(1, 2, 3),
    ),
    (DECIMAL, DECIMAL, AS_IS, Decimal("1.25"), Decimal("1.25")),
    (DECIMAL, "bytes", AS_IS, Decimal("1.25"), b"\x7d"),
    ("bytes", DECIMAL, MIGRATE, b"\x7d", Decimal("1.25")),
    ("string", logical("string", "unheard-of"), AS_IS, "x", "x"),
    (
        fixed(4, **logical("fixed", "decimal", precision=9, scale=2)),
        fixed(4, **logical("fixed", "decimal", precision=9, scale=2)),
        AS_IS,
        Decimal("1.25"),
        Decimal("1.25"),
    ),
]


@pytest.mark.parametrize(("writer", "reader", "verdict", "old", "new"), LOGICAL)
def test_logical_types(writer: Any, reader: Any, verdict: Verdict, old: Any, new: Any) -> None:
    assert resolve(writer, reader).verdict is verdict
    assert read(writer, reader, old) == new


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        (DECIMAL, {**DECIMAL, "scale": 3}, "decimal(9, 2) -> decimal(9, 3)"),
        (DECIMAL, {**DECIMAL, "precision": 8}, "precision and scale may not change"),
        (
            fixed(4, **logical("fixed", "decimal", precision=9, scale=2)),
            fixed(4, **logical("fixed", "decimal", precision=9, scale=1)),
            "precision and scale may not change",
        ),
        (DECIMAL, fixed(4, **logical("fixed", "decimal", precision=9, scale=2)), "cannot read"),
        (
            logical("long", "timestamp-micros"),
            logical("long", "timestamp-millis"),
            "every value would change its meaning",
        ),
        (
            logical("long", "timestamp-millis"),
            logical("long", "local-timestamp-millis"),
            "every value would change its meaning",
        ),
        (logical("int", "date"), logical("int", "time-millis"), "change its meaning"),
        (logical("string", "uuid"), logical("int", "date"), "is not an Avro promotion"),
    ],
)
def test_logical_types_that_differ_are_refused(writer: Any, reader: Any, reason: str) -> None:
    assert reason in reasons(writer, reader)[0]


def test_bytes_that_are_no_text_are_found_when_they_are_read() -> None:
    with pytest.raises(Corrupt, match="not UTF-8"):
        read("bytes", "string", b"\xff")


def test_as_is_means_that_the_new_schema_alone_reads_the_bytes() -> None:
    for writer, value in ((["null", "int"], 5), (enum("A", "B"), "B")):
        reader = [*writer[:1], "long", "string"] if isinstance(writer, list) else enum(*"ABC")
        assert resolve(writer, reader).verdict is AS_IS
        assert compile_reader(reader, reader).read(encode(writer, value)) == value


def test_what_is_no_schema_is_said() -> None:
    for schema in ("{", '{"type": "what"}', {"type": "array"}, 5, None, ["int", "int"], []):
        with pytest.raises(UsageError, match="not a valid Avro schema"):
            resolve(schema, "int")
