"""The part that all kinds of upgrades share: carrying out their steps one by one.

The registry records the progress after each step, and the id of a job or a request before the job
is started or the request is sent, so that another process can continue if this one is killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from flinkish.client import requests
from flinkish.client.context import Context
from flinkish.client.requests import warnings_of
from flinkish.client.restarts import launch_in_place_of
from flinkish.client.waiting import look, not_failed
from flinkish.errors import (
    FlinkishError,
    JobNotFound,
    Locked,
    ProgramFailed,
    RegistryError,
    RequestNotFound,
    WaitTimeout,
    WrongState,
)
from flinkish.launch.termination import wait_until_gone
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.upgrades import Upgrade, UpgradeState
from flinkish.registry.job_registry import new_job_id, new_request_id
from flinkish.registry.jobs import (
    ENDED_BEFORE_QUERIES,
    JobRecord,
    JobState,
    ProcessRef,
    Request,
    RequestKind,
)
from flinkish.registry.statements import is_guess
from flinkish.registry.waiting import wait_job
from flinkish.restore.plan.query_id import newest_batch
from flinkish.upgrade.preparation import Secrets
from flinkish.upgrade.steps import after, after_failure, lacking, until_healthy

_POLL = 0.1
#: States of a job whose driver has failed and will be restarted.
_RESTARTING = (JobState.FAILING, JobState.RESTARTING)


class Execution:
    """The rest of an upgrade, carried out step by step; with ``back``, the upgrade is undone."""

    def __init__(
        self,
        context: Context,
        upgrade: Upgrade,
        owner: ProcessRef,
        secrets: Secrets,
        *,
        back: bool = False,
    ) -> None:
        self.upgrade = upgrade
        self._context = context
        self._registry = context.registry
        self._owner = owner
        self._secrets = secrets
        self._back = back
        self._deadline = time.monotonic() + upgrade.timeout  # of the current savepoint or stop

    def effects(self) -> Mapping[UpgradeState, Callable[[], None]]:
        """Return the function of each step; a state without a function is final or SHADOWING."""
        raise NotImplementedError

    def run(self) -> Upgrade:
        """Carry out the remaining steps; return the finished upgrade, or the running shadow.

        Raises Locked if another process has taken the upgrade over; WaitTimeout if a job has not
        answered or ended in time (its request remains, and the upgrade can be resumed);
        RegistryError; and another FlinkishError if a step of the rollback failed. In this case,
        ``flinkish upgrade rollback`` carries that step out again.
        """
        effects = self.effects()
        while (effect := effects.get(self.upgrade.state)) is not None:
            state = self.upgrade.state
            try:
                effect()
            except HealthCheckFailed as unhealthy:
                self._fail(state, unhealthy.error)
            except (Locked, WaitTimeout, RegistryError):
                raise  # nothing is decided: the upgrade can be resumed
            except FlinkishError as error:
                if self._after_failure(state) is None:
                    raise
                self._fail(state, error)
        return self.upgrade

    def _save(self, **changes: object) -> None:
        changed = replace(self.upgrade, **changes)  # type: ignore[arg-type]  # fields by name
        self.upgrade = self._registry.save_upgrade(changed, self._owner)

    def _done(self, **changes: object) -> None:
        """Record that the current step is complete."""
        self._save(state=after(self.upgrade.kind, self.upgrade.state), **changes)

    def _fail(self, state: UpgradeState, error: FlinkishError) -> None:
        """Record why a step failed, and continue with the state that follows a failure."""
        following = self._after_failure(state)
        assert following is not None
        self._say(f"failed: {error.message}")
        self._save(state=following, failure=error.to_record())

    def _after_failure(self, state: UpgradeState) -> UpgradeState | None:
        return after_failure(self.upgrade.kind, state)

    def _say(self, text: str) -> None:
        self._context.reporter.note(text)

    # --- steps ------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Watch the new program until it counts as healthy."""
        upgrade = self.upgrade
        assert upgrade.new_job_id is not None
        self._say(f"watching it {until_healthy(upgrade.health)} ...")
        job = self._await(
            upgrade.new_job_id,
            lambda now: None if now.state is JobState.CANCELLING else self._lacks(now),
            "is not healthy after",
        )
        if job.state in (JobState.CANCELED, JobState.CANCELLING):
            raise canceled(job)
        lack = self._lacks(job)
        last = self._registry.state_history(job.job_id)[-1]
        # A program that ends on its own has worked through its input, maybe in fewer batches.
        if job.state.is_final and lack is not None and last.reason == ENDED_BEFORE_QUERIES:
            ended = ProgramFailed(
                f"the new {ENDED_BEFORE_QUERIES}, and {lack}",
                hint="let it wait for them, as with spark.streams.awaitAnyTermination()",
            )
            raise HealthCheckFailed(ended)
        self._done()

    def _lacks(self, job: JobRecord) -> str | None:
        """Return why the new program is not healthy yet, as a clause."""
        return lacking(self._registry.queries(job.job_id), self.upgrade.health.batches)

    def _end(self) -> None:
        """End the new program, and record the batches that it has committed."""
        upgrade = self.upgrade
        job = None if upgrade.new_job_id is None else self._found(upgrade.new_job_id)
        committed: dict[str, tuple[int, int]] = {}
        if job is not None:
            self._say(f"ending job {job.job_id} ...")
            job = look(self._context, job)
            if not job.state.is_final:
                with suppress(WrongState):  # it has ended on its own in the meantime
                    requests.cancel(self._context, job, upgrade.timeout)
                job = look(self._context, job)
            wait_until_gone(self._registry, job)
            self._registry.acknowledge([job.job_id])
            for query in self._registry.queries(job.job_id):
                newest = newest_batch(query)
                if newest is not None and newest >= query.first_batch:
                    committed[query.name] = (query.first_batch, newest)
        # A new program that could not be started has no job, and no log.
        self._done(committed=committed, new_job_id=None if job is None else job.job_id)

    # --- inside -----------------------------------------------------------------------------

    def _request(self, kind: RequestKind) -> Request | None:
        """Return this upgrade's request to the old job, if it has been sent."""
        if self.upgrade.request_id is None:
            return None
        try:
            sent = self._registry.request(self.upgrade.request_id)
        except RequestNotFound:  # refused, or the process ended before it sent the request
            return None
        return sent if sent.kind is kind else None

    def _saved(self, kind: RequestKind, what: str) -> str:
        """Take a savepoint of the old job, or stop it with one; return the savepoint's path.

        A request that this upgrade has already sent is only waited for. ``what`` describes the
        request to the user, with ``{}`` for the job.
        """
        upgrade = self.upgrade
        self._deadline = time.monotonic() + upgrade.timeout
        request = self._request(kind)
        if request is None:
            job = look(self._context, self._registry.job(upgrade.job_id))
            self._say(f"{what.format(f'job {job.name} ({job.job_id})')} ...")
            # The id is recorded first, so that a resumed upgrade knows its own request.
            request_id = new_request_id()
            self._save(request_id=request_id)
            try:
                request = requests.submit(
                    self._context,
                    job,
                    kind,
                    upgrade.target,
                    limit=requests.limit_within(upgrade.timeout),
                    request_id=request_id,
                )
            except Locked as locked:  # someone else is ending the job, not this upgrade
                raise HealthCheckFailed(locked) from locked
        answered = requests.wait_result(self._context, request, upgrade.timeout)
        assert answered.result is not None
        assert answered.result.savepoint is not None
        for warning in warnings_of(answered.result):
            self._context.reporter.warning(warning)
        self._say(f"savepoint: {answered.result.savepoint.path}")
        return answered.result.savepoint.path

    def _wait_for_old(self) -> None:
        """Wait until the stopped old job has ended, for as long as the stop may still take."""
        assert self.upgrade.request_id is not None
        request = self._registry.request(self.upgrade.request_id)
        requests.wait_end(self._context, request, self._deadline - time.monotonic())

    def _await(self, job_id: str, lacks: Callable[[JobRecord], str | None], what: str) -> JobRecord:
        """Wait until the new program lacks nothing, or has ended without a failure.

        ``lacks`` returns what a job lacks, as a clause, or None. ``what`` is the part of the
        timeout's message before the seconds.
        """
        timeout = self.upgrade.health.timeout
        lack: str | None = None

        def over(job: JobRecord) -> bool:
            nonlocal lack
            lack = lacks(job)
            return lack is None or job.state.is_final or job.state in _RESTARTING

        try:
            job = wait_job(self._registry, job_id, over, timeout, _POLL)
        except WaitTimeout as error:
            late = WaitTimeout(f"the new program {what} {timeout:.15g} s: {lack}", job_id=job_id)
            raise HealthCheckFailed(late) from error
        if job.state in _RESTARTING:  # its restart strategy would start it again
            failure = (job.failure or {}).get("message", "it failed")
            driver_failed = FlinkishError(f"the new driver failed: {failure}", job_id=job.job_id)
            raise HealthCheckFailed(driver_failed)
        return not_failed(self._context, job)

    def _new_job(self, restore: RestoreSpec) -> JobRecord:
        """Return the job of the new program; start it first if none has got as far as a driver."""
        job_id = self.upgrade.new_job_id
        if job_id is None or self._was_cut_off(self._begun(job_id)):
            self._save(new_job_id=new_job_id())
        assert self.upgrade.new_job_id is not None
        return self._launched(self.upgrade.new_job_id, self.upgrade.launch, restore)

    def _was_cut_off(self, job: JobRecord | None) -> bool:
        """Return whether a job was lost before it had a driver: its program has never run."""
        if job is None or job.exit_status is not None or not is_guess(job.failure):
            return False
        states = [change.state for change in self._registry.state_history(job.job_id)]
        return states == [JobState.INITIALIZING, JobState.FAILED]

    def _begun(self, job_id: str) -> JobRecord | None:
        """Return the job with this id; wait for its supervisor, or until it counts as lost."""
        job = self._found(job_id)
        if job is None:
            return None
        return wait_job(
            self._registry,
            job_id,
            lambda now: now.supervisor is not None or now.state.is_final,
            None,
            _POLL,
        )

    def _found(self, job_id: str) -> JobRecord | None:
        try:
            return self._registry.job(job_id)
        except JobNotFound:
            return None

    def _launched(self, job_id: str, launch: Launch, spec: RestoreSpec) -> JobRecord:
        """Return the job with this id; start it first if there is none."""
        job = self._found(job_id)
        if job is not None:
            return job
        old = self._registry.job(self.upgrade.job_id)
        complete = replace(self._secrets.given_to(launch), restore=spec)
        return self._launch(old, complete, job_id)

    def _launch(self, old: JobRecord, launch: Launch, job_id: str) -> JobRecord:
        """Start a job in place of the old one."""
        assert launch.restore is not None
        unique = old.has_given_name and not launch.restore.is_awaited  # a handover runs both jobs
        return launch_in_place_of(self._context, old, launch, unique_name=unique, job_id=job_id)


def canceled(job: JobRecord) -> WrongState:
    """Return the error of a new program that was canceled during the upgrade."""
    return WrongState(f"job {job.job_id} was canceled", job_id=job.job_id)


class HealthCheckFailed(Exception):
    """The new program is not healthy, or someone else is ending the old job."""

    def __init__(self, error: FlinkishError) -> None:
        super().__init__(error.message)
        self.error = error
