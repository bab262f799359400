"""Queries of the program that a savepoint leaves out: said, and only started empty with consent.

A savepoint is of a whole job, and names the queries that it does not have
(``Header.left_out``). A query that it lacks for this reason is not a new one: started empty, it
processes its input from the beginning again. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkish.errors import ConsentNeeded
from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.messages.requests import LeftOut

_CONSENT = "use -n to start it from the beginning, or restore a later savepoint"


def check_left_out(
    name: str, left_out: Sequence[LeftOut], *, complete: bool, agreed: bool
) -> Check | None:
    """Check a query of the program that the savepoint does not have.

    ``left_out`` are the queries that the savepoint says it leaves out; ``complete`` says whether
    the job had started all its queries when the savepoint was taken, ``agreed`` whether ``-n`` was
    given. The outcome is consent-needed for a query that the job was starting or may have been, and
    a note for one that had ended before it committed anything; None for a new query.
    """
    outcome = RestoreOutcome.NOTE if agreed else RestoreOutcome.CONSENT
    advice = "" if agreed else _CONSENT
    query = next((each for each in left_out if each.query == name), None)
    if query is not None:
        text = f"query '{name}' of the saved job is not in the savepoint: "
        text += f"{query.reason}; it starts empty"
        if not query.pending:
            return Check("left-out", RestoreOutcome.NOTE, text)
        return Check("left-out", outcome, text, advice)
    if complete:
        return None
    return Check(
        "left-out",
        outcome,
        f"the savepoint was taken before its job had started all its queries: '{name}' may have "
        "been one of them, and would start empty",
        advice,
    )


@dataclass(frozen=True)
class LostOrigin:
    """What a job began with, which is gone though not all of its queries had been started.

    Attributes
    ----------
    path
        The savepoint, or the checkpoints of the job before.
    """

    job_id: str
    path: str

    def refusal(self, name: str) -> ConsentNeeded:
        """Return the refusal to start a query that the job has not started before."""
        return ConsentNeeded(
            f"job {self.job_id} was started from {self.path}, which no longer exists, and "
            f"ended before it had started all its queries: '{name}' may be one of them, "
            "and would start empty",
            hint=f"restart from a savepoint that has it with: flinkish restart {self.job_id} "
            "--from SAVEPOINT",
            reasons=["left-out"],
        )
