"""One limit for all the waits of a request."""

from __future__ import annotations

import time
from typing import Any

import pytest

from flinkish.driver.requests.time_limit import limit_of
from flinkish.messages.requests import SavepointArguments
from flinkish.registry.jobs import Request, RequestKind, RequestState


def request(timeout: float | None) -> Request:
    return Request(
        request_id="r",
        job_id="j",
        kind=RequestKind.STOP,
        state=RequestState.IN_PROGRESS,
        created=1000.0,
        arguments=SavepointArguments("/srv", timeout=timeout),
        requester="me",
    )


@pytest.mark.parametrize(
    ("timeout", "now", "left", "batch", "later"),
    [
        (None, 1000.0, 600.0, 60.0, 630.0),
        # How long it waited for the driver does not matter: its client has left it to itself.
        (None, 1500.0, 600.0, 60.0, 630.0),
        (90.0, 1000.0, 90.0, 60.0, 90.0),
        (90.0, 1050.0, 40.0, 40.0, 40.0),  # the batch gets what is left
        (90.0, 1100.0, -10.0, 0.0, -10.0),  # nobody waits for it any more
        (90.0, 990.0, 90.0, 60.0, 90.0),  # a clock that was set back
    ],
)
def test_what_is_left(
    monkeypatch: pytest.MonkeyPatch, timeout: Any, now: float, left: float, batch: float, later: Any
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 5000.0)
    limit = limit_of(request(timeout), 600.0, now=now)
    assert limit.deadline - 5000.0 == left
    assert limit.is_over == (left < 0)
    assert limit.for_batch(60.0) == batch
    assert limit.after(30.0).deadline - 5000.0 == later
    assert ("--timeout" in limit.advice) == (timeout is not None)
