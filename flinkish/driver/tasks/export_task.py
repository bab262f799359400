"""Export mode: the user's program runs, and each query gets its checkpoint without being started.

``flinkish export`` requests it (:class:`~flinkish.messages.calls.ExportTask`). The queries are
planned as for ``check``. The checkpoints are made while the program runs, because it may stop Spark
at its end; once a query is refused, no other query gets a checkpoint. The command puts the
checkpoints in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from flinkish import storage
from flinkish.checkpoint.discovery import directory_names
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.restore.query_restores import make_restored
from flinkish.driver.restore.typed_formats import task_properties, typed_states_of
from flinkish.driver.script import ProgramOutcome
from flinkish.driver.tasks.answering import answer_with
from flinkish.driver.tasks.describe import PlanningRuntime
from flinkish.errors import ConsentNeeded, FlinkishError, Incompatible, StorageError, UsageError
from flinkish.messages.calls import Exported, ExportTask
from flinkish.messages.codec import encode_fields
from flinkish.restore.check.file_sinks import keeps_log
from flinkish.restore.plan.plain_spark import PlainContinuation
from flinkish.restore.plan.query_restore import QueryRestore
from flinkish.restore.plan.restore_planner import RestorePlanner

#: The setting for the number of batches from one compact entry of a file sink's log to the next,
#: and its default.
_INTERVAL = ("spark.sql.streaming.fileSink.log.compactInterval", "10")


def main(task: ExportTask, options: Mapping[str, str], call_path: str, argv: Sequence[str]) -> int:
    """Run the driver in this mode; ``argv`` as in :mod:`.bootstrap`.

    Writes a :class:`~flinkish.messages.calls.Exported` and returns the driver's exit status.
    """
    return answer_with(lambda: ExportedProgram(task, options), call_path, argv)


class ExportedProgram(PlanningRuntime):
    """Replaces the runtime that the hook calls, and makes a checkpoint for each query."""

    def __init__(self, task: ExportTask, options: Mapping[str, str]) -> None:
        # Without flinkish's driver, tasks cannot read values of several generations: migrate all.
        super().__init__({**options, "state.migration": "eager"})
        self._task = task
        self._directories: dict[str, str] = {}
        self._is_exported = False
        self._warnings: list[str] = []
        self.plan_restore(task.question)

    def _plan_restore(
        self, planner: RestorePlanner, name: str, writer: Any, facts: WriterFacts
    ) -> tuple[PlannedQuery | None, QueryRestore]:
        """Plan the query and its restore, and make its checkpoint."""
        planned, restore = super()._plan_restore(planner, name, writer, facts)
        is_asked = self._task.query in (None, name)
        if is_asked and restore.recipe is not None and _refusal(planner) is None:
            self._make(name, planned, restore, writer._spark)
        return planned, restore

    def _make(
        self, name: str, planned: PlannedQuery | None, restore: QueryRestore, session: Any
    ) -> None:
        """Make the checkpoint of a query whose restore is planned."""
        if self._task.is_single and self._directories:
            names = ", ".join(f"'{each}'" for each in (*self._directories, name))
            raise UsageError(
                f"the program has several queries with saved state: {names}",
                hint="choose one with --query NAME",
            )
        if planned is not None and task_properties(planned, typed_states_of(restore)):
            raise Incompatible(
                f"query '{name}' has values that different serializers wrote, which only a job of "
                "flinkish can read side by side",
                hint="declare the states with the serializers that they have now",
                reasons=["typed-state-mixed"],
            )
        assert restore.recipe is not None
        assert restore.identity is not None
        directory = directory_names([*self._directories, name])[name]
        location = self._task.location
        make_restored(
            session,
            restore.recipe.with_query_id(keep=restore.identity.keep),
            restore.rewrite,
            storage.join(self._task.directory, directory),
            location=location if self._task.is_single else storage.join(location, directory),
        )
        self._directories[name] = directory
        self._warnings += _warnings(name, restore, session)

    def failure(self, outcome: ProgramOutcome) -> FlinkishError | None:
        """Return the error with which the export ends, or None."""
        error = super().failure(outcome)
        if error is not None or self._planner is None:
            return error
        left = self._planner.non_restored()
        error = _refusal(self._planner)
        if error is None and left and not self._task.question.spec.options.allow_non_restored:
            error = left.error()
        if error is not None:
            plan = self._planner.restore_plan(complete=True)
            error.data.setdefault("plan", encode_fields(plan))
            return error
        if not self._directories:
            names = [each.name for each in self._planner.queries if each.recipe is not None]
            asked = "" if self._task.query is None else f" {self._task.query!r}"
            return UsageError(
                f"the program starts no query{asked} that has saved state",
                hint=f"it has queries with saved state: {', '.join(names)}" if names else "",
            )
        return None

    def answer(self) -> Exported:
        """Return the checkpoints, and the plan of the restore."""
        assert self._planner is not None
        plan = self._planner.restore_plan(complete=True)
        self._is_exported = True
        return Exported(self._directories, tuple(self._warnings), plan)

    def close(self) -> None:
        """Remove the checkpoints of a failed export, of which the command does not know."""
        super().close()
        if not self._is_exported:
            for directory in self._directories.values():
                with suppress(StorageError):  # the error of the export says more
                    storage.remove_tree(self._task.directory, directory)


def _refusal(planner: RestorePlanner) -> FlinkishError | None:
    """Return the refusal of a planned query, or None; prefer one that no consent can lift."""
    refusals = [each.refusal for each in planner.queries if each.refusal is not None]
    grave = [each for each in refusals if not isinstance(each, ConsentNeeded)]
    return next(iter((*grave, *refusals)), None)


def _warnings(name: str, restore: QueryRestore, session: Any) -> list[str]:
    """Return warnings of what plain Spark does not do for a query that continues without a job."""
    sink, recipe, history = restore.sink, restore.recipe, restore.history
    assert recipe is not None
    format_ = restore.writes.get("format")
    has_log = sink is not None and sink.verdict != "unreadable" and keeps_log(format_)
    return PlainContinuation(
        name,
        recipe.batch_id + 1,
        counts_history=(
            history is not None and history.shift != 0 and (format_ or "").lower() == "foreachbatch"
        ),
        log_path=sink.path if sink is not None and has_log else None,
        newest_logged=sink.newest_batch if sink is not None else None,
        interval=int(session.conf.get(*_INTERVAL)),
    ).warnings()
