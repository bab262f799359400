"""Small real savepoints at any time, of any job, on any storage: for what reads many of them."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from dataclasses import replace
from typing import Any

from flinkish import storage
from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.checkpoint.operators import StateOnDisk
from flinkish.operators.identity import OperatorFacts, OperatorIdentity
from flinkish.savepoint.format.contents import (
    FileRecord,
    Header,
    OperatorRecord,
    QueryRecord,
    SavepointJob,
)
from flinkish.savepoint.format.metadata import MetadataWriter

JOB_ID = "0123456789abcdef" * 2
SCHEMA = {"type": "struct", "fields": [{"name": "key", "type": "string", "nullable": True}]}


def header(created: float, job_id: str = JOB_ID, name: str = "job", **more: Any) -> Header:
    job = SavepointJob(job_id, name, spark_version="4.3.0", host="h", **more)
    return Header(job, created, "savepoint")


def operator(ordinal: int = 0, uid: str | None = "counts", rows: int | None = 3) -> OperatorRecord:
    stores = (StoreInfo("default", SCHEMA, SCHEMA),)
    identity = OperatorIdentity(uid, None if uid is None else hashlib.md5(uid.encode()).hexdigest())
    return OperatorRecord(
        StateOnDisk(ordinal, "stateStoreSave", partitions=2, bytes=10, files=1, stores=stores),
        OperatorFacts(ordinal, "stateStoreSave", identity, rows),
    )


def query(
    name: str = "counts",
    *operators: OperatorRecord,
    batch_id: int = 4,
    size: int = 10,
    query_id: str = "6d2b7c1e-0000-4000-8000-000000000001",
) -> QueryRecord:
    return QueryRecord(
        query_id,
        batch_id,
        name=name,
        directory=f"0-{name}",
        watermark_ms=5000,
        offsets=('{"logOffset": 4}',),
        pins={"spark.sql.shuffle.partitions": "2"},
        backend="hdfs",
        operators=operators or (operator(),),
        files=1,
        bytes=size,
    )


def make_savepoint(
    directory: str,
    created: float,
    *,
    job_id: str = JOB_ID,
    name: str = "job",
    held: str | None = None,
    data: bytes = b"0123456789",
    offsets: tuple[str, ...] | None = None,
    source: Any = None,
    batch_id: int = 4,
    query_id: str | None = None,
    restored_from: str | None = None,
) -> str:
    """A savepoint of one query with one file; the location of it.

    ``held``: the file is not its own but lies there, in an earlier savepoint of the directory. The
    query's id is by default that of the job's name, as if jobs of one name continued each other.
    """
    path = storage.join(directory, f"savepoint-{job_id[:6]}-{secrets.token_hex(6)}")
    own_id = query_id or str(uuid.uuid5(uuid.NAMESPACE_URL, name))
    saved = replace(query(size=len(data), batch_id=batch_id, query_id=own_id), source=source)
    saved = saved if offsets is None else replace(saved, offsets=offsets)
    storage.make_directory(storage.join(path, saved.directory))
    if held is None:
        storage.write_bytes(storage.join(path, saved.directory, "metadata"), data)
    found = f"sha256:{hashlib.sha256(data).hexdigest()}"
    features = [] if held is None else ["shared-files"]
    head = header(created, job_id, name, restored_from=restored_from)
    with MetadataWriter(path, head, [saved], features=features) as file:
        file.add(FileRecord(0, "metadata", len(data), found, held))
        file.commit()
    return path
