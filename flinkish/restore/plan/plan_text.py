"""A restore plan as text: one table, then the sentences that need attention. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.messages.plan import RestoreOutcome, RestorePlan
from flinkish.units import size_text
from flinkish.units import table as aligned

#: The titles of the columns of a plan's table.
HEAD = ("QUERY", "WHAT", "KIND", "VERDICT", "STATE", "WHY")


def plan_rows(plan: RestorePlan) -> list[tuple[str, ...]]:
    """Return the rows of the table: operators, then sources, then sinks."""
    rows: list[tuple[str, ...]] = []
    for op in plan.operators:
        name = op.uid or f'"{op.name}"'
        state = "-" if op.bytes is None else _state(op.rows, op.bytes)
        why = "starts empty" if op.verdict == "new" else op.text
        rows.append((str(op.query), name, op.kind or "-", op.verdict, state, why))
    for source in plan.sources:
        why = "" if source.verdict == "as-is" else source.text
        rows.append((str(source.query), source.label, "source", source.verdict, "-", why))
    for sink in plan.sinks:
        why = "" if sink.reason in _QUIET else sink.text
        rows.append((sink.query, sink.path, f"{sink.format} sink", sink.verdict, "-", why))
    return rows


#: Reasons of sinks about which there is nothing to say.
_QUIET = frozenset(
    {"sink-empty", "sink-not-ahead", "sink-of-running-job", "sink-other-id", "sink-has-planned"}
)


def _state(rows: int | None, size: int) -> str:
    return size_text(size) if rows is None else f"{rows:,} rows"


def of_query(query: str, text: str, count: int) -> str:
    """Return a note on a query with its name in front, where the job has several queries. Pure.

    ``count`` is their number. A note that names its query stays as it is.
    """
    return text if count < 2 or f"'{query}'" in text else f"query '{query}': {text}"


def plan_lines(plan: RestorePlan, *, table: bool = True) -> list[str]:
    """Return the plan as lines of text.

    With ``table``, the table comes before the other lines.
    """
    rows, count = plan_rows(plan), len(plan.queries)
    lines = aligned(HEAD, rows) if table and rows else []
    names = {row[0] for row in rows}
    for query in plan.queries:  # a query without operators, sources and sinks has no row
        notes = () if query.name in names else query.notes
        lines += [of_query(query.name, note, count) for note in notes]
    lines += [f"setting: {pin.text}" for pin in plan.pins]
    for check in plan.checks:
        if check.outcome is not RestoreOutcome.OK:
            text = of_query(str(check.query), check.text, count)
            lines.append(f"{check.outcome.value} [{check.id}]: {text}")
            lines += [f"  {check.advice}"] if check.advice else []
    together: dict[tuple[str, str], list[str]] = {}
    for row in plan.rows:
        if row.verdict in _STOPS and row.advice:
            who = f"{row.query}/{row.label}" if count > 1 else row.label
            together.setdefault((row.reason, row.advice), []).append(who)
    lines += [
        f"{_listed(names)} [{reason}]: {advice}" for (reason, advice), names in together.items()
    ]
    for query in plan.queries:
        refusal = query.refusal
        if refusal is not None and not _told(plan, query.name):
            lines.append(f"query '{query.name}': {refusal.message}")
            lines += [f"  {refusal.hint}"] if refusal.hint else []
    return lines


#: Verdicts that require the user to act.
_STOPS = frozenset(
    {"migrate", "rescale", "incompatible", "dropped", "consent-needed", "ahead", "unreadable"}
)


#: So many names stand before an advice that fits more of them.
_NAMED = 5


def _listed(names: Sequence[str]) -> str:
    """Return the names whom one advice fits, each once. Pure."""
    each = list(dict.fromkeys(names))
    more = [f"{len(each) - _NAMED} more"] if len(each) > _NAMED else []
    return ", ".join(each[:_NAMED] + more)


def _told(plan: RestorePlan, query: str) -> bool:
    """Return whether a row of the query explains why it is refused."""
    return any(
        row.query == query and row.verdict in _STOPS and row.verdict != "dropped"
        for row in plan.rows
    ) or any(
        check.query == query and check.outcome is RestoreOutcome.REFUSED for check in plan.checks
    )


def verdict_line(plan: RestorePlan) -> str:
    """Return the plan's verdict as a sentence."""
    words = {
        "ok": "the savepoint can be restored",
        "consent-needed": "the savepoint can be restored with your consent",
        "incompatible": "the savepoint cannot be restored like this",
    }
    if plan.job_id is not None:
        words = {
            "ok": "the program can resume from the job",
            "consent-needed": "the program can resume from the job with your consent",
            "incompatible": "the program cannot resume from the job like this",
        }
    return f"verdict: {plan.verdict}: {words[plan.verdict]}"
