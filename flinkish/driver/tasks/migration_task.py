"""Migration: a driver without a program that makes a new savepoint from an old one.

``flinkish migrate`` requests it (:class:`~flinkish.messages.migration.Migration`).
:func:`~flinkish.driver.migration.savepoint_migration.write_rewritten` does the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from flinkish.driver.migration.savepoint_migration import write_rewritten
from flinkish.driver.tasks.answering import answer, replace_file
from flinkish.messages.calls import progress_path
from flinkish.messages.migration import Migration, MigrationResult
from flinkish.savepoint.format.contents import SavepointJob
from flinkish.savepoint.format.reader import OpenSavepoint, check_files, open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.state.state_directories import scratch_directory

#: The trigger in the new savepoint's metadata.
TRIGGER = "migrate"


def main(migration: Migration, options: Mapping[str, str], call_path: str) -> int:
    """Run the driver in this mode and return its exit status.

    Writes a :class:`~flinkish.messages.migration.MigrationResult`.
    """
    return answer(call_path, options, lambda: migrate(migration, progress_path(call_path)))


def migrate(migration: Migration, progress_path: str) -> MigrationResult:
    """Write the new savepoint and return it with the new state of each operator.

    Raises SavepointNotFound, Corrupt if the old savepoint is damaged, and the errors of
    :func:`~flinkish.driver.migration.savepoint_migration.write_rewritten`.
    """
    savepoint = open_savepoint(migration.path)
    check_files(savepoint)
    header, owner = savepoint.header, migration.owner
    session = _session()
    with scratch_directory(migration.target, header.job.job_id, owner) as scratch:
        written, operators = write_rewritten(
            session.sparkContext,
            savepoint,
            migration,
            scratch=scratch,
            job=_job(savepoint, owner, instead=migration.instead),
            trigger=header.trigger if migration.instead else TRIGGER,
            reporter=SilentSavepointReporter(),
            progress=_Progress(progress_path),
        )
    return MigrationResult(written, tuple(operators))


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()


class _Progress:
    """Writes rows and bytes to the file that the waiting command reads, if that is possible."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, rows: int, size: int) -> None:
        with suppress(OSError):  # the migration is worth more than its display
            replace_file(self._path, [rows, size])


def _job(savepoint: OpenSavepoint, owner: str | None, *, instead: bool) -> SavepointJob:
    job = savepoint.header.job
    return replace(
        job,
        flinkish_version=None,
        host=None,
        restored_from=job.restored_from if instead else savepoint.path,
        owner=owner,
    )
