"""Migration: a driver without a program that makes a new savepoint of an old one.

``flinkish migrate`` starts it with ``FLINKISH_MIGRATE`` naming the file that gets the result. Each
query of the savepoint becomes a checkpoint with rewritten state, beside the target; of these the
new savepoint is taken as of any checkpoint, so that it is sealed, digested and locked as all are.
The old savepoint is only read.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from typing import Any

from flinkish import storage
from flinkish.driver.answering import answer, replace_file
from flinkish.driver.carrier import ship_package
from flinkish.driver.log import say
from flinkish.errors import LaunchFailed
from flinkish.savepoint.model import (
    FORMAT_NATIVE,
    Header,
    OperatorFacts,
    OperatorRecord,
    QueryRecord,
    QuerySource,
    SavepointInfo,
    SavepointJob,
)
from flinkish.savepoint.reader import Savepoint, check_files, open_savepoint
from flinkish.savepoint.reporter import SilentReporter
from flinkish.savepoint.statedir import StorageDirectory, saved_directory
from flinkish.savepoint.writer import write_savepoint

#: The environment variable with the path of the result; its presence asks for this mode.
RESULT_VARIABLE = "FLINKISH_MIGRATE"
#: With what is wanted, a JSON object: ``flinkish.jobs.migrator.Migration``.
WANTED_VARIABLE = "FLINKISH_MIGRATE_WANTED"
#: In the new savepoint's metadata.
TRIGGER = "migrate"


def main() -> int:
    """The driver's main function in this mode.

    Writes ``{"savepoint": {...}, "operators": [...], "error": {...} | null}``.
    """
    return answer(
        RESULT_VARIABLE,
        lambda path: migrate(json.loads(os.environ[WANTED_VARIABLE]), f"{path}.progress"),
    )


def migrate(wanted: Mapping[str, Any], progress_path: str) -> dict[str, Any]:
    """Write the new savepoint; what it is, and what each operator's rows came to.

    Raises
    ------
    SavepointNotFound, Corrupt: the old savepoint.
    Incompatible: its state cannot become what is wanted; Corrupt: a state file is damaged.
    StorageError: of the target.
    """
    savepoint = open_savepoint(wanted["path"])
    check_files(savepoint)
    parent = storage.locate(wanted["target"])
    scratch = storage.join(parent, f".migrating-{secrets.token_hex(6)}")
    session = _session()
    written: list[dict[str, Any]] = []
    try:
        sources: list[QuerySource] = []
        for query in savepoint.queries:
            checkpoint = storage.join(scratch, str(len(sources)))
            say(f"rewriting the state of query {query.name}")
            operators = _rewrite(session, savepoint, query, checkpoint, wanted, progress_path)
            sources.append(_source(query, checkpoint, operators))
            written += operators
        info = write_savepoint(
            wanted["target"],
            _job(savepoint.header, savepoint.path, wanted.get("owner")),
            sources,
            trigger=TRIGGER,
            reporter=SilentReporter(),
            deadline=time.monotonic(),
            full=True,
            format_=_format(wanted, savepoint.header),
        )
    finally:
        storage.remove_tree(scratch)
    return {"savepoint": info.to_json(), "record": _entry(info), "operators": written}


def _format(wanted: Mapping[str, Any], header: Header) -> str:
    """What the new savepoint's state is: as the old one's where nothing else is asked for."""
    if wanted.get("type"):
        return str(wanted["type"])
    return FORMAT_NATIVE if wanted.get("backend") else header.format


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()


def _rewrite(
    session: Any,
    savepoint: Savepoint,
    query: QueryRecord,
    checkpoint: str,
    wanted: Mapping[str, Any],
    progress_path: str,
) -> list[dict[str, Any]]:
    """Make a checkpoint of a query with the state that is wanted; facts of its operators."""
    try:
        from flinkish.driver.rewriting import rewrite_query
    except ImportError as error:
        raise LaunchFailed(
            f"the driver's Python cannot import {error.name}, which rewriting state needs",
            hint="install flinkish there with its extra: pip install 'flinkish[engine]'",
        ) from error
    ship_package(session.sparkContext)
    return rewrite_query(
        session.sparkContext,
        saved_directory(savepoint, query),
        StorageDirectory(checkpoint),
        query,
        wanted,
        _Progress(progress_path),
    )


class _Progress:
    """Rows and bytes, where the command that waits looks for them."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, rows: int, size: int) -> None:
        replace_file(self._path, [rows, size])


def _source(query: QueryRecord, checkpoint: str, written: list[dict[str, Any]]) -> QuerySource:
    digests = {facts["ordinal"]: str(facts["content"]) for facts in written}
    return QuerySource(
        name=query.name,
        checkpoint=checkpoint,
        run_id=query.run_id,
        source=query.source,
        sink=query.sink,
        operators=tuple(_facts(op, digests.get(op.ordinal)) for op in query.operators),
        batch_id=query.batch_id,
        rows_batch=query.batch_id,
    )


def _facts(operator: OperatorRecord, digest: str | None) -> OperatorFacts:
    return OperatorFacts(
        ordinal=operator.ordinal,
        kind=operator.kind,
        uid=operator.uid,
        operator_id=operator.operator_id,
        operator_id_v2=operator.operator_id_v2,
        operator_id_v3=operator.operator_id_v3,
        rows=operator.rows,
        meaning=operator.meaning,
        state_digest=digest,
    )


def _job(header: Header, path: str, owner: str | None) -> SavepointJob:
    return SavepointJob(
        job_id=header.job_id,
        name=header.job_name,
        spark_version=header.spark_version,
        python_version=header.python_version,
        program=header.program,
        restored_from=path,
        owner=owner,
    )


def _entry(info: SavepointInfo) -> dict[str, Any]:
    """What the registry keeps of it."""
    return {
        "path": info.path,
        "job_id": info.job_id,
        "created": info.created,
        "format": info.format,
        "bytes": info.bytes,
        "files": info.files,
        "duration": info.duration,
    }
