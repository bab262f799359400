"""Restore (``run -s``) inside the driver: gives each starting query its state back, as planned."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.connectors.table_commits import why_no_longer
from flinkish.driver.connectors.sinks import open_table
from flinkish.driver.connectors.table import SinkPlace
from flinkish.driver.log import log
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.restore_environment import DriverRestoreEnvironment
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.restore import history
from flinkish.driver.restore.other_jobs import OtherJobs
from flinkish.driver.restore.query_restores import (
    check_names,
    make_restored,
    offers_here,
    plan_start,
    planning_settings,
    session_settings,
    settings_of,
)
from flinkish.driver.restore.typed_formats import TypedStates, typed_states_of
from flinkish.errors import (
    FlinkishError,
    Incompatible,
    RegistryError,
    SavepointNotFound,
    TableError,
    UsageError,
)
from flinkish.launch.job_origin import not_started, resumed_origin
from flinkish.launch.known_jobs import never_began, read_elsewhere, saved_at, standing_of
from flinkish.messages.calls import JobOrigin
from flinkish.messages.codec import encode_fields
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.plan import RestorePlan
from flinkish.messages.requests import LeftOut
from flinkish.registry.in_use import savepoints_in_use
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.resumed_runs import (
    ever_ran,
    may_be_settled,
    offered_names,
    resumed_runs,
)
from flinkish.restore.materialize.new_checkpoint import remove_unused
from flinkish.restore.origin.restore_inputs import NewQuery
from flinkish.restore.plan.document import compare_with_expected
from flinkish.restore.plan.non_restored_state import (
    NOTHING_TAKEN,
    LostOrigin,
    NonRestored,
    Taken,
    taken_before,
)
from flinkish.restore.plan.plan_text import plan_lines
from flinkish.restore.plan.query_restore import QueryRestore
from flinkish.restore.plan.restore_planner import RestorePlanner
from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.manage.candidates import why_needed
from flinkish.storage import same_place


@dataclass(frozen=True)
class Restored:
    """The result of one query's restore.

    Attributes
    ----------
    batch_id
        The batch that the query continues from; None when it starts empty.
    notes
        Messages for the user.
    plan
        The query's part of the restore plan.
    typed
        How its typed states continue.
    """

    batch_id: int | None
    notes: tuple[str, ...]
    plan: RestorePlan
    typed: TypedStates = field(default_factory=dict)


class Restorer:
    """Serves the restore of one job; thread-safe, as several threads may start queries."""

    def __init__(
        self,
        registry: Registry,
        job_id: str,
        spec: RestoreSpec,
        planning: Planning,
        before: Taken = NOTHING_TAKEN,
    ) -> None:
        self._planning = planning
        self._registry = registry
        self._job_id = job_id
        self._spec = spec
        self._lock = threading.Lock()
        self._starting: dict[str, NewQuery] = {}
        #: The restored batch and the location of the checkpoint, by query.
        self._given: dict[str, tuple[int, str]] = {}
        #: The queries whose tables go back to the savepoint before their first batch, by name.
        self._to_roll_back: dict[str, tuple[NewQuery, QueryRestore]] = {}
        self._claimed = False
        self._agreed = False
        self._resumed = False
        self._others = OtherJobs(registry, job_id, spec.path)
        self._offers = offers_here(spec, _origin(registry, spec))
        self._planner = RestorePlanner(
            self._offers,
            spec.options,
            DriverRestoreEnvironment(
                self._others.runs,
                under_other_ids=self._others.runs_under_other_ids,
                read_elsewhere=lambda query_id: read_elsewhere(
                    registry, query_id, saved_at(registry, spec.path, spec.job), job_id
                ),
                begun_elsewhere=lambda query_id: read_elsewhere(
                    registry, query_id, saved_at(registry, spec.path, spec.job), job_id, begun=True
                ),
                offline=spec.options.offline,
                writers=self._others.writers,
            ),
            settings_of(spec, planning),
            before,
        )

    @staticmethod
    def resumed(
        registry: Registry,
        job_id: str,
        spec: RestoreSpec,
        planning: Planning,
        given: Mapping[str, tuple[int, str]],
        plans: Mapping[str, RestorePlan | None],
    ) -> Restorer:
        """Return the restorer of a job that is started again, for queries not started before.

        What its earlier drivers restored has an owner. The rest is checked again: the last driver
        may have been killed while it held its queries, or before a bounded query had ended. Names
        in options are not checked again, as their queries may resume without this restorer.

        Parameters
        ----------
        given
            The restored batch and the location of the checkpoint, by query that was restored.
        plans
            The recorded plan of each query that was started before.

        Raises
        ------
        FlinkishError
            What the job began with cannot be read: the job had claimed it, or it was disposed of,
            or damaged. :func:`lost_origin` tells whether the job needs it.
        """
        restorer = Restorer(registry, job_id, spec, planning, taken_before(plans))
        restorer._resumed = True
        if spec.job is None and not restorer._offers.is_savepoint:
            # A directory of checkpoints may have gained others since the job ran.
            restorer._agreed = ever_ran(registry, registry.job(job_id))
        restorer._given.update(given)
        return restorer

    def settings_for(self, name: str) -> Mapping[str, str]:
        """Return the Spark settings of query ``name``'s checkpoint, to plan the query with them."""
        return planning_settings(self._offers, name)

    def restore(
        self, name: str, planned: PlannedQuery | None, facts: WriterFacts, session: Any, target: str
    ) -> Restored:
        """Plan the restore of query ``name`` and materialise its checkpoint at ``target``.

        Raises the plan's refusal, with the plan in its data, or an error of ``OtherJobs.take``,
        ``make_checkpoint`` or ``make_rewritten``.
        """
        with self._lock:
            modules = self._planning.snapshot_modules(planned)
            new, plan = plan_start(self._planner, name, planned, facts, session, modules)
            self._starting[name] = new
            part = self._planner.restore_plan_of(plan)
            for line in plan_lines(part):
                log(line)
            refusal = plan.refusal or compare_with_expected(part, self._spec.expected, name)
            if refusal is not None:
                refusal.data.setdefault("plan", encode_fields(part))
                raise refusal
            if plan.recipe is None or plan.identity is None:
                for note in plan.notes:
                    log(note)
                return Restored(None, plan.notes, part)
            recipe = plan.recipe.with_query_id(keep=plan.identity.keep)
            self._take(new, plan, recipe.query_id)
            if plan.history is not None and plan.plan is not None and plan.plan.base is not None:
                kept_id = self._offers.by_key[plan.plan.base.key].query_id
                history.remember(recipe.query_id or kept_id, plan.history.shift)
            if self._resumed or self._given.get(name, (None, None))[1] == target:
                remove_unused(recipe, target)
            make_restored(session, recipe, plan.rewrite, target)
            if plan.sink is not None and plan.sink.rollback_to is not None:
                self._to_roll_back[name] = new, plan
            self._given[name] = recipe.batch_id, target
        notes = (
            *plan.notes,
            f"query '{name}' restored at batch {recipe.batch_id} from {self._spec.path}, "
            f"{'same' if plan.identity.keep else 'new'} query id ({plan.identity.reason})",
        )
        for note in notes:
            log(note)
        return Restored(recipe.batch_id, notes, part, typed_states_of(plan))

    def take_back(self, name: str) -> None:
        """Take back the restore of a query that Spark has not started: its state has no owner.

        A claimed savepoint stays for the next start of the query.
        """
        with self._lock:
            self._planner.forget(name)
            self._starting.pop(name, None)
            self._to_roll_back.pop(name, None)

    def _take(self, new: NewQuery, plan: QueryRestore, query_id: str | None) -> None:
        """Take the query's id (None: the saved one) and its output for this job."""
        if query_id is None and plan.plan is not None and plan.plan.base is not None:
            query_id = self._offers.by_key[plan.plan.base.key].query_id
        self._others.take(new.name, new.sink, query_id, new.session)

    def to_roll_back(self) -> frozenset[str]:
        """Return the queries that must not run yet: their tables must be rolled back first."""
        return frozenset(self._to_roll_back)

    def roll_back(self, started: Collection[str]) -> None:
        """Bring the tables of queries back to the savepoint; raise TableError if one cannot be.

        Parameters
        ----------
        started
            The queries that Spark has started, and whose start can no longer be refused.
        """
        with self._lock:
            for name in self.to_roll_back().intersection(started):
                roll_back_sink(*self._to_roll_back[name])
                del self._to_roll_back[name]

    def non_restored(self) -> NonRestored:
        """Return the state of the savepoint that no query has taken so far."""
        with self._lock:
            return self._planner.non_restored()

    def not_started(self) -> tuple[LeftOut, ...]:
        """Return the saved queries that a savepoint taken now lacks: they may be started later."""
        if self._agreed:
            return ()
        left = self.non_restored().queries
        return tuple(not_started(str(q.key), self._spec.path) for q in left if q.key is not None)

    def restore_plan(self) -> RestorePlan:
        """Return the plan of the whole restore; the program has started all its queries by now."""
        with self._lock:
            return self._planner.restore_plan(complete=True)

    def is_waiting(self) -> bool:
        """Return whether state, or a name in an option, waits for a query that is not started."""
        if self._agreed:
            return False
        return bool(self.non_restored()) or self._unknown_name() is not None

    def _unknown_name(self, left: NonRestored | None = None) -> UsageError | None:
        """Return the error for a name in an option that no query has: see :func:`check_names`."""
        if self._resumed:
            return None
        try:
            started = list(self._starting.values())
            check_names(self._spec, started, left, list(self._offers.by_key))
        except UsageError as error:
            return error
        return None

    def check(self, *, more_to_come: bool) -> list[str]:
        """Refuse to continue with non-restored state, unless ``-n`` was given.

        A name in an option is judged as soon as no later query can have it: when the program starts
        no other one, or when what is left in the savepoint has nothing of that name.

        Parameters
        ----------
        more_to_come
            The program may start more queries, as it waits for a query that ends by itself. Saved
            queries without any restored state may then belong to later queries, unless a query of
            this program has found no state at all.

        Returns
        -------
        list of str
            Notes on dropped state.

        Raises
        ------
        NonRestoredState
            State is left over and ``-n`` was not given.
        UsageError
            An option names an operator or source that the program does not have
            (:func:`check_names`).
        Incompatible
            State is left over that the plan of ``run --plan`` restores.
        """
        left = self.non_restored()
        unknown = self._unknown_name(left if more_to_come else None)
        if unknown is not None:
            raise unknown
        plans = self._planner.query_plans()
        if more_to_come and all(plan.base is not None for plan in plans):
            left = replace(left, queries=())
        if not left or self._agreed:
            return []
        if not self._spec.options.allow_non_restored:
            error: FlinkishError = left.error()
            error.data.setdefault("plan", encode_fields(self.restore_plan()))
            raise error
        if more_to_come:
            return []
        expected = self._spec.expected
        if expected is not None and expected.complete and (lost := left.beyond(expected)):
            raise Incompatible(
                "the restore is not the planned one: nothing in the program takes "
                f"{'; '.join(lost.lines())}",
                hint="make a new plan with: flinkish check -o plan.json",
                plan=encode_fields(self.restore_plan()),
            )
        self._agreed = True
        dropped = [f"state dropped (-n): {line}" for line in left.lines()]
        for note in dropped:
            log(note)
        return dropped

    def session_settings(self) -> Mapping[str, str]:
        """Return Spark settings that restored checkpoints need and the offset log does not pin."""
        return session_settings(self._planner)

    def settle_claim(self, committed: Mapping[str, int | None]) -> None:
        """Delete a claimed savepoint once every restored query has a commit of its own.

        Called by every heartbeat, which never waits for a restore: the next heartbeat looks again.

        Parameters
        ----------
        committed
            Newest committed batch by query name.
        """
        if (
            self._claimed
            or self._spec.options.claim_mode != "claim"
            or not self._offers.is_savepoint
        ):
            return
        if self._resumed and not self._given:
            return  # it is not known which queries were restored
        if not self._lock.acquire(blocking=False):
            return
        try:
            if not self._agreed and self._planner.non_restored():
                return
            for name, (restored_at, _) in self._given.items():
                batch = committed.get(name)
                if batch is None or batch <= restored_at:
                    return
            if not all(_has_committed(*given) for given in self._given.values()):
                return
            self._claimed = True
        finally:
            self._lock.release()
        # Deleting many files on remote storage takes time, and the heartbeat must not wait for it.
        threading.Thread(target=self._give_up_claimed, name="flinkish-claim").start()

    def _give_up_claimed(self) -> None:
        path = self._offers.path  # a link that was named may lead to another savepoint by now
        try:
            in_use = savepoints_in_use(self._registry, but_for=self._job_id)
            why = why_needed(path, in_use.protected)
            if why is not None:
                log(f"claimed savepoint {path} is not deleted, because it is still needed: {why}")
                return
            disposed = dispose(path)
        except FlinkishError as error:
            log(
                f"the job no longer needs claimed savepoint {path}, but it could not be deleted: "
                f"{error.message}"
            )
            return
        try:
            for each in self._registry.savepoints():
                if same_place(each.path, path):
                    self._registry.mark_disposed(each.path)
        except FlinkishError as error:
            log(f"the registry could not record that {path} is deleted: {error.message}")
        kept = (
            f" ({disposed.kept} of its files stay: other savepoints use them)"
            if disposed.kept
            else ""
        )
        log(f"claimed savepoint {path} deleted: the job's own checkpoints replace it{kept}")


def _origin(registry: Registry, spec: RestoreSpec) -> JobOrigin | None:
    """Return the job that is resumed (``run --resume``); None for a savepoint."""
    return None if spec.job is None else resumed_origin(registry, registry.job(spec.job))


def lost_origin(
    registry: Registry, job: JobRecord, spec: RestoreSpec, error: FlinkishError
) -> LostOrigin | None:
    """Return the lost origin of a job if queries that it had not started may need it, else None.

    Queries that it had started continue in their own checkpoints, and do not need it. The job's
    claim deletes a savepoint only when all of it has an owner.

    Parameters
    ----------
    job
        A job that is started again.
    error
        Why what it began with cannot be read (:meth:`Restorer.resumed`).

    Raises
    ------
    FlinkishError
        The error, if it is the registry's, or if the job never began: the lost origin may then
        have state without an owner.
    """
    if isinstance(error, RegistryError):
        raise error
    if never_began(registry, standing_of(registry, job)):
        other = f"start from another savepoint with: flinkish restart {job.job_id} --from SAVEPOINT"
        error.hint = f"{error.hint}; {other}" if error.hint else other
        raise error
    log(f"what the job began with cannot be read any more: {error.message}")
    resumed = resumed_runs(registry, job)
    earlier = {query.name for run in resumed.runs[1:] for query in run.queries}
    began_with = resumed.began_with
    if began_with is None and not earlier:
        return None
    if (
        began_with is not None
        and isinstance(error, SavepointNotFound)
        and may_be_settled(registry, began_with)
    ):
        return None
    names = None
    if spec.options.allow_non_restored:
        saved = registry.savepoints(include_disposed=True)
        offered = offered_names(began_with, {}, saved) if began_with is not None else ()
        if began_with is None or offered:
            names = {*earlier, *offered} - resumed.taken
    return LostOrigin(job.job_id, spec.path, error.message, names)


def _has_committed(restored_at: int, checkpoint: str) -> bool:
    """Return whether a restored checkpoint's commit log has a batch newer than the restored one.

    Of a remote checkpoint only Spark's progress was read before, which can be ahead of the commit.
    """
    try:
        batch = newest_committed_batch(checkpoint)
    except FlinkishError:
        return False  # the next heartbeat asks again
    return batch is not None and batch > restored_at


def roll_back_sink(new: NewQuery, plan: QueryRestore) -> None:
    """Bring the table that a query writes to back to the savepoint's version, where planned.

    Raises TableError if that is not possible, as the table's files of that version may be gone, or
    if it would undo what others have written to the table since the restore was planned.
    """
    if plan.sink is None or plan.sink.rollback_to is None:
        return
    place, target = SinkPlace(new.sink.format, new.sink.path, new.sink.table), plan.sink.rollback_to
    table = open_table(place, new.session)
    if table is None:
        return
    why = why_no_longer(table.history(), plan.sink.planned_at, target)
    if why:
        raise TableError(
            f"query '{new.name}': {plan.sink.path} is not rolled back to version {target}: {why}",
            hint="run the command again: the restore is then planned for the table as it is now",
        )
    table.roll_back(target)
    log(f"query '{new.name}': {plan.sink.path} is at version {target} again")
