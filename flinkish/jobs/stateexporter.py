"""Running a driver that looks into a savepoint's state: ``flinkish.driver.stateexport``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from flinkish.jobs.drivercall import call_driver
from flinkish.jobs.model import Launch
from flinkish.jobs.program import Installation

#: What a state can be exported as.
FORMATS = ("parquet", "avro", "json")


@dataclass(frozen=True)
class StateTask:
    """What is to be done with a state: with a ``target`` it is exported, else rows are shown.

    Attributes:
        path: the savepoint.
        name: ``UID[/STATE]``.
        where: a condition in SQL on ``partition``, ``key`` and ``value``.
        limit: rows to show, at most.
        partition: the only one to show.
        target: the directory that is made.
        format: one of ``FORMATS``.
    """

    path: str
    name: str
    where: str | None = None
    limit: int = 20
    partition: int | None = None
    target: str | None = None
    format: str = "parquet"


def run_state_task(
    task: StateTask,
    launch: Launch,
    installation: Installation,
    *,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
) -> dict[str, Any]:
    """Have a driver do it; what it says: ``rows`` and ``more``, or ``exported`` rows.

    Parameters
    ----------
    show_log: gets the end of the driver's output when that was no success.

    Raises LaunchFailed, and whatever the driver refuses.
    """
    import json

    return call_driver(
        launch,
        installation,
        name=f"flinkish state {task.name}",
        environ=environ,
        variable="FLINKISH_STATE",
        variables={
            "FLINKISH_STATE_TASK": json.dumps(asdict(task)),
            "FLINKISH_OPTIONS": json.dumps(dict(launch.options)),
        },
        show_log=show_log,
    )
