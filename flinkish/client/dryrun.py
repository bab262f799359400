"""Ask a driver, which starts no query, for a program's operators, or for a restore's plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from flinkish.client.context import Context
from flinkish.client.program import launch_of, pinned
from flinkish.config import working_directory
from flinkish.connectors.files.ages import clean_mode
from flinkish.connectors.registry import source_connector
from flinkish.errors import MissingUid
from flinkish.launch import spark_submit
from flinkish.launch.driver_call import ask_driver
from flinkish.launch.known_jobs import (
    known_writers,
    read_elsewhere,
    runs_under_other_ids,
    saved_at,
)
from flinkish.launch.spark_submit import Installation
from flinkish.messages.calls import Described, DescribeTask, JobOrigin, KnownRun, RestoreQuestion
from flinkish.messages.launch import Launch, Program, RestoreSpec
from flinkish.messages.plan import Check, RestoreOutcome, RestorePlan
from flinkish.registry.job_registry import Registry
from flinkish.restore.check.version_check import check_spark_version
from flinkish.restore.origin.restore_inputs import SavedQueryFacts
from flinkish.restore.origin.restore_origin import RestoreOrigin, open_origin
from flinkish.restore.plan.document import with_checks
from flinkish.restore.plan.history import counts_history
from flinkish.restore.plan.query_id import newest_batch, newest_begun
from flinkish.restore.plan.repeated_batches import may_repeat, sink_format


def check_restore(
    launch: Launch,
    installation: Installation,
    spec: RestoreSpec,
    *,
    name: str,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
    registry: Registry,
    job: JobOrigin | None = None,
) -> RestorePlan:
    """Return the plan of restoring ``spec`` with the program of ``launch``.

    ``name``, ``environ``, ``show_log``: see :func:`~flinkish.launch.driver_call.ask_driver`.
    ``registry``: knows other runs of the savepoint's queries. ``job``: the job whose checkpoints
    are restored instead of the savepoint. That job does not count as another run, because it would
    have ended before the restore.

    Raises SavepointNotFound, Corrupt, UnsupportedFormat or StorageError if the savepoint, or the
    job's checkpoint, cannot be read; NoCommittedBatch or NotSavepointable if the job has no state
    to resume from; and the error with which the submission of the program would end.
    """
    origin = open_origin(spec, job, verify=spec.verify)
    checks = []
    if origin.is_savepoint:
        files = sum(len(offer.origin.files) for offer in origin.by_key.values())
        text = f"all {files} files of the savepoint exist"
        checks.append(Check("savepoint-reachable", RestoreOutcome.OK, text))
    versions = check_spark_version(origin, spark_submit.spark_version(installation.spark_home))
    described = ask_driver(
        DescribeTask(restore_question(registry, spec, origin, job)),
        replace(launch, restore=spec),
        installation,
        answer=Described,
        name=name,
        environ=environ,
        show_log=show_log,
    )
    assert described.plan is not None  # it was requested
    plan = with_checks(described.plan, [*checks, versions.check])
    return replace(plan, savepoint=spec.path, version=versions.versions)


def restore_question(
    registry: Registry, spec: RestoreSpec, origin: RestoreOrigin, job: JobOrigin | None
) -> RestoreQuestion:
    """Return the question for the plan of a restore, with other jobs' runs and outputs."""
    own = None if job is None else job.job_id
    sinks = {offer.query_id: sink_format(offer.query.sink) for offer in origin.by_key.values()}
    cleaned = [offer.query_id for offer in origin.by_key.values() if _may_be_cleaned(offer.query)]
    numbered = [each for each, sink in sinks.items() if counts_history(sink)]
    since = saved_at(registry, spec.path, own) if cleaned or numbered else 0.0
    read = {each: read_elsewhere(registry, each, since, own) for each in cleaned}
    begun = {each: read_elsewhere(registry, each, since, own, begun=True) for each in numbered}
    return RestoreQuestion(
        spec,
        known_runs(registry, sinks, own),
        job,
        known_writers(registry, own),
        {query_id: batch for query_id, batch in read.items() if batch is not None},
        {query_id: batch for query_id, batch in begun.items() if batch is not None},
    )


def _may_be_cleaned(query: SavedQueryFacts) -> bool:
    """Return whether a source of a saved query may have removed the files that it has read."""
    return query.sources is None or any(
        source_connector(source.signature, source.offset).name == "file"
        and (source.options is None or clean_mode(source.options) is not None)
        for source in query.sources
    )


def known_runs(
    registry: Registry, sinks: Mapping[str, str | None], own: str | None
) -> dict[str, tuple[KnownRun, ...]]:
    """Return the jobs other than ``own`` that ran the savepoint's queries, by query id.

    For at-least-once sinks, whose repeated rows are counted, these include jobs that went back to
    an earlier batch under another query id; to find them, all jobs are read.

    ``sinks``: the formats of the sinks by query id; None if unknown.
    """
    return {
        query_id: (
            *(
                KnownRun(
                    job_id=job.job_id,
                    state=job.state.value,
                    last_batch=newest_batch(query, query_id),
                    begun_batch=newest_begun(query, query_id),
                )
                for job, query in registry.find_query(query_id)
                if job.job_id != own
            ),
            *(runs_under_other_ids(registry, query_id, own) if may_repeat(sink) else ()),
        )
        for query_id, sink in sinks.items()
    }


def describe(
    context: Context,
    program: Program,
    *,
    require_uids: Literal["all", "stateful"] | None = None,
) -> Described:
    """Return a program's queries, with the uids and the state of their operators.

    The program runs to its end, but its queries are only planned.

    ``context``: its reporter receives notices and the driver's log. ``require_uids``: which
    operators must have a uid or a uid hash; None: no operator must.

    Raises UsageError or LaunchFailed if the program cannot be run; MissingUid if an operator has
    neither although it must; and the error with which the submission of the program would end.
    """
    launch, installation = pinned(launch_of(program, context.config, working_directory()))
    context.reporter.note("planning the program's queries ...")
    described = ask_driver(
        DescribeTask(),
        launch,
        installation,
        answer=Described,
        name=launch.default_name,
        environ=os.environ,
        show_log=context.reporter.log,
    )
    if require_uids is not None:
        _require_uids(described.queries, all_operators=require_uids == "all")
    return described


def _require_uids(queries: Iterable[Mapping[str, Any]], *, all_operators: bool) -> None:
    missing = [
        {fact: operator[fact] for fact in ("name", "kind", "stateful", "location")}
        for query in queries
        for operator in query["operators"]
        if (all_operators or operator["stateful"])
        and operator["uid"] is None
        and operator["uid_hash"] is None
    ]
    if missing:
        noun = ("" if all_operators else "stateful ") + "operator"
        have = f"{noun}s have" if len(missing) > 1 else f"{noun} has"
        names = ", ".join(map(_named, missing))
        raise MissingUid(f"{len(missing)} {have} no uid: {names}", operators=missing)


def _named(fact: Mapping[str, Any]) -> str:
    where = f", {fact['location']}" if fact["location"] else ""
    return f'"{fact["name"]}" ({fact["kind"]}{where})'


def dot_graph(queries: Sequence[Mapping[str, Any]]) -> str:
    """Return the graph of a described program for Graphviz, with a cluster for each query."""
    from flinkish.operators.render import digraph

    return digraph([str(query["dot"]) for query in queries])
