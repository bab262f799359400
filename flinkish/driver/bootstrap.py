"""Choice of the driver's mode (job, bundle or one task) before its modules are imported."""

from __future__ import annotations

import os
from collections.abc import MutableMapping, Sequence
from typing import Any

from flinkish.driver import carried
from flinkish.errors import FlinkishError
from flinkish.launch import secret_settings
from flinkish.messages.calls import CALL_VARIABLE

#: Whether this process is a driver that flinkish has started, or runs a bundled program.
is_driving = False


def main(argv: Sequence[str]) -> int:
    """Run the driver in the mode that its environment variables select.

    Parameters
    ----------
    argv
        ``APP [ARGS...]`` or ``--module NAME [ARGS...]``.

    Returns
    -------
    int
        The driver's exit status: 0 when the job is FINISHED or CANCELED, or the task is done. For a
        bundle it is the program's, or that of flinkish's error.
    """
    global is_driving
    is_driving = True
    _end_input()
    secret_settings.remove(os.environ.pop(secret_settings.FILE_VARIABLE, None))  # Spark has read it
    argv = secret_settings.with_arguments(argv, os.environ)
    if carried.SETTINGS_VARIABLE in os.environ or carried.ORIGIN_VARIABLE in os.environ:
        arrive(os.environ)
    call_path = os.environ.pop(CALL_VARIABLE, None)
    if call_path is not None:
        return _answer(call_path, argv)
    bundled = os.environ.pop(carried.BUNDLE_VARIABLE, None)
    if bundled is not None:
        from flinkish.driver.attached import attachment

        return attachment.run(argv, bundled)
    from flinkish.driver import job

    return job.main(argv)


def _answer(call_path: str, argv: Sequence[str]) -> int:
    """Answer the question of a call, and return the driver's exit status."""
    from flinkish.driver.tasks.answering import take_call, write_answer
    from flinkish.messages.calls import DescribeTask, ExportTask, RehearsalTask, StateTask

    try:
        call = take_call(call_path)
        question = call.asked()
    except FlinkishError as error:
        write_answer(call_path, None, error)
        return 1
    if isinstance(question, DescribeTask):
        from flinkish.driver.tasks import describe

        return describe.main(question, call.options, call_path, argv)
    if isinstance(question, RehearsalTask):
        from flinkish.driver.tasks import rehearsal_task

        return rehearsal_task.main(question, call.options, call_path, argv)
    if isinstance(question, ExportTask):
        from flinkish.driver.tasks import export_task

        return export_task.main(question, call.options, call_path, argv)
    if isinstance(question, StateTask):
        from flinkish.driver.tasks import state_export

        return state_export.main(question, call.options, call_path)
    from flinkish.driver.tasks import migration_task

    return migration_task.main(question, call.options, call_path)


def _end_input() -> None:
    """End the program's standard input: ``spark-submit`` passes a pipe that is never closed."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def arrive(environ: MutableMapping[str, str]) -> None:
    """Set the Spark settings that a cluster driver's JVM lacks; remove the job's file.

    The settings become system properties of the JVM, which a ``SparkConf`` reads
    (``SparkConf.loadFromSystemProperties``). The jar that contains the job is taken out of
    ``spark.jars``, because Spark would send it to every executor.

    Raises StorageError if the file cannot be removed.
    """
    import json

    from flinkish.launch.carried_job import remove

    settings = json.loads(environ.pop(carried.SETTINGS_VARIABLE, "null"))
    if settings is not None:
        _set_properties(settings)
    origin = environ.pop(carried.ORIGIN_VARIABLE, None)
    if origin is not None:
        remove(origin)


def _set_properties(settings: dict[str, str]) -> None:
    from pyspark import SparkContext

    from flinkish.launch.carried_job import JAR

    SparkContext._ensure_initialized()
    gateway: Any = SparkContext
    system = gateway._jvm.java.lang.System
    jars = [jar for jar in (system.getProperty("spark.jars") or "").split(",") if jar]
    kept = [jar for jar in jars if os.path.basename(jar) != JAR]
    if kept:
        system.setProperty("spark.jars", ",".join(kept))
    else:
        system.clearProperty("spark.jars")
    for key, value in settings.items():
        system.setProperty(key, value)
