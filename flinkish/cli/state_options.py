"""What the commands on state share: the savepoint, the state in it, and the Spark they may need."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from flinkish.cli.arguments import F
from flinkish.cli.program_options import pairs
from flinkish.cli.session import Session
from flinkish.errors import UsageError
from flinkish.jobs import program
from flinkish.jobs.model import Launch
from flinkish.jobs.program import Installation

if TYPE_CHECKING:
    from flinkish.savepoint.reader import Savepoint
    from flinkish.savepoint.staterows import SavedState

_OPTIONS = (
    click.option("-m", "--master", "--jobmanager", "master", metavar="URL", help="Spark's master."),
    click.option(
        "--spark-home",
        metavar="DIR",
        type=click.Path(),
        help="The Spark to use. Default: SPARK_HOME, else the installed pyspark.",
    ),
    click.option(
        "-pyexec", "--pyExecutable", "python", metavar="PYTHON", help="Python of the executors."
    ),
    click.option(
        "-pyclientexec",
        "--pyClientExecutable",
        "client_python",
        metavar="PYTHON",
        help="Python of the driver.",
    ),
    click.option(
        "--conf",
        metavar="KEY=VALUE",
        multiple=True,
        callback=pairs,
        help="A Spark setting (repeatable).",
    ),
)

savepoint_argument = click.argument("path", metavar="SAVEPOINT", type=click.Path())
state_argument = click.argument("name", metavar="UID[/STATE]")


def spark_options(function: F) -> F:
    """Add the options that say which Spark runs the application."""
    for option in reversed(_OPTIONS):  # decorators apply from the last to the first
        function = option(function)
    return function


def prepared(session: Session, options: Mapping[str, Any]) -> tuple[Launch, Installation]:
    """The Spark application to start, by the options of :func:`spark_options`. LaunchFailed."""
    launch = Launch(
        application=None,
        options=session.config.to_options(),
        working_directory=os.getcwd(),
        **options,
    )
    program.check_deploy_mode(launch)
    installation = program.resolve(launch, os.environ)
    return program.pinned(launch, installation), installation


def open_named(savepoint: Savepoint, name: str) -> SavedState:
    """The state that ``UID[/STATE]`` means; the engine's libraries are imported here only.

    Raises UsageError where there is no such state, or a library is missing.
    """
    try:
        from flinkish.savepoint.staterows import open_state
    except ImportError as error:
        raise UsageError(
            f"state cannot be read here: {error}",
            hint="install what it needs: pip install 'flinkish[engine]'",
        ) from error
    return open_state(savepoint, name)
