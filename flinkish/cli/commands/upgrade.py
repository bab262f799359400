"""``flinkish upgrade``: upgrade a job's program or Spark, with rollback."""

from __future__ import annotations

import click

from flinkish.cli.base import HELP_NAMES
from flinkish.cli.commands.upgrade_fleet import fleet
from flinkish.cli.commands.upgrade_in_place import in_place
from flinkish.cli.commands.upgrade_rest import resume, rollback
from flinkish.cli.commands.upgrade_shadow import shadow


@click.group("upgrade", context_settings={"help_option_names": HELP_NAMES}, no_args_is_help=False)
def upgrade() -> None:
    """Upgrade a job to another program or another Spark, with rollback."""


upgrade.add_command(in_place)
upgrade.add_command(shadow)
upgrade.add_command(fleet)
upgrade.add_command(resume)
upgrade.add_command(rollback)
