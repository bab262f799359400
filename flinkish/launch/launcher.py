"""Start a job, for the first time or again: its record, its log, its supervisor process."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

from flinkish.errors import LaunchFailed, Locked, NameTaken, StorageError
from flinkish.launch import detached, job_logs, secret_settings, spark_submit
from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry, new_job_id
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import process_ref

#: Runs the supervisor of *this* flinkish, ignoring the working directory. The package's directory
#: comes after the standard library, because it may be a site-packages with old backports.
_START = (
    "import sys; home = sys.argv.pop(1); sys.path[:] = [p for p in sys.path if p]; "
    "at = [i for i, p in enumerate(sys.path) if p.endswith('-packages')] or [len(sys.path)]; "
    "sys.path.insert(at[0], home); "
    "from flinkish.launch.supervisor import main; sys.exit(main(sys.argv[1:]))"
)


def new_job(
    name: str,
    launch: Launch,
    *,
    checkpoints: str,
    environ: Mapping[str, str] | None,
    now: float,
    job_id: str | None = None,
) -> JobRecord:
    """Return a job's first record, in the state INITIALIZING.

    The job's checkpoints get a directory in ``checkpoints``. ``environ`` says where logs are; it is
    None for a job whose launcher keeps the log. ``now`` is in seconds since the epoch; without
    ``job_id`` a new id is generated.
    """
    job_id = job_id or new_job_id()
    return JobRecord(
        job_id=job_id,
        name=name,
        state=JobState.INITIALIZING,
        start_time=now,
        launch=launch,
        log_path=None if environ is None else job_logs.log_path(environ, job_id),
        checkpoint_dir=f"{checkpoints.rstrip('/')}/{job_id}",
    )


def launch_job(
    registry: Registry,
    url: str,
    job: JobRecord,
    environ: Mapping[str, str],
    *,
    unique_name: bool = False,
) -> int:
    """Register ``job``, start its supervisor, and return the supervisor's pid.

    The supervisor has its own session, no terminal and no standard input: it and its driver keep
    running when the shell that launched them ends. The secret Spark settings of the launch are
    passed to the supervisor; in the registry they are masked. Raises what :meth:`Registry.add_job`
    does, StorageError if the log cannot be written, UsageError if the secrets cannot be passed,
    LaunchFailed if no process can be started (the job is then FAILED).
    """
    recorded = replace(job, launch=secret_settings.without_secrets(job.launch))
    try:
        return _supervised(
            registry,
            url,
            job,
            environ,
            lambda: registry.add_job(recorded, unique_name=unique_name),
        )
    except (NameTaken, Locked):  # no job was registered, so no purge would remove the log
        secret_settings.remove(job.log_path)
        raise


def restart_job(
    registry: Registry, url: str, seen: JobRecord, reason: str, environ: Mapping[str, str]
) -> int:
    """Restart the supervisor of an ended job, and return the supervisor's pid.

    ``seen`` is the job in its final state; its launch includes the secrets that the registry does
    not have. ``reason`` is for the job's history. Raises what :meth:`Registry.restart` does, and
    StorageError, UsageError and LaunchFailed as :func:`launch_job`.
    """
    return _supervised(registry, url, seen, environ, lambda: registry.restart(seen, reason))


def _supervised(
    registry: Registry,
    url: str,
    job: JobRecord,
    environ: Mapping[str, str],
    record: Callable[[], object],
) -> int:
    """Record that a job starts, and start its supervisor."""
    import subprocess

    assert job.log_path is not None
    home = job.launch.spark_home or ""
    spark_submit.worker_settings(job.launch, home, environ)  # refuses secret options
    environment = secret_settings.hand_over({**environ, "FLINKISH_REGISTRY": url}, job.launch)
    # The interpreter options of this process must not reach the supervisor.
    environment.pop("PYTHONINSPECT", None)
    try:
        log = job_logs.open_log(job.log_path)
    except OSError as error:
        raise StorageError(
            f"the job's log {job.log_path} cannot be written: {error.strerror}",
            hint="set XDG_STATE_HOME to a directory that can be written",
        ) from error
    try:
        record()
        try:
            child = subprocess.Popen(
                [sys.executable, "-c", _START, spark_submit.flinkish_home(), job.job_id],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            failed = LaunchFailed(
                f"the job's supervisor could not be started: {error.strerror}",
                hint="give shorter arguments, or a smaller environment"
                if error.errno == errno.E2BIG
                else "see the limits of this user with: ulimit -a",
            )
            registry.transition(
                job.job_id, JobState.FAILED, failed.message, failure=failed.to_record()
            )
            raise failed from error
    finally:
        os.close(log)
    # Recorded immediately, so that a supervisor that dies at once is noticed.
    registry.supervise(job.job_id, process_ref(child.pid))
    detached.leave(child)
    return child.pid
