"""A restore plan as text: one table, then the sentences that need attention. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flinkish.units import size_text
from flinkish.units import table as aligned

#: The titles of the columns of a plan's table.
HEAD = ("QUERY", "WHAT", "KIND", "VERDICT", "STATE", "WHY")


def plan_rows(plan: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the rows of the table: operators, then sources, then sinks."""
    rows: list[tuple[str, ...]] = []
    for op in plan["operators"]:
        name = op["uid"] or f'"{op["name"]}"'
        verdict = op["verdict"]
        state = "-" if op["bytes"] is None else _state(op["rows"], op["bytes"])
        rows.append((str(op["query"]), name, op["kind"] or "-", verdict, state, _why(op)))
    for source in plan["sources"]:
        name = source["uid"] or source["signature"] or f"source {source['entry']}"
        why = "" if source["verdict"] == "as-is" else source["text"]
        rows.append((str(source["query"]), name, "source", source["verdict"], "-", why))
    for sink in plan["sinks"]:
        why = "" if sink["reason"] in _QUIET else sink["text"]
        rows.append(
            (str(sink["query"]), sink["path"], f"{sink['format']} sink", sink["verdict"], "-", why)
        )
    return rows


#: Reasons of sinks about which there is nothing to say.
_QUIET = frozenset(
    {"sink-empty", "sink-not-ahead", "sink-of-running-job", "sink-other-id", "sink-has-planned"}
)


def _state(rows: int | None, size: int) -> str:
    return size_text(size) if rows is None else f"{rows:,} rows"


def _why(op: Mapping[str, Any]) -> str:
    if op["verdict"] == "new":
        return "starts empty"
    return str(op["text"])


def of_query(query: str, text: str, count: int) -> str:
    """Return a note on a query with its name in front, where the job has several queries. Pure.

    ``count`` is their number. A note that names its query stays as it is.
    """
    return text if count < 2 or f"'{query}'" in text else f"query '{query}': {text}"


def plan_lines(plan: Mapping[str, Any], *, table: bool = True) -> list[str]:
    """Return the plan as lines of text.

    Parameters
    ----------
    table
        Whether to include the table, before the other lines.
    """
    rows = plan_rows(plan)
    lines = aligned(HEAD, rows) if table and rows else []
    shown = {row[0] for row in rows}
    for query in plan["queries"]:  # a query without operators, sources and sinks has no row
        notes = [] if query["name"] in shown else query["notes"]
        lines += [of_query(query["name"], note, len(plan["queries"])) for note in notes]
    lines += [f"setting: {pin['text']}" for pin in plan["pins"]]
    for check in plan["checks"]:
        if check["outcome"] != "ok":
            text = of_query(str(check.get("query")), check["text"], len(plan["queries"]))
            lines.append(f"{check['outcome']} [{check['id']}]: {text}")
            lines += _advice(check)
    together: dict[tuple[str, str], list[str]] = {}
    for row in (*plan["operators"], *plan["sources"], *plan["sinks"]):
        if row["verdict"] in _STOPS and row["advice"]:
            name = row.get("uid") or row.get("signature") or row.get("path") or row.get("name")
            who = f"{row['query']}/{name}" if len(plan["queries"]) > 1 else str(name)
            together.setdefault((row["reason"], row["advice"]), []).append(who)
    lines += [
        f"{_listed(names)} [{reason}]: {advice}" for (reason, advice), names in together.items()
    ]
    for query in plan["queries"]:
        refusal = query["refusal"]
        if refusal is not None and not _told(plan, query["name"]):
            lines.append(f"query '{query['name']}': {refusal['message']}")
            lines += [f"  {refusal['hint']}"] if refusal["hint"] else []
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


def _told(plan: Mapping[str, Any], query: str) -> bool:
    """Return whether a row of the query explains why it is refused."""
    rows = (*plan["operators"], *plan["sources"], *plan["sinks"])
    return any(
        row["query"] == query and row["verdict"] in _STOPS and row["verdict"] != "dropped"
        for row in rows
    ) or any(c.get("query") == query and c["outcome"] == "incompatible" for c in plan["checks"])


def verdict_line(plan: Mapping[str, Any]) -> str:
    """Return the plan's verdict as a sentence."""
    words = {
        "ok": "the savepoint can be restored",
        "consent-needed": "the savepoint can be restored with your consent",
        "incompatible": "the savepoint cannot be restored like this",
    }
    if plan.get("job_id") is not None:
        words = {
            "ok": "the program would go on from the job",
            "consent-needed": "the program would go on from the job with your consent",
            "incompatible": "the program cannot go on from the job like this",
        }
    return f"verdict: {plan['verdict']}: {words[plan['verdict']]}"


def _advice(check: Mapping[str, Any]) -> Iterator[str]:
    if check["advice"]:
        yield f"  {check['advice']}"
