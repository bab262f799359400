"""``flinkish check``: what a restore would do, before anything is touched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import click

from flinkish.cli.base import Call, command
from flinkish.cli.driver_output import driver_output
from flinkish.cli.plan_table import show_plan
from flinkish.cli.program_options import (
    ProgramOptions,
    parallelism_option,
    program_options,
    program_words,
)
from flinkish.cli.restore_options import (
    RestoreOptions,
    config_flags,
    restore_options,
    restore_spec,
)
from flinkish.cli.submission import asked_partitions, default_name, launch_of
from flinkish.errors import UsageError
from flinkish.jobs import program
from flinkish.restore.plantext import verdict_line


@dataclass(frozen=True)
class CheckOptions(ProgramOptions, RestoreOptions):
    """The options of ``check`` as parsed."""

    output: str | None


@command(
    "check",
    exit_codes=(4, 5, 11, 15),
    context_settings={"allow_interspersed_args": False},
    options_metavar="-s PATH [OPTIONS]",
)
@program_words
@restore_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="Save the plan, for run --plan FILE: bound to the savepoint, the program and Spark.",
)
@parallelism_option
@program_options
def check(call: Call, **options: Any) -> int:
    """Show what restoring a savepoint with a program would do, without doing it.

    The program runs to its end, but its queries are only planned: none is started, no stream is
    read and nothing is written. The plan is the one that run -s carries out. Exit code 0: it can be
    restored; 4: it cannot; 5: it can with -n or another consent.
    """
    given = CheckOptions(**options)
    parallelism = given.parallelism
    flags = {
        **config_flags(given),
        "parallelism.default": None if parallelism is None else str(parallelism),
    }
    with call.session(flags) as session:
        launch = launch_of(given, session.config, os.getcwd())
        spec = restore_spec(given, session.config, parallelism=asked_partitions(launch))
        if spec is None:
            raise UsageError("which savepoint is not said", hint="flinkish check -s PATH APP.py")
        program.check_deploy_mode(launch)
        installation = program.resolve(launch, os.environ)
        call.out.note("planning the program's queries ...")
        from flinkish.restore.dryrun import check_restore  # reads Avro: not for --help
        from flinkish.restore.planfile import make_plan_file, save

        with driver_output(call.out) as show_log:
            plan = check_restore(
                program.pinned(launch, installation),
                installation,
                spec,
                name=default_name(launch),
                environ=os.environ,
                show_log=show_log,
                registry=session.registry,
            )
    if call.out.json:
        call.out.document(plan)
    elif call.out.quiet:
        call.out.line(plan["verdict"])
    else:
        show_plan(plan)
        call.out.line(verdict_line(plan))
    if given.output is not None:  # last: a plan that cannot be saved has been shown
        spark = program.spark_version(installation.spark_home)
        save(make_plan_file(spec, launch, spark, plan), given.output)
    return int(plan["exit_code"])
