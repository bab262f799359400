"""Sources with which a Spark fails after a planned batch that is replayed. Pure."""

from __future__ import annotations

from flinkish.connectors.registry import source_connector
from flinkish.messages.plan import Check
from flinkish.restore.recipe import Recipe, TakenSource
from flinkish.restore.source.restore_inputs import NewQuery


def check_replay(new: NewQuery, recipe: Recipe, spark: str) -> Check | None:
    """Return the warning for a query that fails after its replayed batch, or None.

    ``spark`` is the version of the Spark that restores.
    """
    if not recipe.replays_planned:
        return None
    taken = recipe.sources
    for source in new.sources or ():
        part = None if taken is None else taken[source.entry]
        replayed = taken is None or (
            isinstance(part, TakenSource) and part.origin == recipe.base and part.offset is None
        )
        found = source_connector(source.signature).replayed(spark) if replayed else None
        if found is not None:
            text = f"query '{new.name}': {source.describe()} {found.text}"
            return Check(found.reason, found.outcome, text, found.advice)
    return None
