"""The record of a job that another launcher has started: a new one, or that of its last driver.

A launcher that restarts a program (a pod, a task's next try) starts it with the same settings, also
with the savepoint that it was first started from. That savepoint must not be restored again: the
program continues where its last driver ended, with the settings that it has now. Its checkpoint is
in its own checkpointLocation, or beside that location if the location was not empty at the restore.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from flinkish import __version__, storage
from flinkish.config import mask_secrets, working_directory
from flinkish.driver.attached.patient_registry import PatientRegistry
from flinkish.driver.attached.request import AttachRequest
from flinkish.driver.connect.spec_program import specification_of
from flinkish.driver.log import log
from flinkish.driver.requests.agent import GATEWAY
from flinkish.errors import JobNotFound, Locked, RegistryError, UsageError
from flinkish.launch import launcher
from flinkish.launch.job_origin import record_origin
from flinkish.launch.restoring import RECOVERY_PATH
from flinkish.launch.secret_settings import without_secrets
from flinkish.messages.launch import ExternalLauncher, Launch, RestoreSpec
from flinkish.messages.queries import QueryStatus
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import process_ref, reconcile, silence_limit
from flinkish.restore.check.version_check import check_restorable
from flinkish.restore.origin.restore_origin import open_origin
from flinkish.storage.locations import locate_from

#: Seconds to wait for the end of a last driver, beyond the silence after which it counts as lost.
_PATIENCE = 15.0
_LOOK = 1.0
#: Directories that Spark and YARN make for one start, and into which they copy the program.
_OF_ONE_START = re.compile(r"/(spark-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|container_\w+)/")


def goes_on_from(jobs: Sequence[JobRecord], launch: Launch) -> JobRecord | None:
    """Return the job whose driver is started again, or None for a new job. Pure.

    ``jobs`` are the jobs of the program's name, oldest first. Only a job that was restored counts:
    the others continue in the locations that the program names.
    """
    for job in reversed(jobs):
        if job.launch.external is None or not _same_program(job.launch, launch):
            continue
        before, now = job.launch.restore, launch.restore
        if before is None:
            return None
        if now is None or now.path == before.path or _named(launch) == _named(job.launch):
            return job
        return None
    return None


def _restore_of(launch: Launch, earlier: JobRecord) -> RestoreSpec | None:
    """Return the restore that a job which goes on began with, with the options it has now."""
    began, now = earlier.launch.restore, launch.restore
    if began is None or now is None:
        return began
    return replace(now, path=began.path, job=began.job)


def _named(launch: Launch) -> str:
    """Return the location that a program named; if it is a link, it may lead elsewhere by now."""
    path = launch.options.get(RECOVERY_PATH)
    if path is None:
        return launch.restore.path if launch.restore is not None else ""
    return locate_from(launch.working_directory or "/", path)


def _same_program(one: Launch, other: Launch) -> bool:
    """Return whether two launches of one name are the same program; notebooks have only names."""
    if one.named or other.named:
        return one.named and other.named
    return one.application is not None and one.application == other.application


def has_committed(queries: Sequence[QueryStatus]) -> bool:
    """Return whether a restored job has a checkpoint in which it can continue. Pure."""
    return any(query.restored_batch is not None for query in queries)


def earlier_job(registry: Registry, name: str, launch: Launch) -> JobRecord | None:
    """Return the ended job that a program continues, or None.

    If the program asks for a restore, this function waits a while for the end of the job that it
    continues, and raises Locked if that job still runs afterwards.
    """
    begun = time.monotonic()
    has_said = False
    while True:
        job = goes_on_from(registry.jobs(name=name), launch)
        if job is None:
            return None
        (job,) = reconcile(registry, [job])
        if job.state.is_final:
            return job if has_committed(registry.queries(job.job_id)) else None
        if launch.restore is None:
            return None
        if time.monotonic() > begun + silence_limit(job) + _PATIENCE:
            raise Locked(
                f"job {job.name} ({job.job_id}), which was restored from the same savepoint, is "
                f"{job.state.value}",
                hint=f"stop it with: flinkish stop {job.job_id}; or give this one another name",
                job_id=job.job_id,
            )
        if not has_said:
            has_said = True
            log(f"waiting for the end of job {job.job_id}, from which this program goes on")
        time.sleep(_LOOK)


def check_recognizable(launch: Launch) -> None:
    """Raise UsageError if a program's next start could not be told from another job's. Pure."""
    path = launch.application
    if launch.restore is None or launch.named or path is None or not _OF_ONE_START.search(path):
        return
    raise UsageError(
        f"the program ({path}) is a copy for this start only: without a name for the job, the next "
        "start would restore the savepoint again",
        hint="give the job a name: FLINKISH_NAME, spark.flinkish.name or flinkish.attach(NAME)",
    )


def registered(
    asked: AttachRequest, version: str, bundled: str | None = None
) -> tuple[PatientRegistry, JobRecord]:
    """Return the registry, which has or will have the job, and the job.

    ``bundled`` is the path of the program in its bundle, if any.

    Raises FlinkishError if the job has to be restored and the registry cannot be reached, the
    savepoint cannot be restored, the job would not be recognized at its next start, or its last
    driver still runs.
    """
    url = asked.config.registry_url()
    launch = _launch(asked, bundled)
    check_recognizable(launch)
    name = asked.name or launch.default_name
    opened: Registry | None = None
    try:
        opened = Registry.open(url)
        earlier = earlier_job(opened, name, launch)
    except RegistryError:
        if asked.restore is not None:
            raise
        earlier = None
    if earlier is not None and opened is not None:
        log(f"job {name} ({earlier.job_id}) goes on where its last driver ended")
        again = opened.restart(
            earlier,
            f"started again by {launcher_name()}",
            driver=process_ref(),
            launch=replace(launch, restore=_restore_of(launch, earlier)),
        )
        patient = PatientRegistry(again, lambda: Registry.open(url), None, mask_secrets(url))
        patient.use(opened)
        return patient, again
    if asked.restore is not None:
        offers = open_origin(asked.restore, verify=asked.restore.verify)
        log(check_restorable(offers, version).text)
    checkpoints = storage.locate(asked.config.get("execution.checkpointing.dir") or "")
    job = launcher.new_job(name, launch, checkpoints=checkpoints, environ=None, now=time.time())
    job = replace(job, driver=process_ref())
    patient = PatientRegistry(
        job, lambda: Registry.open(url), lambda to: _register(to, job), mask_secrets(url)
    )
    if opened is not None:
        try:
            patient.use(opened)
            return patient, job
        except RegistryError:
            if asked.restore is not None or opened.read_only is not None:
                raise
    patient.connect()  # the registry has just failed, so the program does not wait
    return patient, job


def is_interactive() -> bool:
    """Return whether this process is a notebook or a shell, which outlives its jobs."""
    main = sys.modules.get("__main__")
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules or not hasattr(main, "__file__")


def launcher_name() -> str:
    if is_interactive():
        return "notebook"
    return "spark-submit" if GATEWAY in os.environ else "python"


def _launch(asked: AttachRequest, bundled: str | None) -> Launch:
    main = sys.modules.get("__main__")
    program = bundled or specification_of(main) or getattr(main, "__file__", None)
    launch = Launch(
        application=os.path.abspath(program) if program and not is_interactive() else None,
        module=None if program and not is_interactive() else "notebook",
        arguments=tuple(sys.argv[1:]) if not is_interactive() else (),
        options=asked.config.to_options(),
        working_directory=working_directory(instead="/"),
        restore=asked.restore,
        named=asked.name is not None,
        external=ExternalLauncher(launcher_name(), __version__),
    )
    return without_secrets(launch)


def _register(registry: Registry, job: JobRecord) -> None:
    """Record a job, with its start by the registry's clock, unless an earlier call has done so."""
    try:
        Registry.job(registry, job.job_id)  # a PatientRegistry would give the job that it is to add
    except JobNotFound:
        record_origin(registry, job.launch.restore)
        since_start = time.time() - job.start_time
        registry.add_job(replace(job, start_time=registry.now() - since_start))
    others: list[JobRecord] = []
    with suppress(RegistryError):  # a row of another job may be damaged
        others = [
            each
            for each in registry.jobs(name=job.name)
            if not each.state.is_final and each.job_id != job.job_id
        ]
    if job.launch.named and others:
        log(
            f"job {others[-1].job_id}, which is {others[-1].state.value}, has the name {job.name} "
            f"too: address this job by its id, {job.job_id}"
        )
