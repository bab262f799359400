"""Run a driver that rehearses its program's queries on copies of state."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flinkish.launch.driver_call import call_driver
from flinkish.launch.spark_submit import Installation
from flinkish.spec.launch import Launch
from flinkish.spec.rehearsals import RehearsalTask, Rehearsed


def rehearse_program(
    task: RehearsalTask,
    launch: Launch,
    installation: Installation,
    *,
    name: str,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
) -> Rehearsed:
    """Let a driver carry out the task with the program of ``launch``, and return its answer.

    Parameters
    ----------
    name
        Spark's application name.
    show_log
        Receives the end of the driver's output when the driver fails.

    Raises
    ------
    LaunchFailed
        The driver cannot be started.
    FlinkishError
        The restore is refused, a sink cannot be redirected, or the program failed.
    """
    import json

    return call_driver(
        launch,
        installation,
        answer=Rehearsed,
        name=name,
        environ=environ,
        variable="FLINKISH_REHEARSE",
        variables={"FLINKISH_OPTIONS": json.dumps(dict(launch.options))},
        documents={"FLINKISH_REHEARSE_TASK": task},
        show_log=show_log,
    )
