"""The Avro schema of ``_metadata``, and the schemas of earlier versions of flinkish.

The schema of a file must be one of these, so comparing it is enough. Its fingerprint is the SHA-256
of its JSON with sorted keys and only the parts that matter for the bytes. A new field is added at
the end of its record, and with its record to ``_YOUNGER``. Files without the field stay readable.
Earlier versions of flinkish refuse a file that has it as one of a newer version.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

NAMESPACE = "flinkish.savepoint"
_NULL_STRING = ["null", "string"]
_NULL_LONG = ["null", "long"]


def _record(record_name: str, /, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": record_name,
        "fields": [{"name": k, "type": v} for k, v in fields.items()],
    }


_STORE = _record("Store", name="string", key_schema=_NULL_STRING, value_schema=_NULL_STRING)
OPERATOR = _record(
    "Operator",
    ordinal="int",
    kind=_NULL_STRING,
    partitions="int",
    bytes="long",
    files="long",
    stores={"type": "array", "items": _STORE},
    uid=_NULL_STRING,
    operator_id=_NULL_STRING,
    operator_id_v2=_NULL_STRING,
    operator_id_v3=_NULL_STRING,
    rows=_NULL_LONG,
    meaning=_NULL_STRING,  # JSON
    state_digest=_NULL_STRING,
)
QUERY = _record(
    "Query",
    name="string",
    directory="string",
    query_id="string",
    run_id=_NULL_STRING,
    batch_id="long",
    planned_batch=_NULL_LONG,
    watermark_ms=_NULL_LONG,
    offsets={"type": "array", "items": "string"},
    pins={"type": "map", "values": "string"},
    source="string",  # JSON
    sink="string",  # JSON
    backend=_NULL_STRING,
    checkpoint_format="int",
    checkpoint=_NULL_STRING,
    operators={"type": "array", "items": OPERATOR},
    files="long",
    bytes="long",
)
_LEFT_OUT = _record("LeftOut", query="string", reason="string", pending="boolean")
HEADER = _record(
    "Header",
    job_id="string",
    job_name="string",
    created="double",
    trigger="string",
    format="string",
    spark_version=_NULL_STRING,
    python_version=_NULL_STRING,
    flinkish_version=_NULL_STRING,
    host=_NULL_STRING,
    program=_NULL_STRING,
    restored_from=_NULL_STRING,
    left_out={"type": "array", "items": _LEFT_OUT},
    complete="boolean",
)
_FILE = _record(
    "File",
    query="int",
    path="string",
    size="long",
    digest="string",
    held=_NULL_STRING,
    stamp=_NULL_STRING,
)
_FOOTER = _record("Footer", queries="long", files="long", bytes="long", sha256="string")

#: The Avro schema of the container: a union of the records above.
SCHEMA: list[dict[str, Any]] = [
    {**record, "namespace": NAMESPACE} for record in (HEADER, QUERY, _FILE, _FOOTER)
]
#: Names of the records, indexed by their branch in the union.
KINDS = tuple(record["name"] for record in SCHEMA)

#: Fields added since format version 1, newest last; each entry was added by one version.
_YOUNGER: tuple[frozenset[tuple[str, str]], ...] = (
    frozenset({("Operator", "meaning")}),
    frozenset(
        {("Header", "program"), ("Header", "restored_from"), ("File", "held"), ("File", "stamp")}
    ),
    frozenset({("Operator", "state_digest")}),
    frozenset({("Header", "left_out"), ("Header", "complete")}),
)


def fingerprint(schema: Any) -> str:
    """Return the SHA-256 (hex) that identifies a schema."""
    text = json.dumps(_bare(schema), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _bare(schema: Any) -> Any:
    """Remove namespaces and annotations, which each Avro library writes differently."""
    if isinstance(schema, list):
        return [_bare(branch) for branch in schema]
    if isinstance(schema, str):
        return schema.rpartition(".")[2]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _bare(schema[key]) for key in ("type", "name", "items", "values") if key in schema}
    if isinstance(schema.get("fields"), list):
        kept["fields"] = _bare(schema["fields"])
    return kept


@cache
def known_schemas() -> dict[str, list[dict[str, Any]]]:
    """Return all schemas that any version of flinkish has written, by fingerprint."""
    return {fingerprint(schema): schema for schema in _versions()}


def _versions() -> Iterator[list[dict[str, Any]]]:
    for age in range(len(_YOUNGER) + 1):
        absent = frozenset().union(*_YOUNGER[age:])
        yield _without(SCHEMA, absent)


def _without(schema: Any, absent: frozenset[tuple[str, str]]) -> Any:
    if isinstance(schema, list):
        return [_without(branch, absent) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = copy.copy(schema)
    if found["type"] == "record":
        found["fields"] = [
            {**field, "type": _without(field["type"], absent)}
            for field in schema["fields"]
            if (schema["name"], field["name"]) not in absent
        ]
    elif found["type"] == "array":
        found["items"] = _without(schema["items"], absent)
    return found


def is_newer(schema: Any) -> bool:
    """Return whether an unknown schema extends the current one: a newer flinkish wrote it."""
    if not isinstance(schema, list) or len(schema) < len(SCHEMA):
        return False
    for ours, theirs in zip(SCHEMA, schema, strict=False):
        fields = theirs.get("fields") if isinstance(theirs, dict) else None
        if not isinstance(fields, list) or theirs.get("name") != ours["name"]:
            return False
        names = {str(f.get("name")) for f in fields if isinstance(f, dict)}
        if not names >= {f["name"] for f in ours["fields"]}:
            return False
    return True
