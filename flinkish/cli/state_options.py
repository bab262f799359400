"""What the commands on state share: the savepoint, and the state in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flinkish.errors import UsageError

if TYPE_CHECKING:
    from flinkish.savepoint.reader import Savepoint
    from flinkish.savepoint.staterows import SavedState

savepoint_argument = click.argument("path", metavar="SAVEPOINT", type=click.Path())
state_argument = click.argument("name", metavar="[QUERY/]UID[/STATE]")


def open_named(savepoint: Savepoint, name: str) -> SavedState:
    """The state that ``[QUERY/]UID[/STATE]`` means; the engine's libraries are imported here only.

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
