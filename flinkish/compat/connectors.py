"""Measurements of Spark's connectors: which Spark they work with, which checkpoints they resume.

The table is ``data/connectors.json``, which ``data/connectors.schema.json`` describes and
``make compat-matrix ARGS="--connectors"`` writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from flinkish.compat.data import REINSTALL, Node, read_data
from flinkish.compat.model import CompatVerdict, Version
from flinkish.errors import FlinkishError, UsageError

FILE = "connectors.json"
#: The version of the file; raised when its form changes.
DATA_VERSION = 1
ROLES = ("source", "sink")
#: The verdicts of measurements; the verdict on what was not measured is ``unknown``.
VERDICTS = (CompatVerdict.OK, CompatVerdict.OK_WITH_LIMITATIONS, CompatVerdict.FAILS)

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LINE = re.compile(r"[0-9]+\.[0-9]+")
_RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


@dataclass(frozen=True)
class Artifact:
    """A release of a connector; ``line`` is the line of Spark that it was built for."""

    connector: str
    coordinates: str
    line: str

    @property
    def version(self) -> str:
        """The version of the connector."""
        return self.coordinates.rpartition(":")[2]


@dataclass(frozen=True)
class Environment:
    """A connector (by its coordinates) on a release of Spark."""

    artifact: str
    spark: str

    @property
    def version(self) -> Version:
        """The version of Spark."""
        line, _, patch = self.spark.rpartition(".")
        return Version(line, int(patch))

    def __str__(self) -> str:
        name, version = self.artifact.split(":")[1:]
        return f"{self.spark} with {name} {version}"


@dataclass(frozen=True)
class Cell:
    """One measurement: a query started in one environment and resumed in another.

    Attributes
    ----------
    role
        ``source`` or ``sink``: what the connector is in the query.
    limitation
        The first line of the error, or a note; None for ``ok``.
    """

    connector: str
    role: str
    created: Environment
    resumed: Environment
    verdict: CompatVerdict
    limitation: str | None = None


@dataclass(frozen=True)
class ConnectorMatrix:
    """The whole table."""

    measured: str
    scope: str
    artifacts: tuple[Artifact, ...]
    cells: tuple[Cell, ...]

    @property
    def connectors(self) -> tuple[str, ...]:
        """The names of its connectors, in the table's order."""
        return tuple(dict.fromkeys(one.connector for one in self.artifacts))

    @property
    def lines(self) -> tuple[str, ...]:
        """Spark's version lines, oldest first."""
        lines = {one.resumed.version.line for one in self.cells}
        return tuple(sorted(lines, key=lambda line: [*map(int, line.split("."))]))

    def of(self, connector: str | None) -> ConnectorMatrix:
        """Return the part about one connector (None: the whole table); UsageError if unknown."""
        if connector is None:
            return self
        if connector not in self.connectors:
            raise UsageError(
                f"the table has no connector {connector!r}",
                hint=f"it has {', '.join(self.connectors)}",
            )
        return ConnectorMatrix(
            self.measured,
            self.scope,
            tuple(one for one in self.artifacts if one.connector == connector),
            tuple(one for one in self.cells if one.connector == connector),
        )

    def alone(self) -> tuple[Cell, ...]:
        """Return the cells of queries that resume in the environment where they were started."""
        return tuple(one for one in self.cells if one.created == one.resumed)

    def between(self, created: Version | None, resumed: Version | None) -> tuple[Cell, ...]:
        """Return the cells from one Spark to another; None stands for any Spark.

        Versions are compared by line: the measured release answers for all others of its line.
        """
        return tuple(
            one
            for one in self.cells
            if (created is None or one.created.version.line == created.line)
            and (resumed is None or one.resumed.version.line == resumed.line)
        )


def verdict_of(cells: Iterable[Cell]) -> CompatVerdict:
    """Return the worst verdict of some cells, ``unknown`` when there are none. Pure."""
    return max(
        (one.verdict for one in cells),
        key=lambda verdict: verdict.badness,
        default=CompatVerdict.UNKNOWN,
    )


@cache
def load() -> ConnectorMatrix:
    """Return the table that comes with flinkish; FlinkishError if it is missing or invalid."""
    return parse(read_data(FILE), f"flinkish/compat/data/{FILE}")


def parse(text: str, place: str) -> ConnectorMatrix:
    """Parse the text of the table; ``place`` names the file in messages. Pure.

    Raises FlinkishError, which names the file and the path in it, if the text does not fit
    ``data/connectors.schema.json``.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise FlinkishError(f"{place}: not JSON: {error}", hint=REINSTALL) from error
    root = Node(place, document)
    root.keys(["schema_version", "measured", "scope", "artifacts", "cells"])
    if root.value["schema_version"] is True or root.value["schema_version"] != DATA_VERSION:
        root.at("schema_version").fail(f"must be {DATA_VERSION}")
    artifacts = [_artifact(node) for node in root.at("artifacts").items()]
    root.at("artifacts").unique([one.coordinates for one in artifacts])
    by_connector: dict[str, list[str]] = {}
    for one in artifacts:
        by_connector.setdefault(one.connector, []).append(one.coordinates)
    cells = [_cell(node, by_connector) for node in root.at("cells").items()]
    root.at("cells").unique([(one.role, one.created, one.resumed) for one in cells])
    return ConnectorMatrix(
        root.at("measured").text(_DAY), root.at("scope").text(), tuple(artifacts), tuple(cells)
    )


def _artifact(node: Node) -> Artifact:
    node.keys(["connector", "artifact", "spark"])
    return Artifact(
        node.at("connector").text(_NAME),
        node.at("artifact").text(_COORDINATES),
        node.at("spark").text(_LINE),
    )


def _cell(node: Node, environments: dict[str, list[str]]) -> Cell:
    node.keys(["connector", "role", "from", "to", "verdict", "limitation"])
    connector = node.at("connector").one_of(list(environments))
    verdict = CompatVerdict(node.at("verdict").one_of([one.value for one in VERDICTS]))
    limitation = None
    if node.value["limitation"] is not None:
        limitation = node.at("limitation").text()
    if (limitation is None) != (verdict is CompatVerdict.OK):
        node.at("limitation").fail(f"does not fit the verdict {verdict.value}")
    return Cell(
        connector,
        node.at("role").one_of(ROLES),
        _environment(node.at("from"), environments[connector]),
        _environment(node.at("to"), environments[connector]),
        verdict,
        limitation,
    )


def _environment(node: Node, artifacts: Sequence[str]) -> Environment:
    node.keys(["artifact", "spark"])
    return Environment(node.at("artifact").one_of(artifacts), node.at("spark").text(_RELEASE))
