"""Run a driver that makes a new savepoint from an old one: ``driver.tasks.migration_task``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from flinkish.launch.driver_call import call_driver
from flinkish.launch.spark_submit import Installation
from flinkish.spec.codec import encode
from flinkish.spec.launch import Launch
from flinkish.spec.migration import Migration, MigrationResult

#: Suffix of a file next to the result, with the rows and bytes written so far, as JSON.
PROGRESS_SUFFIX = ".progress"


def migrate_savepoint(
    migration: Migration,
    launch: Launch,
    installation: Installation,
    *,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
    on_progress: Callable[[int, int], object],
) -> MigrationResult:
    """Let a driver write the new savepoint, and return its result.

    Parameters
    ----------
    show_log
        Receives the end of the driver's output when the driver fails.
    on_progress
        Called with the rows and bytes of state written so far.

    Raises
    ------
    LaunchFailed
        The driver cannot be started.
    FlinkishError
        The driver refused the migration or failed.
    """
    import json

    def look(result: str) -> None:
        path = result + PROGRESS_SUFFIX
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                on_progress(*json.load(file))

    return call_driver(
        launch,
        installation,
        answer=MigrationResult,
        name=f"flinkish migrate {os.path.basename(migration.path.rstrip('/'))}",
        environ=environ,
        variable="FLINKISH_MIGRATE",
        variables={
            "FLINKISH_MIGRATION": json.dumps(encode(migration)),
            "FLINKISH_OPTIONS": json.dumps(dict(launch.options)),
        },
        show_log=show_log,
        while_running=look,
    )
