"""Run batches of a query on a copy of the state of a savepoint, or of a running job.

The query gets its own checkpoint, made as in a restore, and its own query id. Its sources are read
from the saved positions. Only the directory of the rehearsal is written, so a query that removes
its input (``cleanSource``) is refused. Listeners of the program's session see the query.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from flinkish import storage
from flinkish.checkpoint.cut import FilesVanished, newest_committed_batch
from flinkish.connectors.files.ages import clean_mode
from flinkish.driver.log import log
from flinkish.driver.plan.restore_environment import DriverRestoreEnvironment
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.restore.query_restores import (
    make_restored,
    offers_here,
    plan_start,
    planning_settings,
    session_settings,
    settings_of,
)
from flinkish.driver.restore.typed_formats import (
    local_properties,
    task_properties,
    typed_states_of,
)
from flinkish.driver.runtime.file_sink_log import file_sink_log_ready
from flinkish.driver.runtime.naming import Names
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.driver.spark.jvm import configured_for_start
from flinkish.errors import Corrupt, UsageError
from flinkish.messages.calls import JobOrigin
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.rehearsals import RehearsalLimits, RehearsedBatch, RehearsedQuery, rate_of
from flinkish.restore.origin.restore_inputs import NewQuery
from flinkish.restore.plan.restore_planner import RestorePlanner

_POLL = 0.05
#: Seconds that a query without input gets to find some.
_NO_INPUT = 2.0
#: Seconds that Spark gets to report a committed batch.
_REPORTED = 2.0
#: Seconds in which the tasks of a stopped query end.
_REMOVED = 10.0
#: Attempts to copy the state of a job that trims its checkpoint meanwhile.
_ATTEMPTS = 3
#: The maximum number of characters of Spark's error that are shown.
_ERROR = 400


class RemovesInput(UsageError):
    """A batch of the query would remove input that only the job may remove."""


class Rehearsal:
    """The queries of one program on copies of the state of a savepoint or a job.

    ``spec`` is the restore; ``job`` is the job whose state is copied, instead of that of the
    savepoint. ``options`` are flinkish's configuration of the program. ``directory`` is for the
    copies, on storage that the executors see.
    """

    def __init__(
        self,
        spec: RestoreSpec,
        job: JobOrigin | None,
        options: Mapping[str, str],
        directory: str,
    ) -> None:
        self._spec = spec
        self._job = job
        self._planning = Planning(options)
        self._directory = directory
        #: Assigns the directories below ``directory``: checkpoints by query, and outputs of the
        #: program.
        self.names = Names(directory)
        self.planner = self._read()
        #: The queries as they were planned, by name.
        self.starting: dict[str, NewQuery] = {}

    def _read(self) -> RestorePlanner:
        return RestorePlanner(
            offers_here(self._spec, self._job),
            self._spec.options,
            DriverRestoreEnvironment(lambda _: (), offline=self._spec.options.offline),
            settings_of(self._spec, self._planning),
        )

    def run(
        self,
        name: str,
        writer: Any,
        facts: WriterFacts,
        jwriter: Any,
        limits: RehearsalLimits,
        is_over: Callable[[], bool] = lambda: False,
    ) -> RehearsedQuery:
        """Run batches of a query that the program is about to start.

        ``jwriter`` is the JVM's writer that starts it, with the sink of the rehearsal. ``is_over``
        returns whether the rehearsal was given up.

        Raises RemovesInput if a batch would remove input; FlinkishError if the query's uids break
        the rules, or the query could not be restored from that state; and Spark's errors if Spark
        does not support or start the query.
        """
        session = writer._spark
        target = self.names.directory(name, fresh=False)
        restored, properties = self._copy(name, writer, facts, session, target)
        forget_end = spark_jvm.forgetting_ends([session])
        with (
            configured_for_start(session, session_settings(self.planner)),
            local_properties(session, properties),
            file_sink_log_ready(session, name, facts.format, target),
        ):
            jsq = jwriter.option("checkpointLocation", storage.for_spark(target)).start()
        try:
            return _watch(jsq, name, target, restored, limits, is_over)
        finally:
            jsq.stop()
            forget_end()

    def close(self) -> None:
        """Remove all copies; give up after ``_REMOVED`` seconds."""
        deadline = time.monotonic() + _REMOVED
        # A query stops before its tasks have ended: they may still add files.
        while storage.is_directory(self._directory):
            removed = storage.remove_tree(*storage.split(self._directory))
            if removed or time.monotonic() > deadline:
                return
            time.sleep(_POLL)

    def _copy(
        self, name: str, writer: Any, facts: WriterFacts, session: Any, target: str
    ) -> tuple[int | None, Mapping[str, str]]:
        """Make the checkpoint ``target``, unless the query starts without state.

        Returns the batch that it continues from, or None, and local properties of the query.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            settings = planning_settings(self.planner.offers, name)
            planned, _ = self._planning.plan_to_run(name, writer, facts, settings)
            modules = self._planning.snapshot_modules(planned)
            new, plan = plan_start(self.planner, name, planned, facts, session, modules)
            self.starting[name] = new
            if plan.refusal is not None:
                raise plan.refusal
            _check_input_stays(new)
            if plan.recipe is None:
                return None, {}
            recipe = plan.recipe.with_query_id(keep=False)
            try:
                make_restored(session, recipe, plan.rewrite, target)
            except (Corrupt, FilesVanished) as error:
                if self._job is None or attempt == _ATTEMPTS:
                    raise
                log(f"copying the state again, because the job has continued: {error.message}")
                self.planner = self._read()
            else:
                properties = (
                    {} if planned is None else task_properties(planned, typed_states_of(plan))
                )
                return recipe.batch_id, properties
        raise AssertionError  # the last attempt returns or raises


def _check_input_stays(new: NewQuery) -> None:
    """Raise RemovesInput if a source of a query archives or deletes the files that it has read."""
    for source in new.sources or ():
        mode = clean_mode(source.options)
        if mode is not None:
            raise RemovesInput(
                f"query '{new.name}': {source.describe()} {mode}s files that it has read "
                f"(cleanSource={mode}), and a rehearsal would {mode} files that the job has not "
                "read",
                hint="rehearse the program with cleanSource=off",
            )


def _watch(
    jsq: Any,
    name: str,
    checkpoint: str,
    restored: int | None,
    limits: RehearsalLimits,
    is_over: Callable[[], bool],
) -> RehearsedQuery:
    """Wait until the query has run its batches, failed, ended, found no input or taken too long."""
    first = 0 if restored is None else restored + 1
    begun = time.monotonic()
    idle: float | None = None
    enough_since: float | None = None
    while True:
        newest = newest_committed_batch(checkpoint)
        following = first if newest is None else max(newest + 1, first)
        batches = _batches(jsq, first, following)
        rehearsed = RehearsedQuery(name, restored, batches, rows_per_second=rate_of(batches))
        has_ended = spark_jvm.has_ended(jsq)  # read before the error, which an ended query has
        error = spark_jvm.error_of(jsq)
        if error is not None:
            return replace(rehearsed, error=error[:_ERROR], failed_batch=following)
        now = time.monotonic()
        enough = limits.max_rows is not None and rehearsed.input_rows >= limits.max_rows
        if following - first >= limits.batches or enough or has_ended or is_over():
            enough_since = now if enough_since is None else enough_since
            if len(rehearsed.batches) >= following - first or now - enough_since > _REPORTED:
                return rehearsed
            time.sleep(_POLL)
            continue
        waits = spark_jvm.waits_for_input(jsq)
        idle = (idle or now) if waits else None
        if idle is not None and now - idle > _NO_INPUT:
            return rehearsed
        if now - begun > limits.patience:
            late = f"the batch was not finished within {limits.patience:g} s"
            return (
                rehearsed
                if waits
                else replace(rehearsed, error=late, failed_batch=following, late=True)
            )
        time.sleep(_POLL)


def _batches(jsq: Any, first: int, following: int) -> tuple[RehearsedBatch, ...]:
    """Return the committed batches from ``first`` to before ``following``, as Spark reports them.

    A trigger without input is reported under the number of the next batch.
    """
    batches: dict[int, RehearsedBatch] = {}
    for report in jsq.recentProgress():
        progress = json.loads(report.json())
        number = int(progress["batchId"])
        if first <= number < following and "addBatch" in progress.get("durationMs", {}):
            batches[number] = _batch(progress)
    return tuple(batches[number] for number in sorted(batches))


def _batch(progress: Mapping[str, Any]) -> RehearsedBatch:
    states = [each.get("numRowsTotal", 0) for each in progress.get("stateOperators", ())]
    written = progress.get("sink", {}).get("numOutputRows", -1)
    return RehearsedBatch(
        batch_id=int(progress["batchId"]),
        input_rows=int(progress.get("numInputRows", 0)),
        output_rows=int(written) if written >= 0 else None,
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        state_rows=sum(states) if states else None,
    )
