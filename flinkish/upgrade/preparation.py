"""The preparation of an upgrade: checked against the job as it runs, with nothing touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flinkish import storage
from flinkish.client.checking import Plan, check_launch, require_agreed
from flinkish.client.context import Context
from flinkish.client.program import pinned
from flinkish.client.rehearsal import RehearsalResult, rehearse_launch
from flinkish.client.requests import savepoint_target
from flinkish.client.restart_plan import check_ours, with_secrets
from flinkish.config import MASK
from flinkish.connectors.registry import sink_connector
from flinkish.errors import ConsentNeeded, UsageError, WrongState
from flinkish.launch.job_origin import left_queries
from flinkish.launch.restart_strategy import strategy_of
from flinkish.launch.restoring import checked
from flinkish.launch.secret_settings import without_secrets
from flinkish.launch.spark_submit import worker_settings
from flinkish.messages.launch import Launch, Program, RestoreSpec
from flinkish.messages.plan import RestorePlan
from flinkish.messages.queries import QueryFacts
from flinkish.messages.upgrades import Upgrade, UpgradeKind
from flinkish.registry.job_registry import new_job_id
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.units import counted
from flinkish.upgrade.steps import describe, first
from flinkish.upgrade.target import NewVersion, target_launch


@dataclass(frozen=True)
class Secrets:
    """The secrets of the programs' launches; the registry does not record them.

    ``conf`` has the secret Spark settings that replace masked ones.
    """

    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    arguments: Sequence[str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, program: Program) -> Secrets:
        """Return what may be a secret among the settings and arguments of a program."""
        return cls(program.conf, program.secret_arguments or None)

    def given_to(self, launch: Launch) -> Launch:
        """Return a recorded launch with its secrets.

        Raises UsageError if one is missing, or if the number of secret arguments differs.
        """
        conf = {key: self.conf[key] for key in self.conf if launch.conf.get(key) == MASK}
        arguments = self.arguments if MASK in launch.secret_arguments else None
        recorded = len(launch.secret_arguments)
        if arguments is not None and len(arguments) != recorded:
            raise UsageError(
                "the old and the new program get the same secret arguments, and one was started "
                f"with {counted(recorded, 'secret argument')}, not {len(arguments)}",
                hint="give as many lines in the file of --secret-args; or stop the job, and start "
                "the new program with: flinkish run -s PATH",
            )
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
        """Return the steps as sentences for people."""
        return list(describe(self.upgrade))


def prepare(context: Context, job: JobRecord, version: NewVersion, kind: UpgradeKind) -> Ready:
    """Check an upgrade against the running job, and change nothing.

    Raises ExternalJob if another launcher has started the job; WrongState if the job does not run;
    NoSavepointDirectory if no target is given or configured; UsageError if secrets of the job are
    missing, without which the job could not be started again, if an option or a setting is invalid,
    or if a shadow would write where the job does; LaunchFailed if Spark, Java or a Python of the
    new program is missing; ConsentNeeded if a rollback could not restore all state of the job;
    FlinkishError if the new program cannot be checked.
    """
    check_ours(job, "upgraded")
    changes, is_shadow = version.changes, kind is UpgradeKind.SHADOW
    options = replace(checked(version.restore), fork=is_shadow)
    restore = RestoreSpec("", options, changes.parallelism)
    target = savepoint_target(context, version.target, job)
    if job.state is not JobState.RUNNING:
        raise WrongState(
            f"job {job.name} ({job.job_id}) is {job.state.value}: only a running job can be "
            "upgraded",
            hint="start the new program from its savepoint with: flinkish run -s PATH APP.py",
            job_id=job.job_id,
            state=job.state.value,
        )
    if not (is_shadow or options.allow_non_restored):
        check_begun(context, job)
    Secrets.of(changes.program).given_to(job.launch)  # a rollback needs them
    launch = with_secrets(target_launch(job.launch, changes), {}, None)
    strategy_of(launch.options)
    launch, installation = pinned(launch)
    worker_settings(launch, installation.spark_home)  # refuses secret options
    plan = check_launch(context, launch, restore, job=job)
    if is_shadow:
        for warning in check_apart(context, job, plan.restore_plan, launch.working_directory):
            context.reporter.warning(warning)
    upgrade = Upgrade(
        upgrade_id=new_job_id(),
        job_id=job.job_id,
        name=job.name,
        state=first(kind),
        created=context.registry.now(),
        launch=without_secrets(launch),
        restore=restore,
        target=target,
        timeout=context.timeout(version.timeout),
        health=version.health,
        kind=kind,
    )
    return Ready(upgrade, plan, launch)


def check_begun(context: Context, job: JobRecord) -> None:
    """Raise ConsentNeeded if the job has not taken all the state that it was started from.

    The savepoint of its stop would lack that state, which a rollback needs.
    """
    lacking = left_queries(context.registry, job)
    if lacking:
        raise ConsentNeeded(
            f"job {job.name} ({job.job_id}) cannot be upgraded without your consent: its savepoint "
            f"would lack query '{lacking[0].query}' ({lacking[0].reason}), which a rollback would "
            "start empty",
            hint="wait until the job has started it; or agree with -n (--allowNonRestoredState)",
            job_id=job.job_id,
        )


def rehearse(context: Context, job: JobRecord, ready: Ready) -> RehearsalResult:
    """Run a few batches of the new program on a copy of the job's state, discarding its output.

    For errors see :func:`flinkish.client.rehearsal.rehearse`.
    """
    spec = replace(ready.upgrade.restore, path=job.checkpoint_dir or job.job_id)
    return rehearse_launch(context, ready.launch, spec, job=job, drop_output=True)


def check_agreed(ready: Ready) -> None:
    """Raise Incompatible or ConsentNeeded if the plan of an upgrade is refused or needs consent."""
    upgrade = ready.upgrade
    require_agreed(
        ready.plan.restore_plan,
        "the new program",
        after=f"; job {upgrade.name} ({upgrade.job_id}) runs as before",
    )


def check_apart(
    context: Context, job: JobRecord, plan: RestorePlan, directory: str | None
) -> list[str]:
    """Refuse a shadow that would write where its job writes.

    ``plan`` is what the new program would do with the job's newest committed batches, and
    ``directory`` its working directory, where relative paths start. Returns warnings about sinks
    whose output is unknown. Raises UsageError if a query of the new program writes to a file sink
    or a table of the job.
    """
    registry = context.registry
    taken = places_of(registry.facts(job.job_id), job.launch.working_directory)
    # What the drivers themselves have found out: the program's paths lack the default file system.
    taken |= {claim.place for claim in registry.writers() if claim.job.job_id == job.job_id}
    warnings = []
    for query in plan.queries:
        writes = query.writes
        place = place_of(writes, directory)
        if writes.get("place") in taken:
            place = writes["place"]
        if place is not None and place in taken:
            raise UsageError(
                f"query '{query.name}' of the new program would write to {place}, as job "
                f"{job.name} ({job.job_id}) does",
                hint="have the shadow write elsewhere, through its arguments: flinkish upgrade "
                "shadow JOB ARGS",
                job_id=job.job_id,
            )
        if place is None and (writes.get("format") or "").lower() not in ("noop", "console"):
            by = writes.get("format") or "code"
            warnings.append(
                f"query '{query.name}' writes with {by}, and flinkish cannot tell where: make "
                "sure that the job does not write there too"
            )
    return warnings


def places_of(facts: Mapping[str, QueryFacts], directory: str | None) -> frozenset[str]:
    """Return the file sinks and tables that a job writes to."""
    places = {place_of(each.sink, directory) for each in facts.values()}
    return frozenset(place for place in places if place is not None)


def place_of(sink: Mapping[str, object], directory: str | None) -> str | None:
    """Return a sink's output: ``table NAME``, or a location's canonical name; None if unknown.

    Relative paths start at ``directory``.
    """
    path = str(sink.get("path") or "")
    named = "/" not in path and sink_connector(str(sink.get("format") or "")).in_catalogs
    table = str(sink.get("table") or (path if named else ""))
    if table:
        return f"table {table.replace('`', '').lower()}"
    if not path:
        return None
    relative = not path.startswith("/") and ":" not in path.partition("/")[0]
    return storage.one_name(storage.join(directory, path) if relative and directory else path)
