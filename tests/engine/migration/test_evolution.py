"""Evolution: fastavro's own resolution as the oracle, each rule, and each refusal."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from flinkish.engine.avro.schemas import avro_schema
from flinkish.engine.migration.evolution import EvolutionVerdict, resolve
from flinkish.engine.migration.evolution_steps import CannotEvolve
from flinkish.engine.rows.row_codec import codec_of
from flinkish.engine.rows.types import Struct, arrow_type, parse_struct, parse_type
from tests.engine.rows.test_row_codec import LEAVES, tables, texts
from tests.support.examples import examples

SAME, MIGRATE, NOT = (
    EvolutionVerdict.AS_IS,
    EvolutionVerdict.AFTER_MIGRATION,
    EvolutionVerdict.INCOMPATIBLE,
)


def parsed(*fields: tuple[Any, ...]) -> Struct:
    made = [{"name": f[0], "type": f[1], "nullable": len(f) < 3} for f in fields]
    return parse_struct({"type": "struct", "fields": made})


def struct_type(*fields: tuple[Any, ...]) -> dict[str, Any]:
    made = [{"name": f[0], "type": f[1], "nullable": len(f) < 3} for f in fields]
    return {"type": "struct", "fields": made}


def array_type(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_type(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def batch_of(struct: Struct, *columns: Sequence[Any]) -> Any:
    schema = pa.schema(list(arrow_type(struct)))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def by_fastavro(writer: Struct, reader: Struct, rows: list[dict[str, Any]]) -> list[Any]:
    """The rows written by one schema and read by the other: Avro's rules by another hand."""
    found = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, avro_schema(writer, "state"), row)
        out.seek(0)
        schema = avro_schema(reader, "state")
        found.append(fastavro.schemaless_reader(out, avro_schema(writer, "state"), schema))
    return found


#: Promotions of the specification.
WIDER = {
    "integer": ["integer", "long", "float", "double"],
    "long": ["long", "float", "double"],
    "float": ["float", "double"],
    "double": ["double"],
    "string": ["string", "binary"],
    "boolean": ["boolean"],
}


@st.composite
def evolved(draw: st.DrawFn, deep: int = 2) -> tuple[list[Any], list[Any], Any]:
    """Fields of a writer, fields of a reader that may read them, values of the writer's."""
    old: list[Any] = []
    new: list[Any] = []
    values: dict[str, Any] = {}
    written: Any
    target: Any
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)):
        kind = draw(st.sampled_from([*WIDER, *(["struct", "array"] if deep else [])]))
        if kind == "struct":
            inner, outer, below = draw(evolved(deep=deep - 1))
            written, target, strategy = struct_type(*inner), struct_type(*outer), below
        elif kind == "array":
            inner, outer, below = draw(evolved(deep=0))
            written, target = array_type(struct_type(*inner)), array_type(struct_type(*outer))
            strategy = st.lists(st.none() | below, max_size=3)
        else:
            written, target = kind, draw(st.sampled_from(WIDER[kind]))
            strategy = LEAVES[kind]
        required = draw(st.booleans())
        old.append((name, written, *(["required"] if required else [])))
        values[name] = strategy if required else st.none() | strategy
        if draw(st.integers(0, 3)):  # else removed
            stays = required and draw(st.booleans())
            new.append((name, target, *(["required"] if stays else [])))
    new += [(name, "long") for name in draw(st.lists(st.sampled_from("xyz"), unique=True))]
    return old, draw(st.permutations(new)), st.fixed_dictionaries(values)


@examples(50, 150, evolved(), st.data())
def test_resolution_is_that_of_avro(schemas: Any, data: st.DataObject) -> None:
    old, new, values = schemas
    writer, reader = parsed(*old), parsed(*new)
    rows = data.draw(st.lists(values, max_size=4))
    resolution = resolve(writer, reader)
    assert resolution.verdict is not NOT, resolution.problems
    expected = by_fastavro(writer, reader, rows)
    batch = batch_of(writer, *([row[name] for row in rows] for name, *_ in old))
    for part, wanted in ((batch, expected), (batch.slice(1), expected[1:])):
        found = pickle.loads(pickle.dumps(resolution)).apply(part)
        found.validate(full=True)
        assert found.schema == pa.schema(list(arrow_type(reader)))
        if new:
            # Arrow rounds to float32 when it stores a value, fastavro when it writes one.
            again = [[row[name] for row in wanted] for name, *_ in new]
            assert texts(found) == texts(batch_of(reader, *again))
    if resolution.verdict is SAME and old:
        # As is means that Spark's own rows are the same bytes.
        rows_before = codec_of(writer).encode(batch).rows()
        assert codec_of(reader).encode(resolution.apply(batch)).rows() == rows_before


@examples(20, 60, tables())
def test_the_same_schema_is_as_it_is(table: Any) -> None:
    made, batch = table
    struct = parse_struct(made)
    resolution = resolve(struct, struct)
    assert resolution.verdict is SAME
    assert resolution.changes == ()
    found = resolution.apply(batch)
    assert all(
        a is b or a.equals(b) or texts(found) == texts(batch)
        for a, b in zip(found.columns, batch.columns, strict=True)
    )


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        *((a, b, MIGRATE) for a, b in (("byte", "short"), ("byte", "long"), ("short", "integer"))),
        *((a, b, MIGRATE) for a, b in (("byte", "float"), ("short", "double"), ("long", "float"))),
        *((a, b, NOT) for a, b in (("short", "byte"), ("long", "integer"), ("double", "float"))),
        *((a, b, NOT) for a, b in (("float", "long"), ("boolean", "byte"), ("long", "string"))),
        *((a, b, NOT) for a, b in (("date", "timestamp_ntz"), ("timestamp", "timestamp_ntz"))),
        *((a, b, NOT) for a, b in (("integer", "date"), ("long", "timestamp"), ("date", "long"))),
        *((a, b, NOT) for a, b in (("long", "interval"), ("variant", "binary"))),
        ("integer", "interval year to month", NOT),
        ("string", "binary", MIGRATE),
        ("binary", "string", MIGRATE),
        ("void", "long", MIGRATE),
        ("long", "void", NOT),
        ("decimal(5,2)", "decimal(9,2)", MIGRATE),
        ("decimal(5,2)", "decimal(7,4)", MIGRATE),
        ("decimal(5,2)", "decimal(6,4)", NOT),
        ("decimal(5,2)", "decimal(9,1)", NOT),
        ("decimal(5,2)", "decimal(4,2)", NOT),
        ("long", "decimal(20,0)", NOT),
        ("varchar(3)", "string", SAME),
        (array_type("integer"), array_type("long"), MIGRATE),
        (array_type("integer"), "integer", NOT),
        (map_type("integer", "integer"), map_type("long", "long"), MIGRATE),
        (map_type("long", "integer"), map_type("double", "integer"), NOT),
        (struct_type(("x", "long")), struct_type(("x", "long"), ("y", "long")), MIGRATE),
        (struct_type(("x", "long", "r")), struct_type(("x", "long")), SAME),
        (struct_type(("x", "long")), map_type("string", "long"), NOT),
    ],
)
def test_types(old: Any, new: Any, verdict: EvolutionVerdict) -> None:
    resolution = resolve(parsed(("c", old)), parsed(("c", new)))
    assert resolution.verdict is verdict
    assert bool(resolution.problems) == (verdict is NOT)
    if verdict is not NOT:
        parsed_old = arrow_type(parse_type(old))
        nothing = pa.RecordBatch.from_arrays([pa.nulls(2, parsed_old)], names=["c"])
        assert resolution.apply(nothing).column(0).null_count == 2


def test_values_are_exact() -> None:
    old = parsed(("d", "decimal(18,2)"), ("n", "long"), ("b", "byte"), ("s", "string"))
    new = parsed(("d", "decimal(38,4)"), ("n", "double"), ("b", "short"), ("s", "binary"))
    most = (1 << 63) - 1
    batch = batch_of(
        old, [Decimal("-9999999999999999.99"), None], [most, 1], [-128, None], ["\u20ac", ""]
    )
    found = resolve(old, new).apply(batch)
    assert found.column(0).to_pylist() == [Decimal("-9999999999999999.9900"), None]
    assert found.column(1).to_pylist() == [float(most), 1.0]
    assert found.column(2).to_pylist() == [-128, None]
    assert found.column(3).to_pylist() == [b"\xe2\x82\xac", b""]
    floats = resolve(parsed(("f", "float")), parsed(("f", "double"))).apply(
        batch_of(parsed(("f", "float")), [-0.0, float("nan"), 0.1])
    )
    assert [str(v) for v in floats.column(0).to_pylist()] == ["-0.0", "nan", "0.10000000149011612"]


def test_only_what_changes_is_touched() -> None:
    old = parsed(("a", "string"), ("b", "integer"))
    batch = batch_of(old, ["x"], [1])
    found = resolve(old, parsed(("b", "long"), ("a", "string"))).apply(batch)
    buffers = [b.address for b in found.column(1).buffers() if b]
    assert buffers == [b.address for b in batch.column(0).buffers() if b]


def test_repeated_names() -> None:
    """Two averages: the second sum is sum_2 in paths."""
    old = parsed(("sum", "long"), ("count", "long"), ("sum", "long"), ("count", "long"))
    new = parsed(("count", "long"), ("sum", "long"), ("sum", "double"), ("first", "long"))
    resolution = resolve(old, new, renames={"first": "count_2"})
    assert resolution.verdict is MIGRATE
    found = resolution.apply(batch_of(old, [1], [2], [3], [4]))
    assert [c.to_pylist() for c in found.columns] == [[2], [1], [3.0], [4]]
    assert resolution.changes == (
        "first: renamed from count_2",
        "sum_2: long becomes double",
        "the row: fields in another order",
    )


def test_renames() -> None:
    inner, outer = struct_type(("start", "long"), ("a.b", "long")), struct_type(("x", "long"))
    old = parsed(("window", inner), ("a", "long"), ("b", "long"))
    new = parsed(("w", outer), ("b", "long"), ("a", "long"))
    renames = {"w": "window", "w.x": "window.`a.b`", "a": "b", "b": "a"}
    resolution = resolve(old, new, renames=renames)
    found = resolution.apply(batch_of(old, [{"start": 1, "a.b": 2}, None], [3, 4], [5, 6]))
    assert found.to_pylist() == [
        {"w": {"x": 2}, "b": 3, "a": 5},
        {"w": None, "b": 4, "a": 6},
    ]
    assert found.schema.names == ["w", "b", "a"]
    # Names alone leave the rows' bytes as they are.
    only = resolve(parsed(("a", "long")), parsed(("z", "long")), renames={"z": "a"})
    assert only.verdict is SAME
    assert only.apply(batch_of(parsed(("a", "long")), [7])).to_pylist() == [{"z": 7}]
    # Without being told it is another field.
    other = resolve(parsed(("a", "long")), parsed(("z", "long")))
    assert other.changes == ("z: added, null", "a: removed")
    # What is renamed is no longer there under its old name.
    taken = resolve(parsed(("a", "long")), parsed(("z", "long"), ("a", "long")), renames={"z": "a"})
    assert taken.apply(batch_of(parsed(("a", "long")), [7])).to_pylist() == [{"z": 7, "a": None}]


def test_a_field_has_one_successor_where_case_does_not_count() -> None:
    writer = parsed(("s", struct_type(("ID", "integer"))))
    reader = parsed(("s", struct_type(("id", "integer"), ("Id", "integer"))))
    found = resolve(writer, reader, places=(0,))
    assert found.apply(batch_of(writer, [{"ID": 1}])).to_pylist() == [{"s": {"id": 1, "Id": None}}]


def test_defaults() -> None:
    old = parsed(("s", struct_type(("x", "long"))), ("m", map_type("string", "long")))
    point = struct_type(("p", "long", "required"), ("q", "string"))
    new = parsed(
        ("s", struct_type(("x", "long"), ("y", "decimal(5,2)", "required"))),
        ("m", map_type("string", "long")),
        ("point", point, "required"),
        ("tags", array_type("string")),
        ("none", "long"),
    )
    defaults = {
        "s.y": Decimal("1.50"),
        "point": {"p": 1, "q": None},
        "tags": ["a", None],
    }
    resolution = pickle.loads(pickle.dumps(resolve(old, new, defaults=defaults)))
    assert resolution.verdict is MIGRATE
    found = resolution.apply(batch_of(old, [{"x": 1}, None], [[("k", 1)], None]))
    found.validate(full=True)
    assert found.to_pylist() == [
        {
            "s": {"x": 1, "y": Decimal("1.50")},
            "m": [("k", 1)],
            "point": {"p": 1, "q": None},
            "tags": ["a", None],
            "none": None,
        },
        {
            "s": None,
            "m": None,
            "point": {"p": 1, "q": None},
            "tags": ["a", None],
            "none": None,
        },
    ]


def one_problem(*schemas: Struct, **more: Any) -> str:
    resolution = resolve(*schemas, **more)
    assert resolution.verdict is NOT
    [problem] = resolution.problems
    with pytest.raises(CannotEvolve) as caught:
        resolution.apply(batch_of(schemas[0], *([] for _ in schemas[0].fields)))
    assert str(caught.value) == str(problem)
    return str(problem)


def test_refusals_say_what_why_and_what_to_do() -> None:
    old = parsed(("a", "long"), ("s", array_type(struct_type(("x", "long")))))
    more = parsed(*(("a", "long"), ("s", array_type(struct_type(("x", "long"), ("y", "long", 1))))))
    assert one_problem(old, more) == (
        "s.element.y: it is added and not nullable, but existing rows have no value for it. Make "
        "it nullable, give it a default, or declare which field it was renamed from."
    )
    just = parsed(("a", "long"))
    assert one_problem(just, parsed(("a", "integer"))) == (
        "a: long cannot become integer, which is narrower. "
        "Keep the type, or add a field of the new type under another name."
    )
    assert "request a check of the rows" in one_problem(just, parsed(("a", "long", "required")))
    pair = parsed(("a", "long"), ("b", "long"))
    for reader, renames, text in (
        (parsed(("z", "long")), {"z": "q"}, "z: it is declared as renamed from q, which is not"),
        (parsed(("a", "long")), {"q": "b"}, "q: it is declared as renamed, but is not a field of"),
        (
            parsed(("y", "long"), ("z", "long")),
            {"y": "a", "z": "a"},
            "z: a is renamed to another field too",
        ),
    ):
        assert one_problem(pair, reader, renames=renames).startswith(text)
    wider = parsed(("a", "long"), ("n", "byte", "required"))
    for default, text in (
        (300, "n: the default 300 is not of type int8"),
        (None, "has a null where none"),
    ):
        assert text in one_problem(just, wider, defaults={"n": default})
    inner = parsed(("a", "long"), ("l", array_type(struct_type(("x", "long", "required")))))
    assert "has a null" in one_problem(just, inner, defaults={"l": [{"x": None}]})
    assert "a: it has a default, but is not an added field" in one_problem(
        just, just, defaults={"a": 1}
    )


def test_all_problems_are_named() -> None:
    old = parsed(("a", "long"), ("b", "string"), ("c", "date"))
    new = parsed(("a", "byte"), ("b", "long"), ("c", "timestamp_ntz"))
    assert [p.path for p in resolve(old, new).problems] == ["a", "b", "c"]


def test_keys_must_stay_different() -> None:
    key = parsed(("k", "long"), ("n", "integer"))
    assert resolve(key, parsed(("k", "long"), ("n", "long")), keys=True).verdict is MIGRATE
    assert "may become equal" in one_problem(key, parsed(("k", "long")), keys=True)
    floats = parsed(("k", "double"), ("n", "integer"))
    assert "may become equal" in one_problem(key, floats, keys=True)
    assert resolve(key, floats).verdict is MIGRATE


def test_nulls_are_looked_for_where_none_may_be() -> None:
    old = parsed(("s", struct_type(("x", "long"))), ("l", array_type(struct_type(("y", "long")))))
    new = parsed(
        ("s", struct_type(("x", "long", 1))), ("l", array_type(struct_type(("y", "long", 1))))
    )
    resolution = resolve(old, new, check_nulls=True)
    assert resolution.verdict is MIGRATE
    # A struct that is null has no null in it.
    good = batch_of(old, [{"x": 1}, None], [[{"y": 1}, None], None])
    assert resolution.apply(good).to_pylist() == good.to_pylist()
    bad = batch_of(old, [{"x": 1}, {"x": None}], [[], []])
    with pytest.raises(CannotEvolve, match=r"s\.x: a value is null"):
        resolution.apply(bad)
    assert resolution.apply(bad.slice(0, 1)).num_rows == 1
    worse = batch_of(old, [None], [[{"y": 1}, {"y": None}]])
    with pytest.raises(CannotEvolve, match=r"l\.element\.y: a value is null"):
        resolution.apply(worse)


def test_what_null_lists_cover_is_not_looked_at() -> None:
    """Arrow may have values under a null list; they are no values."""
    old, new = parsed(("l", array_type("binary"))), parsed(("l", array_type("string")))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2]), pa.array([b"\xff", b"ok"]))
    masked = pa.Array.from_buffers(
        lists.type, 2, [pa.py_buffer(b"\x02"), lists.buffers()[1]], children=[lists.values]
    )
    resolution = resolve(old, new)
    found = resolution.apply(pa.RecordBatch.from_arrays([masked], names=["l"]))
    assert found.column(0).to_pylist() == [None, ["ok"]]
    with pytest.raises(CannotEvolve, match=r"l\.element: a value is not of type string"):
        resolution.apply(pa.RecordBatch.from_arrays([lists], names=["l"]))


def test_rows_without_fields() -> None:
    empty, key = Struct(()), parsed(("k", "long"))
    found = resolve(empty, key).apply(codec_of(empty).decode([b"", b""]))
    assert found.to_pylist() == [{"k": None}, {"k": None}]
    back = resolve(key, empty).apply(found)
    assert (back.num_rows, back.num_columns) == (2, 0)


def upper(value: bytes) -> bytes:
    return value.upper()


def raising(value: bytes) -> bytes:
    raise ValueError(f"{value!r} is no value")


def no_bytes(value: bytes) -> bytes:
    return len(value)  # type: ignore[return-value]


def test_bytes_become_others_by_the_callers_function() -> None:
    inner = struct_type(("a", "binary"), ("b", "binary"))
    writer, reader = parsed(("g", inner), ("n", "long")), parsed(("g", inner), ("n", "long"))
    found = resolve(writer, reader, recodes={"g.a": upper})
    assert found.verdict is MIGRATE
    assert found.changes == ("g.a: its values are rewritten",)
    batch = batch_of(writer, [{"a": b"x", "b": b"y"}, {"a": None, "b": b"z"}, None], [1, 2, 3])
    assert pickle.loads(pickle.dumps(found)).apply(batch).to_pylist() == [
        {"g": {"a": b"X", "b": b"y"}, "n": 1},
        {"g": {"a": None, "b": b"z"}, "n": 2},
        {"g": None, "n": 3},
    ]
    failing = resolve(writer, reader, recodes={"g.a": raising})
    with pytest.raises(CannotEvolve, match=r"g\.a: b'x' is no value"):
        failing.apply(batch)
    with pytest.raises(CannotEvolve, match=r"g\.a: "):
        resolve(writer, reader, recodes={"g.a": no_bytes}).apply(batch)


@pytest.mark.parametrize("path", ["n", "g", "absent"])
def test_only_bytes_become_others(path: str) -> None:
    schema = parsed(("g", struct_type(("a", "binary"))), ("n", "long"))
    found = resolve(schema, schema, recodes={path: upper})
    assert found.verdict is NOT
    assert "not a binary field" in str(found.problems[0])
