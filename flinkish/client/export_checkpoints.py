"""Build the checkpoints of an export: with the state as it is, or as a program needs it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from flinkish import storage
from flinkish.checkpoint.discovery import directory_name
from flinkish.client.check_origin import check_source
from flinkish.client.checking import require_agreed
from flinkish.client.context import Context
from flinkish.client.dryrun import restore_question
from flinkish.client.export_place import ExportPlace
from flinkish.client.program import find_spark
from flinkish.connectors.registry import sink_connector
from flinkish.errors import UsageError
from flinkish.launch import spark_submit as programs
from flinkish.launch.driver_call import ask_driver
from flinkish.messages.calls import Exported, ExportTask, JobOrigin
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import KeptQueryId
from flinkish.registry.jobs import JobState
from flinkish.restore.check.file_sinks import file_sink_position, keeps_log
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.plan.history import saved_shift
from flinkish.restore.plan.plain_spark import PlainContinuation, UnchangedQuery, plan_unchanged
from flinkish.restore.plan.query_id import OtherRun
from flinkish.restore.plan.sinks import SinkMode, SinkPosition
from flinkish.restore.source.job_source import open_job
from flinkish.restore.source.restore_source import (
    RestorableQuery,
    RestoreSource,
    open_restore_source,
)


@dataclass(frozen=True)
class BuiltQuery:
    """A query whose checkpoint is built in ``directory``, a name."""

    query: str
    directory: str
    kept_query_id: KeptQueryId
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuiltCheckpoints:
    """The checkpoints that are built and not in their place yet; the rest as in the result."""

    queries: tuple[BuiltQuery, ...]
    spark_version: str | None
    new_queries: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def build_planned(
    context: Context,
    launch: Launch,
    spec: RestoreSpec,
    origin: JobOrigin | None,
    place: ExportPlace,
    query: str | None,
) -> BuiltCheckpoints:
    """Let a driver build the checkpoints that a program needs; nothing of its queries runs."""
    installation = find_spark(launch)
    spark = programs.spark_version(installation.spark_home)
    offers = _opened(spec, origin)
    check_source(context, offers, spark)
    context.reporter.note("planning the program's queries ...")
    exported = ask_driver(
        ExportTask(
            restore_question(context.registry, spec, offers, origin),
            place.building,
            place.final,
            query,
            place.is_single,
        ),
        replace(programs.pinned(launch, installation), restore=spec),
        installation,
        answer=Exported,
        name=f"{launch.default_name} (export)",
        environ=os.environ,
        show_log=context.reporter.log,
    )
    require_agreed(exported.plan, "the program cannot resume from that state")
    rows = {row.name: row for row in exported.plan.queries}
    return BuiltCheckpoints(
        tuple(
            BuiltQuery(
                name,
                directory,
                rows[name].query_id or KeptQueryId(True, ""),
                rows[name].notes,
            )
            for name, directory in exported.directories.items()
        ),
        spark,
        tuple(row.name for row in rows.values() if row.batch_id is None),
        exported.warnings,
    )


def build_unchanged(
    context: Context,
    spec: RestoreSpec,
    origin: JobOrigin | None,
    place: ExportPlace,
    query: str | None,
) -> BuiltCheckpoints:
    """Build checkpoints with the state as it is; no JVM is started."""
    offers = _opened(spec, origin)
    question = restore_question(context.registry, spec, offers, origin)
    plans: dict[str, UnchangedQuery] = {}
    warnings = [f"query '{each.query}' is not in it: {each.reason}" for each in offers.left_out]
    for name, offer in _chosen(spec.path, offers, query, is_single=place.is_single).items():
        runs = question.runs.get(offer.query_id, ())
        plans[name] = plan_unchanged(
            offer,
            [OtherRun.of(run, JobState(run.state)) for run in runs if run.since is None],
            _sink_position(offer),
            fork=spec.options.fork,
            mode=cast("SinkMode | None", spec.options.sink_ahead),
        )
        warnings += _warnings(name, offer, plans[name])
    refusal = next((plan.refusal for plan in plans.values() if plan.refusal is not None), None)
    if refusal is not None:
        raise refusal
    queries = []
    for name, plan in plans.items():
        directory = directory_name(name)
        make_checkpoint(
            replace(plan.recipe, query_id=None if plan.identity.keep else str(uuid.uuid4())),
            storage.join(place.building, directory),
            location=place.location_of(directory),
        )
        notes = () if plan.sink is None else (f"query '{name}': {plan.sink.text}",)
        kept = KeptQueryId(plan.identity.keep, plan.identity.reason)
        queries.append(BuiltQuery(name, directory, kept, notes))
    return BuiltCheckpoints(tuple(queries), offers.spark_version, warnings=tuple(warnings))


def _opened(spec: RestoreSpec, origin: JobOrigin | None) -> RestoreSource:
    if origin is None:
        return open_restore_source(spec.path, verify=spec.verify)
    return open_job(origin, drops=spec.options.allow_non_restored)


def _chosen(
    path: str, offers: RestoreSource, query: str | None, *, is_single: bool
) -> Mapping[str, RestorableQuery]:
    """Return the saved queries that are exported, by name; UsageError if there is none such.

    The query of a plain checkpoint has no name but that of its directory.
    """
    by_name = {
        storage.base_name(offer.origin.root) if key is None else key: offer
        for key, offer in offers.by_key.items()
    }
    names = ", ".join(f"'{name}'" for name in by_name)
    if query is not None:
        if query not in by_name:
            raise UsageError(f"there is no query '{query}' in {path}", hint=f"it has: {names}")
        return {query: by_name[query]}
    if is_single and len(by_name) > 1:
        raise UsageError(f"{path} has several queries: {names}", hint="choose one with --query")
    return by_name


def _sink_position(offer: RestorableQuery) -> SinkPosition | None:
    """Return the newest batch of the sink that the query had, if it is known without Spark."""
    path = offer.query.sink.get("path")
    if path is None or not (str(path).startswith("/") or ":" in str(path)):
        return None  # relative to the directory in which its job ran
    return file_sink_position(offer.query.sink.get("format"), str(path), storage)


def _warnings(name: str, offer: RestorableQuery, plan: UnchangedQuery) -> list[str]:
    sink, position = offer.query.sink, plan.sink
    format_ = str(sink.get("format") or "").lower()
    unknown = []
    is_read_by_spark = sink.get("table") is not None or sink_connector(format_).keeps_versions
    if position is None and (is_read_by_spark or (sink.get("path") and keeps_log(format_))):
        unknown = [
            f"query '{name}': whether its sink, {sink.get('table') or sink.get('path')}, has later "
            "batches is not known, because only Spark finds it; name the program too to learn it"
        ]
    has_log = position is not None and position.verdict != "unreadable"
    return (
        unknown
        + PlainContinuation(
            name,
            plan.recipe.batch_id + 1,
            counts_history=format_ == "foreachbatch"
            and (saved_shift(sink) != 0 or not plan.identity.keep),
            log_path=position.path if position is not None and has_log else None,
            newest_logged=None if position is None else position.newest_batch,
        ).warnings()
    )
