"""Queries of the program that a savepoint leaves out: said, and only started empty with consent.

A savepoint is of a whole job, and names the queries that it does not have
(``Header.left_out``). A query that it lacks for this reason is not a new one: started empty, it
processes its input from the beginning again. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    """What a job began with, which cannot be read, though not all queries had been started.

    Attributes
    ----------
    path
        The savepoint, or the checkpoints of the job before.
    why
        What is wrong with it.
    names
        Its queries that the job had not started; None if a query of any name may be one.
    """

    job_id: str
    path: str
    why: str
    names: Collection[str | None] | None = None

    def refusal(self, name: str) -> ConsentNeeded | None:
        """Return the refusal to start a query that the job has not started before; None if new."""
        if self.names is not None and name not in self.names:
            return None
        return ConsentNeeded(
            f"job {self.job_id} was started from {self.path}, and ended before it had started all "
            f"its queries: '{name}' may be one of them, and would start empty, as that cannot be "
            f"read any more: {self.why}",
            hint=f"restart from a savepoint that has it with: flinkish restart {self.job_id} "
            "--from SAVEPOINT",
            reasons=["left-out"],
        )
