"""The table of connectors for people and for programs. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from flinkish.units import table

if TYPE_CHECKING:
    from flinkish.cli.documents.versions import ConnectorsDocument, Place
    from flinkish.compat.connectors import Cell, ConnectorMatrix, Environment
    from flinkish.compat.model import Version

_WIDTH = 100
_UNKNOWN = "unknown"


def connectors_lines(
    matrix: ConnectorMatrix, created: Version | None = None, resumed: Version | None = None
) -> list[str]:
    """Return the table as lines: the cells between the given versions, or all if none is given."""
    if created is not None or resumed is not None:
        lines = _pairs(matrix.between(created, resumed))
        if not lines:
            lines = ["The table has no entry for these versions: unknown."]
    else:
        lines = _alone(matrix)
        moved = [one for one in matrix.cells if one.created != one.resumed]
        if moved:
            lines += ["", "Checkpoints resumed elsewhere:", *_pairs(moved)]
    return [*lines, "", *_wrapped(f"Measured {matrix.measured}. {matrix.scope}")]


def _alone(matrix: ConnectorMatrix) -> list[str]:
    """Return the table of which release works on which Spark, as lines."""
    cells = matrix.alone()
    rows = [
        (
            artifact.connector,
            artifact.coordinates,
            artifact.line,
            environment.spark,
            *_verdicts(one for one in cells if one.created == environment),
        )
        for artifact in matrix.artifacts
        for environment in dict.fromkeys(
            one.created for one in cells if one.created.artifact == artifact.coordinates
        )
    ]
    head = ("CONNECTOR", "ARTIFACT", "BUILT FOR", "SPARK", "SOURCE", "SINK")
    return [*table(head, rows), *_limitations(cells)]


def _pairs(cells: Sequence[Cell]) -> list[str]:
    """Return the table of which checkpoint resumes where, as lines."""
    pairs = dict.fromkeys((one.connector, one.created, one.resumed) for one in cells)
    labels = _labels([end for _, *ends in pairs for end in ends])
    rows = [
        (
            connector,
            labels[old],
            labels[new],
            *_verdicts(one for one in cells if (one.created, one.resumed) == (old, new)),
        )
        for connector, old, new in pairs
    ]
    if not rows:
        return []
    head = ("CONNECTOR", "FROM SPARK", "TO SPARK", "SOURCE", "SINK")
    return [*table(head, rows), *_limitations(cells)]


def _labels(environments: Iterable[Environment]) -> dict[Environment, str]:
    """Return a label for each environment: its versions, or its full name if others share them."""
    every = dict.fromkeys(environments)
    short = {one: f"{one.spark} + {one.artifact.rpartition(':')[2]}" for one in every}
    used = list(short.values())
    return {one: text if used.count(text) == 1 else str(one) for one, text in short.items()}


def _verdicts(cells: Iterable[Cell]) -> tuple[str, str]:
    verdicts = {one.role: one.verdict.value for one in cells}
    return verdicts.get("source", _UNKNOWN), verdicts.get("sink", _UNKNOWN)


def _limitations(cells: Iterable[Cell]) -> list[str]:
    """Return the limitations as lines: each text once, followed by the places it applies to."""
    where: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in cells:
        if one.limitation is not None:
            places = where.setdefault((one.verdict.value, one.limitation), {})
            places.setdefault(_place(one), []).append(one.role)
    lines: list[str] = []
    for (verdict, text), places in where.items():
        lines += ["", *_wrapped(f"{verdict}: {text}", "  ", "    ")]
        for place, roles in places.items():
            lines += _wrapped(f"{' and '.join(roles)}: {place}", "    ", "      ")
    return lines


def _place(cell: Cell) -> str:
    if cell.created == cell.resumed:
        return f"Spark {cell.resumed}"
    return f"Spark {cell.created} -> {cell.resumed}"


def _wrapped(text: str, indent: str = "", hanging: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def connectors_document(
    matrix: ConnectorMatrix, created: Version | None = None, resumed: Version | None = None
) -> ConnectorsDocument:
    """Return the table as JSON data; with one or both versions, only the cells that have them."""
    return {
        "from": None if created is None else str(created),
        "to": None if resumed is None else str(resumed),
        "artifacts": [
            {"connector": one.connector, "artifact": one.coordinates, "spark": one.line}
            for one in matrix.artifacts
        ],
        "cells": [
            {
                "connector": one.connector,
                "role": one.role,
                "from": _environment(one.created),
                "to": _environment(one.resumed),
                "verdict": one.verdict,
                "limitation": one.limitation,
            }
            for one in matrix.between(created, resumed)
        ],
        "measured": matrix.measured,
        "scope": matrix.scope,
    }


def _environment(one: Environment) -> Place:
    return {"artifact": one.artifact, "spark": one.spark}
