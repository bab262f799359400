"""The options of ``upgrade`` about the new version of a job: one list of options, their record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import click

from flinkish.cli.options.arguments import (
    F,
    complete_file,
    packed,
    parse_seconds,
    savepoint_path_option,
    take,
)
from flinkish.cli.options.program import parallelism_option, secret_args_option
from flinkish.cli.options.restore import new_program_options
from flinkish.cli.options.spark import spark_options
from flinkish.cli.session import Session
from flinkish.client import requests
from flinkish.client.program import absolute
from flinkish.client.restoring import checked
from flinkish.config import working_directory
from flinkish.messages.launch import Program, RestoreSpec
from flinkish.messages.restore_options import RestoreOptions
from flinkish.messages.upgrades import LEAST_HEALTH_BATCHES, Health, UpgradeKind
from flinkish.registry.jobs import JobRecord
from flinkish.upgrade.preparation import Ready, prepare
from flinkish.upgrade.target import Changes

_to_option = click.option(
    "--to",
    "application",
    metavar="APP.py",
    type=click.Path(),
    shell_complete=complete_file,
    help="The new program. Default: the same program. ARGS are its arguments (after -- if "
    "they look like options); default: those that the job was started with.",
)
_health_batches_option = click.option(
    "--health-batches",
    metavar="N",
    type=click.IntRange(min=LEAST_HEALTH_BATCHES),
    default=3,
    show_default=True,
    help="Every query of the new program must commit this many batches.",
)
_health_timeout_option = click.option(
    "--health-timeout",
    metavar="DURATION",
    callback=parse_seconds,
    default="5m",
    show_default=True,
    help="Time limit for its start, and again for these batches.",
)
_timeout_option = click.option(
    "--timeout",
    callback=parse_seconds,
    metavar="DURATION",
    help="Time limit for the job's savepoint, from the request to the job's end. Default: "
    "client.timeout.",
)


@dataclass(frozen=True, kw_only=True)
class NewVersion:
    """The parsed options of this module; the names are those of ``upgrade in-place --help``."""

    program: Program
    restore: RestoreOptions
    parallelism: int | None
    target: str | None
    health_batches: int
    health_timeout: float
    timeout: float | None


def new_version_options(function: F) -> F:
    """Add the options, in the help's order: the fields of :class:`NewVersion`."""
    function = packed(function, "program", partial(take, Program))
    function = _timeout_option(function)  # decorators apply from the last to the first
    function = _health_timeout_option(function)
    function = _health_batches_option(function)
    function = savepoint_path_option()(function)
    function = secret_args_option(function)
    function = spark_options(function)
    function = parallelism_option(function)
    function = new_program_options(function)
    function = _to_option(function)
    return click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)(
        function
    )


def prepared(session: Session, job: JobRecord, given: NewVersion, kind: UpgradeKind) -> Ready:
    """Check the upgrade that the options ask for; see :func:`~.preparation.prepare`."""
    options = replace(checked(given.restore), fork=kind is UpgradeKind.SHADOW)
    # Without a program of its own nothing is relative to the working directory, which may be gone.
    here = working_directory(instead="/" if given.program.application is None else None)
    program = absolute(given.program, here)
    return prepare(
        session,
        job,
        Changes(
            program,
            parallelism=given.parallelism,
            working_directory=None if program.application is None else here,
        ),
        restore=RestoreSpec("", options, given.parallelism),
        target=requests.savepoint_target(session, given.target, job),
        timeout=session.timeout(given.timeout),
        health=Health(given.health_batches, given.health_timeout),
        kind=kind,
    )
