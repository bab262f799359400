"""A savepoint made of another one, with its state rewritten by the engine.

Each query becomes a checkpoint with rewritten state in a scratch directory; of these the new
savepoint is taken as of any checkpoint, so that it is sealed, digested and locked as all are. The
old savepoint is only read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from flinkish import storage
from flinkish.driver.carrier import ship_package
from flinkish.driver.log import say
from flinkish.errors import FlinkishError, LaunchFailed, StorageError
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
from flinkish.savepoint.reader import Savepoint
from flinkish.savepoint.reporter import Reporter
from flinkish.savepoint.statedir import StorageDirectory, saved_directory
from flinkish.savepoint.transfer import Carrier
from flinkish.savepoint.writer import write_savepoint

#: The last line of a Python traceback, and the first of a Java one.
_RAISED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception)\b.*)$", re.MULTILINE)
_JAVA = re.compile(r"^: (.+)$", re.MULTILINE)
#: In the text of an error of the operating system.
_OS = "[Errno "
#: Told of rows and bytes of state written so far, from another thread; must not raise.
Progress = Callable[[int, int], None]


def write_rewritten(
    context: Any,
    savepoint: Savepoint,
    wanted: Mapping[str, Any],
    *,
    target: str,
    scratch: str,
    job: SavepointJob,
    trigger: str,
    reporter: Reporter,
    progress: Progress,
    carrier: Carrier | None = None,
) -> tuple[SavepointInfo, list[dict[str, Any]]]:
    """Write the new savepoint; what it is, and what each operator's rows came to.

    Parameters
    ----------
    context: a ``SparkContext``.
    wanted: the fields of ``flinkish.jobs.migrator.Migration`` that say what becomes of the state.
    target: the directory that gets the new savepoint.
    scratch: where the checkpoints are made; the caller removes it.
    job, trigger, carrier: see :func:`~flinkish.savepoint.writer.write_savepoint`.

    Raises
    ------
    Incompatible: the state cannot become what is wanted; Corrupt: a state file is damaged.
    LaunchFailed: this interpreter has not what the engine needs.
    StorageError: of the target; FlinkishError: the Spark job failed.
    """
    sources: list[QuerySource] = []
    written: list[dict[str, Any]] = []
    reporter.phase("rewriting")
    for query in savepoint.queries:
        checkpoint = storage.join(scratch, str(len(sources)))
        say(f"rewriting the state of query {query.name}")
        operators = _rewrite(context, savepoint, query, checkpoint, wanted, progress)
        sources.append(_source(query, checkpoint, operators))
        written += operators
    info = write_savepoint(
        target,
        job,
        sources,
        trigger=trigger,
        reporter=reporter,
        deadline=time.monotonic(),
        full=True,
        carrier=carrier,
        format_=_format(wanted, savepoint.header),
    )
    return info, written


def _format(wanted: Mapping[str, Any], header: Header) -> str:
    """What the new savepoint's state is: as the old one's where nothing else is asked for."""
    if wanted.get("type"):
        return str(wanted["type"])
    return FORMAT_NATIVE if wanted.get("backend") else header.format


def _rewrite(
    context: Any,
    savepoint: Savepoint,
    query: QueryRecord,
    checkpoint: str,
    wanted: Mapping[str, Any],
    progress: Progress,
) -> list[dict[str, Any]]:
    """Make a checkpoint of a query with the state that is wanted; facts of its operators."""
    try:
        from flinkish.driver.rewriting import rewrite_query
    except ImportError as error:
        raise LaunchFailed(
            f"the driver's Python cannot import {error.name}, which rewriting state needs",
            hint="install flinkish there with its extra: pip install 'flinkish[engine]'",
        ) from error
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
    from pyspark.errors import PySparkException

    ship_package(context)
    try:
        return rewrite_query(
            context,
            saved_directory(savepoint, query),
            StorageDirectory(checkpoint),
            query,
            wanted,
            progress,
        )
    except (Py4JError, PySparkException) as error:
        raise told_by_spark(query.name, str(error)) from error


def told_by_spark(query: str, text: str) -> FlinkishError:
    """The error of a Spark job that failed. Pure.

    Parameters
    ----------
    text: PySpark's, a Java stack trace on 3.5, or only that of a Python worker where it failed
        there, which ends in a line of its own: ``OSError: [Errno 28] No space left on device``.
    """
    found = _RAISED.search(text) or _JAVA.search(text)
    reason = found.group(1) if found else text.strip().partition("\n")[0]
    message = f"query {query}: its state could not be rewritten: {reason}"
    hint = "the driver's log has the whole trace"
    return StorageError(message, hint=hint) if _OS in reason else FlinkishError(message, hint=hint)


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
        origin=query.checkpoint,
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
