"""``flinkish compat``: which versions can resume the savepoints of which other versions."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from flinkish.cli.base import Call, command
from flinkish.cli.output.connectors_text import connectors_document, connectors_lines
from flinkish.cli.output.printer import is_terminal
from flinkish.units import table

if TYPE_CHECKING:
    from flinkish.compat.lookup import VersionComparison
    from flinkish.compat.model import Cell, Limitation, Matrix, Version

FRAMEWORKS = ("spark", "flink")

#: For each verdict, its mark in the table and the mark's colour on a terminal.
MARKS = {
    "ok": ("O", "green"),
    "ok-with-limitations": ("L", "yellow"),
    "unknown": ("?", "magenta"),
    "needs-migration": ("M", "cyan"),
    "fails": ("-", "red"),
}
#: ``--connectors`` without a name.
ALL = "all"
_CORNER = "FROM \\ TO"
_WIDTH = 100


def _complete(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from flinkish.compat.data import load

    lines = load(ctx.params.get("framework") or FRAMEWORKS[0]).lines
    return [CompletionItem(line) for line in lines if line.startswith(incomplete)]


def _complete_connector(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from flinkish.compat.connectors import load

    names = (ALL, *load().connectors)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@command("compat", exit_codes=())
@click.argument("created", metavar="[FROM]", required=False, shell_complete=_complete)
@click.argument("resumed", metavar="[TO]", required=False, shell_complete=_complete)
@click.option(
    "--framework",
    type=click.Choice(FRAMEWORKS),
    default=FRAMEWORKS[0],
    show_default=True,
    help="Whose versions.",
)
@click.option(
    "--connectors",
    metavar="[NAME]",
    is_flag=False,
    flag_value=ALL,
    default=None,
    shell_complete=_complete_connector,
    help="Show connectors instead: which release works with which Spark, and can resume whose "
    "checkpoints. Without a name, or with 'all', every connector.",
)
def compat(
    call: Call,
    created: str | None,
    resumed: str | None,
    framework: str,
    connectors: str | None,
) -> int:
    """Show which versions can resume a savepoint of which others.

    Without arguments, show the whole table. With FROM, show the row of savepoints taken with
    that version. With both, show the verdict for resuming them with TO, and its limitations.
    Versions are written as 1.8, 1.8.2 or v4.3.0.

    Spark's table is measured per operator, state backend and non-default format; Flink's comes
    from its documentation. The exit code is 0 whatever the verdict.

    With --connectors, show which releases of Spark's connectors (kafka, delta, iceberg) were
    measured to work with which Spark as source and as sink, and which can resume the
    checkpoints of which others; with FROM and TO, only upgrades from one Spark to the other.
    """
    from flinkish.compat.data import load
    from flinkish.compat.lookup import compare_versions
    from flinkish.compat.model import Version, parse_version

    if connectors is not None:
        return _show_connectors(call, connectors, created, resumed, framework)
    matrix = load(framework)
    versions = [
        parse_version(text, framework, matrix.lines)
        for text in (created, resumed)
        if text is not None
    ]
    for version in versions:
        if version.line not in matrix.lines:
            call.out.note(
                f"the table of {framework} has no {version.line}; it has {', '.join(matrix.lines)}"
            )
    if len(versions) == 2:
        _show_pair(call, matrix, compare_versions(matrix, *versions))
        return 0
    rows = versions or [Version(line) for line in matrix.lines]
    columns = [Version(line) for line in matrix.lines]
    comparisons = [[compare_versions(matrix, row, column) for column in columns] for row in rows]
    _show_table(call, matrix, rows, comparisons)
    return 0


def _show_connectors(
    call: Call, name: str, created: str | None, resumed: str | None, framework: str
) -> int:
    from flinkish.compat.connectors import load, verdict_of
    from flinkish.compat.model import parse_version
    from flinkish.errors import UsageError

    if framework != FRAMEWORKS[0]:
        raise UsageError("connectors exist for Spark only", hint="omit --framework")
    matrix = load().of(None if name == ALL else name)
    old, new = (
        None if text is None else parse_version(text, framework, matrix.lines)
        for text in (created, resumed)
    )
    for version in (old, new):
        if version is not None and version.line not in matrix.lines:
            call.out.note(
                f"the table of connectors has no {version.line}; it has {', '.join(matrix.lines)}"
            )
    if call.out.json:
        call.out.document(connectors_document(matrix, old, new))
    elif call.out.quiet:
        cells = matrix.alone() if old is None and new is None else matrix.between(old, new)
        for key in dict.fromkeys((one.connector, one.created, one.resumed) for one in cells):
            some = [one for one in cells if (one.connector, one.created, one.resumed) == key]
            sides = " ".join(f"{env.artifact} {env.spark}" for env in dict.fromkeys(key[1:]))
            call.out.line(f"{key[0]} {sides} {verdict_of(some).value}")
    else:
        for line in connectors_lines(matrix, old, new):
            call.out.line(line)
    return 0


def _show_pair(call: Call, matrix: Matrix, comparison: VersionComparison) -> None:
    out = call.out
    if out.json:
        out.document(pair_document(matrix, comparison))
    elif out.quiet:
        out.line(comparison.verdict.value)
    else:
        for line in pair_lines(matrix, comparison):
            out.line(line)


def _show_table(
    call: Call,
    matrix: Matrix,
    rows: Sequence[Version],
    comparisons: Sequence[Sequence[VersionComparison]],
) -> None:
    out = call.out
    flat = [one for row in comparisons for one in row]
    if out.json:
        document = table_document(matrix, flat)
        out.document({"from": str(rows[0]), **document} if len(rows) == 1 else document)
    elif out.quiet:
        for one in flat:
            out.line(f"{one.created} {one.resumed} {one.verdict.value}")
    else:
        head = (_CORNER, *matrix.lines)
        marks = [
            (str(row), *(MARKS[one.verdict.value][0] for one in line))
            for row, line in zip(rows, comparisons, strict=True)
        ]
        if is_terminal(sys.stdout):
            _draw(head, marks)
        else:
            for text in table(head, marks):
                out.line(text)
        for text in legend(matrix, flat, one_row=len(rows) == 1):
            out.line(text)


def _draw(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Draw the table with colours, in its full width: a truncated table cannot be read."""
    from rich.console import Console  # only on a terminal: its import is slow
    from rich.table import Table
    from rich.text import Text

    colours = dict(MARKS.values())
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in head:
        drawn.add_column(name, no_wrap=True)
    for row in rows:
        drawn.add_row(row[0], *(Text(mark, style=colours[mark]) for mark in row[1:]))
    width = sum(max(len(row[i]) for row in (head, *rows)) + 2 for i in range(len(head)))
    console = Console()
    if console.width < width:
        console = Console(width=width)
    console.print(drawn)


def legend(matrix: Matrix, comparisons: Sequence[VersionComparison], *, one_row: bool) -> list[str]:
    """Return the meanings of the marks, the source of the table, and a reference. Pure."""
    seen = {one.verdict.value for one in comparisons}
    marks = [f"{mark} {name}" for name, (mark, _) in MARKS.items() if name in seen]
    lines = ["", ", ".join(marks), *_wrapped(_origin(matrix))]
    if one_row:
        lines += _limitation_lines(_limitations(matrix, comparisons))
    other = "" if matrix.framework == FRAMEWORKS[0] else f" --framework {matrix.framework}"
    return [*lines, "", f"A pair's limitations: flinkish compat FROM TO{other}"]


def pair_lines(matrix: Matrix, comparison: VersionComparison) -> list[str]:
    """Return one pair of versions as lines for people. Pure."""
    from flinkish.compat.lookup import route

    created, resumed = comparison.created, comparison.resumed
    lines = [
        f"{matrix.framework} {created} -> {resumed}: {comparison.verdict.value}",
        *_wrapped(_origin(matrix)),
        *_wrapped(" ".join(_evidence_text(matrix, each) for each in (created, resumed)).strip()),
    ]
    if not comparison.cells:
        lines += ["", "The table says nothing about this pair."]
    elif comparison.cells[0].operator is not None:
        lines += ["", *_cell_lines(comparison.cells)]
    lines += _limitation_lines(comparison.limitations)
    if comparison.verdict.value == "fails":
        steps = route(matrix, created, resumed)
        if steps:
            lines += ["", f"Possible in steps, with a savepoint at each: {' -> '.join(steps)}"]
    if matrix.preconditions:
        lines += ["", "Preconditions of every migration:"]
        for condition in matrix.preconditions:
            lines += _item(condition.id, condition.text, condition.advice)
    return lines


def _cell_lines(cells: Sequence[Cell]) -> list[str]:
    """Return the operators, backends and formats whose verdict differs from the most common one."""
    from flinkish.compat.lookup import usual_verdict

    usual = usual_verdict(cells)
    others = [cell for cell in cells if cell.verdict is not usual]
    total = f"{len(cells)} combinations of operator, backend and formats were measured"
    if not others:
        return [f"{total}: all {usual.value}."]
    # Operators with the same verdict for the same formats share a line, and so do backends.
    alike: dict[tuple[tuple[str, ...], str, tuple[str, ...]], list[Cell]] = {}
    for cell in others:
        key = (tuple(sorted(cell.formats)), cell.verdict.value, cell.limitations)
        alike.setdefault(key, []).append(cell)
    rows = []
    for (formats, verdict, limitations), group in alike.items():
        rows.append(
            (
                ", ".join(formats) or "default",
                _set_of(cell.backend for cell in group),
                verdict,
                ", ".join(limitations) or "-",
                _set_of(cell.operator for cell in group),
            )
        )
    head = ("FORMATS", "BACKEND", "VERDICT", "LIMITATIONS", "OPERATORS")
    lines = [f"{total}: {len(cells) - len(others)} {usual.value}, but:"]
    lines += ["  " + line for line in table(head, rows)]
    errors = list(dict.fromkeys(cell.error for cell in others if cell.error))
    if errors:
        lines += ["", "Spark's errors:"]
        for error in errors:
            lines += _wrapped(error, indent="  ", hanging="    ")
    return lines


def _limitation_lines(limitations: Sequence[Limitation]) -> list[str]:
    if not limitations:
        return []
    lines = ["", "Limitations:"]
    for limitation in limitations:
        lines += _item(limitation.id, limitation.text, limitation.advice)
    return lines


def _item(name: str, text: str, advice: str) -> list[str]:
    return [
        f"  {name}",
        *_wrapped(text, indent="    "),
        *_wrapped(f"Advice: {advice}", indent="    "),
    ]


def _origin(matrix: Matrix) -> str:
    if matrix.measured is None:
        return f"Source: {matrix.source}. {matrix.scope}"
    releases = ", ".join(name for line in matrix.versions for name in line.releases)
    return f"Measured {matrix.measured} with {releases}. {matrix.scope}"


def _evidence_text(matrix: Matrix, version: Version) -> str:
    """Return from which releases the answer for a release comes that was not measured itself."""
    from flinkish.compat.model import Evidence

    level, releases = matrix.evidence(version)
    if version.patch is None or level in (Evidence.MEASURED, Evidence.NONE):
        return ""
    if level is Evidence.BETWEEN:
        older, newer = releases
        return f"{version} was not measured: the answer is the worse of {older} and {newer}."
    return f"{version} was not measured: the answer is that of {releases[0]}."


def _evidence_record(matrix: Matrix, version: Version) -> dict[str, Any]:
    level, releases = matrix.evidence(version)
    return {"level": level.value, "releases": list(releases)}


def _wrapped(text: str, *, indent: str = "", hanging: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _set_of(values: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))


def _limitations(matrix: Matrix, comparisons: Iterable[VersionComparison]) -> list[Limitation]:
    """Return the limitations of some pairs, each once, in the table's order."""
    names = {limitation.id for one in comparisons for limitation in one.limitations}
    return [one for name, one in matrix.limitations.items() if name in names]


def pair_document(matrix: Matrix, comparison: VersionComparison) -> dict[str, Any]:
    """Return one pair of versions as JSON data. Pure."""
    from flinkish.compat.lookup import route

    steps: tuple[str, ...] = ()
    if comparison.verdict.value == "fails":
        steps = route(matrix, comparison.created, comparison.resumed)
    return {
        "framework": matrix.framework,
        "from": str(comparison.created),
        "to": str(comparison.resumed),
        "verdict": comparison.verdict.value,
        "limitations": _records(comparison.limitations),
        "cells": [_cell_record(cell) for cell in comparison.cells],
        "steps": list(steps),
        "preconditions": _preconditions(matrix),
        "evidence": {
            "from": _evidence_record(matrix, comparison.created),
            "to": _evidence_record(matrix, comparison.resumed),
        },
        **_origin_record(matrix),
    }


def table_document(matrix: Matrix, comparisons: Sequence[VersionComparison]) -> dict[str, Any]:
    """Return several pairs as JSON data: every cell, and one verdict per pair. Pure."""
    return {
        "framework": matrix.framework,
        "versions": list(matrix.lines),
        "pairs": [
            {"from": str(one.created), "to": str(one.resumed), "verdict": one.verdict.value}
            for one in comparisons
        ],
        "cells": [_cell_record(cell) for one in comparisons for cell in one.cells],
        "limitations": _records(_limitations(matrix, comparisons)),
        "preconditions": _preconditions(matrix),
        **_origin_record(matrix),
    }


def _cell_record(cell: Cell) -> dict[str, Any]:
    record: dict[str, Any] = {
        "from": cell.created,
        "to": cell.resumed,
        "verdict": cell.verdict.value,
        "limitations": list(cell.limitations),
    }
    if cell.operator is not None:
        record |= {
            "operator": cell.operator,
            "backend": cell.backend,
            "formats": sorted(cell.formats),
            "error": cell.error,
        }
    return record


def _records(limitations: Iterable[Limitation]) -> list[dict[str, str]]:
    return [{"id": one.id, "text": one.text, "advice": one.advice} for one in limitations]


def _preconditions(matrix: Matrix) -> list[dict[str, str]]:
    return [{"id": one.id, "text": one.text, "advice": one.advice} for one in matrix.preconditions]


def _origin_record(matrix: Matrix) -> dict[str, Any]:
    """Return the source of the table."""
    if matrix.measured is None:
        return {"source": matrix.source, "scope": matrix.scope}
    return {
        "measured": matrix.measured,
        "releases": {line.line: line.measured for line in matrix.versions},
        "all_releases": {line.line: list(line.releases) for line in matrix.versions},
        "scope": matrix.scope,
    }
