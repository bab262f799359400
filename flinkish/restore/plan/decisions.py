"""What each starting query takes from the savepoint, and the recipe that follows. Pure.

Queries are planned one after the other, in the order in which the program starts them. Operators
are matched by their ids (:mod:`.operator_matching`), sources by their uids, by what they read, or
by order (:mod:`.source_matching`). A query continues with the logs of the saved query of its name,
or of a plain checkpoint's query; if there is neither, with the logs of the saved query that gives
most of its state (or its positions).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from flinkish.connectors.sources import QueryKey, SavedSource, within
from flinkish.errors import Incompatible
from flinkish.messages.plan import StateVerdict
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.origin.restore_inputs import (
    NewOperator,
    NewQuery,
    SavedOperator,
    SavedQueryFacts,
)
from flinkish.restore.plan.judging import OperatorJudgement, judge_operator
from flinkish.restore.plan.operator_matching import match_operators
from flinkish.restore.plan.source_matching import SourceMatches, check_inputs, match_sources
from flinkish.restore.plan.typed_state import TypedStateRules
from flinkish.restore.recipe import (
    EmptyState,
    FreshSource,
    OriginCheckpoint,
    Recipe,
    TakenSource,
    TakenState,
)


@dataclass(frozen=True)
class QueryPlan:
    """The plan for the state and the positions of one starting query.

    Attributes
    ----------
    base
        The saved query whose logs continue; None: the query starts empty.
    own
        Whether the base is the saved query that continues as this one: the query of the same name,
        or that of a plain checkpoint.
    operators
        None if they could not be read: all of the base's state is then taken unchanged.
    positions
        See :class:`~flinkish.restore.plan.source_matching.SourceMatches`.
    directories
        The directories of the sources in the new checkpoint.
    notes
        Sentences for the user.
    sources
        The matches of the sources.
    """

    name: str
    base: SavedQueryFacts | None
    own: bool = False
    operators: tuple[OperatorJudgement, ...] | None = ()
    positions: tuple[SavedSource | None, ...] | None = None
    directories: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: SourceMatches = field(default_factory=SourceMatches)

    @property
    def unchanged(self) -> bool:
        """Whether the base's whole state is taken unchanged, and no other; also without a base."""
        if self.operators is None or self.base is None:
            return True
        saved = {op.state.ordinal for op in self.base.operators}
        return {plan.operator.node.ordinal for plan in self.operators} == saved and all(
            plan.verdict is StateVerdict.AS_IS and not plan.new_schema for plan in self.operators
        )

    def other_givers(
        self, saved: Sequence[SavedQueryFacts]
    ) -> list[tuple[SavedQueryFacts, list[NewOperator]]]:
        """Return the saved queries besides the base that give something, with their takers."""
        takers: dict[QueryKey, list[NewOperator]] = {
            position.query: [] for position in self.positions or () if position is not None
        }
        for each in self.operators or ():
            if each.taken is not None:
                takers.setdefault(each.taken.query, []).append(each.operator)
        if self.base is not None:
            takers.pop(self.base.key, None)
        return [(query, takers[query.key]) for query in saved if query.key in takers]


def plan_query(
    new: NewQuery,
    saved: Sequence[SavedQueryFacts],
    started: Collection[QueryKey],
    *,
    hasher: HasherVersion = HasherVersion.V3,
    uid_map: Mapping[str, str] | None = None,
    reset: Collection[str] = (),
    partitions: int | None = None,
    migrates_lazily: bool = False,
) -> QueryPlan:
    """Decide what the starting query ``new`` takes from the savepoint.

    ``saved`` are all queries of the savepoint, ``started`` the keys of those that an earlier query
    of this job already continues. ``uid_map`` maps a new uid to an old uid or operator id.
    ``reset`` names the sources that start without their saved position. ``partitions`` is the
    requested number of state partitions, None for the savepoint's. ``migrates_lazily`` says that
    typed state is rewritten when the program updates it, not during the restore. Raises Corrupt if
    the snapshot of a serializer is damaged, Incompatible if the program's operators cannot be read
    although the savepoint's have ids or a source is to be reset, and the errors of
    :func:`~flinkish.restore.plan.operator_matching.match_operators`,
    :func:`~flinkish.restore.plan.source_matching.match_sources` and ``check_inputs``.
    """
    own = next((q for q in saved if q.key in (new.name, None) and q.key not in started), None)
    if new.operators is None:
        return _unread(new, own, _not_of_others(reset, new, saved))
    mapping = uid_map or {}
    matches = match_operators(new, saved, own, hasher=hasher, uid_map=mapping)
    sources = match_sources(
        new, saved, own, matches.taken, hasher=hasher, uid_map=mapping, reset=reset
    )
    check_inputs(new, own, matches.taken, sources)
    base = own or _main_donor(saved, matches.taken, sources.positions or ())
    notes = list(matches.notes)
    rules = TypedStateRules(not migrates_lazily, new.modules)
    plans = []
    for operator in new.operators:
        taken = matches.taken.get(operator.node.ordinal)
        giver = next((q for q in saved if taken is not None and q.key == taken.query), base)
        plans.append(judge_operator(operator, taken, base, partitions, rules, giver))
        if taken is None and base is not None:
            notes.append(
                f"query '{new.name}': {operator.describe()} has no saved state and starts empty"
            )
        elif taken is not None and taken.query not in (new.name, None):
            notes.append(f"query '{new.name}': {operator.describe()} takes {taken.describe()}")
    if base is None:
        notes.append(f"query '{new.name}' is not in the savepoint: starts empty")
    return QueryPlan(
        new.name,
        base,
        own=own is not None,
        operators=tuple(plans),
        positions=sources.positions,
        directories=tuple(source.directory for source in new.sources or ()),
        notes=(*notes, *(sources.notes if base is not None else ())),
        sources=sources,
    )


def _not_of_others(
    names: Collection[str], new: NewQuery, saved: Sequence[SavedQueryFacts]
) -> list[str]:
    """Return the names of sources without those (``QUERY/NAME``) of other saved queries."""
    others = [query.key for query in saved if query.key != new.name]
    return [name for name in names if all(within(name, key) is None for key in others)]


def _unread(new: NewQuery, own: SavedQueryFacts | None, reset: Collection[str]) -> QueryPlan:
    """Return the plan of a query whose operators cannot be read."""
    if own is None:
        note = f"query '{new.name}' is not in the savepoint: starts empty"
        return QueryPlan(new.name, None, operators=None, notes=(note,))
    if reset:
        raise Incompatible(
            f"the plan of query '{new.name}' cannot be read, so none of its sources can "
            "be reset individually",
            hint="the job's log says why its plan could not be read",
        )
    if any(op.operator_id_v3 for op in own.operators):
        raise Incompatible(
            f"the operators of query '{new.name}' cannot be read, so the savepoint's "
            "state cannot be assigned to them",
            hint="the job's log says why its plan could not be read",
        )
    return QueryPlan(new.name, own, own=True, operators=None)


def _main_donor(
    saved: Sequence[SavedQueryFacts],
    taken: Mapping[int, SavedOperator | None],
    positions: Sequence[SavedSource | None],
) -> SavedQueryFacts | None:
    """Return the saved query that gives most: operators count first, then positions."""
    counts = Counter(op.query for op in taken.values() if op is not None)
    if not counts:
        counts = Counter(source.query for source in positions if source is not None)
    if not counts:
        return None
    return max(saved, key=lambda query: counts[query.key])  # the first of equals


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
    ones, by the entry of the source. ``moves`` are the file sources that have read files elsewhere,
    by entry, with the change of the paths in their logs, if any.
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
