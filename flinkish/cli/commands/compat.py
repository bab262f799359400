"""``flinkish compat``: which versions can resume the savepoints of which other versions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from flinkish.cli.base import Call, OptionalValue, command
from flinkish.cli.documents.versions import ConnectorsDocument, PairDocument, TableDocument
from flinkish.cli.output.connectors_text import connectors_document, connectors_lines
from flinkish.cli.output.printer import draw, is_terminal
from flinkish.cli.output.text import terminal_width
from flinkish.cli.output.versions_text import (
    FRAMEWORKS,
    MARKS,
    legend,
    pair_document,
    pair_lines,
    table_document,
)
from flinkish.units import table

if TYPE_CHECKING:
    from flinkish.compat.lookup import VersionComparison
    from flinkish.compat.model import Matrix, Version


#: The value of ``--connectors`` without a name.
ALL = "all"
_CORNER = "FROM \\ TO"


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


@command("compat", exit_codes=(), documents=(PairDocument, TableDocument, ConnectorsDocument))
@click.argument("created", metavar="[FROM]", required=False, shell_complete=_complete)
@click.argument("resumed", metavar="[TO]", required=False, shell_complete=_complete)
@click.option(
    "--framework",
    type=click.Choice(FRAMEWORKS),
    default=FRAMEWORKS[0],
    show_default=True,
    help="Framework whose versions are shown.",
)
@click.option(
    "--connectors",
    cls=OptionalValue,
    metavar="[NAME]",
    is_flag=False,
    flag_value=ALL,
    default=None,
    shell_complete=_complete_connector,
    help="Show connectors instead: for each release, the versions of Spark that it works with, and "
    "the checkpoints that it can resume. Without a name, or with 'all', every connector.",
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

    With --connectors, show for each release of a connector (kafka, delta, iceberg) the versions
    of Spark that it was measured to work with, as source and as sink, and the checkpoints that
    it can resume. FROM and TO limit the table to checkpoints that were created with FROM, and
    resumed with TO.
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
        out.document(table_document(matrix, flat, only=rows[0] if len(rows) == 1 else None))
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
    """Draw the table with colours and at full width, because a truncated table is unreadable."""
    colours = dict(MARKS.values())
    styles = {
        (i, j): colours[mark] for i, row in enumerate(rows) for j, mark in enumerate(row) if j
    }
    needed = sum(max(len(row[i]) for row in (head, *rows)) + 2 for i in range(len(head)))
    width = max(needed, terminal_width(sys.stdout) or 0)
    draw(head, rows, sys.stdout, styles=styles, whole=head, width=width)
