"""The jobs of a registry: their records, their states and their state history."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish.errors import RegistryError, UsageError, WrongState
from flinkish.messages.launch import Launch
from flinkish.registry import statements
from flinkish.registry.database import Row, Transaction
from flinkish.registry.jobs import JobRecord, JobState, JobStateChange, ProcessRef, may_follow
from flinkish.registry.purging import Purging, still_purged, why_purged
from flinkish.registry.requests import fail_unfinished
from flinkish.registry.rows import (
    JOB_COLUMNS,
    change_of,
    column_value,
    job_of,
    job_values,
    launch_value,
)
from flinkish.registry.schema import UNACKNOWLEDGED
from flinkish.registry.statements import (
    is_guess,
    job_row,
    locked,
    record_state,
    refuse_changed,
    refuse_taken,
    set_fields,
    successor_row,
    superseded,
    unknown,
)
from flinkish.registry.upgrades import refuse_held


class JobTable(Purging):
    """The jobs of a database; a base of :class:`.job_registry.Registry`."""

    def add_job(self, job: JobRecord, *, unique_name: bool = False) -> None:
        """Register a job; its state becomes the first entry of its history.

        ``unique_name`` refuses the job if another job of its name has not ended, even a job that is
        being added at the same time.

        Raises RegistryError if the id is taken, UsageError for a launch of wrong types; with
        ``unique_name``, NameTaken if such a job exists, Locked if an upgrade holds the job or name.
        """
        values = job_values(job)

        def work(tx: Transaction) -> None:
            if unique_name:
                self._database.serialize(tx)
                refuse_taken(tx, job.name, job.job_id)
                refuse_held(tx.rows, name=job.name, job=job)
            if tx.rows("SELECT 1 AS one FROM flinkish_jobs WHERE job_id = :id", id=job.job_id):
                raise RegistryError(f"job {job.job_id} is already in the registry")
            tx.execute(
                f"INSERT INTO flinkish_jobs ({', '.join(values)}, revision) "
                f"VALUES ({', '.join(':' + c for c in values)}, 0)",
                **values,
            )
            record_state(tx, job.job_id, job.state, job.start_time, None)

        self._database.write(work)

    def job(self, job_id: str) -> JobRecord:
        """Return the job with this complete id. Raises :class:`JobNotFound`."""
        rows = self._read(
            f"SELECT {JOB_COLUMNS} FROM flinkish_jobs WHERE job_id = :id", id=job_id.lower()
        )
        if not rows:
            raise unknown(job_id)
        return job_of(rows[0])

    def find_job(self, reference: str, *, include_final: bool = False) -> JobRecord:
        """Return the job that an id, a unique prefix of an id, or a name refers to.

        A complete id, or a prefix of at least 4 digits, matches a job in any state (the caller
        checks the state). A name refers to the one job of that name that is not final. If there is
        none, with ``include_final`` the name refers to the one final job of that name from which no
        other job of that name has resumed.

        Raises JobNotFound, AmbiguousJob with the candidates, and UsageError if the reference is
        blank, or has 32 characters but is neither an id nor a name (Flink's message).
        """
        reference = reference.strip()
        if not reference:
            raise UsageError("the job id is missing", hint="see the jobs with: flinkish list")
        by_id: list[Row] = []
        if statements.is_prefix(reference):
            by_id = self._read(
                f"SELECT {JOB_COLUMNS} FROM flinkish_jobs WHERE substr(job_id, 1, :n) = :prefix",
                n=len(reference),
                prefix=reference.lower(),
            )
        named = self.jobs(name=reference)
        if include_final and len(named) > 1 and all(job.state.is_final for job in named):
            named = self._not_superseded(named)
        by_prefix = [job_of(row) for row in by_id]
        return statements.choose(reference, by_prefix, named, include_final=include_final)

    def _not_superseded(self, jobs: Sequence[JobRecord]) -> list[JobRecord]:
        """Return those of the ended jobs from which no later job among them has resumed."""
        query_ids: dict[str, set[str]] = {job.job_id: set() for job in jobs}
        paths: dict[str, set[str]] = {job.job_id: set() for job in jobs}
        for job_id in query_ids:
            for row in self._read(
                "SELECT query_id, NULL AS path FROM flinkish_queries WHERE job_id = :id "
                "UNION SELECT NULL, path FROM flinkish_savepoints WHERE job_id = :id",
                id=job_id,
            ):
                (query_ids if row["path"] is None else paths)[job_id].add(
                    row["query_id"] if row["path"] is None else row["path"]
                )
        return statements.without_superseded(jobs, query_ids, paths)

    def jobs(
        self, *, states: Collection[JobState] | None = None, name: str | None = None
    ) -> list[JobRecord]:
        """Return jobs by start time, optionally only those in ``states`` or named ``name``."""
        conditions, values = ["1 = 1"], {}
        if states is not None:
            marks = {f"s{i}": s.value for i, s in enumerate(sorted(states, key=lambda s: s.value))}
            if not marks:
                return []
            conditions.append(f"state IN ({', '.join(':' + mark for mark in marks)})")
            values.update(marks)
        if name is not None:
            conditions.append("name = :name")
            values["name"] = name
        rows = self._read(
            f"SELECT {JOB_COLUMNS} FROM flinkish_jobs WHERE {' AND '.join(conditions)} "
            "ORDER BY start_time, job_id",
            **values,
        )
        return [job_of(row) for row in rows]

    def transition(
        self,
        job_id: str,
        new: JobState,
        reason: str | None = None,
        *,
        failure: Mapping[str, Any] | None = None,
        exit_status: int | None = None,
        seen: JobRecord | None = None,
    ) -> JobRecord:
        """Move a job to another state, append to its history, and return the updated job.

        A final state sets the end time, and fails the unfinished requests, which the job's next
        driver would serve. If the job is already in the state, nothing is appended. A missing
        failure or exit status is added, and a guessed failure, ``driver-lost``, is replaced by the
        real one. ``seen`` is the record from which a reader concluded that the job is lost.

        Raises JobNotFound, and WrongState if ``new`` may not follow the current state, the job has
        another driver (:meth:`act_as`), or its state, processes or heartbeat differ from ``seen``.
        """

        def work(tx: Transaction) -> JobRecord:
            job = locked(tx, job_id).written_by(self._drivers.get(job_id))
            if seen is not None:
                refuse_changed(job, seen)
            now = self.now()
            values: dict[str, Any] = {}
            if failure is not None and (job.failure is None or is_guess(job.failure)):
                values["failure"] = column_value("failure", still_purged(job, failure))
            if exit_status is not None and job.exit_status is None:
                values["exit_status"] = exit_status
            if job.state is not new:
                if not may_follow(job.state, new):
                    raise WrongState(
                        f"job {job.name} ({job.job_id}) is {job.state.value} and cannot become "
                        f"{new.value}",
                        job_id=job.job_id,
                        state=job.state.value,
                    )
                values["state"] = new.value
                if new.is_final:
                    values["end_time"] = now
                record_state(tx, job.job_id, new, now, reason)
            if new.is_final:
                fail_unfinished(tx, "job_id", job.job_id, failure, now)
            set_fields(tx, job.job_id, values)
            return job_row(tx, job.job_id)

        return self._database.write(work)

    def restart(
        self,
        seen: JobRecord,
        reason: str,
        supervisor: ProcessRef | None = None,
        *,
        driver: ProcessRef | None = None,
        launch: Launch | None = None,
    ) -> JobRecord:
        """Move a FAILING or ended job to RESTARTING, so that the caller may start it; return it.

        Of two callers that have seen the same end, only one succeeds: the job must still be as
        ``seen``, FAILING or in a final state. ``supervisor`` is the job's own supervisor, if it
        restarts the driver. ``driver`` is a new driver that runs already, ``launch`` its launch.

        Raises JobNotFound, WrongState if the job has changed since (say, was started) or is purged,
        NameTaken if the job had ended and another unfinished job has the name that a user gave it,
        UsageError as add_job, and Superseded if another job has resumed from its state. Without
        ``supervisor``, raises Locked if an unfinished upgrade holds the job or its name.
        """

        def work(tx: Transaction) -> JobRecord:
            self._database.serialize(tx)
            job = locked(tx, seen.job_id)
            restartable = seen.state.is_final or seen.state is JobState.FAILING
            if not restartable or (job.state, job.end_time) != (seen.state, seen.end_time):
                raise WrongState(
                    f"job {job.name} ({job.job_id}) is {job.state.value} by now; it is not "
                    "restarted",
                    hint="see what runs with: flinkish list",
                    job_id=job.job_id,
                    state=job.state.value,
                )
            if (purged := why_purged(job)) is not None:
                raise purged
            if job.state.is_final and job.has_given_name:
                refuse_taken(tx, job.name, job.job_id)
            if supervisor is None:
                refuse_held(tx.rows, name=job.name if job.has_given_name else None, job=job)
            if (successor := successor_row(tx.rows, job)) is not None:
                raise superseded(job, successor)
            now = self.now()
            set_fields(
                tx,
                job.job_id,
                {
                    "state": JobState.RESTARTING.value,
                    "end_time": None,
                    "supervisor": column_value("supervisor", supervisor),
                    "driver": column_value("driver", driver),
                    **({} if launch is None else {"launch": launch_value(launch)}),
                    "exit_status": None,
                    "failure": None,
                    "heartbeat": now,
                    "acknowledged": None,
                },
            )
            if job.state.is_final:  # left by an earlier version; others are for the next driver
                fail_unfinished(tx, "job_id", job.job_id, None, now)
            # The next driver makes its own claims, perhaps for queries with other names.
            tx.execute("DELETE FROM flinkish_claims WHERE job_id = :id", id=job.job_id)
            record_state(tx, job.job_id, JobState.RESTARTING, now, reason)
            return job_row(tx, job.job_id)

        return self._database.write(work)

    def successor(self, job: JobRecord) -> JobRecord | None:
        """Return the newest job that has continued, or is about to continue, a job, or None."""
        return successor_row(self._read, job)

    def update_job(self, job_id: str, **fields: Any) -> None:
        """Set fields of a job that may be unknown when it starts (``rows.UPDATABLE``).

        Allowed in every state: a supervisor may record a more precise failure for a job that a
        reader has already declared dead. What a replaced driver sets (:meth:`act_as`) is ignored.

        Raises JobNotFound, and TypeError if the field cannot be updated.
        """
        values = {name: column_value(name, value) for name, value in fields.items()}

        def work(tx: Transaction) -> None:
            job = locked(tx, job_id)
            if job.is_replaced(self._drivers.get(job_id)):
                return
            if "failure" in fields:
                values["failure"] = column_value("failure", still_purged(job, fields["failure"]))
            set_fields(tx, job_id.lower(), values)

        self._database.write(work)

    def rename(self, job_id: str, name: str, *, unique: bool) -> None:
        """Rename a job; raise NameTaken if ``unique`` and another unfinished job has the name."""

        def work(tx: Transaction) -> None:
            self._database.serialize(tx)
            job = locked(tx, job_id)
            if unique:
                refuse_taken(tx, name, job.job_id)
            set_fields(tx, job.job_id, {"name": name})

        self._database.write(work)

    def name_savepoint(self, job_id: str, path: str) -> None:
        """Record the savepoint that a job waits for (``RestoreSpec.is_awaited``).

        Raises JobNotFound, and WrongState if the job does not wait for a savepoint, or was given
        another savepoint.
        """

        def work(tx: Transaction) -> None:
            job = locked(tx, job_id)
            restore = job.launch.restore
            if restore is None or restore.path not in ("", path):
                raise WrongState(
                    f"job {job.name} ({job.job_id}) does not wait for the savepoint {path}",
                    job_id=job.job_id,
                    state=job.state.value,
                )
            launch = replace(job.launch, restore=replace(restore, path=path))
            set_fields(tx, job.job_id, {"launch": launch_value(launch)})

        self._database.write(work)

    def unacknowledged(self) -> list[JobRecord]:
        """Return the jobs that ran and failed, and were not acknowledged, by start time.

        A job that failed before it ran is not among them: the command that started it reported it.
        """
        rows = self._read(
            f"SELECT {JOB_COLUMNS} FROM flinkish_jobs WHERE {UNACKNOWLEDGED} "
            "ORDER BY start_time, job_id"
        )
        return [job_of(row) for row in rows]

    def acknowledge(self, job_ids: Iterable[str]) -> list[str]:
        """Acknowledge the failures of jobs; return the ids of the jobs acknowledged only now."""
        now, ids = self.now(), list(job_ids)  # an iterator would be used up when `work` is retried

        def work(tx: Transaction) -> list[str]:
            return [
                job_id
                for job_id in ids
                if tx.execute(
                    "UPDATE flinkish_jobs SET acknowledged = :now WHERE job_id = :id "
                    "AND state = 'FAILED' AND acknowledged IS NULL",
                    now=now,
                    id=job_id,
                )
            ]

        return self._database.write(work)

    def state_history(self, job_id: str) -> list[JobStateChange]:
        """Return all states of a job, oldest first."""
        rows = self._read(
            "SELECT state, time, reason FROM flinkish_states WHERE job_id = :id ORDER BY number",
            id=job_id,
        )
        return [change_of(row) for row in rows]
