"""How a savepoint, a stop or a cancel went: the result of each of these use cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkish.client.reporter import Reporter
from flinkish.errors import FlinkishError
from flinkish.messages.requests import LeftOut, RequestResult, SavepointSummary
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState

#: The warning about a savepoint of a program that may still be starting queries.
INCOMPLETE = (
    "the program may not have started all its queries yet: later ones are not in the "
    "savepoint, and a restore needs consent (-n) to start them empty"
)


@dataclass(frozen=True)
class Removal:
    """The old savepoints that were removed after a new one was taken.

    Attributes
    ----------
    removed
        Locations of the savepoints that are gone.
    error
        Why some of the savepoints to be removed are still there.
    warnings
        Sentences about savepoints of these jobs that are not what they should be.
    """

    removed: tuple[str, ...] = ()
    error: FlinkishError | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a savepoint, a stop or a cancel went.

    Attributes
    ----------
    job_id
        The job; for checkpoints without a job the id that stands in their savepoint.
    target
        The directory of savepoints; None for a cancel without one.
    request_id
        The request in the job's history; None for a dry run, and for checkpoints without a job.
    state
        COMPLETED; PENDING if its result was not waited for; None for a dry run.
    job_state
        The job's state afterwards; None if it was not waited for, or there is no job.
    result
        None if it was not waited for.
    removal
        The old savepoints that the retention policy did not keep.
    """

    job_id: str
    kind: RequestKind
    target: str | None
    request_id: str | None = None
    state: RequestState | None = None
    job_state: JobState | None = None
    result: RequestResult | None = None
    removal: Removal = Removal()

    @classmethod
    def of(cls, request: Request, job: JobRecord | None = None) -> Outcome:
        """Return the outcome of a request so far; ``job`` is the job's record afterwards."""
        return cls(
            job_id=request.job_id,
            kind=request.kind,
            target=request.arguments.target,
            request_id=request.request_id,
            state=request.state,
            job_state=None if job is None else job.state,
            result=request.result,
        )

    @property
    def savepoint(self) -> SavepointSummary | None:
        """The new savepoint, if there is one."""
        return None if self.result is None else self.result.savepoint

    @property
    def left_out(self) -> Sequence[LeftOut]:
        """The queries that are not in the savepoint."""
        return () if self.result is None else self.result.left_out


def warnings_of(result: RequestResult | None) -> list[str]:
    """Return sentences about what a request's savepoint does not have. Pure."""
    if result is None:
        return []
    missing = [
        f"query '{each.query}' is not in the savepoint: {each.reason}" for each in result.left_out
    ]
    return missing if result.complete else [*missing, INCOMPLETE]


def reported(reporter: Reporter, outcome: Outcome) -> Outcome:
    """Warn of what the savepoint of an outcome does not have, and return the outcome."""
    for warning in warnings_of(outcome.result):
        reporter.warning(warning)
    return outcome
