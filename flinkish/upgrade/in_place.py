"""An upgrade in place: stop with a savepoint, start the new program from it, watch it, or go back.

In a handover the driver of the new program is started first, and held at its first query.

After each step the registry has how far the upgrade is, and before a job is started its id, so that
:func:`resume` and :func:`rollback` can go on after the process that carried it out was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.client import requests
from flinkish.client.context import Context
from flinkish.client.restarts import launch_in_place_of, wait_until_gone
from flinkish.client.waiting import STARTING, look, not_failed, wait_until_started
from flinkish.errors import (
    FlinkishError,
    JobNotFound,
    Locked,
    RegistryError,
    RolledBack,
    WaitTimeout,
    WrongState,
)
from flinkish.registry.job_registry import new_job_id
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    Launch,
    ProcessRef,
    Request,
    RequestKind,
    RestoreSpec,
)
from flinkish.registry.liveness import is_alive, process_ref
from flinkish.registry.waiting import wait_job
from flinkish.spec.upgrades import Upgrade, UpgradeState
from flinkish.upgrade.preparation import Ready, Secrets
from flinkish.upgrade.steps import after, after_failure, lacking, undo

_POLL = 0.1
#: States of a job whose driver has failed and is started again.
_AGAIN = (JobState.FAILING, JobState.RESTARTING)


def begin(context: Context, ready: Ready) -> InPlaceUpgrade:
    """Record an upgrade; :meth:`InPlaceUpgrade.run` carries it out.

    Raises
    ------
    Locked
        Another upgrade of the job is not finished.
    """
    owner = process_ref()
    upgrade = context.registry.add_upgrade(ready.upgrade, owner)
    secrets = Secrets(ready.launch.conf, ready.launch.secret_arguments or None)
    return InPlaceUpgrade(context, upgrade, owner, secrets)


def resume(
    context: Context, reference: str, secrets: Secrets | None = None, *, force: bool = False
) -> InPlaceUpgrade:
    """Take over an upgrade whose process is gone, to finish it.

    Parameters
    ----------
    reference : str
        The beginning of the upgrade's id.
    secrets : Secrets, optional
        What the registry does not have.
    force : bool
        Also when its process may run on another host.

    Raises
    ------
    UpgradeNotFound
        There is no such upgrade.
    WrongState
        It is finished.
    Locked
        Its process runs.
    UsageError
        Secrets are missing.
    """
    return _taken_over(context, reference, secrets, force=force, back=False)


def rollback(
    context: Context, reference: str, secrets: Secrets | None = None, *, force: bool = False
) -> InPlaceUpgrade:
    """Take over an upgrade whose process is gone, to undo it; see :func:`resume`."""
    return _taken_over(context, reference, secrets, force=force, back=True)


def _taken_over(
    context: Context, reference: str, secrets: Secrets | None, *, force: bool, back: bool
) -> InPlaceUpgrade:
    upgrade, owner = context.registry.upgrade(reference)
    state = undo(upgrade)  # refuses a finished one
    alive = None if owner is None else is_alive(owner)
    if owner is not None and (alive or (alive is None and not force)):
        raise Locked(
            f"upgrade {upgrade.upgrade_id} is carried out by process {owner.pid} on {owner.host}",
            hint="wait for it, or end it first"
            if alive
            else "if that process is gone, say so with --force",
            upgrade_id=upgrade.upgrade_id,
        )
    found = secrets or Secrets()
    found.given_to(upgrade.launch)
    found.given_to(context.registry.job(upgrade.job_id).launch)
    if back:
        asked = RolledBack("it was asked for", hint="")
        upgrade = replace(upgrade, state=state, failure=upgrade.failure or asked.to_record())
    mine = process_ref()
    upgrade = context.registry.save_upgrade(upgrade, mine)
    return InPlaceUpgrade(context, upgrade, mine, found, back=back)


class InPlaceUpgrade:
    """The rest of an upgrade, carried out step by step.

    Parameters
    ----------
    back : bool
        Undo it, if the old job has ended at all.
    """

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
        self._effects: Mapping[UpgradeState, Callable[[], None]] = {
            UpgradeState.PREPARING: self._prepare,
            UpgradeState.STOPPING: self._stop,
            UpgradeState.STARTING: self._start,
            UpgradeState.WATCHING: self._watch,
            UpgradeState.ENDING: self._end,
            UpgradeState.RETURNING: self._return,
        }

    def run(self) -> Upgrade:
        """Carry out what is left; return the finished upgrade, UPGRADED, ROLLED_BACK or ABANDONED.

        Raises
        ------
        Locked
            Another process has gone on with it.
        WaitTimeout
            The old job has not stopped in time; it is being stopped, the upgrade can be resumed.
        FlinkishError
            The old program could not be started again: ``flinkish upgrade rollback`` tries again.
        """
        while not self.upgrade.state.is_final:
            state = self.upgrade.state
            try:
                self._effects[state]()
            except _Unwell as unwell:
                self._fail(state, unwell.error)
            except (Locked, WaitTimeout, RegistryError):
                raise  # nothing is decided: it can be resumed
            except FlinkishError as error:
                if self._after_failure(state) is None:
                    raise
                self._fail(state, error)
        return self.upgrade

    def _save(self, **changes: object) -> None:
        changed = replace(self.upgrade, **changes)  # type: ignore[arg-type]  # fields by name
        if changed.state.is_final:
            changed = replace(changed, ended=self._registry.now())
        self.upgrade = self._registry.save_upgrade(changed, self._owner)

    def _fail(self, state: UpgradeState, error: FlinkishError) -> None:
        """Record why a step failed, and go on with what follows then."""
        following = self._after_failure(state)
        assert following is not None
        self._say(f"failed: {error.message}")
        self._save(state=following, failure=error.to_record())

    def _after_failure(self, state: UpgradeState) -> UpgradeState | None:
        return after_failure(state, handover=self.upgrade.handover)

    def _say(self, text: str) -> None:
        self._context.reporter.note(text)

    # --- forwards ---------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Start the driver of the new program, and wait until it is at its first query."""
        job = self._new_job(self.upgrade.restore)
        self._say(f"starting the new program beside it as job {job.job_id} ...")
        job = self._await(
            job.job_id,
            lambda now: None if now.state is JobState.CREATED else f"it is {now.state.value}",
            "has not come to its first query in",
        )
        if job.state is not JobState.CREATED:
            raise _canceled(job)
        self._save(state=after(UpgradeState.PREPARING))

    def _stop(self) -> None:
        """Stop the old job with a savepoint, unless a request of this upgrade has."""
        upgrade = self.upgrade
        back = UpgradeState.ENDING if upgrade.handover else UpgradeState.RETURNING
        request = self._stop_request()
        if request is None:
            if self._back:
                self._save(state=back if upgrade.handover else UpgradeState.ABANDONED)
                return
            job = look(self._context, self._registry.job(upgrade.job_id))
            self._say(f"stopping job {job.name} ({job.job_id}) with a savepoint ...")
            try:
                request = requests.submit(
                    *(self._context, job, RequestKind.STOP, upgrade.target, upgrade.timeout)
                )
            except Locked as locked:  # somebody else ends it: not this upgrade's business
                raise _Unwell(locked) from locked
        self._save(request_id=request.request_id)
        done = requests.wait_result(self._context, request, upgrade.timeout)
        if not upgrade.handover:
            requests.wait_end(self._context, done, upgrade.timeout)
        assert done.result is not None
        assert done.result.savepoint is not None
        path = done.result.savepoint.path
        for warning in requests.warnings_of(done):
            self._context.reporter.warning(warning)
        self._say(f"savepoint: {path}")
        following = back if self._back else after(UpgradeState.STOPPING)
        self._save(state=following, savepoint=path, restore=replace(upgrade.restore, path=path))

    def _stop_request(self) -> Request | None:
        """Return this upgrade's request to stop the old job, also one that it did not record."""
        upgrade = self.upgrade
        if upgrade.request_id is not None:
            return self._registry.request(upgrade.request_id)
        sent = [
            request
            for request in self._registry.requests(upgrade.job_id)
            if request.kind is RequestKind.STOP and request.created >= upgrade.created
        ]
        return sent[-1] if sent else None

    def _start(self) -> None:
        """Start the new program from the savepoint, and wait until it runs."""
        job = self._new_job(self.upgrade.restore)
        if self.upgrade.handover:
            self._registry.name_savepoint(job.job_id, self.upgrade.restore.path)
        self._say(f"starting the new program as job {job.job_id} ...")
        self._await(
            job.job_id,
            lambda now: f"it is {now.state.value}" if now.state in STARTING else None,
            "has not started its queries in",
        )
        self._wait_for_old()
        self._save(state=after(UpgradeState.STARTING))

    def _watch(self) -> None:
        """Watch the new program until it counts as well."""
        upgrade = self.upgrade
        assert upgrade.new_job_id is not None
        self._say(f"watching it: {upgrade.health.batches} batches of every query ...")
        job = self._await(
            upgrade.new_job_id,
            lambda now: (
                None
                if now.state is JobState.CANCELLING
                else lacking(self._registry.queries(now.job_id), upgrade.health.batches)
            ),
            "is not well after",
        )
        if job.state in (JobState.CANCELED, JobState.CANCELLING):
            raise _canceled(job)
        self._save(state=after(UpgradeState.WATCHING))

    # --- back -------------------------------------------------------------------------------

    def _end(self) -> None:
        """End the new program, and note what it has committed."""
        upgrade = self.upgrade
        job = None if upgrade.new_job_id is None else self._found(upgrade.new_job_id)
        committed: dict[str, tuple[int, int]] = {}
        if job is not None:
            self._say(f"ending job {job.job_id} ...")
            job = look(self._context, job)
            if not job.state.is_final:
                with suppress(WrongState):  # it has ended by itself meanwhile
                    requests.cancel(self._context, job, None, upgrade.timeout)
                job = look(self._context, job)
            wait_until_gone(job)
            self._registry.acknowledge([job.job_id])
            for query in self._registry.queries(job.job_id):
                first = 0 if query.restored_batch is None else query.restored_batch + 1
                newest = newest_committed_batch(query.checkpoint_dir)
                if newest is not None and newest >= first:
                    committed[query.name] = (first, newest)
        self._save(state=after(UpgradeState.ENDING), committed=committed)

    def _return(self) -> None:
        """Start the old program again from the savepoint."""
        upgrade = self.upgrade
        if upgrade.savepoint is None:
            self._save(state=UpgradeState.ABANDONED)
            return
        earlier = None if upgrade.old_again_id is None else self._found(upgrade.old_again_id)
        if earlier is None or look(self._context, earlier).state is JobState.FAILED:
            self._save(old_again_id=new_job_id())
            upgrade = self.upgrade
        assert upgrade.savepoint is not None
        assert upgrade.old_again_id is not None
        self._wait_for_old()
        old = self._registry.job(upgrade.job_id)
        # The failed attempt may have written to the sink: what it has stays, the job goes on.
        ahead = upgrade.restore.sink_ahead or "rebase"
        spec = RestoreSpec(upgrade.savepoint, sink_ahead=ahead)
        job = self._launched(upgrade.old_again_id, old.launch, spec)
        self._say(f"starting the old program again as job {job.job_id} ...")
        wait_until_started(self._context, job)
        self._save(state=after(UpgradeState.RETURNING))

    # --- inside -----------------------------------------------------------------------------

    def _await(self, job_id: str, lacks: Callable[[JobRecord], str | None], what: str) -> JobRecord:
        """Wait until the new program lacks nothing, or has ended without a failure.

        Parameters
        ----------
        lacks
            Returns what a job lacks, as a clause, or None.
        what
            How the time-out is told, before its seconds.
        """
        timeout = self.upgrade.health.timeout
        lack: str | None = None

        def over(job: JobRecord) -> bool:
            nonlocal lack
            lack = lacks(job)
            return lack is None or job.state.is_final or job.state in _AGAIN

        try:
            job = wait_job(self._registry, job_id, over, timeout, _POLL)
        except WaitTimeout as error:
            late = WaitTimeout(f"it {what} {timeout:g} s: {lack}", job_id=job_id)
            raise _Unwell(late) from error
        if job.state in _AGAIN:  # its restart strategy would start it again
            failure = (job.failure or {}).get("message", "it failed")
            raise _Unwell(FlinkishError(f"its driver failed: {failure}", job_id=job.job_id))
        return not_failed(self._context, job)

    def _wait_for_old(self) -> None:
        """Wait until the old job has ended, which has been stopped."""
        assert self.upgrade.request_id is not None
        request = self._registry.request(self.upgrade.request_id)
        requests.wait_end(self._context, request, self.upgrade.timeout)

    def _new_job(self, restore: RestoreSpec) -> JobRecord:
        """Return the job of the new program; start it first if there is none."""
        if self.upgrade.new_job_id is None:
            self._save(new_job_id=new_job_id())
        assert self.upgrade.new_job_id is not None
        return self._launched(self.upgrade.new_job_id, self.upgrade.launch, restore)

    def _found(self, job_id: str) -> JobRecord | None:
        try:
            return self._registry.job(job_id)
        except JobNotFound:
            return None

    def _launched(self, job_id: str, launch: Launch, spec: RestoreSpec) -> JobRecord:
        """Return the job with this id; start it first if there is none."""
        known = self._found(job_id)
        if known is not None:
            return known
        old = self._registry.job(self.upgrade.job_id)
        complete = replace(self._secrets.given_to(launch), restore=spec)
        unique = old.has_given_name and not spec.is_awaited  # then the old job runs beside it
        return launch_in_place_of(self._context, old, complete, unique_name=unique, job_id=job_id)


def _canceled(job: JobRecord) -> WrongState:
    return WrongState(f"somebody has canceled job {job.job_id}", job_id=job.job_id)


class _Unwell(Exception):
    """The new program is not well, though no operation failed."""

    def __init__(self, error: FlinkishError) -> None:
        super().__init__(error.message)
        self.error = error
