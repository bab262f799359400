"""Comparison of two savepoints: differences in headers, queries, operators and schemas. Pure.

Operators are matched by their operator ids first, then by uid, then by their ordinal in the query's
plan; each match names the property. The result is plain data, as ``flinkish savepoint diff --json``
prints it: in every pair of values, ``a`` is the first savepoint's and ``b`` the second's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flinkish.savepoint.format.contents import Header, OperatorRecord, QueryRecord
from flinkish.savepoint.format.reader import iso_time, parsed_offset
from flinkish.savepoint.format.records import header_to_avro

ADDED, REMOVED, CHANGED, SAME = "added", "removed", "changed", "same"
#: Properties by which two operators are matched, best first.
_IDENTITIES: tuple[tuple[str, Callable[[OperatorRecord], object]], ...] = (
    ("operator id", lambda operator: operator.operator_id),
    ("operator id v3", lambda operator: operator.operator_id_v3),
    ("operator id v2", lambda operator: operator.operator_id_v2),
    ("uid", lambda operator: operator.uid),
    ("ordinal", lambda operator: operator.state.ordinal),
)
_HEADER_FACTS = (
    "job_id",
    "job_name",
    "trigger",
    "format",
    "spark_version",
    "python_version",
    "flinkish_version",
    "host",
    "program",
    "restored_from",
    "complete",
    "left_out",
)
_QUERY_FACTS = ("query_id", "batch_id", "planned_batch", "backend", "checkpoint_format")
_OPERATOR_FACTS = ("kind", "uid", "ordinal", "partitions", "rows", "bytes", "files")

Facts = dict[str, Any]


def compare(
    a: tuple[Header, Sequence[QueryRecord]], b: tuple[Header, Sequence[QueryRecord]]
) -> Facts:
    """Compare two savepoints, given as header and queries.

    Returns ``{"equal", "header": [facts], "queries": [...]}``. A fact is ``{"name", "a", "b"}``,
    and only facts that differ are included. The location of a savepoint is not compared.
    """
    header = [
        *_facts(_HEADER_FACTS, header_to_avro(a[0]), header_to_avro(b[0])),
        *_fact("created", iso_time(a[0].created), iso_time(b[0].created)),
    ]
    left, right = ({query.name: query for query in side[1]} for side in (a, b))
    queries = [
        _compare_queries(name, left.get(name), right.get(name)) for name in {**left, **right}
    ]
    equal = not header and all(query["change"] == SAME for query in queries)
    return {"equal": equal, "header": header, "queries": queries}


def _fact(name: str, a: Any, b: Any) -> list[Facts]:
    return [] if a == b else [{"name": name, "a": a, "b": b}]


def _facts(names: Sequence[str], a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Facts]:
    return [fact for name in names for fact in _fact(name, a.get(name), b.get(name))]


def _compare_queries(name: str, a: QueryRecord | None, b: QueryRecord | None) -> Facts:
    if a is None or b is None:
        there = b if a is None else a
        assert there is not None
        return {
            "name": name,
            "change": ADDED if a is None else REMOVED,
            "batch_id": there.batch_id,
            "facts": [],
            "offsets": [],
            "pins": [],
            "operators": [_lonely(op, ADDED if a is None else REMOVED) for op in there.operators],
        }
    facts = _facts(_QUERY_FACTS, vars(a), vars(b))
    facts += _fact("watermark", _watermark(a), _watermark(b))
    facts += _fact("source", _without_offsets(a.source), _without_offsets(b.source))
    facts += _fact("sink", a.sink, b.sink)
    facts += _facts(("bytes", "files"), vars(a), vars(b))
    offsets = [
        fact
        for entry in range(max(len(a.offsets), len(b.offsets)))
        for fact in _fact(str(entry), _offset(a, entry), _offset(b, entry))
    ]
    pins = _facts(sorted({**a.pins, **b.pins}), a.pins, b.pins)
    operators = list(_compare_operators(a.operators, b.operators))
    same = not (facts or offsets or pins) and all(op["change"] == SAME for op in operators)
    return {
        "name": name,
        "change": SAME if same else CHANGED,
        "batch_id": b.batch_id,
        "facts": facts,
        "offsets": offsets,
        "pins": pins,
        "operators": operators,
    }


def _watermark(query: QueryRecord) -> str | None:
    return None if query.watermark_ms is None else iso_time(query.watermark_ms / 1000)


def _without_offsets(source: Any) -> Any:
    """Return a source's description without its positions, which are among the offsets."""
    if isinstance(source, list):
        return [_without_offsets(each) for each in source]
    if isinstance(source, dict):
        return {key: value for key, value in source.items() if not key.endswith("offset")}
    return source


def _offset(query: QueryRecord, entry: int) -> Any:
    """Return the offset of a source, parsed; None if it has none, or there is no such source."""
    return parsed_offset(query.offsets[entry]) if entry < len(query.offsets) else None


def match_operators(
    a: Sequence[OperatorRecord], b: Sequence[OperatorRecord]
) -> Iterator[tuple[OperatorRecord | None, OperatorRecord | None, str | None]]:
    """Yield pairs of operators and the matching property; None stands for a missing partner."""
    left, right = list(a), list(b)
    pairs: dict[int, tuple[OperatorRecord, str]] = {}
    for word, identity in _IDENTITIES:
        for operator in left:
            if operator.state.ordinal in pairs or identity(operator) is None:
                continue
            partner = next((o for o in right if identity(o) == identity(operator)), None)
            if partner is not None:
                pairs[operator.state.ordinal] = partner, word
                right.remove(partner)
    for operator in left:
        partner_and_word = pairs.get(operator.state.ordinal)
        if partner_and_word is None:
            yield operator, None, None
        else:
            yield operator, *partner_and_word
    yield from ((None, operator, None) for operator in right)


def _compare_operators(a: Sequence[OperatorRecord], b: Sequence[OperatorRecord]) -> Iterator[Facts]:
    for left, right, word in match_operators(a, b):
        if left is None or right is None:
            there = right if left is None else left
            assert there is not None
            yield _lonely(there, ADDED if left is None else REMOVED)
            continue
        facts = _facts(_OPERATOR_FACTS, _parts(left), _parts(right))
        stores = list(_compare_stores(left, right))
        same = not facts and all(store["change"] == SAME for store in stores)
        yield {
            **_identity(left),
            "change": SAME if same else CHANGED,
            "matched_by": word,
            "facts": facts,
            "stores": stores,
        }


def _lonely(operator: OperatorRecord, change: str) -> Facts:
    return {
        **_identity(operator),
        "change": change,
        "matched_by": None,
        "facts": [],
        "stores": [
            {"name": s.name, "change": change, "columns": []} for s in operator.state.stores
        ],
    }


def _identity(operator: OperatorRecord) -> Facts:
    return {
        "uid": operator.uid,
        "operator_id": operator.operator_id,
        "kind": operator.state.kind,
        "ordinal": operator.state.ordinal,
    }


def _parts(operator: OperatorRecord) -> Facts:
    return {**vars(operator.state), "uid": operator.uid, "rows": operator.facts.rows}


def _compare_stores(a: OperatorRecord, b: OperatorRecord) -> Iterator[Facts]:
    left, right = ({store.name: store for store in op.state.stores} for op in (a, b))
    for name in {**left, **right}:
        if name not in left or name not in right:
            change = ADDED if name not in left else REMOVED
            yield {"name": name, "change": change, "columns": []}
            continue
        columns = [
            {"schema": side, **column}
            for side, old, new in (
                ("key", left[name].key_schema, right[name].key_schema),
                ("value", left[name].value_schema, right[name].value_schema),
            )
            for column in compare_schemas(old, new)
        ]
        yield {"name": name, "change": CHANGED if columns else SAME, "columns": columns}


def compare_schemas(a: Mapping[str, Any] | None, b: Mapping[str, Any] | None) -> list[Facts]:
    """Return the columns that differ between two schemas (Spark's JSON); [] if one is unknown.

    Nested columns have dotted paths (``element``, ``key`` and ``value`` in arrays and maps). A
    column with a repeated name (Spark calls buffers ``sum``, ``sum``) has a number appended.
    """
    if a is None or b is None:
        return []
    left, right = dict(_columns(a)), dict(_columns(b))
    facts = []
    for path in {**left, **right}:
        if left.get(path) != right.get(path):
            change = ADDED if path not in left else REMOVED if path not in right else CHANGED
            facts.append(
                {"column": path, "change": change, "a": left.get(path), "b": right.get(path)}
            )
    return facts


def _columns(schema: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and type of every column; for a nested column also those of its parts."""
    seen: dict[str, int] = {}
    for column in schema.get("fields", ()):
        name = str(column["name"])
        seen[name] = seen.get(name, 0) + 1
        path = f"{prefix}{name}" + (f"#{seen[name]}" if seen[name] > 1 else "")
        yield from _typed(path, column["type"])


def _typed(path: str, data_type: Any) -> Iterator[tuple[str, str]]:
    kind = data_type.get("type") if isinstance(data_type, Mapping) else None
    if kind == "struct":
        yield path, "struct"
        yield from _columns(data_type, f"{path}.")
    elif kind == "array":
        yield path, "array"
        yield from _typed(f"{path}.element", data_type["elementType"])
    elif kind == "map":
        yield path, "map"
        yield from _typed(f"{path}.key", data_type["keyType"])
        yield from _typed(f"{path}.value", data_type["valueType"])
    else:
        yield path, data_type if isinstance(data_type, str) else json.dumps(data_type)
