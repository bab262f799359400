"""Parts of a savepoint that no query takes, and queries of the program that it leaves out. Pure.

A savepoint covers a whole job, and records which queries of the job it does not have
(``SavepointJob.left_out``). A query of the program that the savepoint leaves out is not a new one.
If it starts empty, it processes its input from the beginning again, which needs consent if the
query was, or may have been, about to start in the saved job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from flinkish.connectors.sources import QueryKey, SavedSource, within
from flinkish.errors import ConsentNeeded, NonRestoredState
from flinkish.messages.plan import Check, RestoreOutcome, RestorePlan, StateVerdict
from flinkish.messages.requests import LeftOut
from flinkish.restore.origin.restore_inputs import SavedOperator, SavedQueryFacts
from flinkish.restore.plan.decisions import QueryPlan
from flinkish.restore.plan.operator_matching import named_operators, named_sources

_CONSENT = "use -n to start it from the beginning, or restore a later savepoint"


@dataclass(frozen=True)
class NonRestored:
    """The parts of a savepoint that no query takes.

    Attributes
    ----------
    queries
        Queries of which nothing is taken.
    operators, sources
        Of all other queries, the operators and sources that are not taken.
    """

    queries: tuple[SavedQueryFacts, ...] = ()
    operators: tuple[SavedOperator, ...] = ()
    sources: tuple[SavedSource, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.queries or self.operators or self.sources)

    def lines(self) -> list[str]:
        """Return a description of each part."""
        lines = []
        for query in self.queries:
            lines += [op.describe() for op in query.operators] or [
                f"the position of {query.describe()} (batch {query.batch_id}, no state)"
            ]
        lines += [op.describe() for op in self.operators]
        return lines + [source.describe() for source in self.sources]

    def beyond(self, plan: RestorePlan) -> NonRestored:
        """Return the parts that a plan of all queries does not drop."""
        dropped = StateVerdict.DROPPED.value
        states = [row.origin for row in plan.operators if row.verdict == dropped]
        ordinals = {(o.query, o.ordinal) for o in states if o is not None}
        lines = [row.origin for row in plan.sources if row.verdict == dropped]
        entries = {(o.query, o.entry) for o in lines if o is not None}
        continued = {row.origin for row in plan.queries if row.from_batch is not None}
        operators = [op for op in self._every if (op.query, op.state.ordinal) not in ordinals]
        sources = [each for each in self._sources if (each.query, each.entry) not in entries]
        kept = continued | {op.query for op in operators} | {each.query for each in sources}
        return NonRestored(
            tuple(query for query in self.queries if query.key in kept),
            tuple(op for op in self.operators if op in operators),
            tuple(each for each in self.sources if each in sources),
        )

    def may_read(self, name: str) -> bool:
        """Return whether a source of this name, in a later query, may take one of the positions.

        It may if the name fits a saved source that no query has taken so far, if what such a source
        reads is unknown, or if it is any ``QUERY/NAME`` of a query of which nothing is taken.
        """
        if any(within(name, query.key) is not None for query in self.queries):
            return True
        unknown = any(query.sources is None for query in self.queries)
        return unknown or any(s.signature is None or s.answers_to(name) for s in self._sources)

    def may_give(self, old: str) -> bool:
        """Return whether a later query may take what ``--uid-map`` calls by this name."""
        return bool(named_operators(self._every, old) or named_sources(self._sources, old))

    def may_be_of(self, name: str) -> bool:
        """Return whether a later query may have an operator of this name that takes saved state.

        An operator that was saved without a uid may have any name by now. ``QUERY/NAME`` may name
        an operator if nothing is taken of the query.
        """
        if any(within(name, query.key) is not None for query in self.queries):
            return True
        ids = {each for op in self._every for each in (op.operator_id_v2, op.operator_id_v3)}
        return name in ids or any(op.uid in (None, name) for op in self._every)

    @property
    def _every(self) -> list[SavedOperator]:
        return [*self.operators, *(op for query in self.queries for op in query.operators)]

    @property
    def _sources(self) -> list[SavedSource]:
        return [*self.sources, *(s for query in self.queries for s in query.sources or ())]

    def error(self) -> NonRestoredState:
        """Return the refusal to continue without these parts."""
        lines = self.lines()
        several = len(lines) > 1
        parts = "these parts" if several else "this part"
        names = [f"'{q.key}'" for q in self.queries if q.key is not None]
        hint = ""
        if names:
            called = "a query named" if len(names) == 1 else "queries named"
            hint = f"start {called} {', '.join(names)} (.queryName), as in the savepoint; or "
        if any(op.movable for op in self.operators):
            state = "each state" if several else "it"
            hint += f"name the operator that takes {state} with --uid-map OLD=NEW; or "
        return NonRestoredState(
            f"nothing in the program takes {parts} of the savepoint: {'; '.join(lines)}",
            hint=hint
            + f"use -n (--allowNonRestoredState) to drop {'them' if several else 'it'} on purpose",
            unmatched=lines,
            operators=[_facts(op) for q in self.queries for op in q.operators]
            + [_facts(op) for op in self.operators],
        )


def _facts(operator: SavedOperator) -> dict[str, object]:
    return {
        "query": operator.query,
        "uid": operator.uid,
        "operator_id": operator.operator_id_v3,
        "kind": operator.state.kind,
        "rows": operator.facts.rows,
        "bytes": operator.state.bytes,
    }


@dataclass(frozen=True)
class Taken:
    """The parts of a savepoint that queries of the job's earlier drivers took.

    Attributes
    ----------
    queries
        Queries that were taken as a whole.
    operators, sources
        The query and the ordinal of each operator, the query and the entry of each source.
    continued
        The saved queries that the job's queries continue; a plain checkpoint's under any name.
    """

    queries: frozenset[QueryKey] = frozenset()
    operators: frozenset[tuple[QueryKey, int]] = frozenset()
    sources: frozenset[tuple[QueryKey, int]] = frozenset()
    continued: frozenset[QueryKey] = frozenset()


#: For a job that starts for the first time.
NOTHING_TAKEN = Taken()


def taken_before(plans: Mapping[str, RestorePlan | None]) -> Taken:
    """Return what the queries of earlier drivers took, or may have taken, by their recorded plans.

    ``plans`` has None for a query whose newest run was not restored.
    """
    whole: set[QueryKey] = set()
    operators: set[tuple[QueryKey, int]] = set()
    sources: set[tuple[QueryKey, int]] = set()
    continued: set[QueryKey] = set()
    for name, plan in plans.items():
        if plan is None:
            # Its first run may have been restored: from the query of its name, or from a plain
            # checkpoint.
            whole |= {name, None}
            continued |= {name, None}
            continue
        # The user agreed to what a plan of all queries drops; a plan of one query only lists it.
        passed = None if plan.complete else StateVerdict.DROPPED.value
        states = [row.origin for row in plan.operators if row.verdict != passed]
        operators |= {(o.query, o.ordinal) for o in states if o and o.ordinal is not None}
        lines = [row.origin for row in plan.sources if row.verdict != passed]
        sources |= {(o.query, o.entry) for o in lines if o and o.entry is not None}
        # If Spark's plan of a query could not be read, the query took all of the saved one.
        read = {op.query for op in plan.operators} | {source.query for source in plan.sources}
        begun = [row for row in plan.queries if row.from_batch is not None]
        whole |= {row.origin for row in begun if row.name not in read}
        continued |= {row.origin for row in begun if row.origin in (row.name, None)}
    return Taken(frozenset(whole), frozenset(operators), frozenset(sources), frozenset(continued))


def find_non_restored(
    saved: Sequence[SavedQueryFacts], plans: Sequence[QueryPlan], before: Taken = NOTHING_TAKEN
) -> NonRestored:
    """Return what no plan takes; ``plans`` are those of the queries started so far.

    A query from which nothing is taken counts as a whole. Of any other query, the operators count
    and, if the savepoint describes them, the sources.

    ``before`` is what the job's earlier drivers took.
    """
    saved = [query for query in saved if query.key not in before.queries]
    operators = set(before.operators)
    sources = set(before.sources)
    for plan in plans:
        if plan.base is None:
            continue
        for op in plan.operators or ():
            if op.taken is not None:
                operators.add((op.taken.query, op.taken.state.ordinal))
        if plan.operators is None:
            operators |= {(plan.base.key, op.state.ordinal) for op in plan.base.operators}
        if plan.positions is None:
            sources |= {(plan.base.key, s.entry) for s in plan.base.sources or ()}
        else:
            sources |= {(s.query, s.entry) for s in plan.positions if s is not None}
        sources |= {(s.query, s.entry) for s in plan.sources.given_up}
    touched = {plan.base.key for plan in plans if plan.base is not None}
    touched |= {key for key, _ in operators | sources}
    rest = [query for query in saved if query.key in touched]
    return NonRestored(
        queries=tuple(query for query in saved if query.key not in touched),
        operators=tuple(
            op for q in rest for op in q.operators if (op.query, op.state.ordinal) not in operators
        ),
        sources=tuple(
            s for q in rest for s in q.sources or () if (s.query, s.entry) not in sources
        ),
    )


def check_left_out(
    name: str, left_out: Sequence[LeftOut], *, complete: bool, agreed: bool
) -> Check | None:
    """Check a query of the program that the savepoint does not have.

    ``left_out`` are the queries that the savepoint says it leaves out; ``complete`` says whether
    the job had started all its queries when the savepoint was taken, ``agreed`` whether ``-n`` was
    given. The outcome is consent-needed (or with ``agreed`` a note) for a query that the job was or
    may have been starting, and a note for one that had ended before it committed anything. Returns
    None for a new query.
    """
    outcome = RestoreOutcome.NOTE if agreed else RestoreOutcome.CONSENT
    advice = "" if agreed else _CONSENT
    starts = "starts" if agreed else "would start"
    query = next((each for each in left_out if each.query == name), None)
    if query is not None:
        text = f"query '{name}' of the saved job is not in the savepoint: {query.reason}; it "
        text += f"{starts if query.pending else 'starts'} empty"
        if not query.pending:
            return Check("left-out", RestoreOutcome.NOTE, text)
        return Check("left-out", outcome, text, advice)
    if complete:
        return None
    return Check(
        "left-out",
        outcome,
        f"the savepoint was taken before its job had started all its queries: '{name}' may have "
        f"been one of them, and {starts} empty",
        advice,
    )


@dataclass(frozen=True)
class LostOrigin:
    """The unreadable origin of a job that ended before it had started all its queries.

    Attributes
    ----------
    path
        The savepoint, or the checkpoints of the previous job.
    why
        What is wrong with it.
    names
        The origin's queries that the job had not started; None if any query may be one of them.
    """

    job_id: str
    path: str
    why: str
    names: Collection[str | None] | None = None

    def refusal(self, name: str) -> ConsentNeeded | None:
        """Return the refusal to start a query empty if the origin may have it, else None."""
        if self.names is not None and name not in self.names:
            return None
        return ConsentNeeded(
            f"job {self.job_id} was started from {self.path}, and ended before it had started all "
            f"its queries: '{name}' may be one of them, and would start empty, because "
            f"{self.path} can no longer be read: {self.why}",
            hint="to restart from a savepoint that has it, run: "
            f"flinkish restart {self.job_id} --from SAVEPOINT",
            reasons=["left-out"],
        )
