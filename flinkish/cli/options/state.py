"""What the commands on state share: the savepoint, and the state in it."""

from __future__ import annotations

import click

savepoint_argument = click.argument("path", metavar="SAVEPOINT", type=click.Path())
state_argument = click.argument("name", metavar="[QUERY/]UID[/STATE]")
