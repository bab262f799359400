"""Migration: a driver without a program that makes a new savepoint of an old one.

``flinkish migrate`` starts it with ``FLINKISH_MIGRATE`` naming the file that gets the result.
The work is that of :func:`~flinkish.driver.rewrittensavepoint.write_rewritten`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from flinkish.driver.answering import answer, replace_file
from flinkish.driver.rewrittensavepoint import write_rewritten
from flinkish.savepoint.model import SavepointJob
from flinkish.savepoint.reader import Savepoint, check_files, open_savepoint
from flinkish.savepoint.reporter import SilentReporter
from flinkish.savepoint.scratch import scratch_directory

#: The environment variable with the path of the result; its presence asks for this mode.
RESULT_VARIABLE = "FLINKISH_MIGRATE"
#: With what is wanted, a JSON object: ``flinkish.jobs.migrator.Migration``.
WANTED_VARIABLE = "FLINKISH_MIGRATE_WANTED"
#: In the new savepoint's metadata.
TRIGGER = "migrate"


def main() -> int:
    """The driver's main function in this mode.

    Writes ``{"savepoint": {...}, "operators": [...], "error": {...} | null}``.
    """
    return answer(
        RESULT_VARIABLE,
        lambda path: migrate(json.loads(os.environ[WANTED_VARIABLE]), f"{path}.progress"),
    )


def migrate(wanted: Mapping[str, Any], progress_path: str) -> dict[str, Any]:
    """Write the new savepoint; what it is, and what each operator's rows came to.

    Raises
    ------
    SavepointNotFound, Corrupt: the old savepoint.
    Incompatible: its state cannot become what is wanted; Corrupt: a state file is damaged.
    StorageError: of the target.
    """
    savepoint = open_savepoint(wanted["path"])
    check_files(savepoint)
    header, owner = savepoint.header, wanted.get("owner")
    session = _session()
    with scratch_directory(wanted["target"], header.job_id, owner) as scratch:
        info, operators = write_rewritten(
            session.sparkContext,
            savepoint,
            wanted,
            target=wanted["target"],
            scratch=scratch,
            job=_job(savepoint, owner, instead=bool(wanted.get("instead"))),
            trigger=header.trigger if wanted.get("instead") else TRIGGER,
            reporter=SilentReporter(),
            progress=_Progress(progress_path),
        )
    return {"savepoint": info.to_json(), "record": info.to_record(), "operators": operators}


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()


class _Progress:
    """Rows and bytes, where the command that waits looks for them."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, rows: int, size: int) -> None:
        replace_file(self._path, [rows, size])


def _job(savepoint: Savepoint, owner: str | None, *, instead: bool) -> SavepointJob:
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
