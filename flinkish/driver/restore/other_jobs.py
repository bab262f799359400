"""Other jobs, which the start of a query in this driver must take into account."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from flinkish import storage
from flinkish.driver.plan.writer_settings import Output, output_of
from flinkish.errors import ConsentNeeded, RegistryError
from flinkish.launch.known_jobs import known_writers, runs_under_other_ids
from flinkish.messages.calls import KnownWriter
from flinkish.registry.claims import (
    Claim,
    checkpoint_resource,
    file_resource,
    query_resource,
    table_resource,
)
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, RequestKind, RequestState
from flinkish.registry.liveness import reconcile
from flinkish.restore.check.file_sinks import file_sink_status
from flinkish.restore.origin.restore_inputs import NewSink
from flinkish.restore.plan.query_id import OtherRun, newest_batch, newest_begun
from flinkish.restore.plan.starts import (
    NEXT_BATCH,
    is_another_directory,
    may_be_another_directory,
)


class OtherJobs:
    """The other jobs of a registry.

    Parameters
    ----------
    job_id
        This job.
    savepoint
        The savepoint that this job restores. A job that was stopped with it counts as ended.
    """

    def __init__(self, registry: Registry, job_id: str, savepoint: str | None = None) -> None:
        self._registry = registry
        self._job_id = job_id
        self._savepoint = savepoint
        #: Names of the queries that hold nothing yet, because the registry could not be reached.
        self.untaken: set[str] = set()

    def runs(self, query_id: str) -> Sequence[OtherRun]:
        """Return all other jobs that ever ran a Spark query id."""
        return [
            OtherRun(
                job_id=job.job_id,
                state=self._state_of(job),
                last_batch=newest_batch(query, query_id),
                begun_batch=newest_begun(query, query_id),
            )
            for job, query in self._registry.find_query(query_id)
            if job.job_id != self._job_id
        ]

    def runs_under_other_ids(self, query_id: str) -> Sequence[OtherRun]:
        """Return the jobs that went back to an earlier batch of a query, under another id."""
        return [
            OtherRun(
                job_id=run.job_id,
                state=self._state_of(self._registry.job(run.job_id)),
                last_batch=run.last_batch,
                since=run.since,
            )
            for run in runs_under_other_ids(self._registry, query_id, self._job_id)
        ]

    def writers(self) -> Sequence[KnownWriter]:
        """Return the places that queries of other, unfinished jobs write to."""
        return [
            each
            for each in known_writers(self._registry, self._job_id)
            if not self._state_of(self._registry.job(each.job_id)).is_final
        ]

    def take(
        self,
        query: str,
        sink: NewSink,
        query_id: str | None,
        session: Any,
        *,
        checkpoint: str | None = None,
    ) -> None:
        """Take the id, checkpoint and output of a query that is about to start, for this job.

        Parameters
        ----------
        query_id
            None for a new query id, which Spark makes.
        checkpoint
            Where the query starts; None for a new checkpoint, which no other job has.

        Raises
        ------
        ConsentNeeded
            A job that has not ended holds one of them, or another query of this job writes to the
            same file sink. A table never conflicts.
        """
        resources = [] if query_id is None else [query_resource(query_id)]
        if checkpoint is not None:
            resources.append(checkpoint_resource(storage.one_name(checkpoint)))
        output = output_of(sink, session)
        if output is not None:
            make = table_resource if output.is_table else file_resource
            resources.append(make(output.place))
        self.untaken.discard(query)
        try:
            self._claim(query, resources, sink, output)
        except RegistryError:
            self.untaken.add(query)
            raise

    def _claim(
        self, query: str, resources: Sequence[str], sink: NewSink, output: Output | None
    ) -> None:
        over: set[tuple[str, str]] = set()
        while True:
            held = self._registry.claim_resources(self._job_id, query, resources, over=over)
            if not held:
                return
            here = [claim for claim in held if claim.job.job_id == self._job_id]
            if here:
                raise _in_use_here(query, here[0])
            counting = [claim for claim in held if not self._is_over(claim, sink, output)]
            if counting:
                raise _in_use(query, counting[0], self._writer(counting[0]))
            over |= {(claim.job.job_id, claim.resource) for claim in held}

    def _is_over(self, claim: Claim, sink: NewSink, output: Output | None) -> bool:
        """Return whether a claim does not count: its job is over, or another directory is meant."""
        (job,) = reconcile(self._registry, [claim.job])
        if self._state_of(job).is_final:
            return True
        if claim.is_checkpoint:
            elsewhere = job.driver is not None and job.driver.host != os.uname().nodename
            return elsewhere and storage.is_local(claim.place)
        writer = self._writer(claim)
        if output is None or writer is None or not may_be_another_directory(writer):
            return False
        position = file_sink_status(sink.format, output.location, storage)
        return position is not None and is_another_directory(writer, position)

    def _writer(self, claim: Claim) -> KnownWriter | None:
        """Return the writer of a claim's place; None for a claim of something else."""
        known = known_writers(self._registry, self._job_id)
        mine = (claim.job.job_id, claim.query, claim.place)
        return next((w for w in known if (w.job_id, w.query, w.place) == mine), None)

    def _state_of(self, job: JobRecord) -> JobState:
        """Return a job's state; FINISHED too if it has just been stopped with the savepoint.

        The driver of such a job may still be ending, as in a handover, but commits nothing more.
        """
        if job.state.is_final or self._savepoint is None:
            return job.state
        since = self._registry.state_history(job.job_id)[-1].time
        for request in self._registry.requests(job.job_id):
            result = request.result if request.state is RequestState.COMPLETED else None
            if request.kind is RequestKind.SAVEPOINT or result is None or result.savepoint is None:
                continue
            if storage.same_place(result.savepoint.path, self._savepoint):
                return JobState.FINISHED if request.created >= since else job.state
        return job.state


def _in_use(query: str, claim: Claim, writer: KnownWriter | None) -> ConsentNeeded:
    """Return the refusal of a query whose id, checkpoint or output another job holds."""
    job = claim.job
    who = f"query '{claim.query}' of the {job.state.value} job {job.name} ({job.job_id})"
    stop = f"stop that job first, with: flinkish stop {job.job_id}"  # the last, to be copied
    if claim.resource == query_resource(claim.place):
        return ConsentNeeded(
            f"query '{query}' would run with the query id and the batches of {who}: only one run "
            "of a query may be active",
            hint=f"restore a savepoint of it with -s PATH, under a new query id; or {stop}",
            reasons=["query-in-use"],
        )
    if claim.is_checkpoint:
        return ConsentNeeded(
            f"query '{query}' would start in the checkpoint {claim.place}, which {who} "
            "uses: only one run of a query may be active",
            hint=f"give it another checkpointLocation; or {stop}",
            reasons=["query-in-use"],
        )
    ways = ["write to another path"]
    if writer is not None and may_be_another_directory(writer):
        ways.append(NEXT_BATCH)
    return ConsentNeeded(
        f"query '{query}' would write to {claim.place}, to which {who} writes: of two queries on "
        "one file sink, the output of one is dropped",
        hint="; ".join([*ways, f"or {stop}"]),
        reasons=["sink-in-use"],
    )


def _in_use_here(query: str, claim: Claim) -> ConsentNeeded:
    """Return the refusal of a query whose output another query of the same program writes."""
    return ConsentNeeded(
        f"query '{query}' would write to {claim.place}, to which the running query "
        f"'{claim.query}' of the same program writes: of two queries on one file sink, the output "
        "of one is dropped",
        hint="write to another path, or start this query when the other has ended",
        reasons=["sink-in-use"],
    )
