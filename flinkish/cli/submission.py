"""What the options of ``run`` mean: a launch, its checks, the job, and how its start is shown."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkish.cli.base import Call
from flinkish.cli.follow import follow_to_the_end, wait_until_started
from flinkish.cli.output import Output
from flinkish.cli.plan_table import show_plan
from flinkish.cli.program_options import ProgramOptions
from flinkish.cli.restore_options import RestoreOptions, config_flags, restore_spec
from flinkish.cli.session import Session
from flinkish.config import Config
from flinkish.errors import FlinkishError, UsageError
from flinkish.jobs import launcher, program
from flinkish.jobs.model import Job, Launch
from flinkish.jobs.secretconf import without_secrets
from flinkish.masking import MASK, mask_words

if TYPE_CHECKING:
    from flinkish.restore.planfile import PlanFile

_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class RunOptions(ProgramOptions, RestoreOptions):
    """The options of ``run`` as parsed; names as in ``flinkish run --help``."""

    detached: bool
    claim_mode: str | None
    plan: str | None
    name: str | None
    cancel_on_exit: bool
    no_wait: bool
    dry_run: bool


def submit(call: Call, options: RunOptions) -> int:
    """Check, register and launch the job, then wait for as much of it as was asked for."""
    plan = _plan_of(options)
    if plan is not None:
        options = _of_plan(options, plan)
    flags = {
        **config_flags(options),
        "execution.state-recovery.claim-mode": options.claim_mode,
        "parallelism.default": None if options.parallelism is None else str(options.parallelism),
    }
    with call.session(flags) as session:
        launch = launch_of(options, session.config, os.getcwd())
        restore = restore_spec(
            options,
            session.config,
            claim_mode=options.claim_mode,
            parallelism=asked_partitions(launch),
        )
        program.check_deploy_mode(launch)
        installation = program.resolve(launch, os.environ)
        spark = program.spark_version(installation.spark_home)
        if plan is not None and restore is not None:
            from flinkish.restore.planfile import check_unchanged

            check_unchanged(plan, launch, spark)
            restore = plan.restore_spec(restore.claim_mode)
        launch = replace(program.pinned(launch, installation), restore=restore)
        if restore is not None:
            check_restorable(session.out, restore.path, spark)
        name = options.name or default_name(launch)
        if options.dry_run:
            words = program.build_command(
                without_secrets(launch), installation, name=name, driver_main=program.driver_main()
            )
            return _show_dry_run(session.out, name, words, options.uid_map)
        registry = session.registry
        job = launcher.new_job(
            name,
            launch,
            checkpoints=_checkpoints(session.config),
            environ=os.environ,
            now=registry.now(),
        )
        launcher.launch_job(registry, session.config.registry_url(), job, os.environ)
        if options.no_wait:
            return show_submitted(session.out, job)
        if options.detached:
            try:
                started = wait_until_started(session, job)
            except FlinkishError as error:
                if "plan" in error.data and not (session.out.json or session.out.quiet):
                    show_plan(error.data["plan"], sys.stderr)
                raise
            return _show_started(session, started)
        return follow_to_the_end(
            session, job, show_submitted, cancel_on_exit=options.cancel_on_exit
        )


def launch_of(options: ProgramOptions, config: Config, cwd: str) -> Launch:
    """The launch that the options and the configuration describe; paths absolute, no restore.

    Raises :class:`UsageError` when no program is named, two are, or there is no such file.
    """
    application, arguments = _program(options, cwd)
    conf = {**config.extra("spark."), **options.conf}
    partitions = config.integer("parallelism.default")
    if partitions is not None:
        conf[_PARTITIONS] = str(partitions)
    spark_home = options.spark_home
    return Launch(
        application=application,
        module=options.module,
        arguments=tuple(arguments),
        master=options.master,
        spark_home=os.path.abspath(os.path.expanduser(spark_home)) if spark_home else None,
        python=options.python,
        client_python=options.client_python,
        py_files=tuple(_absolute(item, cwd) for item in _items(options.py_files)),
        archives=tuple(_absolute(item, cwd) for item in _items(options.archives)),
        jars=tuple(_absolute(item, cwd) for item in _items(options.jars)),
        packages=tuple(_items(options.packages)),
        conf=conf,
        options=config.to_options(),
        working_directory=cwd,
        secret_arguments=options.secret_arguments,
    )


def default_name(launch: Launch) -> str:
    """The program's file stem, or the last word of its module's name."""
    if launch.application is None:
        return str(launch.module).rpartition(".")[2]
    return os.path.splitext(os.path.basename(launch.application))[0]


def check_restorable(out: Output, path: str, spark: str | None) -> None:
    """Find out before anything is launched that ``path`` cannot be restored with this Spark.

    Parameters
    ----------
    spark: version of the Spark that will run, None when it is not known.

    Raises
    ------
    SavepointNotFound, Corrupt, UnsupportedFormat: there is nothing to restore, or not all of it.
    Incompatible: the version matrix says that this Spark cannot go on with it.
    """
    from flinkish.restore.gate import version_gate
    from flinkish.restore.offers import read_offers
    from flinkish.restore.verdicts import Outcome

    gate = version_gate(read_offers(path, complete=True), spark)
    if gate.error is not None:
        raise gate.error
    if gate.check.outcome is Outcome.WARNING:
        out.warning(gate.check.text)
    elif gate.check.outcome is not Outcome.OK:
        out.note(gate.check.text)


def _show_started(session: Session, job: Job) -> int:
    """The result of ``run -d``: how the job was restored, what its driver said of its start."""
    from flinkish.restore.document import merged

    queries = session.registry.queries(job.job_id)
    plan = merged([query.plan for query in queries if query.plan is not None])
    notes = [note for query in queries for note in query.notes]
    told: set[str] = set()
    if plan is not None and not (session.out.json or session.out.quiet):
        show_plan(plan, sys.stderr)
        told = {note for query in plan["queries"] for note in query["notes"]}
    for note in notes:
        if note not in told:
            session.out.note(note)
    return show_submitted(session.out, job, notes, plan)


def _plan_of(options: RunOptions) -> PlanFile | None:
    """The plan that ``--plan`` names. Raises UsageError when it is none, or more is said."""
    if options.plan is None:
        return None
    given = [*(["-s"] if options.savepoint else []), *options.given()]
    if options.parallelism is not None:
        given.append("-p")
    if given:
        raise UsageError(
            f"--plan and {given[0]} exclude each other: the plan says how to restore",
            hint="make another plan with: flinkish check -o FILE",
        )
    from flinkish.restore.planfile import load

    return load(options.plan)


def _of_plan(options: RunOptions, plan: PlanFile) -> RunOptions:
    """The options with what the plan says; the program may be named again."""
    words, program_file, module = options.words, options.program, options.module
    if not (words or program_file or module):
        if any(MASK in word for word in plan.arguments):
            raise UsageError(
                "the plan leaves out a secret argument of its program",
                hint="name the program again: flinkish run --plan FILE APP.py ARGS...",
            )
        words = plan.arguments if plan.application is None else (plan.application, *plan.arguments)
        module = plan.module
    partitions = plan.options.get("parallelism")
    return replace(
        options, savepoint=plan.savepoint, words=words, module=module, parallelism=partitions
    )


def show_submitted(
    out: Output, job: Job, notes: Sequence[str] = (), plan: Mapping[str, Any] | None = None
) -> int:
    """The result of ``run``; Flink's line.

    ``notes`` are what the driver said of its start, ``plan`` is how it was restored.
    """
    if out.json:
        document = {"job_id": job.job_id, "name": job.name, "state": job.state.value}
        more = {"notes": list(notes)} if notes else {}
        out.document({**document, **more, **({"plan": plan} if plan is not None else {})})
    elif out.quiet:
        out.line(job.job_id)
    else:
        out.line(f"Job has been submitted with JobID {job.job_id}")
    return 0


def _show_dry_run(
    out: Output, name: str, words: Sequence[str], uid_map: Sequence[tuple[str, str]]
) -> int:
    shown = list(mask_words(words))
    if out.json:
        out.document({"dry_run": True, "name": name, "command": shown, "uid_map": dict(uid_map)})
        return 0
    out.line(shlex.join(shown))
    if not out.quiet:
        for old, new in uid_map:
            # Not on spark-submit's command line; a comment, so that a shell can still read it all.
            out.line(f"# the state of {old!r} goes to uid {new!r}")
    return 0


def _program(options: ProgramOptions, cwd: str) -> tuple[str | None, Sequence[str]]:
    given = [option for option in (options.program, options.module) if option]
    if len(given) > 1:
        raise UsageError("-py and -pym exclude each other", hint="name the program once")
    if options.module:
        return None, options.words
    if options.program:
        application, arguments = options.program, options.words
    elif options.words:
        application, arguments = options.words[0], options.words[1:]
    else:
        raise UsageError("no program was specified", hint="flinkish run [OPTIONS] APP.py [ARGS...]")
    path = os.path.join(cwd, os.path.expanduser(application))
    if not os.path.isfile(path):
        what = "is a directory" if os.path.isdir(path) else "does not exist"
        raise UsageError(
            f"the program file {what}: {application}",
            hint=f"name a Python file; paths are relative to {cwd}",
        )
    return os.path.normpath(path), arguments


def asked_partitions(launch: Launch) -> int | None:
    """The number of state partitions the user has asked for: ``-p``, its key or ``--conf``."""
    text = launch.conf.get(_PARTITIONS, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _checkpoints(config: Config) -> str:
    directory = config.get("execution.checkpointing.dir") or ""
    if directory.startswith("/"):
        return directory
    from flinkish.storage import locate

    return locate(directory)


def _items(values: Sequence[str]) -> list[str]:
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def _absolute(item: str, cwd: str) -> str:
    """A local file's absolute path; anything else (URLs, ``x.zip#name``) keeps its form."""
    name, hash_, alias = item.partition("#")
    path = os.path.join(cwd, os.path.expanduser(name))
    return os.path.normpath(path) + hash_ + alias if os.path.exists(path) else item
