"""The restore check: what a restore would do, before anything is touched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flinkish.annotations import public
from flinkish.client.context import Context
from flinkish.client.program import asked_partitions, find_spark, launch_of, note_old_hasher
from flinkish.config import working_directory
from flinkish.errors import ConsentNeeded, Incompatible, UsageError
from flinkish.launch import spark_submit as programs
from flinkish.launch.job_origin import job_origin
from flinkish.launch.restoring import restore_spec
from flinkish.messages.codec import encode_fields
from flinkish.messages.launch import Launch, Program, RestoreSpec
from flinkish.messages.plan import OperatorRow, RestorePlan
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord

if TYPE_CHECKING:
    from flinkish.client.planfile import PlanFile


@public
@dataclass(frozen=True)
class OperatorPlan:
    """What a restore does with the state of one operator.

    Parameters
    ----------
    query : str or None
        The program's query; for state that no operator takes, its query in the savepoint (None for
        the one query of a plain checkpoint).
    uid, operator_id : str or None
        The operator's identity, if it has one.
    kind : str or None
        Spark's name for the operator.
    verdict : str
        ``as-is``, ``renumbered``, ``new``, ``dropped``, ``migrate``, ``rescale``,
        ``consent-needed`` or ``incompatible``.
    reason : str or None
        The id of the reason, for scripts.
    advice : str or None
        What to do about it.
    """

    query: str | None
    uid: str | None
    operator_id: str | None
    kind: str | None
    verdict: str
    reason: str | None
    advice: str | None


@public
@dataclass(frozen=True)
class Plan:
    """The plan of restoring a savepoint with a program.

    Parameters
    ----------
    savepoint : str or None
        Location of the savepoint; None for a plan from a job.
    verdict : str
        ``ok``, ``consent-needed`` or ``incompatible``.
    exit_code : int
        The exit code of ``flinkish check``: 0, 5 or 4.
    operators : tuple of OperatorPlan
        The decision for each operator's state.
    restore_plan : RestorePlan
        The whole plan.
    job_id : str or None
        The job from whose newest committed batches the restore was planned, if any.
    """

    savepoint: str | None
    verdict: str
    exit_code: int
    operators: tuple[OperatorPlan, ...]
    restore_plan: RestorePlan = field(repr=False)
    _file: PlanFile | None = field(repr=False, compare=False)
    job_id: str | None = None

    @property
    def document(self) -> Mapping[str, Any]:
        """The whole plan as plain data, as ``flinkish check --json`` prints it."""
        return encode_fields(self.restore_plan)

    @property
    def ok(self) -> bool:
        """Whether the restore is possible, and needs no consent of the user."""
        return self.verdict == "ok"

    def text(self) -> str:
        """Return the plan for people: a table, notes, and the verdict."""
        from flinkish.restore.plan.plan_text import plan_lines, verdict_line

        return "\n".join([*plan_lines(self.restore_plan), verdict_line(self.restore_plan)])

    def file(self) -> PlanFile:
        """Return the plan, bound to the savepoint, the program and the version of Spark.

        A change of these since the check is noticed when the plan is carried out.

        Raises
        ------
        UsageError
            The plan is that of a job.
        """
        if self._file is None:
            raise _cannot_be_saved()
        return self._file

    def save(self, path: str) -> None:
        """Write the plan to a file, for ``flinkish run --plan`` and ``Client.run(plan=...)``.

        Raises
        ------
        UsageError
            The plan is that of a job.
        StorageError
            The file cannot be written.
        """
        from flinkish.client.planfile import save

        save(self.file(), path)


def check(
    context: Context,
    program: Program,
    savepoint: str | None,
    options: RestoreOptions,
    *,
    job: JobRecord | None = None,
    to_save: bool = False,
) -> Plan:
    """Plan the restore of a savepoint or a job with a program, without doing it.

    The program runs to its end, but its queries are only planned. For a job, the newest committed
    batch of each query is read, as a savepoint would contain it if the job stopped now. Nothing is
    copied, and the job is not touched.

    Parameters and errors are those of :meth:`.runner.ProgramRunner.check`. The configuration was
    loaded with :func:`.restoring.settings`. ``job`` takes the place of a savepoint. ``to_save``
    says whether the plan will be saved for a run; a job's plan cannot be (UsageError).
    """
    if to_save and job is not None:
        raise _cannot_be_saved()
    launch, spec = launch_and_restore(context, program, savepoint, options, job)
    note_old_hasher(context)
    return check_launch(context, launch, spec, job=job)


def launch_and_restore(
    context: Context,
    program: Program,
    savepoint: str | None,
    options: RestoreOptions,
    job: JobRecord | None,
) -> tuple[Launch, RestoreSpec]:
    """Return the launch of a program, and the restore from a savepoint or a job.

    Raises UsageError if there is no such program, no savepoint is named, or an option is wrong;
    StorageError if the program cannot be accessed, or the savepoint's URL has an unknown scheme.
    """
    launch = launch_of(program, context.config, working_directory())
    spec = restore_spec(
        savepoint,
        options,
        context.config,
        parallelism=asked_partitions(launch),
        checkpoints=checkpoints_of(job),
    )
    if spec is None:
        raise no_savepoint()
    return launch, spec


def checkpoints_of(job: JobRecord | None) -> str | None:
    """Return a job's directory of checkpoints, or its id without one; None without a job."""
    return None if job is None else job.checkpoint_dir or job.job_id


def no_savepoint() -> UsageError:
    """Return the error for a command that needs a savepoint, and was given none."""
    return UsageError(
        "no savepoint was specified", hint="name it as the first argument, or with -s PATH"
    )


def check_launch(
    context: Context, launch: Launch, spec: RestoreSpec, *, job: JobRecord | None = None
) -> Plan:
    """Plan a restore with a complete launch; see :func:`check`.

    ``launch`` has no restore. ``spec``: the restore; with a job, its path is not read.
    """
    installation = find_spark(launch)
    origin = None if job is None else job_origin(context.registry, job)
    context.reporter.note("planning the program's queries ...")
    from flinkish.client.dryrun import check_restore  # imports Avro: too slow for --help
    from flinkish.client.planfile import bound_file

    launch = programs.pinned(launch, installation)
    version = programs.spark_version(installation.spark_home)
    file_of = None if job is not None else bound_file(spec, launch, version)
    plan = check_restore(
        launch,
        installation,
        spec,
        name=launch.default_name,
        environ=os.environ,
        show_log=context.reporter.log,
        registry=context.registry,
        job=origin,
    )
    if job is not None:
        plan = replace(
            plan, savepoint=None, job_id=job.job_id, name=job.name, state=job.state.value
        )
    return Plan(
        savepoint=spec.path if job is None else None,
        verdict=plan.verdict,
        exit_code=plan.exit_code,
        operators=tuple(_operator(row) for row in plan.operators),
        restore_plan=plan,
        _file=None if file_of is None else file_of(plan),
        job_id=None if job is None else job.job_id,
    )


def require_agreed(plan: RestorePlan, who: str, after: str = "") -> None:
    """Raise Incompatible or ConsentNeeded unless a plan may be carried out.

    The message says that ``who`` cannot resume from that state, followed by ``after``.
    """
    if plan.exit_code:
        needs_consent = plan.exit_code == ConsentNeeded.code
        kind = ConsentNeeded if needs_consent else Incompatible
        consent = " without your consent" if needs_consent else ""
        raise kind(
            f"{who} cannot resume from that state{consent}{after}",
            hint="see the plan and its advice",
            plan=encode_fields(plan),
        )


def _cannot_be_saved() -> UsageError:
    return UsageError(
        "a plan made from a job cannot be saved: the job would have moved on by the "
        "time the plan is carried out",
        hint="stop the job with a savepoint, and make the plan from the savepoint",
    )


def _operator(row: OperatorRow) -> OperatorPlan:
    return OperatorPlan(
        query=row.query,
        uid=row.uid,
        operator_id=row.operator_id,
        kind=row.kind,
        verdict=row.verdict,
        reason=row.reason,
        advice=row.advice,
    )
