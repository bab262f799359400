"""A restore plan for the reviewer of a change: as Markdown, and as GitHub annotations.

Names and messages come from savepoints and programs that others wrote. In Markdown, every character
with a meaning is written as its number. Names, URLs and what would begin a mention stand in
``<code>``, where neither GitHub nor GitLab looks for mentions, references and links (except for
e-mail addresses, which are split). In commands for GitHub's runner, ``%`` and line ends are escaped
as in GitHub's toolkit (``packages/core/src/command.ts``). The plan's own lines come after the
command ``stop-commands``, so that the runner does not read commands in them.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from flinkish.config import mask_secrets
from flinkish.errors import FlinkishError
from flinkish.messages.plan import (
    OperatorRow,
    PinRow,
    QueryRow,
    RestoreOutcome,
    RestorePlan,
    SinkRow,
    SourceRow,
)
from flinkish.restore.plan.plan_text import Finding, findings, plan_lines, state_text, verdict_line
from flinkish.units import visible

#: Maximum number of findings that are annotated. GitHub shows ten annotations of a kind, and the
#: verdict is one of them.
ANNOTATIONS = 9
#: Maximum number of rows of a table, and of items of a list; nobody reads more.
_ROWS = 100
#: Bytes at which a page is cut: GitHub refuses a step summary over 1 MiB, GitLab a comment of 1 MB.
PAGE = 900_000
#: Maximum number of characters of a name or a sentence.
_WORDS = 600
_MARKS = {"ok": "✅", "consent-needed": "⚠️", "incompatible": "❌"}
#: What happens to a row, by the verdicts that say it all.
_HAPPENS = {"as-is": "continues unchanged", "new": "starts empty"}
#: The verdicts that need no attention.
_FINE = frozenset({*_HAPPENS, "renumbered", "moved"})
#: Characters with a meaning in Markdown or HTML, the beginnings of links, and slashes that begin a
#: word, because GitLab reads a line that begins with a slash as a command ("quick action").
_SPECIAL = re.compile(r"[\\`*_\[\]<>#!|~&$]|:(?=//)|(?<!\S)/|w(?=ww\.)", re.IGNORECASE)
#: The sign in an e-mail address: an unbroken address becomes a link even in ``<code>``.
_ADDRESS = re.compile(r"(?<=\S)@")
#: A link, or what would begin a mention or a reference.
_REFERENCE = re.compile(
    r"[a-z][a-z0-9+.-]*://\S*|www\.\S*|\bGH-(?=\d)|[@#!$%~&](?=[0-9a-z])", re.IGNORECASE
)
_Row = TypeVar("_Row", OperatorRow, SourceRow, SinkRow, PinRow)


def markdown(plan: RestorePlan, program: str | None = None) -> str:
    """Return a plan as Markdown: the verdict, what to do, what is lost, tables, and notes.

    ``program`` is the program's file or module, as it was named. A page of more than :data:`PAGE`
    bytes is cut at its end.
    """
    return _page(part for part in _parts(plan, program) if part)


def failure_markdown(error: FlinkishError, program: str | None = None) -> str:
    """Return, as Markdown, why there is no plan."""
    what = "" if program is None else f" of {_code(program)}"
    advice = f"\n\n{_plain(error.advice)}" if error.advice else ""
    return f"### ❌ the restore{what} could not be checked\n\n{_plain(error.message)}{advice}\n"


def github_log(plan: RestorePlan, program: str | None = None) -> str:
    """Return what GitHub's runner reads on stdout: annotations, then the plan for the log.

    ``program``: the file that the annotations are about, relative to the repository.
    """
    grave = [each for each in findings(plan) if each.outcome is not RestoreOutcome.NOTE]
    level = "notice" if plan.exit_code == 0 else "error"
    lines = [_command(level, verdict_line(plan), program, "flinkish check")]
    lines += [_annotation(each, program) for each in grave[:ANNOTATIONS]]
    token = secrets.token_hex(16)
    lines += [f"::stop-commands::{token}"]
    lines += [visible(mask_secrets(line)) for line in plan_lines(plan)]
    return "\n".join([*lines, f"::{token}::"]) + "\n"


def failure_annotation(error: FlinkishError, program: str | None = None) -> str:
    """Return, as GitHub's annotation, why there is no plan."""
    text = "\n".join(part for part in (error.message, error.advice) if part)
    return _command("error", text, program, f"flinkish check: {error.id}") + "\n"


def in_repository(path: str | None, environ: Mapping[str, str]) -> str | None:
    """Return a program's path relative to GitHub's checkout; None if it is not in the checkout.

    Without ``GITHUB_WORKSPACE``, the working directory counts as the checkout.
    """
    if path is None or "://" in path:
        return None
    root = os.path.realpath(environ.get("GITHUB_WORKSPACE") or os.curdir)
    relative = os.path.relpath(os.path.realpath(path), root)
    return None if relative.split(os.sep)[0] == os.pardir else relative


def _parts(plan: RestorePlan, program: str | None) -> Iterator[str]:
    yield f"### {_MARKS[plan.verdict]} {_plain(verdict_line(plan).partition(': ')[2])}"
    yield _about(plan, program)
    grave = (RestoreOutcome.CONSENT, RestoreOutcome.REFUSED)
    asked = [each for each in findings(plan) if each.outcome in grave]
    yield from _section("What to do", [_finding(each) for each in asked[:_ROWS]], len(asked))
    losses = _losses(plan)
    yield from _section("What would be lost", losses, len(losses))
    for query in plan.queries:
        yield from _query(plan, query)
    yield from _left_behind(plan)
    notes = [each for each in findings(plan) if each.outcome not in grave]
    yield from _section("Notes", [_finding(each) for each in notes[:_ROWS]], len(notes))


def _about(plan: RestorePlan, program: str | None) -> str:
    """Return the line with the program, the savepoint or the job, and the versions of Spark."""
    words = [] if program is None else [_code(program)]
    if plan.job_id is not None:
        words.append(f"from the job {_code(plan.name or plan.job_id)} ({_code(plan.state or '')})")
    elif plan.savepoint:
        words.append(f"from {_code(plan.savepoint)}")
    versions = plan.version
    if versions is not None:
        created = _code(versions.created or "unknown")
        running = _code(versions.running or "unknown")
        same = created == running
        words.append(f"on Spark {created}" if same else f"from Spark {created} to {running}")
    return " ".join(words)


def _finding(each: Finding) -> str:
    who = ", ".join(map(_code, filter(None, [each.who]))) or _plain(each.outcome.value)
    reason = f" ({_code(each.reason)})" if each.reason else ""
    advice = f" **{_plain(each.advice)}**" if each.advice else ""
    return f"{who}{reason}: {_plain(each.text)}{'.' if advice and each.text else ''}{advice}"


def _losses(plan: RestorePlan) -> list[str]:
    lost = [
        f"rows of {_code(source.label)} that are never read: at most {source.lost_rows:,}"
        for source in plan.sources
        if source.lost_rows
    ]
    for op in plan.operators:
        if op.verdict == "dropped":
            lost.append(f"the state of {_code(op.label)}: {_state(op)}")
    for source in plan.sources:
        if source.verdict == "dropped":
            lost.append(f"the position of {_code(source.label)}")
    return lost


def _query(plan: RestorePlan, query: QueryRow) -> list[str]:
    """Return the parts about one query of the program."""
    begin = "starts empty"
    if query.batch_id is not None:
        begin = f"continues after batch {query.batch_id}"
    elif query.refusal is not None:
        begin = "is not restored"
    operators = [op for op in plan.operators if op.query == query.name and op.verdict != "dropped"]
    sources = [row for row in plan.sources if row.query == query.name and row.verdict != "dropped"]
    sinks = [row for row in plan.sinks if row.query == query.name]
    pins = [row for row in plan.pins if row.query == query.name]
    return [
        f"#### Query {_code(query.name)} {begin}",
        *_table(
            ("Operator", "State", "Verdict", "What happens"),
            [
                (_named(op), _state(op), _verdict(op.verdict), _happens(op))
                for op in _first(operators)
            ],
            len(operators),
        ),
        *_table(
            ("Source", "Lost rows", "Verdict", "What happens"),
            [
                (
                    _code(row.label),
                    _rows(row.lost_rows or None),
                    _verdict(row.verdict),
                    _happens(row),
                )
                for row in _first(sources)
            ],
            len(sources),
        ),
        *_table(
            ("Sink", "Newest batch", "Verdict", "What happens"),
            [
                (
                    _code(f"{row.format} {row.path}"),
                    _rows(row.newest_batch),
                    _verdict(row.verdict),
                    _happens(row),
                )
                for row in _first(sinks)
            ],
            len(sinks),
        ),
        *_table(
            ("Setting", "In the savepoint", "In the program", "What happens"),
            [
                (_code(row.key), _code(row.pinned), _code(row.asked), _happens(row))
                for row in _first(pins)
            ],
            len(pins),
        ),
    ]


def _left_behind(plan: RestorePlan) -> list[str]:
    """Return the parts about state and positions of the savepoint that no query takes."""
    operators = [op for op in plan.operators if op.verdict == "dropped"]
    sources = [row for row in plan.sources if row.verdict == "dropped"]
    rows = [(_named(op), _saved_query(op), _state(op), _happens(op)) for op in operators]
    rows += [(_code(row.label), _saved_query(row), "-", _happens(row)) for row in sources]
    head = ("What", "Saved query", "State", "Why")
    return ["#### In the savepoint, but not in the program"] * bool(rows) + _table(
        head, rows[:_ROWS], len(rows)
    )


def _first(rows: Sequence[_Row]) -> list[_Row]:
    """Return the rows that a table has room for, those that need attention first."""
    return sorted(rows, key=lambda row: row.verdict in _FINE)[:_ROWS]


def _page(parts: Iterable[str]) -> str:
    """Return the parts as a page, without its last lines and parts if it would be too long."""
    lines: list[str] = []
    size = 0
    for line in (line for part in parts for line in ("", *part.split("\n"))):
        size += len(line.encode()) + 1
        if size > PAGE:
            lines.append("\n… the rest is left out: the plan is too long for a page")
            break
        lines.append(line)
    return "\n".join([*lines[1:], ""])


def _section(title: str, lines: Sequence[str], count: int) -> list[str]:
    """Return a titled list as parts, empty without lines. ``count``: the total number of lines."""
    more = [f"… and {count - _ROWS} more"] if count > _ROWS else []
    return [f"**{title}**"] * bool(lines) + ["\n".join(f"- {x}" for x in [*lines[:_ROWS], *more])]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], count: int) -> list[str]:
    """Return a table as one part, or no part without rows. ``count``: the total number of rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return []
    more = [f"\n… and {count - _ROWS} more"] if count > _ROWS else []
    return ["\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines, *more])]


def _named(op: OperatorRow) -> str:
    return f"{_code(op.label)} {_plain(op.kind or '')}".rstrip()


def _saved_query(row: OperatorRow | SourceRow) -> str:
    return _code(row.query) if row.query else "-"


def _state(op: OperatorRow) -> str:
    return "-" if op.bytes is None else state_text(op.rows, op.bytes)


def _rows(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _verdict(word: str) -> str:
    return word if word in _FINE else f"**{_plain(word)}**"


def _happens(row: OperatorRow | SourceRow | SinkRow | PinRow) -> str:
    return _HAPPENS.get(row.verdict) or _plain(row.text)


def _code(text: str) -> str:
    """Return a name, for Markdown."""
    return f"<code>{_numbered(_short(text))}</code>"


def _plain(text: str) -> str:
    """Return a sentence, for Markdown; what stands in backquotes is shown as a name."""
    parts = re.split("`([^`]*)`", _short(text))
    for i, part in enumerate(parts):
        mentions = _REFERENCE.split(part), _REFERENCE.findall(part)
        parts[i] = f"<code>{_numbered(part)}</code>" if i % 2 else _joined(*mentions)
    return "".join(parts)


def _joined(texts: list[str], marks: list[str]) -> str:
    """Return text with each link, and each beginning of a mention, in ``<code>``."""
    between = [f"<code>{_numbered(mark)}</code>" for mark in marks] + [""]
    return "".join(_numbered(text) + mark for text, mark in zip(texts, between, strict=True))


def _numbered(text: str) -> str:
    numbered = _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", text)
    # ``<!---->`` splits an address into two texts, and neither of them is an address.
    return _ADDRESS.sub("<!---->@", numbered)


def _short(text: str) -> str:
    line = visible(mask_secrets(text))
    return line if len(line) <= _WORDS else f"{line[:_WORDS]}…"


def _annotation(each: Finding, program: str | None) -> str:
    level = "warning" if each.outcome is RestoreOutcome.WARNING else "error"
    about = f"{each.who}: " if each.who else ""
    text = "\n".join(part for part in (about + each.text, each.advice) if part)
    return _command(level, text, program, f"flinkish check: {each.reason or each.outcome.value}")


def _command(level: str, text: str, file: str | None, title: str) -> str:
    """Return a command for GitHub's runner that annotates a file, or the run."""
    lines = "\n".join(_short(line) for line in text.split("\n"))
    named = [] if file is None else [f"file={_property(file)}"]
    return f"::{level} {','.join([*named, f'title={_property(title)}'])}::{_data(lines)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(_short(text)).replace(":", "%3A").replace(",", "%2C")
