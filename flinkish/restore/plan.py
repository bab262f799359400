"""Restore decisions, pure: (what the savepoint offers, what the program starts) -> what happens.

Queries are planned one after the other, as the program starts them. Operators are matched by their
ids, sources by what they are (:mod:`.matching`, :mod:`.positions`); a query goes on with the logs
of the saved query of its name or, where it has none, of the one that most of its state comes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from flinkish.errors import Incompatible, NonRestoredState
from flinkish.jobs.model import JobState
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.matching import match_operators
from flinkish.restore.model import (
    NewOperator,
    NewQuery,
    QueryKey,
    SavedOperator,
    SavedQuery,
    SavedSource,
)
from flinkish.restore.positions import check_inputs, match_sources


class Verdict(str, Enum):
    """What happens to an operator's state."""

    AS_IS = "as-is"
    RENUMBERED = "renumbered"  # the same state under another ordinal, or in another query
    NEW = "new"  # starts empty


@dataclass(frozen=True)
class OperatorPlan:
    """The verdict for one operator of a starting query."""

    operator: NewOperator
    verdict: Verdict
    taken: SavedOperator | None = None


@dataclass(frozen=True)
class QueryPlan:
    """How one starting query gets its state.

    ``base`` is the saved query whose logs it goes on with (None: it starts empty), ``own`` is True
    where that is the one of its name. ``operators`` is None where they could not be read: all of
    the base's state is taken as it is. ``positions``: see
    :class:`~flinkish.restore.positions.SourceMatches`; ``directories`` are the sources' in the new
    checkpoint. ``notes`` are sentences for the user.
    """

    name: str
    base: SavedQuery | None
    own: bool = False
    operators: tuple[OperatorPlan, ...] | None = ()
    positions: tuple[SavedSource | None, ...] | None = None
    directories: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def unchanged(self) -> bool:
        """True when the base's state is taken as it is, all of it and nothing else."""
        if self.operators is None or self.base is None:
            return True
        saved = {op.ordinal for op in self.base.operators}
        return {plan.operator.ordinal for plan in self.operators} == saved and all(
            plan.verdict is Verdict.AS_IS for plan in self.operators
        )


def plan_query(
    new: NewQuery,
    saved: Sequence[SavedQuery],
    started: Collection[QueryKey],
    *,
    hasher: HasherVersion = HasherVersion.V3,
    uid_map: Mapping[str, str] | None = None,
) -> QueryPlan:
    """Decide what the starting query ``new`` takes from the savepoint.

    Parameters
    ----------
    saved: all queries of the savepoint, or the one (key None) of a plain Spark checkpoint.
    started: keys of those that a query of this job goes on as already.
    uid_map: new uid -> old uid or operator id (``--uid-map``).

    Raises
    ------
    Incompatible: see :func:`~flinkish.restore.matching.match_operators`,
        :func:`~flinkish.restore.positions.match_sources` and ``check_inputs``; or the program's
        operators cannot be read while the savepoint's have ids.
    """
    own = next((q for q in saved if q.key in (new.name, None) and q.key not in started), None)
    if new.operators is None:
        return _unread(new, own)
    mapping = uid_map or {}
    matches = match_operators(new, saved, own, hasher=hasher, uid_map=mapping)
    sources = match_sources(new, saved, own, matches.taken, hasher=hasher, uid_map=mapping)
    check_inputs(new, own, matches.taken, sources)
    base = own or _main_donor(saved, matches.taken, sources.positions or ())
    notes = list(matches.notes)
    plans = []
    for operator in new.operators:
        taken = matches.taken.get(operator.ordinal)
        plans.append(OperatorPlan(operator, _verdict(operator, taken, base), taken))
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
    )


def _unread(new: NewQuery, own: SavedQuery | None) -> QueryPlan:
    """The plan of a query whose operators cannot be read."""
    if own is None:
        note = f"query '{new.name}' is not in the savepoint: starts empty"
        return QueryPlan(new.name, None, operators=None, notes=(note,))
    if any(op.operator_id_v3 for op in own.operators):
        raise Incompatible(
            f"the operators of query '{new.name}' cannot be read, so the state in the savepoint "
            "cannot be given to them",
            hint="the job's log says why its plan could not be read",
        )
    return QueryPlan(new.name, own, own=True, operators=None)


def _verdict(
    operator: NewOperator, taken: SavedOperator | None, base: SavedQuery | None
) -> Verdict:
    if taken is None:
        return Verdict.NEW
    same = base is not None and taken.query == base.key and taken.ordinal == operator.ordinal
    return Verdict.AS_IS if same else Verdict.RENUMBERED


def _main_donor(
    saved: Sequence[SavedQuery],
    taken: Mapping[int, SavedOperator | None],
    positions: Sequence[SavedSource | None],
) -> SavedQuery | None:
    """The saved query that gives most: state first, then positions."""
    counts = Counter(op.query for op in taken.values() if op is not None)
    if not counts:
        counts = Counter(source.query for source in positions if source is not None)
    if not counts:
        return None
    return max(saved, key=lambda query: counts[query.key])  # of equals the first


@dataclass(frozen=True)
class Untaken:
    """What of a savepoint no query has taken: whole queries, operators and sources of others."""

    queries: tuple[SavedQuery, ...] = ()
    operators: tuple[SavedOperator, ...] = ()
    sources: tuple[SavedSource, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.queries or self.operators or self.sources)

    def lines(self) -> list[str]:
        """A description of each."""
        found = []
        for query in self.queries:
            found += [op.describe() for op in query.operators] or [
                f"the position of {query.describe()} (batch {query.batch_id}, no state)"
            ]
        found += [op.describe() for op in self.operators]
        return found + [source.describe() for source in self.sources]

    def error(self) -> NonRestoredState:
        """The refusal to go on without it."""
        names = ", ".join(f"'{q.key}'" for q in self.queries)
        hint = (
            f"start a query named {names} (.queryName), as in the savepoint; or " if names else ""
        )
        if any(op.movable for op in self.operators):
            hint += "tell which operator takes it with --uid-map OLD=NEW; or "
        return NonRestoredState(
            "no operator of the program takes this state of the savepoint: "
            + "; ".join(self.lines()),
            hint=hint + "give -n (--allowNonRestoredState) to drop it on purpose",
            unmatched=self.lines(),
            operators=[_facts(op) for q in self.queries for op in q.operators]
            + [_facts(op) for op in self.operators],
        )


def _facts(operator: SavedOperator) -> dict[str, object]:
    return {
        "query": operator.query,
        "uid": operator.uid,
        "operator_id": operator.operator_id_v3,
        "kind": operator.kind,
        "rows": operator.rows,
        "bytes": operator.bytes,
    }


def untaken(saved: Sequence[SavedQuery], plans: Sequence[QueryPlan]) -> Untaken:
    """What is left after ``plans``, those of the queries started so far.

    A query that nothing was taken from is left as a whole; of another one its operators and, where
    it says what they are, its sources.
    """
    operators: set[tuple[QueryKey, int]] = set()
    sources: set[tuple[QueryKey, int]] = set()
    for plan in plans:
        if plan.base is None:
            continue
        for op in plan.operators or ():
            if op.taken is not None:
                operators.add((op.taken.query, op.taken.ordinal))
        if plan.operators is None:
            operators |= {(plan.base.key, op.ordinal) for op in plan.base.operators}
        if plan.positions is None:
            sources |= {(plan.base.key, s.entry) for s in plan.base.sources or ()}
        else:
            sources |= {(s.query, s.entry) for s in plan.positions if s is not None}
    touched = {plan.base.key for plan in plans if plan.base is not None}
    touched |= {key for key, _ in operators | sources}
    rest = [query for query in saved if query.key in touched]
    return Untaken(
        queries=tuple(query for query in saved if query.key not in touched),
        operators=tuple(
            op for q in rest for op in q.operators if (op.query, op.ordinal) not in operators
        ),
        sources=tuple(
            s for q in rest for s in q.sources or () if (s.query, s.entry) not in sources
        ),
    )


@dataclass(frozen=True)
class OtherRun:
    """A job that ran the same Spark query id, as the registry knows it."""

    job_id: str
    state: JobState
    last_batch: int | None


@dataclass(frozen=True)
class QueryIdentity:
    """Whether the restored query keeps the savepoint's query id, and why."""

    keep: bool
    reason: str


def decide_query_id(batch_id: int, runs: Sequence[OtherRun], *, fork: bool) -> QueryIdentity:
    """Same query id or a new one.

    Sinks remember (query id, batch id): Delta's transaction ids, user code in ``foreachBatch``.
    A job that simply goes on keeps the id and goes on counting. When the original goes on too,
    or has gone past this savepoint, the same pair would stand for other data, and such a sink
    would take the new job's batches for repetitions: it must get a new id.

    Parameters
    ----------
    batch_id: the savepoint's committed batch of this query.
    runs: all other jobs that ever ran this query id.
    fork: ``--fork``.
    """
    if fork:
        return QueryIdentity(False, "asked for by --fork")
    for run in runs:
        if not run.state.is_final:
            return QueryIdentity(False, f"job {run.job_id} is still {run.state.value} with it")
    for run in runs:
        if run.last_batch is not None and run.last_batch > batch_id:
            return QueryIdentity(
                False,
                f"job {run.job_id} went on to batch {run.last_batch} after batch {batch_id}",
            )
    return QueryIdentity(True, "the job it comes from ended with this batch")
