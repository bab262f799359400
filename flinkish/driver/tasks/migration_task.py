"""Migration: a driver without a program that makes a new savepoint of an old one.

``flinkish migrate`` starts it with ``FLINKISH_MIGRATE`` naming the file that gets the result.
The work is that of :func:`~flinkish.driver.migration.savepoint_migration.write_rewritten`.
"""

from __future__ import annotations

import json
import os
from typing import Any

from flinkish.driver.migration.savepoint_migration import write_rewritten
from flinkish.driver.tasks.answering import answer, replace_file
from flinkish.savepoint.format.contents import SavepointJob
from flinkish.savepoint.format.reader import OpenSavepoint, check_files, open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.state.scratch import scratch_directory
from flinkish.spec.codec import decode
from flinkish.spec.migration import Migration, MigrationResult

#: The environment variable with the path of the result; its presence asks for this mode.
RESULT_VARIABLE = "FLINKISH_MIGRATE"
#: With the :class:`~flinkish.spec.migration.Migration` as JSON.
MIGRATION_VARIABLE = "FLINKISH_MIGRATION"
#: In the new savepoint's metadata.
TRIGGER = "migrate"


def main() -> int:
    """The driver's main function in this mode.

    Writes a :class:`~flinkish.spec.migration.MigrationResult`.
    """
    return answer(
        RESULT_VARIABLE,
        lambda path: migrate(
            decode(Migration, json.loads(os.environ[MIGRATION_VARIABLE])), f"{path}.progress"
        ),
    )


def migrate(migration: Migration, progress_path: str) -> MigrationResult:
    """Write the new savepoint; what it is, and what each operator's rows came to.

    Raises
    ------
    SavepointNotFound, Corrupt: the old savepoint.
    Incompatible: its state cannot become what the migration says; Corrupt: a state file is damaged.
    StorageError: of the target.
    """
    savepoint = open_savepoint(migration.path)
    check_files(savepoint)
    header, owner = savepoint.header, migration.owner
    session = _session()
    with scratch_directory(migration.target, header.job_id, owner) as scratch:
        info, operators = write_rewritten(
            session.sparkContext,
            savepoint,
            migration,
            scratch=scratch,
            job=_job(savepoint, owner, instead=migration.instead),
            trigger=header.trigger if migration.instead else TRIGGER,
            reporter=SilentSavepointReporter(),
            progress=_Progress(progress_path),
        )
    return MigrationResult(info.to_result(), info.to_record(), tuple(operators))


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()


class _Progress:
    """Rows and bytes, where the command that waits looks for them."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, rows: int, size: int) -> None:
        replace_file(self._path, [rows, size])


def _job(savepoint: OpenSavepoint, owner: str | None, *, instead: bool) -> SavepointJob:
    header = savepoint.header
    return SavepointJob(
        job_id=header.job_id,
        name=header.job_name,
        spark_version=header.spark_version,
        python_version=header.python_version,
        program=header.program,
        restored_from=header.restored_from if instead else savepoint.path,
        owner=owner,
    )
