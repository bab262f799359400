"""``flinkish state``: the state in savepoints, as data."""

from __future__ import annotations

import click

from flinkish.cli.base import HELP_NAMES
from flinkish.cli.commands.state_export import export
from flinkish.cli.commands.state_show import show


@click.group("state", context_settings={"help_option_names": HELP_NAMES}, no_args_is_help=False)
def state() -> None:
    """Show and export the state in savepoints."""


state.add_command(show)
state.add_command(export)
