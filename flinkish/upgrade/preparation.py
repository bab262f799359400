"""The preparation of an upgrade: checked against the job as it runs, with nothing touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flinkish.client.checking import Plan, check_launch, require_agreed
from flinkish.client.context import Context
from flinkish.client.program import pinned
from flinkish.client.rehearsal import RehearsalResult, rehearse_launch
from flinkish.client.restarts import with_secrets
from flinkish.config import MASK
from flinkish.errors import WrongState
from flinkish.launch.restart_strategy import strategy_of
from flinkish.launch.secret_settings import without_secrets
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.upgrades import Health, Upgrade, UpgradeKind
from flinkish.registry.job_registry import new_job_id
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.upgrade.steps import describe, first
from flinkish.upgrade.target import Changes, target_launch


@dataclass(frozen=True)
class Secrets:
    """Secrets of the programs' launches, which the registry does not record.

    ``conf`` has secret Spark settings, in place of the masked ones.
    """

    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    arguments: Sequence[str] | None = field(default=None, repr=False)

    def given_to(self, launch: Launch) -> Launch:
        """Return a recorded launch with its secrets; UsageError if one is missing."""
        conf = {key: self.conf[key] for key in self.conf if launch.conf.get(key) == MASK}
        arguments = self.arguments if MASK in launch.secret_arguments else None
        return with_secrets(launch, conf, arguments)


@dataclass(frozen=True)
class Ready:
    """An upgrade that was checked, with nothing done yet.

    ``plan`` is what the new program would do with the job's newest committed batches, ``launch``
    the new program with its secrets.
    """

    upgrade: Upgrade
    plan: Plan
    launch: Launch = field(repr=False)

    def steps(self) -> list[str]:
        """Return the steps for people."""
        return list(describe(self.upgrade))


def prepare(
    context: Context,
    job: JobRecord,
    changes: Changes,
    *,
    restore: RestoreSpec,
    target: str,
    timeout: float,
    health: Health,
    kind: UpgradeKind = UpgradeKind.IN_PLACE,
) -> Ready:
    """Check an upgrade against the running job, and change nothing.

    The path of ``restore`` is not used. ``target`` is the directory of the savepoint. ``timeout``
    is in seconds, for the job's savepoint and, if it is stopped, its end, in all.

    Raises WrongState if the job does not run; UsageError if secrets of the job are missing, without
    which it could not be started again; LaunchFailed if Spark, Java or a Python of the new program
    is missing; Incompatible or ConsentNeeded if the new program could not be restored from the job,
    or only with consent.
    """
    if job.state is not JobState.RUNNING:
        raise WrongState(
            f"job {job.name} ({job.job_id}) is {job.state.value}: only a running job can be "
            "upgraded",
            hint="start the new program from its savepoint with: flinkish run -s PATH APP.py",
            job_id=job.job_id,
            state=job.state.value,
        )
    secrets = Secrets(changes.program.conf, changes.program.secret_arguments or None)
    secrets.given_to(job.launch)  # for the way back
    launch = with_secrets(target_launch(job.launch, changes), {}, None)
    strategy_of(launch.options)
    launch, _ = pinned(launch)
    plan = check_launch(context, launch, restore, job=job)
    upgrade = Upgrade(
        upgrade_id=new_job_id(),
        job_id=job.job_id,
        name=job.name,
        state=first(kind),
        created=context.registry.now(),
        launch=without_secrets(launch),
        restore=restore,
        target=target,
        timeout=timeout,
        health=health,
        kind=kind,
    )
    return Ready(upgrade, plan, launch)


def rehearse(context: Context, job: JobRecord, ready: Ready) -> RehearsalResult:
    """Run a few batches of the new program on a copy of the job's state, discarding its output.

    For errors see :func:`flinkish.client.rehearsal.rehearse`.
    """
    spec = replace(ready.upgrade.restore, path=job.checkpoint_dir or job.job_id)
    return rehearse_launch(context, ready.launch, spec, job=job, drop_output=True)


def check_agreed(ready: Ready) -> None:
    """Raise Incompatible or ConsentNeeded when the plan of an upgrade is not one to carry out."""
    upgrade = ready.upgrade
    require_agreed(
        ready.plan.restore_plan,
        f"the new program cannot resume from job {upgrade.name} ({upgrade.job_id}); the job runs "
        "as before",
    )
