"""``flinkish upgrade resume`` and ``rollback``: finish or undo an interrupted upgrade."""

from __future__ import annotations

from collections.abc import Mapping

import click

from flinkish.cli.base import Call, command
from flinkish.cli.commands.upgrade_result import show_end
from flinkish.cli.options.arguments import F
from flinkish.cli.options.program import conf_option, secret_args_option
from flinkish.cli.options.restore import sink_ahead_option
from flinkish.upgrade import workflows
from flinkish.upgrade.preparation import Secrets


def _left_options(function: F) -> F:
    """Add what takes over an interrupted upgrade: its id, --force, and its secrets."""
    function = secret_args_option(function)
    function = conf_option(function)
    function = click.option(
        "--force", is_flag=True, help="Confirm that its process, on another host, is gone."
    )(function)
    return click.argument("upgrade_id", metavar="ID")(function)


@command("resume", exit_codes=(10, 12, 13, 14, 15))
@_left_options
def resume(
    call: Call,
    upgrade_id: str,
    force: bool,
    conf: Mapping[str, str],
    secret_arguments: tuple[str, ...],
) -> int:
    """Finish an upgrade whose command was interrupted.

    flinkish status JOB shows the ID; a prefix is enough. Secrets must be given again.
    """
    with call.session() as session:
        secrets = Secrets(conf, secret_arguments or None)
        return show_end(session, workflows.resume(session, upgrade_id, secrets, force=force))


@command("rollback", exit_codes=(10, 12, 13, 14, 15))
@_left_options
@sink_ahead_option
def rollback(
    call: Call,
    upgrade_id: str,
    force: bool,
    conf: Mapping[str, str],
    secret_arguments: tuple[str, ...],
    sink_ahead: str | None,
) -> int:
    """Undo an upgrade whose command was interrupted: the old program resumes.

    Exits with 0 when it does. Secrets must be given again. --sink-ahead defaults to the
    upgrade's own; if others have written to a table that should be rolled back, use
    --sink-ahead rebase.
    """
    with call.session() as session:
        secrets = Secrets(conf, secret_arguments or None)
        result = workflows.rollback(
            session, upgrade_id, secrets, force=force, sink_ahead=sink_ahead
        )
        return show_end(session, result)
