"""The judgement of a query that starts without a restore, before Spark is asked to start it.

It looks at what ``run -s`` looks at: the batches of the sink, the query id, other jobs, and what
has changed in file sources since the checkpoint was written. Decisions are those of
:mod:`flinkish.restore.plan.starts` and :mod:`flinkish.restore.plan.source_plans`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from flinkish import storage
from flinkish.checkpoint.cut import newest_committed_batch, newest_planned_batch
from flinkish.driver.connectors.sinks import open_table
from flinkish.driver.connectors.table import SinkPlace
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.planned_queries import new_query, new_sink
from flinkish.driver.plan.restore_environment import (
    beginning,
    has_path_of,
    start_status,
)
from flinkish.driver.plan.writer_settings import WriterFacts, output_of, qualified
from flinkish.driver.restore.checkpoint_runs import (
    judge_mark,
    judge_sources,
    last_run_in,
    meanings_of,
)
from flinkish.driver.restore.empty_checkpoint import make_empty
from flinkish.driver.restore.other_jobs import OtherJobs
from flinkish.errors import (
    ConsentNeeded,
    FlinkishError,
    RegistryError,
    StorageError,
    TableError,
)
from flinkish.launch.known_jobs import came_from, standing
from flinkish.messages.queries import QueryFacts
from flinkish.operators.state_semantics import StateSemantics
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.restore.origin.restore_inputs import NewSink
from flinkish.restore.plan.query_id import newest_batch
from flinkish.restore.plan.sinks import SinkMode
from flinkish.restore.plan.starts import (
    KEEP_NOTHING,
    Agreed,
    Beginning,
    EarlierRun,
    agreed_mode,
    checkpoint_not_read,
    is_read_again,
    judge_start,
)


class StartJudge:
    """Judges the starts of one job's queries.

    Parameters
    ----------
    job
        This job, as its driver has found it.
    mode
        What the user agreed to for a sink that is ahead (``--sink-ahead``), if anything.
    """

    def __init__(
        self, registry: Registry, job: JobRecord, others: OtherJobs, mode: str | None = None
    ) -> None:
        self._registry = registry
        self._job = job
        self._others = others
        self._mode = cast("SinkMode | None", mode)

    def admit(
        self,
        name: str,
        planned: PlannedQuery | None,
        facts: WriterFacts,
        session: Any,
        location: str,
        *,
        again: bool,
        ran_in: str | None = None,
    ) -> list[str]:
        """Let a query start, with its query id and its output taken for this job.

        Parameters
        ----------
        location
            The query's checkpoint, which may not exist yet. The judge creates it if its first
            batch must have another number than 0.
        again
            Whether the query continues where the job's last driver left it.
        ran_in
            The checkpoint in which this job has run the query before.

        Returns
        -------
        list of str
            Notes about what was agreed to.

        Raises
        ------
        ConsentNeeded
            The query would lose output, write it twice, or run beside another job.
        FlinkishError
            An error of :func:`.judge_mark`, :func:`.judge_sources` or :func:`.make_empty`.
        """
        sink = new_sink(facts, session)
        stateful = planned is None or bool(planned.operators)
        checkpoint = str(qualified(location, session))
        try:
            begins, query_id = beginning(name, stateful, checkpoint)
        except StorageError as error:
            self._others.take(name, sink, None, session, checkpoint=checkpoint)
            return [checkpoint_not_read(name, location, error).text]
        # The claims come first, because the user must know of another job that still holds one.
        # From then on no other job changes what is judged: a job that held a claim has ended.
        self._others.take(name, sink, query_id, session, checkpoint=checkpoint)
        begins, query_id = beginning(name, stateful, checkpoint)
        judge_mark(begins, ran_in)
        position = start_status(sink, session, query_id)
        ahead = written = None
        if query_id is None:
            written = self._written(name, planned, sink, session)
        elif (sink.format or "").lower() not in KEEP_NOTHING:
            ahead = self._ahead(query_id, begins) or self._moved(query_id, begins)

        def judged(
            stands: EarlierRun | None, begun: EarlierRun | None
        ) -> ConsentNeeded | Agreed | None:
            return judge_start(
                begins,
                position,
                ahead=ahead,
                written=written,
                stands=stands,
                begun=begun,
                named=self._job.launch.named,
                mode=agreed_mode(self._mode, again=again),
            )

        judgement = judged(None, None)
        if isinstance(judgement, ConsentNeeded):
            # Judged again with the runs that the hint names; they are looked up only for the hint.
            judgement = judged(self._stands(), begun_run(self._registry, self._job, name))
            assert isinstance(judgement, ConsentNeeded)
            raise judgement
        ran = last_run_in(self._registry, begins, query_id)
        notes = []
        if ran is not None and planned is not None and begins.committed is not None:
            notes = judge_sources(ran, new_query(name, planned, facts, session, {}, ()), planned)
        if judgement is None:
            return notes
        if judgement.rebase_to is not None:
            make_empty(planned, session, judgement.rebase_to, checkpoint)
        return [*notes, judgement.text]

    def meanings_in(self, location: str, session: Any) -> Mapping[int, StateSemantics]:
        """Return the meaning of the state in a checkpoint, by ordinal, as its last run knew it."""
        try:
            begins, query_id = beginning("", True, str(qualified(location, session)))
        except StorageError:
            return {}
        ran = last_run_in(self._registry, begins, query_id)
        return {} if ran is None else meanings_of(ran.facts)

    def _ahead(self, query_id: str, begins: Beginning) -> EarlierRun | None:
        """Return the job that has continued a query furthest in another checkpoint."""
        here = begins.checkpoint or ""
        runs = [
            EarlierRun(job.name, job.job_id, batch, query.checkpoint_dir)
            for job, query in self._registry.find_query(query_id)
            if job.job_id != self._job.job_id and not storage.same_place(query.checkpoint_dir, here)
            if (batch := newest_batch(query, query_id)) is not None
        ]
        last = -1 if begins.committed is None else begins.committed
        return max((r for r in runs if r.batch > last), key=lambda r: r.batch, default=None)

    def _moved(self, query_id: str, begins: Beginning) -> EarlierRun | None:
        """Return the newest run of this job's name if it has continued under another query id.

        This happens when an older savepoint is restored. Unrelated runs of the name do not count:
        the newest run must descend from a run with this checkpoint's query id.
        """
        other = standing(self._registry, self._job.name, but=self._job.job_id)
        if other is None or self._job.state is JobState.RESTARTING:
            return None
        if other.job.launch.restore is None or other.job.launch.restore.options.fork:
            return None  # a fork lets the original continue
        query = next((each for each in other.queries if each.name == begins.query), None)
        batch = None if query is None else newest_batch(query)
        if query is None or batch is None or query.query_id == query_id:
            return None
        runs = self._registry.find_query(query_id)
        here = [
            job.end_time or 0.0
            for job, run in runs
            if job.job_id != self._job.job_id
            and storage.same_place(run.checkpoint_dir, begins.checkpoint or "")
        ]
        is_newer = max(here, default=0.0) < (other.job.end_time or 0.0)
        origins = came_from(self._registry, other.job)
        if not is_newer or {job.job_id for job, _ in runs}.isdisjoint(origins):
            return None
        return EarlierRun(other.job.name, other.job.job_id, batch, query.checkpoint_dir)

    def _written(
        self, name: str, planned: PlannedQuery | None, sink: NewSink, session: Any
    ) -> EarlierRun | None:
        """Return the run of this job's name that has written the same input to the same place.

        For a sink without batch numbers, see :meth:`_wrote_alike`.
        """
        output = output_of(sink, session)
        if planned is None:
            return None
        reads = sorted(source.signature for source in planned.sources)
        if output is None:
            again = any(is_read_again(each.signature, each.options) for each in planned.sources)
            return self._wrote_alike(name, reads, sink, session) if again else None
        if not output.is_table:
            return None
        for job in reversed(self._registry.jobs(name=self._job.name)):
            if job.job_id == self._job.job_id:
                continue
            facts = self._registry.facts(job.job_id).get(name)
            queries = {query.name: query for query in self._registry.queries(job.job_id)}
            if facts is None or _signatures(facts) != reads or not _writes_to(facts, sink, session):
                continue
            batch = newest_batch(queries[name])
            if batch is not None and _has_batches(sink, session, queries[name].query_id):
                place = f"the {sink.format} table {sink.table or sink.path}"
                return EarlierRun(job.name, job.job_id, batch, place)
        return None

    def _wrote_alike(
        self, name: str, reads: list[str], sink: NewSink, session: Any
    ) -> EarlierRun | None:
        """Return the newest run of this job's name if it had the same input and kind of sink.

        The sink has no batch numbers. If it has a path, the run must have written to that path.
        """
        kind = (sink.format or "").lower()
        other = standing(self._registry, self._job.name, but=self._job.job_id)
        if other is None or sink.table is not None or kind in KEEP_NOTHING:
            return None
        query = next((each for each in other.queries if each.name == name), None)
        facts = self._registry.facts(other.job.job_id).get(name)
        batch = None if query is None else newest_batch(query)
        if batch is None or facts is None or _signatures(facts) != reads:
            return None
        before = str(facts.sink.get("format", ""))
        is_there = sink.path is None or _writes_to(facts, sink, session)
        if before.lower() != kind or not is_there:
            return None
        place = f"its {sink.format} sink"
        return EarlierRun(other.job.name, other.job.job_id, batch, place, to_table=False)

    def _stands(self) -> EarlierRun | None:
        """Return where the newest other run of this job's name stands."""
        other = standing(self._registry, self._job.name, but=self._job.job_id)
        if other is None or other.batch is None:
            return None
        return EarlierRun(other.job.name, other.job.job_id, other.batch)


class Adviser(StartJudge):
    """The judge of a guest (:attr:`.QueryStarts.is_guest`): it refuses nothing, and warns."""

    def admit(
        self,
        name: str,
        planned: PlannedQuery | None,
        facts: WriterFacts,
        session: Any,
        location: str,
        *,
        again: bool,
        ran_in: str | None = None,
    ) -> list[str]:
        """Return notes about a start, as :meth:`StartJudge.admit`; a refusal is one of them."""
        try:
            return super().admit(
                name, planned, facts, session, location, again=again, ran_in=ran_in
            )
        except RegistryError as error:
            return [f"query '{name}' is not compared with other jobs: {error.message}"]
        except FlinkishError as error:
            return [f"query '{name}' starts, but flinkish run would refuse it: {error.message}"]

    def meanings_in(self, location: str, session: Any) -> Mapping[int, StateSemantics]:
        """Return what is known of the state in a checkpoint; nothing without a registry."""
        try:
            return super().meanings_in(location, session)
        except RegistryError:
            return {}


def begun_run(registry: Registry, job: JobRecord, name: str) -> EarlierRun | None:
    """Return the newest ended run of a job's name that had this query, if it committed no batch.

    Returns None if the run committed a batch of the query, or planned none, or if its checkpoint
    cannot be read. Else it ended during the query's first batch, which the sink may have already.
    """
    runs = registry.jobs(name=job.name)
    ended = [each for each in runs if each.state.is_final and each.job_id != job.job_id]
    for each in sorted(ended, key=lambda each: each.end_time or 0.0, reverse=True):
        query = next((q for q in registry.queries(each.job_id) if q.name == name), None)
        if query is None:
            continue
        try:
            planned = newest_planned_batch(query.checkpoint_dir)
            committed = newest_committed_batch(query.checkpoint_dir)
        except StorageError:
            return None
        if planned is None or committed is not None or query.batch_id is not None:
            return None
        return EarlierRun(each.name, each.job_id, planned, query.checkpoint_dir)
    return None


def _signatures(known: QueryFacts) -> list[str]:
    return sorted(str(source.get("signature")) for source in known.sources)


def _writes_to(known: QueryFacts, sink: NewSink, session: Any) -> bool:
    """Return whether a query wrote to the table, or to the path, of a sink."""
    table = known.sink.get("table")
    if sink.table is not None and table is not None:
        return str(table).lower() == sink.table.lower()
    return has_path_of(known.sink, sink, session)


def _has_batches(sink: NewSink, session: Any, query_id: str) -> bool:
    """Return whether a table has batches of a query; False if it cannot be read."""
    try:
        table = open_table(SinkPlace(sink.format, sink.path, sink.table), session)
        return (
            table is not None and table.exists() and table.read(query_id).newest_batch is not None
        )
    except TableError:
        return False
