"""A restore plan as plain data, for ``check --json`` and ``plan.json``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from flinkish.errors import ConsentNeeded, Incompatible
from flinkish.restore.plan.judging import OperatorJudgement, advice_for, ask
from flinkish.restore.plan.non_restored_state import NonRestored
from flinkish.restore.plan.query_restore import QueryRestore, RestoreOptions
from flinkish.restore.plan.source_row import SourcePlan
from flinkish.restore.plan.verdicts import Check, RestoreOutcome, Verdict
from flinkish.restore.source.restore_inputs import SavedOperator

OK, CONSENT, INCOMPATIBLE = "ok", "consent-needed", "incompatible"
#: The exit code for each verdict on a whole restore.
EXIT_CODES = {OK: 0, CONSENT: 5, INCOMPATIBLE: 4}
_ORDER = (OK, CONSENT, INCOMPATIBLE)


def document(
    queries: Sequence[QueryRestore], left: NonRestored, options: RestoreOptions
) -> dict[str, Any]:
    """Return the plan of a whole restore.

    Parameters
    ----------
    left
        The parts of the savepoint that no query takes.
    """
    operators = [row for query in queries for row in _operators(query, options)]
    operators += [_dropped(op, options) for op in _left_operators(left)]
    found: dict[str, Any] = {
        "queries": [_query(query) for query in queries],
        "operators": operators,
        "sources": [
            *(_source(query.name, row) for query in queries for row in query.sources),
            *_left_sources(queries, left),
        ],
        "sinks": [_sink(query) for query in queries if query.sink is not None],
        "pins": [
            {
                "query": query.name,
                "key": pin.key,
                "name": pin.name,
                "pinned": pin.pinned,
                "asked": pin.asked,
                "verdict": pin.verdict,
                "text": pin.text,
                "advice": pin.advice,
            }
            for query in queries
            for pin in query.pins
        ],
        "checks": [c.to_json() | {"query": q.name} for q in queries for c in q.checks],
    }
    verdicts = [_verdict_of(query) for query in queries]
    if left and not options.allow_non_restored:
        verdicts.append(CONSENT)
    return conclude(found, verdicts)


def conclude(found: Mapping[str, Any], verdicts: Iterable[str]) -> dict[str, Any]:
    """Return the document with the most severe of ``verdicts`` put first."""
    verdict = max(verdicts, key=_ORDER.index, default=OK)
    return {"verdict": verdict, "exit_code": EXIT_CODES[verdict], **found}


def with_checks(plan: Mapping[str, Any], checks: Sequence[Check]) -> dict[str, Any]:
    """Return the document with checks of the whole restore (versions, formats) put first."""
    words = {RestoreOutcome.REFUSED: INCOMPATIBLE, RestoreOutcome.CONSENT: CONSENT}
    verdicts = [str(plan["verdict"]), *(words.get(check.outcome, OK) for check in checks)]
    rest = {key: value for key, value in plan.items() if key not in ("verdict", "exit_code")}
    rest["checks"] = [*(check.to_json() for check in checks), *rest.get("checks", ())]
    return conclude(rest, verdicts)


def merged(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Merge the documents of several queries; return None if there are none.

    A document of all queries (``complete``) is returned as it is.
    """
    whole = next((each for each in documents if each.get("complete")), None)
    if whole is not None or not documents:
        return dict(whole) if whole is not None else None
    lists = [key for key, value in documents[0].items() if isinstance(value, list)]
    found = {key: [row for each in documents for row in each[key]] for key in lists}
    return conclude(found, [str(each["verdict"]) for each in documents])


def compare_with_expected(
    found: Mapping[str, Any], expected: Mapping[str, Any] | None, name: str
) -> Incompatible | None:
    """Return the refusal when a query's plan differs from the plan the user has seen, or None.

    Parameters
    ----------
    found
        The current plan of the query ``name``.
    expected
        The saved document (``check -o``) of all queries; None allows any plan.
    """
    if expected is None:
        return None
    for key in _DECISIONS:
        now = [_decision(row) for row in found[key] if row.get("query", row.get("name")) == name]
        then = [
            _decision(row)
            for row in expected.get(key, ())
            if row.get("query", row.get("name")) == name and row.get("verdict") != "dropped"
        ]
        if [row for row in now if row["verdict"] != "dropped"] != then:
            return Incompatible(
                f"query '{name}': the restore is not the one that was planned: its {key} are "
                "others now",
                hint="make a new plan with: flinkish check -o plan.json",
            )
    return None


#: The parts of a plan that hold decisions; the rest is text.
_DECISIONS = ("queries", "operators", "sources", "sinks", "pins")
_DECIDING = ("name", "uid", "operator_id", "kind", "ordinal", "verdict", "reason", "from")
_DECIDING_MORE = ("signature", "entry", "newest_batch", "pinned", "asked", "batch_id")


def _decision(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in (*_DECIDING, *_DECIDING_MORE) if key in row}


def _verdict_of(query: QueryRestore) -> str:
    if query.refusal is None:
        return OK
    return CONSENT if isinstance(query.refusal, ConsentNeeded) else INCOMPATIBLE


def _query(query: QueryRestore) -> dict[str, Any]:
    plan, refusal = query.plan, query.refusal
    base = plan.base if plan is not None else None
    batch = query.recipe.batch_id if query.recipe is not None else None
    return {
        "name": query.name,
        "verdict": _verdict_of(query),
        "from": base.key if base is not None else None,
        "from_batch": base.batch_id if base is not None else None,
        "batch_id": batch,
        "query_id": None
        if query.identity is None
        else {"keep": query.identity.keep, "reason": query.identity.reason},
        "history": None
        if query.history is None
        else {"shift": query.history.shift, "keep": query.history.kept},
        "writes": query.writes,
        "notes": list(query.notes),
        "refusal": None
        if refusal is None
        else {"message": refusal.message, "hint": refusal.hint, "id": refusal.id},
    }


def _operators(query: QueryRestore, options: RestoreOptions) -> Iterator[dict[str, Any]]:
    for plan in (query.plan.operators if query.plan is not None else None) or ():
        yield _operator(query.name, plan, options)


def _operator(query: str, plan: OperatorJudgement, options: RestoreOptions) -> dict[str, Any]:
    taken = plan.taken
    executable = plan.executable(options.executors)
    return {
        "query": query,
        "name": plan.operator.name,
        "uid": plan.operator.uid,
        "operator_id": plan.operator.lookup_ids[-1],
        "kind": plan.operator.kind,
        "ordinal": plan.operator.ordinal,
        "verdict": _operator_verdict(plan, options),
        "executable": executable,
        "reason": plan.reason,
        "text": plan.text,
        "advice": advice_for(plan, options.executors, options.accept_partial),
        "rows": taken.rows if taken is not None else None,
        "bytes": taken.bytes if taken is not None else None,
        "from": None if taken is None else _origin(taken),
        "changes": [
            {
                "store": change.store,
                "verdict": change.verdict.value,
                "reason": change.reason,
                "text": change.text,
                "advice": change.advice,
                "partial": change.partial,
            }
            for change in plan.changes
        ],
    }


def _operator_verdict(plan: OperatorJudgement, options: RestoreOptions) -> str:
    if not plan.executable(options.executors):
        return Verdict.INCOMPATIBLE.value
    taken_over = plan.verdict in (Verdict.AS_IS, Verdict.RENUMBERED)
    asked = taken_over and ask([plan], options.accept_partial) is not None
    return CONSENT if asked else plan.verdict.value


def _origin(saved: SavedOperator) -> dict[str, Any]:
    return {
        "query": saved.query,
        "ordinal": saved.ordinal,
        "uid": saved.uid,
        "partitions": saved.partitions,
    }


def _left_operators(left: NonRestored) -> list[SavedOperator]:
    return [op for query in left.queries for op in query.operators] + list(left.operators)


def _dropped(saved: SavedOperator, options: RestoreOptions) -> dict[str, Any]:
    agreed = options.allow_non_restored
    return {
        "query": saved.query,
        "name": saved.uid or f"operator {saved.ordinal}",
        "uid": saved.uid,
        "operator_id": saved.operator_id_v3,
        "kind": saved.kind,
        "ordinal": None,
        "verdict": Verdict.DROPPED.value,
        "executable": agreed,
        "reason": "no-operator",
        "text": "no operator of the program takes this state",
        "advice": ""
        if agreed
        else "give -n to drop it, or tell who takes it with --uid-map OLD=NEW",
        "rows": saved.rows,
        "bytes": saved.bytes,
        "from": _origin(saved),
        "changes": [],
    }


def _source(query: str, row: SourcePlan) -> dict[str, Any]:
    new, saved = row.new, row.saved
    uid = new.uid if new is not None else saved.uid if saved is not None else None
    signature = new.signature if new is not None else saved.signature if saved is not None else None
    return {
        "query": query,
        "uid": uid,
        "signature": signature,
        "entry": new.entry if new is not None else None,
        "verdict": row.verdict,
        "reason": row.reason,
        "text": row.text,
        "advice": row.advice,
        "lost_rows": row.lost_rows,
        "repeated_rows": row.repeated_rows,
        "set_to": row.set_to,
        "moves": [asdict(move) for move in row.moves],
        "from": None
        if saved is None
        else {"query": saved.query, "entry": saved.entry, "offset": saved.offset},
    }


def _left_sources(queries: Sequence[QueryRestore], left: NonRestored) -> Iterator[dict[str, Any]]:
    """Yield the positions that no query takes, unless the rows of a query show them already."""
    shown = {
        (row.saved.query, row.saved.entry)
        for query in queries
        for row in query.sources
        if row.new is None and row.saved is not None
    }
    for source in [s for q in left.queries for s in q.sources or ()] + list(left.sources):
        if (source.query, source.entry) not in shown:
            text = f"{source.describe()} is left behind"
            row = SourcePlan(None, source, "dropped", "source-dropped", text, "give -n to drop it")
            yield _source(str(source.query), row)


def _sink(query: QueryRestore) -> dict[str, Any]:
    assert query.sink is not None
    return {
        "query": query.name,
        "format": query.sink.format,
        "path": query.sink.path,
        "newest_batch": query.sink.newest_batch,
        "rollback_to": query.sink.rollback_to,
        "verdict": query.sink.verdict,
        "reason": query.sink.reason,
        "text": query.sink.text,
        "advice": query.sink.advice,
    }
