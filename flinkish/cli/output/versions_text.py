"""Verdicts on versions of Spark and Flink, for people and for programs. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from flinkish.units import table

if TYPE_CHECKING:
    from flinkish.cli.documents.versions import (
        Advice,
        EvidenceRecord,
        MatrixCell,
        Origin,
        PairDocument,
        TableDocument,
    )
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
_WIDTH = 100


def legend(matrix: Matrix, comparisons: Sequence[VersionComparison], *, one_row: bool) -> list[str]:
    """Return the lines below a table: its marks, its source, how to see a pair's limitations. Pure.

    With ``one_row``, the limitations of the row come before the last line.
    """
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
    """Return the measured combinations with an unusual verdict as lines, then Spark's errors."""
    from flinkish.compat.lookup import usual_verdict

    usual = usual_verdict(cells)
    others = [cell for cell in cells if cell.verdict is not usual]
    total = f"{len(cells)} combinations of operator, backend and formats were measured"
    if not others:
        return [f"{total}: all {usual.value}."]
    # Operators and backends share a line if their formats, verdict and limitations are the same.
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
    """Return the sentence that names the measured releases behind an answer.

    It is empty for a line of versions, a measured release, or a release of an unmeasured line.
    """
    from flinkish.compat.model import Evidence

    level, releases = matrix.evidence(version)
    if version.patch is None or level in (Evidence.MEASURED, Evidence.NONE):
        return ""
    if level is Evidence.BETWEEN:
        older, newer = releases
        return f"{version} was not measured: the answer is the worse of {older} and {newer}."
    return f"{version} was not measured: the answer is that of {releases[0]}."


def _evidence_record(matrix: Matrix, version: Version) -> EvidenceRecord:
    level, releases = matrix.evidence(version)
    return {"level": level, "releases": list(releases)}


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


def pair_document(matrix: Matrix, comparison: VersionComparison) -> PairDocument:
    """Return one pair of versions as JSON data. Pure."""
    from flinkish.compat.lookup import route

    steps: tuple[str, ...] = ()
    if comparison.verdict.value == "fails":
        steps = route(matrix, comparison.created, comparison.resumed)
    return {
        "framework": matrix.framework,
        "from": str(comparison.created),
        "to": str(comparison.resumed),
        "verdict": comparison.verdict,
        "limitations": _records(comparison.limitations),
        "cells": [_cell_record(cell) for cell in comparison.cells],
        "steps": list(steps),
        "preconditions": _preconditions(matrix),
        "evidence": {
            "from": _evidence_record(matrix, comparison.created),
            "to": _evidence_record(matrix, comparison.resumed),
        },
        "scope": matrix.scope,
        **_origin_record(matrix),
    }


def table_document(
    matrix: Matrix, comparisons: Sequence[VersionComparison], *, only: Version | None = None
) -> TableDocument:
    """Return several pairs as JSON data: every cell, and one verdict per pair. Pure.

    ``only``: the version that all pairs start from, if they are one row of the table.
    """
    document: dict[str, object] = {
        "framework": matrix.framework,
        "versions": list(matrix.lines),
        "pairs": [
            {"from": str(one.created), "to": str(one.resumed), "verdict": one.verdict}
            for one in comparisons
        ],
        "cells": [_cell_record(cell) for one in comparisons for cell in one.cells],
        "limitations": _records(_limitations(matrix, comparisons)),
        "preconditions": _preconditions(matrix),
        "scope": matrix.scope,
        **_origin_record(matrix),
    }
    if only is not None:
        document["from"] = str(only)
    return cast("TableDocument", document)


def _cell_record(cell: Cell) -> MatrixCell:
    record: MatrixCell = {
        "from": cell.created,
        "to": cell.resumed,
        "verdict": cell.verdict,
        "limitations": list(cell.limitations),
    }
    if cell.operator is not None:
        record["operator"] = cell.operator
        record["backend"] = cell.backend
        record["formats"] = sorted(cell.formats)
        record["error"] = cell.error
    return record


def _records(limitations: Iterable[Limitation]) -> list[Advice]:
    return [{"id": one.id, "text": one.text, "advice": one.advice} for one in limitations]


def _preconditions(matrix: Matrix) -> list[Advice]:
    return [{"id": one.id, "text": one.text, "advice": one.advice} for one in matrix.preconditions]


def _origin_record(matrix: Matrix) -> Origin:
    """Return the source of the table, or when it was measured and with which releases."""
    if matrix.measured is None:
        return {"source": matrix.source}
    return {
        "measured": matrix.measured,
        "releases": {line.line: line.measured for line in matrix.versions},
        "all_releases": {line.line: list(line.releases) for line in matrix.versions},
    }
