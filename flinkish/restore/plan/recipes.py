"""From the plan of a query's restore to the recipe of its checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flinkish.connectors.sources import QueryKey, SavedSource
from flinkish.restore.plan.decisions import QueryPlan
from flinkish.restore.recipe import (
    EmptyState,
    FreshSource,
    OriginCheckpoint,
    Recipe,
    TakenSource,
    TakenState,
)


def recipe_for(
    plan: QueryPlan,
    origins: Mapping[QueryKey, OriginCheckpoint],
    empty: Mapping[int, EmptyState],
    *,
    rebase_to: int | None = None,
    rewritten: bool = False,
    offsets: Mapping[int, str] | None = None,
    moves: Mapping[int, tuple[str, str] | None] | None = None,
) -> Recipe:
    """Return the recipe that carries out ``plan``, which must have a base.

    ``origins`` are the files of every saved query. ``empty`` has the empty state of operators
    without saved state, by ordinal. ``rebase_to`` is the committed batch of the checkpoint, see
    :class:`~flinkish.restore.plan.sinks.SinkPlan`. ``rewritten`` says that the engine rewrites that
    checkpoint, and writes new schemas itself. ``offsets`` are the positions that replace saved
    ones, by the entry of the source. ``moves`` are the file sources whose files were moved, by
    entry, with the change of the paths in their logs, if any.
    """
    assert plan.base is not None
    keys: list[QueryKey] = [plan.base.key]

    def origin(key: QueryKey) -> int:
        if key not in keys:
            keys.append(key)
        return keys.index(key)

    states: dict[int, TakenState | EmptyState] | None = None
    if not plan.unchanged:
        states = {}
        for verdict in plan.operators or ():
            ordinal, taken = verdict.operator.node.ordinal, verdict.taken
            if taken is None:
                states[ordinal] = empty[ordinal]
            else:
                new_schema = verdict.new_schema and not rewritten
                kind = verdict.operator.node.kind if verdict.other_kind else None
                saved = taken.state.ordinal
                states[ordinal] = TakenState(origin(taken.query), saved, new_schema, kind)
    sources: tuple[TakenSource | FreshSource, ...] | None = None
    set_to, moved = offsets or {}, moves or {}
    # Unchanged sources have no positions of their own: they go on with the base's log.
    written = plan.positions is None and bool(set_to or moved)
    positions = plan.sources.matched if written else plan.positions
    if positions is not None:
        entries: list[TakenSource | FreshSource] = []
        for entry, position in enumerate(positions):
            target = plan.directories[entry]
            more = set_to.get(entry), moved.get(entry)
            entries.append(_entry(position, target, origin, *more))
        sources = tuple(entries)
    return Recipe(
        tuple(origins[key] for key in keys), states=states, sources=sources, rebase_to=rebase_to
    )


def _entry(
    position: SavedSource | None,
    target: str,
    origin: Callable[[QueryKey], int],
    offset: str | None,
    move: tuple[str, str] | None,
) -> TakenSource | FreshSource:
    if position is None:
        return FreshSource()
    place = origin(position.query), position.entry, position.directory
    return TakenSource(*place, target, offset, move)
