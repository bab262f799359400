"""The Avro schema of ``_metadata``, and its conversion from and to the model, with all checks.

A value out of range (an impossible date, a negative count, an unreasonable batch id) is damage
(:class:`Damaged`). Code that uses the model therefore need not check these values again. Limits are
in :mod:`flinkish.savepoint.format.limits`.

Each version has exactly one schema, which its fingerprint identifies. A change to a record must
raise :data:`FORMAT_VERSION` and keep the previous version's schema, because savepoints of all
versions stay readable.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from flinkish.checkpoint.format.schema_files import StoreInfo, parse_struct
from flinkish.checkpoint.format.text import parse_json
from flinkish.checkpoint.operators import StateOnDisk
from flinkish.messages.requests import LeftOut
from flinkish.operators.identity import OperatorFacts, identity_of
from flinkish.operators.state_semantics import Column, StateSemantics
from flinkish.savepoint.format import limits
from flinkish.savepoint.format.contents import (
    FileRecord,
    Header,
    OperatorRecord,
    QueryRecord,
    SavepointJob,
)

_INT64 = 1 << 63
#: A digest of any algorithm is one word of printable ASCII characters.
_DIGEST = re.compile(r"[!-~]+")


class Damaged(ValueError):
    """The bytes are not a savepoint's metadata; the message says why."""


def header_to_avro(header: Header) -> dict[str, Any]:
    """Convert a header into its Avro record."""
    job = header.job
    values = {**vars(job), **vars(header), "job_name": job.name}
    values["left_out"] = [asdict(each) for each in job.left_out]
    return {each["name"]: values[each["name"]] for each in HEADER["fields"]}


def header_from_avro(record: Mapping[str, Any]) -> Header:
    """Convert an Avro record into a header; raise Damaged if its time is out of range."""
    # A comparison with NaN is false.
    if not 0 <= record["created"] <= limits.MAX_TIME:
        raise Damaged(f"its creation time is out of range: {record['created']}")
    job = dict(record)
    whole = {name: job.pop(name) for name in ("created", "trigger", "format")}
    job["name"] = job.pop("job_name")
    job["left_out"] = tuple(LeftOut(**each) for each in record["left_out"])
    return Header(SavepointJob(**job), **whole)


def query_to_avro(query: QueryRecord) -> dict[str, Any]:
    """Convert a query into its Avro record."""
    data = {f["name"]: getattr(query, f["name"]) for f in QUERY["fields"]}
    data["offsets"] = list(query.offsets)
    data["pins"] = dict(query.pins)
    data["source"] = json.dumps(query.source)
    data["sink"] = json.dumps(query.sink)
    data["operators"] = [_operator_to_avro(operator) for operator in query.operators]
    return data


def _operator_to_avro(operator: OperatorRecord) -> dict[str, Any]:
    state, facts = operator.state, operator.facts
    values = {**vars(facts), **vars(facts.identity), **vars(state)}
    data = {each["name"]: values[each["name"]] for each in OPERATOR["fields"]}
    data["stores"] = [
        {
            "name": store.name,
            "key_schema": None if store.key_schema is None else json.dumps(store.key_schema),
            "value_schema": None if store.value_schema is None else json.dumps(store.value_schema),
        }
        for store in state.stores
    ]
    data["meaning"] = facts.meaning and json.dumps(facts.meaning.to_json())
    return data


def query_from_avro(record: Mapping[str, Any]) -> QueryRecord:
    """Convert an Avro record into a query.

    Raises Damaged for a value out of range or malformed; for a state's schema, another ValueError.
    """
    _in_range(record, "batch_id", 0, limits.MAX_BATCH)
    _in_range(record, "planned_batch", 0, limits.MAX_BATCH)
    _in_range(record, "checkpoint_format", 0, 1000)
    _in_range(record, "files", 0, _INT64)
    _in_range(record, "bytes", 0, _INT64)
    data = dict(record)
    data["offsets"] = tuple(data["offsets"])
    data["source"] = _json(data["source"])
    data["sink"] = _json(data["sink"])
    data["operators"] = tuple(_operator_from_avro(operator) for operator in data["operators"])
    return QueryRecord(**data)


def _operator_from_avro(record: Mapping[str, Any]) -> OperatorRecord:
    _in_range(record, "ordinal", 0, 1 << 31)
    _in_range(record, "partitions", 0, limits.MAX_PARTITIONS)
    _in_range(record, "files", 0, _INT64)
    _in_range(record, "bytes", 0, _INT64)
    stores = tuple(
        StoreInfo(store["name"], _schema(store["key_schema"]), _schema(store["value_schema"]))
        for store in record["stores"]
    )
    counts = (record["partitions"], record["bytes"], record["files"])
    meaning = record["meaning"]
    return OperatorRecord(
        StateOnDisk(record["ordinal"], record["kind"], *counts, stores),
        OperatorFacts(
            record["ordinal"],
            record["kind"],
            identity_of(record),
            record["rows"],
            None if meaning is None else _meaning(_json(meaning)),
            record["state_digest"],
        ),
    )


def file_from_avro(record: Mapping[str, Any]) -> FileRecord:
    """Convert an Avro record into a file record; raise Damaged for an invalid size or digest."""
    _in_range(record, "size", 0, _INT64)
    if not _DIGEST.fullmatch(record["digest"]):
        raise Damaged(f"it has an invalid digest: {record['digest'][:200]!r}")
    return FileRecord(**record)


def _in_range(record: Mapping[str, Any], name: str, least: int, most: int) -> None:
    value = record[name]
    if value is not None and not least <= value <= most:
        raise Damaged(f"its value of {name!r} is out of range: {value}")


def _json(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise Damaged(f"a text is not JSON: {error}") from error


def _schema(text: str | None) -> dict[str, Any] | None:
    return None if text is None else parse_struct(text)


def _meaning(data: Any) -> StateSemantics:
    try:
        meaning = StateSemantics.from_json(data)
        columns = [c for part in (meaning.keys, meaning.values) for cs in part.values() for c in cs]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Damaged(f"the meaning of a state has an unknown form: {error}") from error
    snapshots = (text for each in meaning.serializers.values() for text in each)
    settings = (
        text
        for each in meaning.settings
        for text in (each.setting, each.value, each.part, each.expression)
    )
    texts = (
        *(*meaning.traits.values(), *snapshots, *settings),
        *(text for c in columns for text in _texts(c)),
    )
    flags = (*(c.nullable for c in columns), *(each.certain for each in meaning.settings))
    if not all(isinstance(text, str) for text in texts) or not {*map(type, flags)} <= {bool}:
        raise Damaged("the meaning of a state has an unknown form")
    return meaning


def _texts(column: Column) -> tuple[str, str, str]:
    return column.name, column.origin, column.detail


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
    """Return the SHA-256 (hex) of a schema as sorted JSON.

    Only those parts of the schema count that determine how values are encoded.
    """
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
