from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.messages.requests import LeftOut
from flinkish.operators.identity import OperatorIdentity
from flinkish.savepoint.format.contents import OperatorRecord, QueryRecord
from flinkish.savepoint.manage.diff import compare, compare_schemas, match_operators
from tests.support.savepoint.small_savepoints import SCHEMA, header, operator, query

HEADER = header(1_700_000_000.0)


def differences(a: QueryRecord, b: QueryRecord) -> dict[str, Any]:
    (found,) = compare((HEADER, [a]), (HEADER, [b]))["queries"]
    return dict(found)


def values(facts: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    return {fact["name"]: (fact["a"], fact["b"]) for fact in facts}


def test_equal() -> None:
    found = compare((HEADER, [query()]), (HEADER, [query()]))
    assert found["equal"]
    assert found["header"] == []
    assert [q["change"] for q in found["queries"]] == ["same"]


def test_headers() -> None:
    found = compare((HEADER, []), (header(1_700_000_001.5, program="sha256:1"), []))
    assert not found["equal"]
    assert values(found["header"]) == {
        "created": ("2023-11-14T22:13:20.000Z", "2023-11-14T22:13:21.500Z"),
        "program": (None, "sha256:1"),
    }


def test_one_that_lacks_a_query_of_its_job_is_not_equal() -> None:
    left = LeftOut("orders", "no input", pending=True)
    job = replace(HEADER.job, complete=False, left_out=(left,))
    found = compare((HEADER, []), (replace(HEADER, job=job), []))
    assert not found["equal"]
    assert values(found["header"]) == {
        "complete": (True, False),
        "left_out": ([], [{"query": "orders", "reason": "no input", "pending": True}]),
    }


def test_queries_come_and_go() -> None:
    found = compare((HEADER, [query("a"), query("b")]), (HEADER, [query("b"), query("c")]))
    assert {q["name"]: q["change"] for q in found["queries"]} == {
        "a": "removed",
        "b": "same",
        "c": "added",
    }
    assert found["queries"][0]["operators"][0]["change"] == "removed"


def test_one_query() -> None:
    a = query()
    b = replace(
        a,
        batch_id=6,
        watermark_ms=None,
        offsets=('{"logOffset": 6}', "-"),
        pins={"spark.sql.shuffle.partitions": "2", "more": "x"},
        sink={"format": "parquet"},
    )
    found = differences(a, b)
    assert found["change"] == "changed"
    assert values(found["facts"]) == {
        "batch_id": (4, 6),
        "watermark": ("1970-01-01T00:00:05.000Z", None),
        "sink": (None, {"format": "parquet"}),
    }
    assert values(found["offsets"]) == {"0": ({"logOffset": 4}, {"logOffset": 6})}
    assert values(found["pins"]) == {"more": (None, "x")}


def known_as(record: OperatorRecord, uid: str, operator_id: str | None = None) -> OperatorRecord:
    """The operator with no other identity."""
    return replace(record, facts=replace(record.facts, identity=OperatorIdentity(uid, operator_id)))


def ids(*operators: OperatorRecord) -> list[OperatorRecord]:
    return list(operators)


def test_operators_are_matched_by_the_best_identity() -> None:
    by_id = (
        operator(0, "x"),
        known_as(operator(2, "renamed"), "renamed", operator(0, "x").operator_id),
    )
    by_uid = (
        known_as(operator(1, "u"), "u"),
        known_as(operator(0, "u"), "u"),
    )
    by_ordinal = operator(3, None), operator(3, None)
    gone, new = operator(4, None), operator(1, "new")
    found = list(
        match_operators(
            ids(by_id[0], by_uid[0], by_ordinal[0], gone),
            ids(by_uid[1], new, by_id[1], by_ordinal[1]),
        )
    )
    assert found == [
        (by_id[0], by_id[1], "operator id"),
        (by_uid[0], by_uid[1], "uid"),
        (by_ordinal[0], by_ordinal[1], "ordinal"),
        (gone, None, None),
        (None, new, None),
    ]


def test_operators_without_any_common_name_are_matched_by_ordinal() -> None:
    found = differences(query("q", operator(0, "a", rows=1)), query("q", operator(0, "b", rows=2)))
    (row,) = found["operators"]
    assert row["matched_by"] == "ordinal"
    assert values(row["facts"]) == {"uid": ("a", "b"), "rows": (1, 2)}


def struct(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [{"name": n, "type": t, "nullable": True} for n, t in fields],
    }


def test_stores_and_columns() -> None:
    wider = struct(("key", "long"), ("more", "string"))
    a = operator()
    stores = (StoreInfo("default", wider, SCHEMA), StoreInfo("timers", SCHEMA, None))
    b = replace(a, state=replace(a.state, stores=stores))
    (row,) = differences(query("q", a), query("q", b))["operators"]
    assert row["stores"] == [
        {
            "name": "default",
            "change": "changed",
            "columns": [
                {"schema": "key", "column": "key", "change": "changed", "a": "string", "b": "long"},
                {"schema": "key", "column": "more", "change": "added", "a": None, "b": "string"},
            ],
        },
        {"name": "timers", "change": "added", "columns": []},
    ]


def test_nested_and_repeated_columns() -> None:
    array = {"type": "array", "elementType": struct(("x", "int")), "containsNull": True}
    longs = {"type": "array", "elementType": struct(("x", "long")), "containsNull": True}
    mapped = {"type": "map", "keyType": "string", "valueType": "int", "valueContainsNull": True}
    a = struct(("list", array), ("sum", "long"), ("sum", "long"), ("m", "int"))
    b = struct(("list", longs), ("sum", "long"), ("sum", "double"), ("m", mapped))
    found = [(c["column"], c["change"], c["a"], c["b"]) for c in compare_schemas(a, b)]
    assert found == [
        ("list.element.x", "changed", "int", "long"),
        ("sum#2", "changed", "long", "double"),
        ("m", "changed", "int", "map"),
        ("m.key", "added", None, "string"),
        ("m.value", "added", None, "int"),
    ]
    assert compare_schemas(a, None) == []
