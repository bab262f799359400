"""The options of ``upgrade`` about the new version of a job: one list of options, their record."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import click

from flinkish.cli.options.arguments import (
    F,
    complete_file,
    parse_seconds,
    savepoint_path_option,
)
from flinkish.cli.options.program import parallelism_option, secret_args_option
from flinkish.cli.options.restore import new_program_options
from flinkish.cli.options.spark import spark_options
from flinkish.cli.session import Session
from flinkish.client import requests
from flinkish.client.program import program_file
from flinkish.client.set_offsets import offsets_of
from flinkish.config import working_directory
from flinkish.messages.launch import RestoreSpec
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

    application: str | None
    arguments: tuple[str, ...]
    allow_non_restored: bool
    uid_map: tuple[tuple[str, str], ...]
    reset_sources: tuple[str, ...]
    sink_ahead: str | None
    accept_lost_rows: bool
    accept_partial: tuple[str, ...]
    offline: bool
    set_offsets: tuple[tuple[str, str], ...]
    accept_repeated_rows: bool
    parallelism: int | None
    master: str | None
    spark_home: str | None
    python: str | None
    client_python: str | None
    conf: Mapping[str, str]
    secret_arguments: tuple[str, ...]
    target: str | None
    health_batches: int
    health_timeout: float
    timeout: float | None


def new_version_options(function: F) -> F:
    """Add the options, in the help's order."""
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
    return prepare(
        session,
        job,
        _changes(given),
        restore=RestoreSpec(
            "",
            allow_non_restored=given.allow_non_restored,
            fork=kind is UpgradeKind.SHADOW,
            uid_map=given.uid_map,
            reset_sources=given.reset_sources,
            sink_ahead=given.sink_ahead,
            parallelism=given.parallelism,
            accept_lost_rows=given.accept_lost_rows,
            accept_partial=given.accept_partial,
            offline=given.offline,
            set_offsets=offsets_of(given.set_offsets),
            accept_repeated_rows=given.accept_repeated_rows,
        ),
        target=requests.savepoint_target(session, given.target, job),
        timeout=session.timeout(given.timeout),
        health=Health(given.health_batches, given.health_timeout),
        kind=kind,
    )


def _changes(given: NewVersion) -> Changes:
    application = given.application
    if application is not None:
        application = program_file(application, working_directory())
    home = given.spark_home
    return Changes(
        application=application,
        arguments=given.arguments or None,
        secret_arguments=given.secret_arguments or None,
        master=given.master,
        spark_home=os.path.abspath(os.path.expanduser(home)) if home else None,
        python=given.python,
        client_python=given.client_python,
        conf=given.conf,
        parallelism=given.parallelism,
        working_directory=None if application is None else working_directory(),
    )
