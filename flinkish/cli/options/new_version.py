"""The options of ``upgrade`` about the new version of a job."""

from __future__ import annotations

from typing import Any

import click

from flinkish.cli.options.arguments import (
    F,
    complete_file,
    packed,
    parse_seconds,
    savepoint_path_option,
    take,
)
from flinkish.cli.options.program import parallelism_option, secret_args_option, spark_options
from flinkish.cli.options.restore import new_program_options
from flinkish.client.program import absolute
from flinkish.config import working_directory
from flinkish.messages.launch import Program
from flinkish.messages.upgrades import LEAST_HEALTH_BATCHES, Health
from flinkish.upgrade.target import Changes, NewVersion

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
    help="Time limit for the new program's start, and again for the batches of --health-batches.",
)
_timeout_option = click.option(
    "--timeout",
    callback=parse_seconds,
    metavar="DURATION",
    help="Time limit for the job's savepoint, from the request to the job's end. Default: "
    "client.timeout.",
)


def new_version_options(function: F) -> F:
    """Add the options, in the help's order; the command gets them as the argument ``version``."""
    function = packed(function, "version", _version_of)
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


def _version_of(options: dict[str, Any]) -> NewVersion:
    program = take(Program, options)
    # Without a new program the working directory is not needed, and it may be gone.
    here = working_directory(instead="/" if program.application is None else None)
    program = absolute(program, here)
    return NewVersion(
        changes=Changes(
            program,
            parallelism=options.pop("parallelism"),
            working_directory=None if program.application is None else here,
        ),
        restore=options.pop("restore"),
        target=options.pop("target"),
        timeout=options.pop("timeout"),
        health=Health(options.pop("health_batches"), options.pop("health_timeout")),
    )
