"""What the options of ``run`` mean: a launch, its checks, the job, and how its start is shown."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flinkish.cli.base import Call
from flinkish.cli.follow import follow_to_the_end, wait_until_started
from flinkish.cli.output import Output
from flinkish.cli.program_options import ProgramOptions
from flinkish.config import Config, mask_secrets
from flinkish.errors import SavepointNotFound, UsageError
from flinkish.jobs import launcher, program
from flinkish.jobs.model import Job, Launch, RestoreSpec

_RECOVERY = "execution.state-recovery."


@dataclass(frozen=True)
class RunOptions(ProgramOptions):
    """The options of ``run`` as parsed; names as in ``flinkish run --help``."""

    detached: bool
    savepoint: str | None
    allow_non_restored: bool
    claim_mode: str | None
    fork: bool
    uid_map: tuple[tuple[str, str], ...]
    name: str | None
    cancel_on_exit: bool
    no_wait: bool
    dry_run: bool


def submit(call: Call, options: RunOptions) -> int:
    """Check, register and launch the job, then wait for as much of it as was asked for."""
    flags = {
        _RECOVERY + "path": options.savepoint,
        _RECOVERY + "ignore-unclaimed-state": "true" if options.allow_non_restored else None,
        _RECOVERY + "claim-mode": options.claim_mode,
        "parallelism.default": None if options.parallelism is None else str(options.parallelism),
    }
    with call.session(flags) as session:
        launch = replace(
            launch_of(options, session.config, os.getcwd()),
            restore=_restore(options, session.config),
        )
        program.check_deploy_mode(launch)
        installation = program.resolve(launch, os.environ)
        launch = program.pinned(launch, installation)
        if launch.restore is not None:
            check_restorable(launch.restore.path)
        name = options.name or default_name(launch)
        if options.dry_run:
            words = program.build_command(
                launch, installation, name=name, driver_main=program.driver_main()
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
            started = wait_until_started(session, job)
            notes = [n for query in registry.queries(job.job_id) for n in query.notes]
            for note in notes:
                session.out.note(note)
            return show_submitted(session.out, started, notes)
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
        conf["spark.sql.shuffle.partitions"] = str(partitions)
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
    )


def default_name(launch: Launch) -> str:
    """The program's file stem, or the last word of its module's name."""
    if launch.application is None:
        return str(launch.module).rpartition(".")[2]
    return os.path.splitext(os.path.basename(launch.application))[0]


def check_restorable(path: str) -> None:
    """Find out before anything is launched that ``path`` cannot be restored.

    Raises :class:`SavepointNotFound`, :class:`Corrupt` or :class:`UnsupportedFormat`.
    """
    from flinkish.restore.adopt import adopt_cuts
    from flinkish.savepoint.reader import check_files, open_savepoint

    try:
        savepoint = open_savepoint(path)
    except SavepointNotFound as missing:
        try:
            adopt_cuts(path)
        except SavepointNotFound:
            raise missing from None
    else:
        check_files(savepoint)


def show_submitted(out: Output, job: Job, notes: Sequence[str] = ()) -> int:
    """The result of ``run``; Flink's line. ``notes`` are what the driver said of its start."""
    if out.json:
        document = {"job_id": job.job_id, "name": job.name, "state": job.state.value}
        out.document({**document, "notes": list(notes)} if notes else document)
    elif out.quiet:
        out.line(job.job_id)
    else:
        out.line(f"Job has been submitted with JobID {job.job_id}")
    return 0


def _show_dry_run(
    out: Output, name: str, words: Sequence[str], uid_map: Sequence[tuple[str, str]]
) -> int:
    shown = [mask_secrets(word) for word in words]
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


def _restore(options: RunOptions, config: Config) -> RestoreSpec | None:
    path = config.get(_RECOVERY + "path")
    if path is None:
        for given, flag in (
            (options.allow_non_restored, "-n (--allowNonRestoredState)"),
            (options.claim_mode, "-cm (--claimMode)"),
            (options.fork, "--fork"),
            (options.uid_map, "--uid-map"),
        ):
            if given:
                raise UsageError(
                    f"{flag} needs a savepoint to restore from", hint="give it with -s PATH"
                )
        return None
    from flinkish.savepoint.storage import local_path

    return RestoreSpec(
        path=local_path(path),
        allow_non_restored=config.boolean(_RECOVERY + "ignore-unclaimed-state"),
        claim_mode=config.get(_RECOVERY + "claim-mode") or "no_claim",
        fork=options.fork,
        uid_map=options.uid_map,
    )


def _checkpoints(config: Config) -> str:
    directory = config.get("execution.checkpointing.dir") or ""
    if directory.startswith("file:"):
        from flinkish.savepoint.storage import local_path

        return local_path(directory)
    return directory


def _items(values: Sequence[str]) -> list[str]:
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def _absolute(item: str, cwd: str) -> str:
    """A local file's absolute path; anything else (URLs, ``x.zip#name``) keeps its form."""
    name, hash_, alias = item.partition("#")
    path = os.path.join(cwd, os.path.expanduser(name))
    return os.path.normpath(path) + hash_ + alias if os.path.exists(path) else item
