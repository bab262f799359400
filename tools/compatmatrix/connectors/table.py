"""From the results in a work directory to ``flinkish/compat/data/connectors.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tools.compatmatrix.connectors.artifacts import ARTIFACTS, Environment
from tools.compatmatrix.connectors.measure import Begun, ConnectorMeasurement, errors, verdict
from tools.compatmatrix.errors import FAILS, OK, WITH_LIMITATIONS, short_error

SCOPE = (
    "In each case a query without state reads from the connector into files (source), or from"
    " files into the connector (sink; append); it runs some batches in one environment, "
    "stops, and resumes from the same checkpoint in a new process of the same or another "
    "environment; every row must be in the sink once. Delta: a table at a path, its log with "
    "a checkpoint every 2 commits; Iceberg: a Hadoop catalog; Kafka: one broker 4.1.0 without"
    " security. What is not listed was not measured."
)


def cells(measurement: ConnectorMeasurement) -> list[dict[str, Any]]:
    """One for each pair that was measured, and for what could not even be begun."""
    found = [
        _cell(begun, one, errors(begun))
        for one in measurement.environments
        for begun in measurement.begun(one)
        if verdict(begun) is not None
    ]
    found += [_cell(begun, to, errors(begun, to)) for begun, to in measurement.pairs()]
    order = [one.id for one in measurement.environments]
    places = {one.id: _environment(one) for one in measurement.environments}
    ranks = {json.dumps(places[name]): rank for rank, name in enumerate(order)}
    return sorted(
        found,
        key=lambda cell: (
            cell["role"] != "source",
            ranks[json.dumps(cell["from"])],
            ranks[json.dumps(cell["to"])],
        ),
    )


def _cell(begun: Begun, target: Environment, failures: Sequence[str]) -> dict[str, Any]:
    outcome, limitation = OK, None
    if failures:
        outcome, limitation = FAILS, short_error(failures)
    elif not target.is_own:
        outcome = WITH_LIMITATIONS
        limitation = f"built for Spark {target.artifact.line}; what was measured works here too"
    return {
        "connector": begun.environment.artifact.connector,
        "role": begun.role,
        "from": _environment(begun.environment),
        "to": _environment(target),
        "verdict": outcome,
        "limitation": limitation,
    }


def _environment(one: Environment) -> dict[str, str]:
    return {"artifact": one.artifact.coordinates, "spark": one.spark}


def write_table(path: Path, found: Sequence[dict[str, Any]]) -> None:
    """Write the table to ``path``, one cell a line, in an order that makes differences readable."""
    fields = {
        "schema_version": 1,
        "measured": datetime.now(timezone.utc).date().isoformat(),
        "scope": SCOPE,
    }
    measured = {one["connector"] for one in found}
    artifacts = [
        {"connector": one.connector, "artifact": one.coordinates, "spark": one.line}
        for one in ARTIFACTS
        if one.connector in measured
    ]
    parts = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in fields.items()]
    for name, items in (("artifacts", artifacts), ("cells", found)):
        parts.append(f" {json.dumps(name)}: [\n{_lines(items)}\n ]")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _lines(items: Iterable[Any]) -> str:
    return ",\n".join(f"  {json.dumps(item, ensure_ascii=False)}" for item in items)
