"""Non-restored state: the parts of a savepoint that no query of the program takes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkish.connectors.sources import QueryKey, SavedSource
from flinkish.errors import NonRestoredState
from flinkish.restore.plan.decisions import QueryPlan
from flinkish.restore.plan.matching import named_operators
from flinkish.restore.source.restore_inputs import SavedOperator, SavedQueryFacts


@dataclass(frozen=True)
class NonRestored:
    """The parts of a savepoint that no query takes.

    Attributes
    ----------
    queries
        Queries of which nothing is taken.
    operators, sources
        The operators and sources not taken from the other queries.
    """

    queries: tuple[SavedQueryFacts, ...] = ()
    operators: tuple[SavedOperator, ...] = ()
    sources: tuple[SavedSource, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.queries or self.operators or self.sources)

    def lines(self) -> list[str]:
        """Return a description of each part."""
        found = []
        for query in self.queries:
            found += [op.describe() for op in query.operators] or [
                f"the position of {query.describe()} (batch {query.batch_id}, no state)"
            ]
        found += [op.describe() for op in self.operators]
        return found + [source.describe() for source in self.sources]

    @property
    def has_positions(self) -> bool:
        """Whether a later query may have a source with a saved position."""
        return bool(self.queries or self.sources)

    def may_give(self, old: str) -> bool:
        """Return whether a later query may take what ``--uid-map`` calls by this name."""
        sources = [*self.sources, *(s for q in self.queries for s in q.sources or ())]
        return bool(named_operators(self._every, old)) or any(s.uid == old for s in sources)

    def may_be_of(self, name: str) -> bool:
        """Return whether a later query may have an operator of this name that takes saved state.

        One that was saved without a uid may have any name by now.
        """
        ids = {each for op in self._every for each in (op.operator_id_v2, op.operator_id_v3)}
        return name in ids or any(op.uid in (None, name) for op in self._every)

    @property
    def _every(self) -> list[SavedOperator]:
        return [*self.operators, *(op for query in self.queries for op in query.operators)]

    def error(self) -> NonRestoredState:
        """Return the refusal to continue without this state."""
        names = ", ".join(f"'{q.key}'" for q in self.queries)
        hint = (
            f"start a query named {names} (.queryName), as in the savepoint; or " if names else ""
        )
        if any(op.movable for op in self.operators):
            hint += "name the operator that takes it with --uid-map OLD=NEW; or "
        return NonRestoredState(
            "no operator of the program takes this state of the savepoint: "
            + "; ".join(self.lines()),
            hint=hint + "use -n (--allowNonRestoredState) to drop it on purpose",
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


def find_non_restored(saved: Sequence[SavedQueryFacts], plans: Sequence[QueryPlan]) -> NonRestored:
    """Return what ``plans``, those of the queries started so far, do not take.

    A query from which nothing is taken counts as a whole. Of another query its operators count and,
    if the savepoint describes them, its sources.
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
        sources |= {(s.query, s.entry) for s in plan.sources.given_up}
    touched = {plan.base.key for plan in plans if plan.base is not None}
    touched |= {key for key, _ in operators | sources}
    rest = [query for query in saved if query.key in touched]
    return NonRestored(
        queries=tuple(query for query in saved if query.key not in touched),
        operators=tuple(
            op for q in rest for op in q.operators if (op.query, op.ordinal) not in operators
        ),
        sources=tuple(
            s for q in rest for s in q.sources or () if (s.query, s.entry) not in sources
        ),
    )
