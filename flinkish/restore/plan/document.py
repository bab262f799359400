"""The plan of a restore as recorded, shown and saved (:mod:`flinkish.messages.plan`). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from flinkish.connectors.source_plan import SourcePlan
from flinkish.errors import ConsentNeeded, Incompatible
from flinkish.messages.plan import (
    Check,
    HistoryShift,
    KeptQueryId,
    OperatorOrigin,
    OperatorRow,
    PlanVerdict,
    QueryRow,
    Refusal,
    RestoreOutcome,
    RestorePlan,
    SinkRow,
    SourceOrigin,
    SourceRow,
    StateVerdict,
)
from flinkish.messages.restore_options import RestoreOptions
from flinkish.restore.origin.restore_inputs import SavedOperator
from flinkish.restore.plan.judging import OperatorJudgement, advice_for, ask
from flinkish.restore.plan.non_restored_state import NonRestored
from flinkish.restore.plan.query_restore import QueryRestore
from flinkish.restore.plan.sinks import SinkPlan

OK: PlanVerdict = "ok"
CONSENT: PlanVerdict = "consent-needed"
INCOMPATIBLE: PlanVerdict = "incompatible"
#: The exit code for each verdict on a whole restore.
EXIT_CODES = {OK: 0, CONSENT: 5, INCOMPATIBLE: 4}
_ORDER = (OK, CONSENT, INCOMPATIBLE)


def restore_plan(
    queries: Sequence[QueryRestore],
    left: NonRestored,
    options: RestoreOptions,
    executors: frozenset[StateVerdict],
) -> RestorePlan:
    """Return the plan of a whole restore.

    ``left`` are the parts of the savepoint that no query takes, ``executors`` the verdicts that the
    state-migration engine can carry out.
    """
    plan = RestorePlan(
        queries=tuple(_query(query) for query in queries),
        operators=(
            *(row for query in queries for row in _operators(query, options, executors)),
            *(_dropped(op, options) for op in _left_operators(left)),
        ),
        sources=(
            *(_source(query.name, row) for query in queries for row in query.sources),
            *_left_sources(queries, left, options),
        ),
        sinks=tuple(_sink(q.name, q.sink) for q in queries if q.sink is not None),
        pins=tuple(pin for query in queries for pin in query.pins),
        checks=tuple(replace(check, query=q.name) for q in queries for check in q.checks),
    )
    verdicts = [_verdict_of(query) for query in queries]
    if left and not options.allow_non_restored:
        verdicts.append(CONSENT)
    return _concluded(plan, verdicts)


def _concluded(plan: RestorePlan, verdicts: Iterable[PlanVerdict]) -> RestorePlan:
    """Return the plan with the most severe of ``verdicts``."""
    verdict = max(verdicts, key=_ORDER.index, default=OK)
    return replace(plan, verdict=verdict, exit_code=EXIT_CODES[verdict])


def with_earlier(plan: RestorePlan, earlier: Iterable[RestorePlan]) -> RestorePlan:
    """Return the plan with the rows of the plans of earlier drivers.

    ``plan`` covers all queries that one driver restored. ``earlier`` are the recorded plans of the
    job's queries. Of these, a plan that shares a query with ``plan``, or with one that is used
    already, is left out.
    """
    names = {row.name for row in plan.queries}
    parts = [replace(plan, complete=False)]
    for each in sorted(earlier, key=lambda each: not each.complete):  # whole plans first
        others = {row.name for row in each.queries}
        if others and others.isdisjoint(names):
            names |= others
            parts.append(replace(each, complete=False))
    return replace(merged(parts) or plan, complete=plan.complete)


def with_checks(plan: RestorePlan, checks: Sequence[Check]) -> RestorePlan:
    """Return the plan with checks of the whole restore (versions, formats) put first."""
    words = {RestoreOutcome.REFUSED: INCOMPATIBLE, RestoreOutcome.CONSENT: CONSENT}
    verdicts = [plan.verdict, *(words.get(check.outcome, OK) for check in checks)]
    return _concluded(replace(plan, checks=(*checks, *plan.checks)), verdicts)


def merged(plans: Sequence[RestorePlan]) -> RestorePlan | None:
    """Merge the plans of several queries; return None if there are none.

    A plan of all queries (``complete``) is returned as it is.
    """
    whole = next((each for each in plans if each.complete), None)
    if whole is not None or not plans:
        return whole
    plan = RestorePlan(
        queries=tuple(row for each in plans for row in each.queries),
        operators=tuple(row for each in plans for row in each.operators),
        sources=tuple(row for each in plans for row in each.sources),
        sinks=tuple(row for each in plans for row in each.sinks),
        pins=tuple(row for each in plans for row in each.pins),
        checks=tuple(row for each in plans for row in each.checks),
    )
    return _concluded(plan, [each.verdict for each in plans])


def compare_with_expected(
    plan: RestorePlan, expected: RestorePlan | None, name: str
) -> Incompatible | None:
    """Return the refusal when a query's plan differs from the plan the user has seen, or None.

    ``plan`` is the current one of the query ``name``, ``expected`` the saved one (``check -o``) of
    all queries; None allows any plan.
    """
    if expected is None:
        return None
    now, then = _decisions(plan, name), _decisions(expected, name)
    changed = [key for key in now if now[key] != then[key]]
    costs, planned = _costs(plan, name), _costs(expected, name)
    changed += [key for key in costs if _is_higher(costs[key], planned[key])]
    if not changed:
        return None
    return Incompatible(
        f"query '{name}': the restore is not the planned one: its {changed[0]} have changed",
        hint="make a new plan with: flinkish check -o plan.json",
    )


def _costs(plan: RestorePlan, query: str) -> dict[str, list[float | None]]:
    """Return what a plan costs one query, in numbers that may fall but not rise; None: unknown."""
    sources = [row for row in plan.sources if row.query == query]
    identities = [row.query_id for row in plan.queries if row.name == query]
    batches = [each.batches for each in plan.checks if each.query == query and each.batches != -1]
    return {
        "query ids": [None if each is None else not each.keep for each in identities],
        "lost rows": [row.lost_rows for row in sources],
        "repeated rows": [row.repeated_rows for row in sources],
        "repeated batches": [math.inf if number is None else number for number in batches],
    }


def _is_higher(now: Sequence[float | None], then: Sequence[float | None]) -> bool:
    """Return whether a cost may have risen; one that only one of the plans lists is 0 in the other.

    As every pair is compared, the sum cannot have risen either.
    """
    return any(
        planned is not None and (cost is None or cost > planned)
        for cost, planned in zip_longest(now, then, fillvalue=0)
    )


def _decisions(plan: RestorePlan, query: str) -> dict[str, list[tuple[object, ...]]]:
    """Return what a plan decides for one query, without texts and without what is left behind."""
    dropped = StateVerdict.DROPPED.value
    queries = [row for row in plan.queries if row.name == query]
    pins = [row for row in plan.pins if row.query == query]
    return {
        "queries": [(row.name, row.verdict, row.origin, row.batch_id) for row in queries],
        "outputs": [
            (each.get("format"), each.get("place") or each.get("table") or each.get("path"))
            for each in (row.writes for row in queries)
        ],
        "operators": [
            (
                row.name,
                row.uid,
                row.operator_id,
                row.kind,
                row.ordinal,
                row.verdict,
                row.reason,
                row.origin,
            )
            for row in plan.operators
            if row.query == query and row.verdict != dropped
        ],
        "sources": [
            (row.uid, row.signature, row.entry, row.verdict, row.reason, row.origin, row.set_to)
            for row in plan.sources
            if row.query == query and row.verdict != dropped
        ],
        "sinks": [
            (row.verdict, row.reason, row.newest_batch) for row in plan.sinks if row.query == query
        ],
        "pins": [(row.name, row.verdict, row.pinned, row.asked) for row in pins],
    }


def _verdict_of(query: QueryRestore) -> PlanVerdict:
    if query.refusal is None:
        return OK
    return CONSENT if isinstance(query.refusal, ConsentNeeded) else INCOMPATIBLE


def _query(query: QueryRestore) -> QueryRow:
    base = query.plan.base if query.plan is not None else None
    identity, history, refusal = query.identity, query.history, query.refusal
    return QueryRow(
        name=query.name,
        verdict=_verdict_of(query),
        origin=base.key if base is not None else None,
        from_batch=base.batch_id if base is not None else None,
        batch_id=query.recipe.batch_id if query.recipe is not None else None,
        query_id=None if identity is None else KeptQueryId(identity.keep, identity.reason),
        history=None if history is None else HistoryShift(history.shift, history.kept),
        writes=query.writes,
        notes=query.notes,
        refusal=None if refusal is None else Refusal(refusal.message, refusal.hint, refusal.id),
    )


def _operators(
    query: QueryRestore, options: RestoreOptions, executors: frozenset[StateVerdict]
) -> Iterator[OperatorRow]:
    for plan in (query.plan.operators if query.plan is not None else None) or ():
        yield _operator(query.name, plan, options, executors)


def _operator(
    query: str, plan: OperatorJudgement, options: RestoreOptions, executors: frozenset[StateVerdict]
) -> OperatorRow:
    taken = plan.taken
    return OperatorRow(
        query=query,
        name=plan.operator.name,
        uid=plan.operator.uid,
        operator_id=plan.operator.lookup_ids[-1],
        kind=plan.operator.node.kind,
        ordinal=plan.operator.node.ordinal,
        verdict=_operator_verdict(plan, options, executors),
        executable=plan.executable(executors),
        reason=plan.reason,
        text=plan.text,
        advice=advice_for(plan, executors, options.accept_partial),
        rows=taken.facts.rows if taken is not None else None,
        bytes=taken.state.bytes if taken is not None else None,
        origin=None if taken is None else _origin(taken),
        changes=plan.changes,
    )


def _operator_verdict(
    plan: OperatorJudgement, options: RestoreOptions, executors: frozenset[StateVerdict]
) -> str:
    if not plan.executable(executors):
        return StateVerdict.INCOMPATIBLE.value
    taken_over = plan.verdict in (StateVerdict.AS_IS, StateVerdict.RENUMBERED)
    asked = taken_over and ask([plan], options.accept_partial) is not None
    return CONSENT if asked else plan.verdict.value


def _origin(saved: SavedOperator) -> OperatorOrigin:
    return OperatorOrigin(saved.query, saved.state.ordinal, saved.uid, saved.state.partitions)


def _left_operators(left: NonRestored) -> list[SavedOperator]:
    return [op for query in left.queries for op in query.operators] + list(left.operators)


def _dropped(saved: SavedOperator, options: RestoreOptions) -> OperatorRow:
    agreed = options.allow_non_restored
    advice = "use -n to drop it"
    if saved.movable:
        advice += ", or name the operator that takes it with --uid-map OLD=NEW"
    return OperatorRow(
        query=saved.query,
        name=saved.uid or f"operator {saved.state.ordinal}",
        uid=saved.uid,
        operator_id=saved.operator_id_v3,
        kind=saved.state.kind,
        verdict=StateVerdict.DROPPED.value,
        executable=agreed,
        reason="no-operator",
        text="no operator of the program takes this state",
        advice="" if agreed else advice,
        rows=saved.facts.rows,
        bytes=saved.state.bytes,
        origin=_origin(saved),
    )


def _source(query: str, row: SourcePlan) -> SourceRow:
    new, saved = row.new, row.saved
    source = new if new is not None else saved
    return SourceRow(
        query=query,
        uid=source.uid if source is not None else None,
        signature=source.signature if source is not None else None,
        entry=new.entry if new is not None else None,
        verdict=row.verdict,
        reason=row.reason,
        text=row.text,
        advice=row.advice,
        lost_rows=row.lost_rows,
        repeated_rows=row.repeated_rows,
        set_to=row.set_to,
        moves=row.moves,
        origin=None if saved is None else SourceOrigin(saved.query, saved.entry, saved.offset),
    )


def _left_sources(
    queries: Sequence[QueryRestore], left: NonRestored, options: RestoreOptions
) -> Iterator[SourceRow]:
    """Yield the positions that no query takes, unless the rows of a query show them already."""
    listed = {
        (row.saved.query, row.saved.entry)
        for query in queries
        for row in query.sources
        if row.new is None and row.saved is not None
    }
    for source in [s for q in left.queries for s in q.sources or ()] + list(left.sources):
        if (source.query, source.entry) not in listed:
            text = f"{source.describe()} is no longer read"
            advice = "" if options.allow_non_restored else "use -n to drop it"
            row = SourcePlan(None, source, "dropped", "dropped-source", text, advice)
            yield _source(source.query or "", row)


def _sink(query: str, sink: SinkPlan) -> SinkRow:
    return SinkRow(
        query=query,
        format=sink.format,
        path=sink.path,
        newest_batch=sink.newest_batch,
        rollback_to=sink.rollback_to,
        verdict=sink.verdict,
        reason=sink.reason,
        text=sink.text,
        advice=sink.advice,
    )
