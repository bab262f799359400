"""Build the checkpoints of an export: with the state as it is, or as a program needs it.

They are put into a new directory, or in place of a program's own checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from flinkish import storage
from flinkish.checkpoint.cut import newest_planned_batch
from flinkish.checkpoint.discovery import directory_names, is_checkpoint
from flinkish.client.checking import require_agreed
from flinkish.client.context import Context
from flinkish.client.dryrun import restore_question
from flinkish.client.program import find_spark
from flinkish.connectors.path_map import PathMap
from flinkish.connectors.registry import sink_connector
from flinkish.errors import SavepointNotFound, StorageError, UsageError, WrongState, quoted_path
from flinkish.launch import spark_submit as programs
from flinkish.launch.driver_call import ask_driver
from flinkish.messages.calls import Exported, ExportTask, JobOrigin
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import KeptQueryId, SinkRow
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ACTIVE_STATES, JobState
from flinkish.registry.liveness import reconcile
from flinkish.restore.check.file_sinks import file_sink_status, keeps_log
from flinkish.restore.check.version_check import check_restorable
from flinkish.restore.materialize.new_checkpoint import is_taken, make_checkpoint
from flinkish.restore.origin.restore_origin import RestorableQuery, RestoreOrigin, open_origin
from flinkish.restore.plan.history import saved_shift
from flinkish.restore.plan.plain_spark import PlainContinuation, UnchangedQuery, plan_unchanged
from flinkish.restore.plan.query_id import OtherRun
from flinkish.restore.plan.sinks import SinkMode, SinkPlan, SinkStatus


@dataclass(frozen=True)
class BuiltQuery:
    """A query whose checkpoint is built in the directory named ``directory``.

    ``file_sink`` is where the query writes files, if the log of these files is known to be there.
    """

    query: str
    directory: str
    kept_query_id: KeptQueryId
    file_sink: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuiltCheckpoints:
    """Checkpoints that are built but not in place; other fields as in :class:`.ExportResult`."""

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
    """Let a driver build the checkpoints that a program needs; none of its queries runs."""
    installation = find_spark(launch)
    spark = programs.spark_version(installation.spark_home)
    offers = open_origin(spec, origin, verify=spec.verify)
    context.report(check_restorable(offers, spark))
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
    place.built.extend(exported.directories.values())
    require_agreed(exported.plan, "the program")
    rows = {row.name: row for row in exported.plan.queries}
    file_sinks = {row.query: _log_place(row) for row in exported.plan.sinks}
    return BuiltCheckpoints(
        tuple(
            BuiltQuery(
                name,
                directory,
                rows[name].query_id or KeptQueryId(True, ""),
                file_sinks.get(name),
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
    offers = open_origin(spec, origin, verify=spec.verify)
    question = restore_question(context.registry, spec, offers, origin)
    plans: dict[str, UnchangedQuery] = {}
    warnings = [f"query '{each.query}' is not in it: {each.reason}" for each in offers.left_out]
    if not offers.complete:
        warnings.append(
            "the saved job may not have started all its queries: later ones are not exported"
        )
    for name, offer in _chosen(spec.path, offers, query, is_single=place.is_single).items():
        runs = question.runs.get(offer.query_id, ())
        plans[name] = plan_unchanged(
            offer,
            [OtherRun.of(run, JobState(run.state)) for run in runs if run.since is None],
            _sink_status(context.registry, origin, offer, PathMap(spec.options.path_map)),
            fork=spec.options.fork,
            mode=cast("SinkMode | None", spec.options.sink_ahead),
        )
        warnings += _warnings(name, offer, plans[name])
    for plan in plans.values():
        if plan.refusal is not None:
            raise plan.refusal
    queries = []
    for (name, plan), directory in zip(plans.items(), directory_names(plans).values(), strict=True):
        make_checkpoint(
            plan.recipe.with_query_id(keep=plan.identity.keep),
            storage.join(place.building, directory),
            location=place.location_of(directory),
        )
        place.built.append(directory)
        notes = () if plan.sink is None else (f"query '{name}': {plan.sink.text}",)
        kept = KeptQueryId(plan.identity.keep, plan.identity.reason)
        queries.append(BuiltQuery(name, directory, kept, _log_place(plan.sink), notes))
    return BuiltCheckpoints(tuple(queries), offers.spark_version, warnings=tuple(warnings))


def _chosen(
    path: str, offers: RestoreOrigin, query: str | None, *, is_single: bool
) -> Mapping[str, RestorableQuery]:
    """Return the queries to export, by name; a plain checkpoint is named after its directory."""
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


def _sink_status(
    registry: Registry, origin: JobOrigin | None, offer: RestorableQuery, paths: PathMap
) -> SinkStatus | None:
    """Return the newest batch of the sink that the query had, if it is known without Spark.

    A savepoint is untrusted: a path that it names is listed only if a job of the registry has
    written there, or if it is in a place that the user has named (``paths``).
    """
    path = _sink_path(offer)
    if path is not None and paths.leads_to(path):
        return file_sink_status(offer.query.sink.get("format"), path, storage)
    recorded = [] if origin is None else list(origin.facts.values())
    for job, query in registry.find_query(offer.query_id) if path is not None else ():
        recorded += [f for name, f in registry.facts(job.job_id).items() if name == query.name]
    sink = next((facts.sink for facts in recorded if path and facts.sink.get("path") == path), None)
    return None if sink is None else file_sink_status(sink.get("format"), path, storage)


def _sink_path(offer: RestorableQuery) -> str | None:
    """Return the path that the query wrote to; None if it has none, or only a relative one."""
    path = str(offer.query.sink.get("path") or "")
    return path if path.startswith("/") or ":" in path else None


def _warnings(name: str, offer: RestorableQuery, plan: UnchangedQuery) -> list[str]:
    sink, position = offer.query.sink, plan.sink
    format_ = str(sink.get("format") or "").lower()
    warnings = PlainContinuation(
        name,
        plan.recipe.batch_id + 1,
        counts_history=format_ == "foreachbatch"
        and (saved_shift(sink) != 0 or not plan.identity.keep),
        log_path=_log_place(position),
        newest_logged=None if position is None else position.newest_batch,
    ).warnings()
    warnings += [f"query '{name}': {offer.planned_fault}"] if offer.planned_fault else []
    is_read_by_spark = sink.get("table") is not None or sink_connector(format_).keeps_versions
    if position is None and (is_read_by_spark or (sink.get("path") and keeps_log(format_))):
        why = "because only Spark finds it"
        if _sink_path(offer) is not None and not is_read_by_spark:
            why = "because no job of the registry is known to write there, and it was not looked at"
        warnings.append(
            f"query '{name}': whether its sink, {sink.get('table') or sink.get('path')}, has later "
            f"batches is not known, {why}; name the program too, to find out"
        )
    return warnings


def _log_place(sink: SinkPlan | SinkRow | None) -> str | None:
    """Return where a sink writes, if it is a file sink whose log could be read."""
    if sink is None or sink.verdict == "unreadable" or not keeps_log(sink.format):
        return None
    return sink.path


@dataclass(frozen=True)
class ExportPlace:
    """Where checkpoints are built, each in its own directory, and where they are put.

    On remote storage, where no directory is renamed, ``building`` is ``final``. ``is_single``:
    ``final`` is one checkpoint, which is replaced, not a directory of checkpoints; ``replaces`` is
    then its newest planned batch. ``built``: the directories that this export has built.
    """

    building: str
    final: str
    is_single: bool = False
    replaces: int | None = None
    built: list[str] = field(default_factory=list)

    def location_of(self, directory: str) -> str:
        """Return the final place of the checkpoint that is built in a directory of this name."""
        return self.final if self.is_single else storage.join(self.final, directory)

    def publish(self, directories: list[str]) -> str | None:
        """Put the built checkpoints in place; return where a replaced one is kept.

        Raises WrongState if the checkpoint to be replaced got a batch in the meantime, StorageError
        if renaming fails or the name to keep it under is taken; the old checkpoint then stays.
        """
        if not self.is_single:
            if self.building != self.final:
                storage.publish(self.building, self.final)
            return None
        if newest_planned_batch(self.final) != self.replaces:
            raise WrongState(
                f"the checkpoint {self.final} is in use: it got a batch during the export",
                hint="stop the program that runs on it, and export again",
            )
        (directory,) = directories
        kept = f"{self.final}.replaced-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        if os.path.lexists(kept):
            raise StorageError(f"{kept} exists", hint="export again in a second")
        storage.publish(self.final, kept)
        try:
            storage.publish(storage.join(self.building, directory), self.final)
        except BaseException:
            storage.publish(kept, self.final)
            raise
        return kept


def new_directory(directory: str) -> ExportPlace:
    """Return the place of a new directory; StorageError if it is a file or not empty."""
    final = storage.locate(directory)
    if is_taken(final):
        raise StorageError(
            f"cannot export to {directory}: it exists and is not an empty directory",
            hint="name a new directory, or put one checkpoint in place of another with "
            "--in-place-of",
            path=final,
        )
    if not storage.is_local(final):
        return ExportPlace(final, final)
    final = os.path.realpath(final)
    return ExportPlace(storage.temporary_name(final), final)


def in_place_of(checkpoint: str, registry: Registry) -> ExportPlace:
    """Return the place of a program's checkpoint to be replaced; the old one is kept beside it.

    Raises UsageError for remote storage, SavepointNotFound if there is no checkpoint, and
    WrongState if a job of the registry runs on it.
    """
    final = storage.locate(checkpoint)
    if not storage.is_local(final):
        raise UsageError(
            f"{checkpoint} is on remote storage, where a checkpoint cannot be replaced as a whole",
            hint="export into a new directory, and let the program's checkpointLocation name it",
        )
    final = os.path.realpath(final)
    if not is_checkpoint(final):
        raise SavepointNotFound(
            f"there is no checkpoint at {checkpoint} that could be replaced",
            hint=f"for a new one: flinkish export SAVEPOINT {quoted_path(checkpoint)}",
            path=final,
        )
    active = reconcile(registry, registry.jobs(states=ACTIVE_STATES))
    jobs = {job.job_id: job for job in active if not job.state.is_final}
    for job_id, queries in registry.queries_of(jobs).items():
        for query in queries:
            if storage.same_place(query.checkpoint_dir, final):
                job = jobs[job_id]
                raise WrongState(
                    f"query '{query.name}' of job {job.name} ({job_id}), which is "
                    f"{job.state.value}, runs on {checkpoint}",
                    hint=f"stop it first: flinkish stop {job_id}",
                    job_id=job_id,
                    state=job.state.value,
                )
    newest = newest_planned_batch(final)
    return ExportPlace(storage.temporary_name(final), final, is_single=True, replaces=newest)


@contextmanager
def built(place: ExportPlace) -> Iterator[None]:
    """Make the directory in which checkpoints are built, and remove it at the end of the block.

    On remote storage, where another export may build in the same directory, only what this export
    has built is removed, and only if an error ends the block.
    """
    storage.make_directory(storage.parent(place.building))
    storage.make_new_directory(place.building)
    try:
        yield
    except BaseException:
        if place.building == place.final:
            for directory in place.built:
                storage.remove_tree(place.building, directory)
        raise
    finally:
        if place.building != place.final:
            storage.remove_tree(*storage.split(place.building))
