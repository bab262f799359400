"""The JSON documents of ``flinkish compat``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypedDict

from flinkish.compat.model import CompatVerdict, Evidence

_FromTo = TypedDict("_FromTo", {"from": str, "to": str})
_MayFromTo = TypedDict("_MayFromTo", {"from": str | None, "to": str | None})


class Advice(TypedDict):
    """A limitation or a precondition."""

    id: str
    text: str
    advice: str


class _Measured(TypedDict, total=False):
    operator: Annotated[str, "only for a measured cell, as are the next members"]
    backend: str | None
    formats: Annotated[list[str], "state and log formats other than the defaults"]
    error: str | None


class MatrixCell(_FromTo, _Measured):
    """What the table says about two lines of versions."""

    verdict: CompatVerdict
    limitations: list[str]


class Origin(TypedDict, total=False):
    """Where the table comes from."""

    measured: Annotated[str | None, "the day of the measurement"]
    releases: Annotated[Mapping[str, str | None], "the measured release of each line"]
    all_releases: Mapping[str, list[str]]
    source: Annotated[str | None, "the documentation that says so, where nothing was measured"]


class EvidenceRecord(TypedDict):
    """How the answer for a release is known."""

    level: Evidence
    releases: list[str]


BothEvidence = TypedDict("BothEvidence", {"from": EvidenceRecord, "to": EvidenceRecord})


class PairDocument(_FromTo, Origin):
    """Two versions."""

    framework: str
    verdict: CompatVerdict
    limitations: list[Advice]
    cells: list[MatrixCell]
    steps: Annotated[list[str], "versions to go through, where the direct way fails"]
    preconditions: list[Advice]
    evidence: BothEvidence
    scope: str


class VersionPair(_FromTo):
    """The verdict on two versions."""

    verdict: CompatVerdict


_MayFrom = TypedDict("_MayFrom", {"from": str}, total=False)


class TableDocument(_MayFrom, Origin):
    """The whole table, or one row of it."""

    framework: str
    versions: list[str]
    pairs: list[VersionPair]
    cells: list[MatrixCell]
    limitations: list[Advice]
    preconditions: list[Advice]
    scope: str


class Artifact(TypedDict):
    """A release of a connector."""

    connector: str
    artifact: str
    spark: str


class Place(TypedDict):
    """A connector on a Spark."""

    artifact: str
    spark: str


_BothPlaces = TypedDict("_BothPlaces", {"from": Place, "to": Place})


class ConnectorCell(_BothPlaces):
    """What becomes of a checkpoint of a connector."""

    connector: str
    role: str
    verdict: CompatVerdict
    limitation: str | None


class ConnectorsDocument(_MayFromTo):
    """The table of connectors (``--connectors``)."""

    artifacts: list[Artifact]
    cells: list[ConnectorCell]
    measured: str
    scope: str
