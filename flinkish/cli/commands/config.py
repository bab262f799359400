"""``flinkish config show``: the effective configuration."""

from __future__ import annotations

import click

from flinkish.cli.base import HELP_NAMES, Call, command
from flinkish.cli.documents.installation import ConfigDocument
from flinkish.units import table


@click.group("config", context_settings={"help_option_names": HELP_NAMES}, no_args_is_help=False)
def config() -> None:
    """Show the effective configuration."""


@command("show", exit_codes=(), documents=(ConfigDocument,))
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
def show(call: Call, origin: bool) -> int:
    """Show every key and its value, if it has one; passwords are hidden."""
    with call.session() as session:
        settings = session.config.settings()
        out = session.out
        if out.json:
            document: ConfigDocument = {
                "settings": [
                    {"key": s.key, "value": s.masked, "origin": s.origin} for s in settings
                ]
            }
            out.document(document)
        elif origin:
            rows = [(s.key, "-" if s.masked is None else s.masked, s.origin) for s in settings]
            for line in table(("KEY", "VALUE", "ORIGIN"), rows):
                out.line(line)
        else:
            for setting in settings:
                out.line(f"{setting.key}={setting.masked or ''}")
    return 0


config.add_command(show)
