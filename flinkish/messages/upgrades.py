"""The record of an upgrade in the registry: what is to be done, and how far it has got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flinkish.messages.codec import OMIT_DEFAULT
from flinkish.messages.launch import Launch, RestoreSpec

#: The smallest number of batches that a new program can be required to commit.
LEAST_HEALTH_BATCHES = 0


class UpgradeKind(str, Enum):
    """How the new program takes over from the old job.

    IN_PLACE: the old job is stopped, then the new program is started. HANDOVER: the driver of the
    new program is started before the old job is stopped. SHADOW: the new program runs beside the
    old job, on a copy of its state, until the user decides.
    """

    IN_PLACE = "in-place"
    HANDOVER = "handover"
    SHADOW = "shadow"


class UpgradeState(str, Enum):
    """What is done next in an upgrade, or how it ended.

    STOPPING, STARTING and WATCHING lead to UPGRADED; ENDING and RETURNING, the way back, lead to
    ROLLED_BACK. ABANDONED: the old job was never stopped, or it was stopped for a shadow that then
    ended. A handover begins with PREPARING: the driver of the new program starts beside the old
    job. A shadow begins with SAVING, a savepoint of the old job, which keeps running. The upgrade
    is SHADOWING until the user decides, and PROMOTING while the old job is stopped for the shadow;
    for a shadow, ENDING leads to ABANDONED.
    """

    PREPARING = "PREPARING"
    STOPPING = "STOPPING"
    STARTING = "STARTING"
    WATCHING = "WATCHING"
    UPGRADED = "UPGRADED"
    ENDING = "ENDING"
    RETURNING = "RETURNING"
    SAVING = "SAVING"
    SHADOWING = "SHADOWING"
    PROMOTING = "PROMOTING"
    ROLLED_BACK = "ROLLED_BACK"
    ABANDONED = "ABANDONED"

    @property
    def is_final(self) -> bool:
        """Whether nothing is left to do."""
        return self in (self.UPGRADED, self.ROLLED_BACK, self.ABANDONED)


class FleetOutcome(str, Enum):
    """The outcome of one job of a fleet."""

    UPGRADED = "upgraded"
    UP_TO_DATE = "up to date"
    READY = "would be upgraded"
    REFUSED = "refused"
    ROLLED_BACK = "rolled back"
    FAILED = "failed"
    NOT_BEGUN = "not begun"

    @property
    def is_good(self) -> bool:
        """Whether the job is, or would be, as its entry requests."""
        return self in (self.UPGRADED, self.UP_TO_DATE, self.READY)


@dataclass(frozen=True)
class Health:
    """When a new program counts as healthy.

    Attributes
    ----------
    batches
        How many batches every query has to commit; 0: the queries only have to start.
    timeout
        The seconds that the program gets for its start, and again for these batches.
    """

    batches: int = 3
    timeout: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """One upgrade of a job.

    Attributes
    ----------
    upgrade_id
        32 hex digits.
    job_id, name
        The old job.
    created, ended
        Seconds since the epoch.
    launch
        The new program and its Spark, without secrets and without a savepoint.
    restore
        The options of its restore; the savepoint's path is set when there is one.
    target
        The directory of the savepoint.
    timeout
        Seconds that the job's savepoint, and its end if it is stopped, may take in all.
    request_id
        The request that stops the old job; for a shadow, at first the request for its savepoint.
        The id is recorded before the request is sent.
    savepoint
        The savepoint that the new program continues from.
    new_job_id, old_again_id
        The job of the new program, and of the old program after a rollback. An id is recorded
        before its job is started.
    failure
        Why the new program was given up, or a shadow not promoted (``FlinkishError.to_record``).
    committed
        The first and last batch that the failed attempt committed, by query.
    revision
        The number of this version of the record.
    kind
        How the new program takes over.
    old_savepoint
        The savepoint that the old job was stopped with when its shadow was promoted.
    """

    upgrade_id: str
    job_id: str
    name: str
    state: UpgradeState
    created: float
    launch: Launch
    restore: RestoreSpec
    target: str
    timeout: float
    health: Health = field(default_factory=Health)
    request_id: str | None = None
    savepoint: str | None = None
    new_job_id: str | None = None
    old_again_id: str | None = None
    failure: Mapping[str, Any] | None = None
    committed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ended: float | None = None
    revision: int = 0
    kind: UpgradeKind = field(default=UpgradeKind.IN_PLACE, metadata=OMIT_DEFAULT)
    old_savepoint: str | None = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def starts_beside(self) -> bool:
        """Whether there is a driver of the new program before the old job has ended."""
        return self.kind is not UpgradeKind.IN_PLACE
