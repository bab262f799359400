"""Upgrades of many jobs: a limited number at a time, each with its own rollback.

Finished work is not repeated: a job that runs the program and Spark of its entry is up to date, and
an unfinished upgrade is resumed. To continue an interrupted fleet, run it again with its file.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from flinkish.client.context import Context, interruptible
from flinkish.client.reporter import Progress, Reporter
from flinkish.errors import FlinkishError, JobNotFound, UsageError, from_record, quoted_path
from flinkish.launch import spark_submit
from flinkish.launch.secret_settings import without_secrets
from flinkish.messages.launch import Launch
from flinkish.messages.upgrades import FleetOutcome, Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.jobs import ACTIVE_STATES, JobRecord
from flinkish.registry.liveness import reconcile
from flinkish.registry.statements import name_matches
from flinkish.upgrade.execution import Execution
from flinkish.upgrade.fleet_file import FleetEntry, read_fleet
from flinkish.upgrade.preparation import Secrets, check_agreed, prepare
from flinkish.upgrade.takeover import begin, resume
from flinkish.upgrade.target import target_launch
from flinkish.upgrade.workflows import UpgradeResult, outcome_of

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class FleetResult:
    """The outcome of one job of a fleet.

    ``name`` is the entry's pattern if no job matches. ``job_id`` is the job that the outcome
    leaves, as far as is known; None if no job matches. ``error`` says why the job was not upgraded.
    """

    name: str
    outcome: FleetOutcome
    job_id: str | None = None
    upgrade: Upgrade | None = None
    error: FlinkishError | None = None


@dataclass(frozen=True)
class _Task:
    entry: FleetEntry
    job: JobRecord


def upgrade_fleet(
    context: Context,
    file: str,
    *,
    at_once: int = 1,
    keep_going: bool = False,
    dry_run: bool = False,
    on_result: Callable[[FleetResult], None] | None = None,
) -> list[FleetResult]:
    """Upgrade the jobs that a fleet's file names; see :func:`carry_out`."""
    entries = read_fleet(file)
    message = "stopped; upgrades in progress are not finished"
    with interruptible(message, f"flinkish upgrade fleet {quoted_path(file)}"):
        return carry_out(
            context,
            entries,
            at_once=at_once,
            keep_going=keep_going,
            dry_run=dry_run,
            on_result=on_result,
        )


def carry_out(
    context: Context,
    entries: Sequence[FleetEntry],
    *,
    at_once: int = 1,
    keep_going: bool = False,
    dry_run: bool = False,
    on_result: Callable[[FleetResult], None] | None = None,
) -> list[FleetResult]:
    """Upgrade the jobs of a fleet; return the results in the order of the entries.

    A pattern does not apply to a job that an earlier entry names. ``at_once`` upgrades run at a
    time; with ``keep_going`` the others are begun even if one fails. ``on_result`` is called with
    each result as soon as it is known, never twice at the same time.

    Raises UsageError, before anything is begun, if two entries apply to one job.
    """
    lock = threading.Lock()
    failed = threading.Event()

    def done(result: FleetResult) -> FleetResult:
        with lock:
            if not result.outcome.is_good:
                failed.set()
            if on_result is not None:
                on_result(result)
        return result

    def one(task: _Task) -> FleetResult:
        if failed.is_set() and not keep_going:
            return done(FleetResult(task.job.name, FleetOutcome.NOT_BEGUN, task.job.job_id))
        with _own_context(context, task.job.name) as own:
            return done(_upgraded(own, task, dry_run=dry_run))

    tasks, missing = _tasks(context, entries)
    results = [(entry, done(_missing(entry))) for entry in missing]
    entries_of_tasks = [task.entry for task in tasks]
    results += zip(entries_of_tasks, run_at_once(one, tasks, max(1, at_once)), strict=True)
    return [result for _, result in sorted(results, key=lambda each: entries.index(each[0]))]


def run_at_once(run: Callable[[_T], _R], tasks: Sequence[_T], at_once: int) -> list[_R]:
    """Run tasks, ``at_once`` at a time, and return their results in order.

    An interrupt does not wait for tasks in progress, which end with the process. What an upgrade
    has done is recorded, so that the upgrade can be resumed.
    """
    futures: list[Future[_R]] = [Future() for _ in tasks]
    left = deque(zip(tasks, futures, strict=True))

    def work() -> None:
        while left:
            try:
                task, future = left.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                future.set_result(run(task))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

    for _ in range(min(at_once, len(tasks))):
        threading.Thread(target=work, name="flinkish-fleet", daemon=True).start()
    return [future.result() for future in futures]


def exit_code(results: Sequence[FleetResult]) -> int:
    """Return 0 if every job is as requested, 3 if some are not, 1 if none is. Pure."""
    good = sum(1 for result in results if result.outcome.is_good)
    if good == len(results):
        return 0
    return 3 if good else FlinkishError.code


def _tasks(context: Context, entries: Sequence[FleetEntry]) -> tuple[list[_Task], list[FleetEntry]]:
    """Return the jobs to upgrade with their entries, and the entries that match none."""
    jobs = _candidates(context)
    tasks: dict[str, _Task] = {}
    missing = []
    for entry in entries:
        ids = _ids(context, entry.pattern.lower())
        matches = [j for j in jobs if j.job_id in ids or name_matches(j.name, entry.pattern)]
        if not matches:
            missing.append(entry)
        for job in matches:
            first = tasks.setdefault(job.job_id, _Task(entry, job)).entry
            if first is not entry and (
                _is_pattern(first.pattern) or not _is_pattern(entry.pattern)
            ):
                raise UsageError(
                    f"two entries of the fleet file match job {job.name} ({job.job_id}): "
                    f"{first.pattern!r} and {entry.pattern!r}",
                    hint="remove one of them; a pattern for all other jobs belongs after the names",
                )
    return list(tasks.values()), missing


def _candidates(context: Context) -> list[JobRecord]:
    """Return the running jobs, and those of unfinished upgrades: one job for each upgrade.

    In the middle of an upgrade there may be no running job, or, in a handover, two.
    """
    registry = context.registry
    jobs = {
        job.job_id: job
        for job in reconcile(registry, registry.jobs(states=ACTIVE_STATES))
        if not job.state.is_final
    }
    for upgrade in registry.unfinished_upgrades():
        if upgrade.kind is not UpgradeKind.SHADOW:
            ids = (upgrade.job_id, upgrade.new_job_id, upgrade.old_again_id)
            running = [job_id for job_id in ids if job_id in jobs]
            for job_id in running[1:]:
                del jobs[str(job_id)]
            if not running:
                jobs[upgrade.job_id] = registry.job(upgrade.job_id)
    return list(jobs.values())


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text


def _ids(context: Context, job_id: str) -> set[str | None]:
    """Return an id, and those of the jobs that upgrades have started in place of its job."""
    upgrades = [
        upgrade
        for upgrade in context.registry.upgrades_of(job_id)
        if upgrade.kind is not UpgradeKind.SHADOW or upgrade.state is UpgradeState.UPGRADED
    ]
    return {job_id, *(u.new_job_id for u in upgrades), *(u.old_again_id for u in upgrades)}


def _missing(entry: FleetEntry) -> FleetResult:
    error = JobNotFound(f"no running job matches {entry.pattern!r}")
    return FleetResult(entry.pattern, FleetOutcome.FAILED, error=error)


def _upgraded(context: Context, task: _Task, *, dry_run: bool) -> FleetResult:
    """Upgrade one job; an error that concerns this job alone is in the result, not raised.

    An unfinished upgrade is finished first, and may have been to another version.
    """
    entry, job = task.entry, task.job
    begun: Execution | None = None
    try:
        unfinished = [
            upgrade
            for upgrade in context.registry.upgrades_of(job.job_id)
            if not upgrade.state.is_final and upgrade.kind is not UpgradeKind.SHADOW
        ]
        if unfinished and dry_run:
            return FleetResult(job.name, FleetOutcome.READY, job.job_id, unfinished[-1])
        if unfinished:
            secrets = Secrets.of(entry.version.changes.program)
            begun = resume(context, unfinished[-1].upgrade_id, secrets)
        elif is_up_to_date(job, target_launch(job.launch, entry.version.changes)):
            return FleetResult(job.name, FleetOutcome.UP_TO_DATE, job.job_id)
        else:
            kind = UpgradeKind.HANDOVER if entry.handover else UpgradeKind.IN_PLACE
            ready = prepare(context, job, entry.version, kind)
            check_agreed(ready)
            if dry_run:
                return FleetResult(job.name, FleetOutcome.READY, job.job_id)
            begun = begin(context, ready)
        ended = outcome_of(context, begun.run())
        for warning in ended.warnings:
            context.reporter.warning(warning)
        result = _result(ended)
        if unfinished and result.outcome is FleetOutcome.UPGRADED:
            now = context.registry.job(str(result.job_id))
            if not is_up_to_date(now, target_launch(now.launch, entry.version.changes)):
                return _upgraded(context, _Task(entry, now), dry_run=dry_run)
        return result
    except FlinkishError as error:
        outcome = FleetOutcome.REFUSED if begun is None else FleetOutcome.FAILED
        upgrade = None if begun is None else begun.upgrade
        return FleetResult(job.name, outcome, job.job_id, upgrade, error)


def _result(ended: UpgradeResult) -> FleetResult:
    upgrade = ended.upgrade
    if upgrade.state is UpgradeState.UPGRADED:
        return FleetResult(upgrade.name, FleetOutcome.UPGRADED, upgrade.new_job_id, upgrade)
    back = upgrade.state is UpgradeState.ROLLED_BACK
    return FleetResult(
        upgrade.name,
        FleetOutcome.ROLLED_BACK if back else FleetOutcome.FAILED,
        upgrade.old_again_id or upgrade.job_id,
        upgrade,
        ended.failure if ended.has_ended else from_record(upgrade.failure or {}),
    )


def is_up_to_date(job: JobRecord, target: Launch) -> bool:
    """Return whether a job already runs a launch, and its local files have not changed since.

    The values of secrets are not recorded, and thus not compared.
    """
    try:
        installation = spark_submit.resolve(target, os.environ)
    except FlinkishError:
        return False  # what is missing is reported where it is needed
    asked, runs = without_secrets(spark_submit.pinned(target, installation)), job.launch
    same = replace(runs, restore=None, options={}) == replace(asked, restore=None, options={})
    archives = (archive.partition("#")[0] for archive in target.archives)
    others = (*target.py_files, *archives, *target.jars)
    files = [path for path in others if os.path.isfile(path)]  # URLs are not compared
    if target.application is not None:
        files.append(target.application)
    try:
        return same and all(os.path.getmtime(path) <= job.start_time for path in files)
    except OSError:
        return False


@contextmanager
def _own_context(context: Context, name: str) -> Iterator[Context]:
    """Yield a separate context for a thread, whose reports begin with the job's name."""
    with Context(context.config, _Prefixed(context.reporter, name)) as own:
        yield own


class _Prefixed:
    """A reporter whose notes and warnings begin with the name of a job."""

    _lock = threading.Lock()

    def __init__(self, reporter: Reporter, name: str) -> None:
        self._reporter = reporter
        self._name = name

    def note(self, text: str) -> None:
        with self._lock:
            self._reporter.note(f"{self._name}: {text}")

    def warning(self, text: str) -> None:
        with self._lock:
            self._reporter.warning(f"{self._name}: {text}")

    def progress(self, progress: Progress) -> None:
        """Drop it: the progress of several jobs at once is not drawn."""

    def log(self, text: str) -> None:
        with self._lock:
            self._reporter.log(text)
