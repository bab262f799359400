"""From the results in a work directory to the cells of ``flinkish/compat/data/spark.json``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tools.compatmatrix.cases import NONE, line
from tools.compatmatrix.errors import (
    FAILS,
    LIMITATIONS,
    NEEDS_MIGRATION,
    OK,
    WITH_LIMITATIONS,
    Judgement,
    judge,
)
from tools.compatmatrix.measure import (
    BadMeasurement,
    Begun,
    Measurement,
    is_chance,
    read_result,
    wrong_rows,
)

SCOPE = (
    "Measured: a small query of every operator kind is started on one version of Spark, saved by "
    "flinkish after two batches and resumed on another, and its rows are compared with the "
    "expected ones; PySpark with the file source and local state. Out of scope: versions of "
    "connectors, of Python UDFs and of the libraries they use."
)
#: From good to bad.
_VERDICTS = (OK, WITH_LIMITATIONS, NEEDS_MIGRATION, FAILS)
Key = tuple[str, str, str, str, tuple[str, ...]]


@dataclass
class Found:
    """Cells by (from, to, operator, backend, formats), and cases that could not be begun."""

    cells: dict[Key, Judgement] = field(default_factory=dict)
    not_begun: list[str] = field(default_factory=list)
    #: Which case made each of the cells that are not ok.
    worst: dict[Key, str] = field(default_factory=dict)


def standing(versions: Iterable[str]) -> dict[str, str]:
    """The release that stands for each line: the newest; its name in the table is the line's."""
    newest: dict[str, str] = {}
    for version in sorted(versions, key=lambda text: [int(n) for n in text.split(".")]):
        newest[_line_text(version)] = version
    return newest


def collect(measurement: Measurement) -> Found:
    """All cells that the work directory of a measurement has results for.

    Of a release that does not stand for its line only those that differ from the line's.

    Raises BadMeasurement where a savepoint cannot be gone on with on its own version: then the
    measurement is wrong, not Spark.
    """
    found = Found()
    names = {release: name for name, release in standing(measurement.versions).items()}
    wrong: list[str] = []
    for version in measurement.versions:
        for one in measurement.begun(version):
            begun = read_result(one.result())
            if begun is not None and begun["problem"]:
                found.not_begun.append(f"{version} {one.case.id}: {begun['problem']}")
            for target in measurement.versions:
                result = read_result(one.result(target))
                if result is None or is_chance(result["errors"]):
                    continue
                judgement = judge(one.case, line(target), _errors(one, result))
                if target == version and _badness(judgement) > _VERDICTS.index(WITH_LIMITATIONS):
                    wrong.append(f"{version} {one.case.id}: {judgement.error}")
                pair = names.get(version, version), names.get(target, target)
                _add(found, one, pair, judgement)
    _limit_combinations(found)
    _drop_what_the_line_says(found)
    if wrong:
        raise BadMeasurement("not restorable where it was taken: " + "; ".join(wrong))
    return found


def _errors(one: Begun, result: dict[str, Any]) -> list[str]:
    if result["errors"]:
        return [str(error) for error in result["errors"]]
    wrong = wrong_rows(result["rows"], one.case.query.name, 1)
    return [wrong] if wrong else []


def _add(found: Found, one: Begun, pair: tuple[str, str], judgement: Judgement) -> None:
    """A cell is as bad as the worst of the queries that measure it."""
    for operator in one.case.query.operators:
        key = (
            *pair,
            operator,
            one.case.backend if operator != "stateless" else NONE,
            tuple(sorted(one.case.formats)),
        )
        before = found.cells.get(key)
        if before is None or _badness(judgement) > _badness(before):
            found.cells[key] = judgement
            found.worst[key] = one.case.id


def _limit_combinations(found: Found) -> None:
    """Give cells of several formats what one of their formats has alone, where that is worse.

    The files of a savepoint depend on its moment: with a changelog there are archives now and then,
    and the few batches measured have none.
    """
    for key, judgement in found.cells.items():
        for name in key[4] if len(key[4]) > 1 else ():
            single = (*key[:4], (name,))
            alone = found.cells.get(single)
            if alone is not None and _badness(alone) > _badness(judgement):
                found.cells[key] = judgement = alone
                found.worst[key] = found.worst[single]


def _drop_what_the_line_says(found: Found) -> None:
    """Drop the cells of releases that are those of their lines."""
    for key, judgement in list(found.cells.items()):
        lines = _line_text(key[0]), _line_text(key[1])
        of_lines = found.cells.get((*lines, *key[2:]))
        if lines != key[:2] and of_lines is not None and of_lines.verdict == judgement.verdict:
            del found.cells[key]


def _badness(judgement: Judgement) -> int:
    return _VERDICTS.index(judgement.verdict)


def _line_text(version: str) -> str:
    return "{}.{}".format(*line(version))


def failures_text(found: Found) -> str:
    """What fails, for people: a line for each kind of failure and pair of versions."""
    counted: Counter[tuple[str, str, str]] = Counter()
    examples: dict[tuple[str, str, str], str] = {}
    for key, judgement in found.cells.items():
        for limitation in judgement.limitations:
            kind = (f"{judgement.verdict}: {limitation}", key[0], key[1])
            counted[kind] += 1
            examples.setdefault(kind, f"{found.worst[key]}: {judgement.error}")
    lines = [
        f"{name}  {old} -> {new}  {number} cells, such as {examples[name, old, new]}"
        for (name, old, new), number in sorted(counted.items())
    ]
    return "\n".join([*lines, *(f"not begun: {text}" for text in found.not_begun)])


def write_table(path: Path, found: Found, versions: Sequence[str]) -> None:
    """Write the table to ``path``, one cell a line, in an order that makes differences readable."""
    used = {name for judgement in found.cells.values() for name in judgement.limitations}
    fields = {
        "schema_version": 1,
        "framework": "spark",
        "measured": datetime.now(timezone.utc).date().isoformat(),
        "scope": SCOPE,
    }
    lists: dict[str, list[dict[str, Any]]] = {
        "versions": [
            {"line": name, "measured": newest, **({"also": also} if also else {})}
            for name, newest in standing(versions).items()
            for also in [[v for v in versions if _line_text(v) == name and v != newest]]
        ],
        "limitations": [
            {
                "id": name,
                "text": one.text,
                "advice": one.advice,
                **({"rewrite": one.rewrite} if one.rewrite else {}),
            }
            for name, one in LIMITATIONS.items()
            if name in used
        ],
        "cells": [_cell(key, found.cells[key]) for key in sorted(found.cells)],
    }
    parts = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in fields.items()]
    parts += [f" {json.dumps(k)}: [\n{_lines(v)}\n ]" for k, v in lists.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _cell(key: Key, judgement: Judgement) -> dict[str, Any]:
    old, new, operator, backend, formats = key
    return {
        "from": old,
        "to": new,
        "operator": operator,
        "backend": backend,
        "formats": list(formats),
        "verdict": judgement.verdict,
        "limitations": list(judgement.limitations),
        "error": judgement.error,
    }


def _lines(items: Iterable[Any]) -> str:
    return ",\n".join(f"  {json.dumps(item, ensure_ascii=False)}" for item in items)
