"""A restore plan as text: one table, then the sentences that need attention. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkish.messages.plan import PlanVerdict, QueryRow, RestoreOutcome, RestorePlan
from flinkish.units import first_of, size_text
from flinkish.units import table as aligned

#: The titles of the columns of a plan's table.
HEAD = ("QUERY", "WHAT", "KIND", "VERDICT", "STATE", "WHY")


def plan_rows(plan: RestorePlan) -> list[tuple[str, ...]]:
    """Return the rows of the table: operators, then sources, then sinks."""
    rows: list[tuple[str, ...]] = []
    for op in plan.operators:
        name = op.uid or f'"{op.name}"'
        state = "-" if op.bytes is None else state_text(op.rows, op.bytes)
        why = "starts empty" if op.verdict == "new" else op.text
        rows.append((op.query or "-", name, op.kind or "-", op.verdict, state, why))
    for source in plan.sources:
        why = "" if source.verdict == "as-is" else source.text
        rows.append((source.query or "-", source.label, "source", source.verdict, "-", why))
    for sink in plan.sinks:
        why = "" if sink.verdict == "as-is" and sink.reason in _QUIET else sink.text
        rows.append((sink.query, sink.path, f"{sink.format} sink", sink.verdict, "-", why))
    return rows


#: Reasons of sinks about which there is nothing to say.
_QUIET = frozenset(
    {"sink-empty", "sink-not-ahead", "sink-of-running-job", "sink-other-id", "sink-has-planned"}
)


def state_text(rows: int | None, size: int) -> str:
    """Return the size of a state: its rows if they were counted, else its bytes. Pure."""
    return size_text(size) if rows is None else f"{rows:,} rows"


def of_query(query: str | None, text: str, count: int) -> str:
    """Return a note on a query with its name in front, where the job has several queries. Pure.

    ``count`` is the number of queries. A note that names its query or has none stays as it is.
    """
    if query is None or count < 2 or f"'{query}'" in text:
        return text
    return f"query '{query}': {text}"


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
    for each in findings(plan):
        if each.who:  # the table has the text
            lines.append(f"{each.who} [{each.reason}]: {each.advice}")
            continue
        lead = f"{each.outcome.value} [{each.reason}]: " if each.reason else ""
        lines.append(lead + each.text)
        lines += [f"  {each.advice}"] if each.advice else []
    return lines


@dataclass(frozen=True)
class Finding:
    """What a plan says besides its table: the outcome of a check, or what the user has to do.

    Attributes
    ----------
    who
        The rows of the table that it is about; empty for a check, and for a query as a whole.
    reason
        A stable id; empty for a query as a whole.
    text, advice
        A sentence, and what the user can do.
    """

    outcome: RestoreOutcome
    who: str
    reason: str
    text: str
    advice: str


def findings(plan: RestorePlan) -> list[Finding]:
    """Return what a plan says besides its table.

    Rows with the same outcome, reason and advice are one finding.
    """
    count = len(plan.queries)
    every = [
        Finding(each.outcome, "", each.id, of_query(each.query, each.text, count), each.advice)
        for each in plan.checks
        if each.outcome is not RestoreOutcome.OK
    ]
    together: dict[tuple[RestoreOutcome, str, str], list[tuple[str, str]]] = {}
    for row in plan.rows:
        if row.verdict in _STOPS and row.advice:
            who = f"{row.query}/{row.label}" if count > 1 and row.query else row.label
            outcome = _OUTCOMES["ok" if plan.verdict == "ok" else _STOPS[row.verdict]]
            together.setdefault((outcome, row.reason, row.advice), []).append((who, row.text))
    for (outcome, reason, advice), rows in together.items():
        names, texts = _listed([row[0] for row in rows], ", "), _listed([row[1] for row in rows])
        every.append(Finding(outcome, names, reason, texts, advice))
    for query in plan.queries:
        refusal = query.refusal
        if refusal is not None and not _told(plan, query):
            text = f"query '{query.name}': {refusal.message}"
            every.append(Finding(_OUTCOMES[query.verdict], "", "", text, refusal.hint))
    return every


#: The outcome of a check that corresponds to a verdict.
_OUTCOMES = {
    "ok": RestoreOutcome.WARNING,
    "consent-needed": RestoreOutcome.CONSENT,
    "incompatible": RestoreOutcome.REFUSED,
}


#: Verdicts of rows that may require the user to act, and the verdict on a plan that each causes.
_STOPS: dict[str, PlanVerdict] = {
    "migrate": "ok",
    "rescale": "ok",
    "unreadable": "ok",
    "dropped": "consent-needed",
    "consent-needed": "consent-needed",
    "ahead": "consent-needed",
    "incompatible": "incompatible",
}


#: The maximum number of names, and of sentences, in the finding for several rows.
_NAMED = 5


def _listed(words: Sequence[str], separator: str = "; ") -> str:
    """Return the names or sentences of rows with the same advice, each once. Pure."""
    each = list(dict.fromkeys(words))
    return first_of(each, limit=_NAMED, separator=separator)


def _told(plan: RestorePlan, query: QueryRow) -> bool:
    """Return whether a row or a check of the query explains why it is refused."""
    return any(
        row.query == query.name
        and row.verdict != "dropped"
        and _STOPS.get(row.verdict) == query.verdict
        for row in plan.rows
    ) or any(
        check.query == query.name and check.outcome is _OUTCOMES[query.verdict]
        for check in plan.checks
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
