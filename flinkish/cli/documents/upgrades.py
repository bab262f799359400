"""The JSON documents of ``flinkish upgrade``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

from flinkish.cli.documents.parts import ErrorRecord, Time
from flinkish.messages.plan import RestorePlan
from flinkish.messages.upgrades import FleetOutcome, UpgradeKind, UpgradeState


class UpgradeDocument(TypedDict):
    """An upgrade of a job."""

    upgrade_id: str
    kind: UpgradeKind
    state: UpgradeState
    job_id: Annotated[str, "the old job"]
    name: str
    created: Time
    ended: Time | None
    savepoint: Annotated[str | None, "what the new program continues from"]
    old_savepoint: Annotated[str | None, "what the old job was stopped with on promotion"]
    new_job_id: str | None
    old_again_id: Annotated[str | None, "the job of the old program after a rollback"]
    failure: Mapping[str, Any] | None
    committed: Annotated[
        Mapping[str, list[int]], "the first and last batch of the failed attempt, by query"
    ]


class UpgradeDryRunDocument(TypedDict):
    """An upgrade that would be carried out."""

    dry_run: Literal[True]
    job_id: str
    steps: list[str]
    plan: RestorePlan


class FleetMember(TypedDict):
    """One job of a fleet."""

    name: str
    outcome: FleetOutcome
    job_id: str | None
    upgrade: UpgradeDocument | None
    error: ErrorRecord | None


class FleetDocument(TypedDict):
    """The jobs of a fleet."""

    jobs: list[FleetMember]
