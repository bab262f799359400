"""Why a driver has ended that recorded no end of its own. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from flinkish.errors import DriverLost, FlinkishError, LaunchFailed, ProgramFailed
from flinkish.launch import job_logs


def end_of(status: int, text: str, *, started: bool) -> FlinkishError:
    """Return the failure of a driver that did not record its own end. Pure.

    ``status`` is the exit status of ``spark-submit`` (negative: minus a signal's number), ``text``
    the end of its log; ``started`` says whether flinkish's part of the driver had begun to run.
    """
    how = how_it_ended(status)
    killed = status < 0 or _killed_child(status) is not None
    tail = job_logs.error_tail(text, killed=killed)
    summary = job_logs.error_summary(tail)
    if status == 0:
        return DriverLost(f"the driver {how} without recording an end of the job", tail=tail)
    if killed:
        return DriverLost(f"the driver {how}", tail=tail)
    kind = ProgramFailed if started else LaunchFailed
    hint = ProgramFailed.default_hint
    return kind(f"the driver {how}" + (f": {summary}" if summary else ""), hint=hint, tail=tail)


def explained(failure: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a failure that a driver recorded, with lines of its log if it has none. Pure.

    A driver sees only that its program exited; why, ``argparse`` for one, is on stderr.
    """
    tail = failure.get("tail") or job_logs.error_tail(text)
    return {**failure, "tail": tail} if tail else dict(failure)


def how_it_ended(status: int) -> str:
    """Return ``was killed by SIGKILL`` or ``exited with status 1``. Pure."""
    if status < 0:
        return f"was killed by {_signal_name(-status)}"
    number = _killed_child(status)
    # The JVM passes on its Python child's status, 128 + N when signal N ended it (PythonRunner).
    child = f" (its Python was killed by {_signal_name(number)})" if number else ""
    return f"exited with status {status}{child}"


def _killed_child(status: int) -> int | None:
    number = status - 128
    return number if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV) else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
