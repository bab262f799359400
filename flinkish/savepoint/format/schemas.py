"""The Avro schema of ``_metadata``: version 1 of its format.

A version has exactly one schema, so comparing fingerprints is enough to know a file's. Whoever
changes a record raises :data:`FORMAT_VERSION` and keeps the schema of the version before, because
savepoints of all versions stay readable.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

#: The version that is written, and the newest that can be read.
FORMAT_VERSION = 1
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


def fingerprint(schema: Any) -> str:
    """Return the SHA-256 (hex) of a schema's JSON: only what matters for the bytes, keys sorted."""
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
