"""How long a driver waits for a request, over all its steps."""

from __future__ import annotations

import time
from dataclasses import dataclass

from flinkish.registry.jobs import Request

_ADVICE = "raise execution.checkpointing.timeout"
_ADVICE_ASKED = "give it longer with --timeout"


@dataclass(frozen=True)
class TimeLimit:
    """The limit for a savepoint's waits: for queries, first batches, the running batch.

    ``seconds`` is for messages; ``deadline`` is a ``time.monotonic`` value. After a limit that the
    request sets (``is_asked``) nobody waits for the result, so the job must not be stopped then.
    """

    seconds: float
    deadline: float
    is_asked: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self.deadline

    @property
    def advice(self) -> str:
        """How to give a request more time, for a hint."""
        return _ADVICE_ASKED if self.is_asked else _ADVICE

    def for_batch(self, most: float) -> float:
        """Return the seconds that a running batch gets to end.

        Without a limit in the request, the batch gets ``most``; the deadline moves (:meth:`after`).
        """
        return max(min(most, self.deadline - time.monotonic()), 0.0) if self.is_asked else most

    def after(self, spent: float) -> TimeLimit:
        """Return the limit after ``spent`` seconds of waiting for a running batch."""
        if self.is_asked:
            return self
        return TimeLimit(self.seconds, self.deadline + spent)


def limit_of(request: Request, default: float, *, now: float) -> TimeLimit:
    """Return the limit of a request for a savepoint.

    A limit that the request sets counts from the request's creation, as it does for the client.

    ``default`` is in seconds, for a request without a limit. ``now`` is the registry's time.
    """
    assert request.savepoint is not None, request.kind
    asked = request.savepoint.timeout
    if asked is None:
        return TimeLimit(default, time.monotonic() + default)
    left = asked - max(now - request.created, 0.0)
    return TimeLimit(asked, time.monotonic() + left, is_asked=True)
