"""Preparation of a query before Spark starts it: name, plan, restore and checkpoint location."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from flinkish import storage
from flinkish.checkpoint.format.pins import SETTING_CHECKPOINT_FORMAT
from flinkish.driver.log import log
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts, own_location, qualified
from flinkish.driver.restore import history
from flinkish.driver.restore.restorer import Restorer
from flinkish.driver.restore.start_judge import StartJudge
from flinkish.driver.restore.typed_formats import (
    TypedStates,
    local_properties,
    resolve_in_place,
    task_properties,
    with_restored,
)
from flinkish.driver.runtime.earlier_runs import EarlierRun
from flinkish.driver.runtime.naming import Names, as_spark_takes_it, one_spelling, retried_name
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.driver.spark.jvm import configured_for_start
from flinkish.errors import ConsentNeeded
from flinkish.messages.plan import RestorePlan
from flinkish.operators.state_semantics import StateSemantics
from flinkish.restore.plan.changed_settings import refuse_in_place
from flinkish.restore.plan.non_restored_state import LostOrigin


@dataclass(frozen=True)
class Prepared:
    """A query that is ready to be started.

    ``location`` is its checkpoint location; None for the program's own, which Spark gets as the
    program wrote it. ``restored_batch`` is None if the query was not restored just now. ``planned``
    is None if the plan could not be read. ``notes`` are messages for the user. ``plan`` is the
    query's part of the restore plan. ``own`` is the checkpoint location that the program sets, as
    the program wrote it, or None.
    """

    name: str
    generated_name: bool
    location: str | None
    restored_batch: int | None
    planned: PlannedQuery | None
    notes: tuple[str, ...]
    plan: RestorePlan | None = None
    own: str | None = None


class Preparer:
    """Prepares the queries of one job.

    ``queries`` returns the newest run of each query started so far. ``earlier`` are the queries of
    the job's last driver, by name, if the job is restarted. ``judge`` decides on the starts of
    queries that are not restored; None lets all of them start. ``lost`` is what the job was
    restored from, if that cannot be read and may have had further queries. ``place`` says where a
    restored checkpoint goes, given the program's own location; None for the job's own directory.
    """

    def __init__(
        self,
        checkpoint_root: str,
        planning: Planning,
        restorer: Restorer | None,
        queries: Callable[[], Sequence[ManagedQuery]],
        earlier: Mapping[str, EarlierRun] | None = None,
        judge: StartJudge | None = None,
        lost: LostOrigin | None = None,
        *,
        place: Callable[[str], str] | None = None,
    ) -> None:
        self._place = place
        self._judge = judge
        self._lost = lost
        self.names = Names(checkpoint_root)
        self._planning = planning
        self._restorer = restorer
        self._queries = queries
        self._lock = threading.Lock()
        #: The program's own location, and that of the restored or resumed checkpoint, by query
        #: name.
        self._restored: dict[str, tuple[str | None, str]] = {}
        self._earlier = dict(earlier or {})
        #: Spark settings of the queries that resume in place, by query name.
        self._settings: dict[str, Mapping[str, str]] = {}
        #: Local properties of the tasks, by query name.
        self._properties: dict[str, Mapping[str, str]] = {}
        for run in self._earlier.values():
            reserved = bool(run.own)
            self.names.resume(run.name, run.checkpoint, run.places, reserved=reserved)

    def name_of(self, facts: WriterFacts, session: Any, writer: Any = None) -> str:
        """Return the name of a query that is about to start; give one to an unnamed query.

        ``writer`` starts the query; the writer of an unnamed query that failed, or that Spark did
        not start, starts that query again.

        Raises ConsentNeeded if an unnamed query would be given the checkpoint of another, or if it
        could be any of several failed queries.
        """
        if facts.query_name is None:
            own = own_location(facts, session)
            retried = None
            if own is None:
                has_state = self._restorer is not None or bool(self._earlier)
                retried = self.names.refused(facts, writer, strict=has_state)
                retried = retried or retried_name(self._queries(), facts, writer)
            return self._generated(own, session, retried)
        return self.names.given(str(facts.query_name))

    def prepare(
        self,
        name: str,
        writer: Any,
        facts: WriterFacts,
        *,
        place: Callable[[str], str] | None = None,
    ) -> Prepared:
        """Prepare a query before Spark starts it; raise the refusal if it may not start.

        ``name`` is from :meth:`name_of`. ``place`` replaces the ``place`` of the class.

        Raises FlinkishError if the uids break the rules, or the restore or the start is refused,
        and AnalysisException if Spark does not support the query.
        """
        session = writer._spark
        own = own_location(facts, session)
        run = self._run_to_resume(name)
        if run is not None:
            settings: Mapping[str, str] = run.read_settings()
        else:
            settings = self._restorer.settings_for(name) if self._restorer is not None else {}
        planned, notes = self._planning.plan_to_run(name, writer, facts, settings)
        for note in notes:
            log(note)
        prepared = Prepared(
            name, facts.query_name is None, own, None, planned, tuple(notes), own=own
        )
        if run is not None:
            resumed = self._resumed(prepared, run, settings)
            return self._admitted(resumed, facts, session, run.location, again=True)
        placed = self._placed(prepared, facts, session, place or self._place)
        if placed.restored_batch is not None:
            return placed  # the plan of its restore has judged it
        location = placed.location or own
        assert location is not None
        return self._admitted(placed, facts, session, location, again=False)

    def not_started(self, name: str, writer: Any, facts: WriterFacts) -> None:
        """Take back the preparation of a query that Spark has not started; it may start again."""
        if self._newest(name) is not None:
            return
        if self._restorer is not None:
            self._restorer.take_back(name)
        if facts.query_name is None and own_location(facts, writer._spark) is None:
            self.names.not_started(name, facts, writer)

    def _run_to_resume(self, name: str) -> EarlierRun | None:
        """Return the run in the job's last driver, until Spark has started the query here."""
        return self._earlier.get(name) if self._newest(name) is None else None

    def _generated(self, own: str | None, session: Any, retried: str | None) -> str:
        """Return the name of a query that the program does not name.

        Raises ConsentNeeded if a query of another location had the name in the job's last driver.
        """
        place = own
        if own is not None and not self.names.knows(own):
            place = one_spelling(own, session)
        name = self.names.generate(place, retried)
        run = self._run_to_resume(name)
        if run is not None and own is not None and place is not None:
            refusal = run.refuse_other(name, own, place)
            if refusal is not None:
                raise refusal
        return name

    def _admitted(
        self,
        prepared: Prepared,
        facts: WriterFacts,
        session: Any,
        location: str,
        *,
        again: bool,
    ) -> Prepared:
        """Return the query with the judge's notes; raise if it may not start at ``location``."""
        if self._judge is None:
            return prepared
        newest = self._newest(prepared.name)
        ran_in = newest.checkpoint if newest is not None else location if again else None
        notes = self._judge.admit(
            prepared.name, prepared.planned, facts, session, location, again=again, ran_in=ran_in
        )
        for note in notes:
            log(note)
        return replace(prepared, notes=(*prepared.notes, *notes))

    def _resumed(
        self, prepared: Prepared, run: EarlierRun, settings: Mapping[str, str]
    ) -> Prepared:
        """Return the query with the checkpoint that it had in the job's last driver."""
        with self._lock:
            self._restored[run.name] = (prepared.own, run.location)
            self._settings[run.name] = {
                key: value for key, value in settings.items() if key == SETTING_CHECKPOINT_FORMAT
            }
        history.remember(run.query_id, run.history_shift)
        log(f"query '{run.name}' resumes in {run.checkpoint}")
        prepared = replace(prepared, location=run.location, plan=run.plan)
        return self._continued(prepared, run.meanings)

    def _continued(self, prepared: Prepared, saved: Mapping[int, StateSemantics]) -> Prepared:
        """Return a query that continues with the typed states of its checkpoint.

        ``saved`` is the meaning of the state in the checkpoint, by ordinal.
        """
        if prepared.planned is None:
            return prepared
        operators = prepared.planned.operators
        refusal = refuse_in_place(
            prepared.name,
            ((op.uid or op.name, saved.get(op.node.ordinal), op.node.meaning) for op in operators),
        )
        if refusal is not None:
            raise refusal
        modules = self._planning.snapshot_modules(prepared.planned)
        return self._typed(prepared, resolve_in_place(prepared.planned, saved, modules))

    def _typed(self, prepared: Prepared, states: TypedStates) -> Prepared:
        """Return a query with its typed states as restored."""
        planned = prepared.planned
        if planned is None:
            return prepared
        with self._lock:
            self._properties[prepared.name] = task_properties(planned, states)
        return replace(prepared, planned=with_restored(planned, states))

    def _placed(
        self,
        prepared: Prepared,
        facts: WriterFacts,
        session: Any,
        place: Callable[[str], str] | None = None,
    ) -> Prepared:
        """Return the query with the location of its checkpoint, restored if necessary.

        In ``prepared``, ``location`` is the program's own. Raises the restore's refusal, and
        ConsentNeeded if the query may have to be restored from something that is gone, or if
        another query has resumed under its name.
        """
        name, own = prepared.name, prepared.location
        newest = self._newest(name)
        with self._lock:
            first, restored_at = self._restored.get(name, (None, None))
        if own is not None and restored_at is not None:
            if (refusal := _refuse_second(name, first, own)) is not None:
                raise refusal
            if newest is not None or self._restorer is None:
                # The query starts again: from the restored checkpoint, not at its own location.
                plan = None if newest is None else newest.plan
                again = replace(prepared, location=restored_at, plan=plan)
                return self._continued(again, _meanings(newest))
        if self._lost is not None and restored_at is None and newest is None:
            lost = self._lost.refusal(name)
            if lost is not None:
                raise lost
        # If the newest run failed, the new run continues from that run's checkpoint.
        is_fresh = newest is None or spark_jvm.error_of(newest.jsq) is None
        follows = "" if newest is None else newest.run_id
        directory = self.names.directory(name, fresh=is_fresh, follows=follows)
        location = as_spark_takes_it(directory)
        if self._restorer is not None and (restored_at is None or newest is None):
            if own is not None and restored_at is not None:
                directory = storage.locate(restored_at)  # Spark did not start the query there
                location = restored_at
            elif own is not None and place is not None:
                # A later start of the program, maybe on another host, looks in that place.
                directory = place(storage.locate(str(qualified(own, session))))
                location = as_spark_takes_it(directory)
            restored = self._restorer.restore(name, prepared.planned, facts, session, directory)
            prepared = replace(
                prepared,
                restored_batch=restored.batch_id,
                notes=(*prepared.notes, *restored.notes),
                plan=restored.plan,
            )
            if restored.batch_id is not None:
                with self._lock:
                    self._restored[name] = (own, location)
                if own is not None and not storage.same_place(own, location):
                    log(
                        f"query '{name}': the program's checkpointLocation is not used, "
                        f"the restored checkpoint is at {directory}"
                    )
                return self._typed(replace(prepared, location=location), restored.typed)
        meanings = {} if is_fresh and own is None else _meanings(newest)
        if not meanings and own is not None and self._judge is not None:
            meanings = self._judge.meanings_in(own, session)
        prepared = replace(prepared, location=location if own is None else None)
        return self._continued(prepared, meanings)

    def _newest(self, name: str) -> ManagedQuery | None:
        return next((query for query in self._queries() if query.name == name), None)

    @contextmanager
    def session_settings(self, session: Any, name: str) -> Iterator[None]:
        """Inside the block, set what the checkpoint and the tasks of query ``name`` need.

        Spark does not pin these settings. Afterwards they have their previous values, and the local
        properties for the tasks are removed. Restored and resumed jobs start queries one by one.
        """
        wanted = self._settings.get(name)
        if wanted is None:
            wanted = self._restorer.session_settings() if self._restorer is not None else {}
        properties = self._properties.get(name, {})
        with ExitStack() as settings:
            if self._restorer is not None or self._earlier:  # else no query has settings
                settings.enter_context(configured_for_start(session, wanted))
            settings.enter_context(local_properties(session, properties))
            yield


def _meanings(newest: ManagedQuery | None) -> Mapping[int, StateSemantics]:
    """Return the meaning of the state of the newest run of a query in this driver."""
    if newest is None or newest.planned is None:
        return {}
    return {op.node.ordinal: op.node.meaning for op in newest.planned.operators}


def _refuse_second(name: str, first: str | None, own: str) -> ConsentNeeded | None:
    """Return the refusal of a query if another has resumed under its name, or None."""
    if first is not None and (first == own or storage.same_place(first, own)):
        return None
    return ConsentNeeded(
        f"query '{name}' starts with the checkpointLocation {own}; under this name the job has "
        f"resumed a query {'without one' if first is None else f'with {first}'}",
        hint="give each query a queryName of its own",
        reasons=["query-unknown"],
    )
