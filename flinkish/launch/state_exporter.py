"""Run a driver that reads or exports a savepoint's state: ``driver.tasks.state_export``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flinkish.launch.driver_call import call_driver
from flinkish.launch.spark_submit import Installation
from flinkish.spec.calls import StateAnswer, StateTask
from flinkish.spec.codec import encode
from flinkish.spec.launch import Launch

#: Formats to which a state can be exported.
FORMATS = ("parquet", "avro", "json")


def run_state_task(
    task: StateTask,
    launch: Launch,
    installation: Installation,
    *,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
) -> StateAnswer:
    """Let a driver carry out the task, and return its answer.

    Parameters
    ----------
    show_log
        Receives the end of the driver's output when the driver fails.

    Raises
    ------
    LaunchFailed
        The driver cannot be started.
    FlinkishError
        The driver refused the task or failed.
    """
    import json

    return call_driver(
        launch,
        installation,
        answer=StateAnswer,
        name=f"flinkish state {task.name}",
        environ=environ,
        variable="FLINKISH_STATE",
        variables={
            "FLINKISH_STATE_TASK": json.dumps(encode(task)),
            "FLINKISH_OPTIONS": json.dumps(dict(launch.options)),
        },
        show_log=show_log,
    )
