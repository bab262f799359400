"""Restore decisions, pure: (what the savepoint offers, what the program starts) -> what happens.

Queries are planned one after the other, as the program starts them. Operators are matched by their
ids, sources by what they are (:mod:`.matching`, :mod:`.positions`); a query goes on with the logs
of the saved query of its name or, where it has none, of the one that most of its state comes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from flinkish.errors import Incompatible
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.plan.judging import OperatorJudgement, judge_operator
from flinkish.restore.plan.matching import match_operators
from flinkish.restore.plan.positions import SourceMatches, check_inputs, match_sources
from flinkish.restore.plan.verdicts import Verdict
from flinkish.restore.source.restore_inputs import (
    NewQuery,
    QueryKey,
    SavedOperator,
    SavedQueryFacts,
    SavedSource,
)


@dataclass(frozen=True)
class QueryPlan:
    """How one starting query gets its state.

    ``base`` is the saved query whose logs it goes on with (None: it starts empty), ``own`` is True
    where that is the one of its name. ``operators`` is None where they could not be read: all of
    the base's state is taken as it is. ``positions``: see
    :class:`~flinkish.restore.plan.positions.SourceMatches`; ``directories`` are the sources' in the
    new checkpoint, ``sources`` is how they were found. ``notes`` are sentences for the user.
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
        """True when the base's state is taken as it is, all of it and nothing else."""
        if self.operators is None or self.base is None:
            return True
        saved = {op.ordinal for op in self.base.operators}
        return {plan.operator.ordinal for plan in self.operators} == saved and all(
            plan.verdict is Verdict.AS_IS and not plan.new_schema for plan in self.operators
        )


def plan_query(
    new: NewQuery,
    saved: Sequence[SavedQueryFacts],
    started: Collection[QueryKey],
    *,
    hasher: HasherVersion = HasherVersion.V3,
    uid_map: Mapping[str, str] | None = None,
    reset: Collection[str] = (),
    partitions: int | None = None,
) -> QueryPlan:
    """Decide what the starting query ``new`` takes from the savepoint.

    Parameters
    ----------
    saved: all queries of the savepoint, or the one (key None) of a plain Spark checkpoint.
    started: keys of those that a query of this job goes on as already.
    uid_map: new uid -> old uid or operator id (``--uid-map``).
    reset: names of sources that start afresh (``--reset-source``).
    partitions: the number of state partitions that was asked for, None for the savepoint's.

    Raises
    ------
    Incompatible: see :func:`~flinkish.restore.plan.matching.match_operators`,
        :func:`~flinkish.restore.plan.positions.match_sources` and ``check_inputs``; or the
        program's operators cannot be read while the savepoint's have ids.
    """
    own = next((q for q in saved if q.key in (new.name, None) and q.key not in started), None)
    if new.operators is None:
        return _unread(new, own, reset)
    mapping = uid_map or {}
    matches = match_operators(new, saved, own, hasher=hasher, uid_map=mapping)
    sources = match_sources(
        new, saved, own, matches.taken, hasher=hasher, uid_map=mapping, reset=reset
    )
    check_inputs(new, own, matches.taken, sources)
    base = own or _main_donor(saved, matches.taken, sources.positions or ())
    notes = list(matches.notes)
    plans = []
    for operator in new.operators:
        taken = matches.taken.get(operator.ordinal)
        plans.append(judge_operator(operator, taken, base, partitions))
        if taken is None and base is not None:
            notes.append(f"query '{new.name}': {operator.describe()} has no state, it starts empty")
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


def _unread(new: NewQuery, own: SavedQueryFacts | None, reset: Collection[str]) -> QueryPlan:
    """The plan of a query whose operators cannot be read."""
    if own is None:
        note = f"query '{new.name}' is not in the savepoint: starts empty"
        return QueryPlan(new.name, None, operators=None, notes=(note,))
    if reset:
        raise Incompatible(
            f"the plan of query '{new.name}' cannot be read, so that none of its sources can start "
            "afresh alone",
            hint="the job's log says why its plan could not be read",
        )
    if any(op.operator_id_v3 for op in own.operators):
        raise Incompatible(
            f"the operators of query '{new.name}' cannot be read, so the state in the savepoint "
            "cannot be given to them",
            hint="the job's log says why its plan could not be read",
        )
    return QueryPlan(new.name, own, own=True, operators=None)


def _main_donor(
    saved: Sequence[SavedQueryFacts],
    taken: Mapping[int, SavedOperator | None],
    positions: Sequence[SavedSource | None],
) -> SavedQueryFacts | None:
    """The saved query that gives most: state first, then positions."""
    counts = Counter(op.query for op in taken.values() if op is not None)
    if not counts:
        counts = Counter(source.query for source in positions if source is not None)
    if not counts:
        return None
    return max(saved, key=lambda query: counts[query.key])  # of equals the first
