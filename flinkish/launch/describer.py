"""Run a driver that describes its program's queries instead of starting them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flinkish.launch.driver_call import call_driver
from flinkish.launch.spark_submit import Installation
from flinkish.spec.calls import Described, JobOrigin, KnownRun, KnownWriter, RestoreQuestion
from flinkish.spec.launch import Launch


def describe_program(
    launch: Launch,
    installation: Installation,
    *,
    name: str,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
    runs: Mapping[str, tuple[KnownRun, ...]] | None = None,
    job: JobOrigin | None = None,
    writers: Sequence[KnownWriter] = (),
) -> Described:
    """Return the queries of a program, and the plan of the restore that ``launch`` requests.

    Parameters
    ----------
    name
        Spark's application name.
    show_log
        Receives the end of the driver's output when the driver fails.
    runs
        For a restore: what the registry knows of other jobs that ran the savepoint's queries, by
        Spark query id.
    job
        The job whose checkpoints are restored instead of the savepoint.
    writers
        The places that queries of other jobs write to.

    Raises
    ------
    LaunchFailed
        The driver cannot be started.
    FlinkishError
        The error with which the submission of the program would end (ProgramFailed, MissingUid,
        DuplicateUid, UnsupportedSession ...).
    """
    import json

    documents = {}
    if launch.restore is not None:
        question = RestoreQuestion(launch.restore, runs or {}, job, tuple(writers))
        documents["FLINKISH_DESCRIBE_RESTORE"] = question
    return call_driver(
        launch,
        installation,
        answer=Described,
        name=name,
        environ=environ,
        variable="FLINKISH_DESCRIBE",
        variables={"FLINKISH_DESCRIBE_OPTIONS": json.dumps(dict(launch.options))},
        documents=documents,
        show_log=show_log,
    )
