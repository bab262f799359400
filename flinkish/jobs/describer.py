"""Running a driver that describes its program's queries instead of starting them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from flinkish.jobs.drivercall import call_driver
from flinkish.jobs.model import Launch
from flinkish.jobs.program import Installation


@dataclass(frozen=True)
class Described:
    """What a driver has said of a program: its ``queries``, as ``flinkish.driver.describe`` records
    them, and the ``plan`` of the restore that was asked about, if one was."""

    queries: list[dict[str, Any]]
    plan: dict[str, Any] | None = None


def describe_program(
    launch: Launch,
    installation: Installation,
    *,
    name: str,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
    runs: Mapping[str, Sequence[Any]] | None = None,
) -> Described:
    """The queries of a program, and the plan of the restore that ``launch`` asks for.

    Parameters
    ----------
    name: Spark's application name.
    show_log: gets the end of the driver's output when that was no success.
    runs: for a restore: by Spark query id of the savepoint what the registry knows of other jobs
        that ran it, as triples of job id, state and newest batch.

    Raises
    ------
    LaunchFailed: the driver cannot be started.
    FlinkishError: what the submission of the program would end with (ProgramFailed, MissingUid,
        DuplicateUid, UnsupportedSession ...).
    """
    import json

    variables = {"FLINKISH_DESCRIBE_OPTIONS": json.dumps(dict(launch.options))}
    if launch.restore is not None:
        restore = {"spec": asdict(launch.restore), "runs": dict(runs or {})}
        variables["FLINKISH_DESCRIBE_RESTORE"] = json.dumps(restore)
    record = call_driver(
        launch,
        installation,
        name=name,
        environ=environ,
        variable="FLINKISH_DESCRIBE",
        variables=variables,
        show_log=show_log,
    )
    return Described(record["queries"], record.get("plan"))
