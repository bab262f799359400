"""Remove ended jobs: their records, their logs, and the checkpoints that flinkish placed.

Directories that killed rehearsals left next to the checkpoints are removed at the same age.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flinkish import storage
from flinkish.annotations import public_evolving
from flinkish.client.context import Context
from flinkish.client.program import checkpoint_directory
from flinkish.client.purge_files import Leftover, find_leftovers, found_below, remove_leftover
from flinkish.errors import FlinkishError, PartialFailure, StorageError
from flinkish.launch.known_jobs import meant_to_begin, standing
from flinkish.launch.offline import parent_of_checkpoints
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.registry.in_use import outlived
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import reconcile
from flinkish.registry.purge_plan import (
    Found,
    JobFacts,
    JobPlan,
    Rules,
    RunFacts,
    SavepointFacts,
    What,
    is_inside,
    plan_purge,
    standing_reason,
)
from flinkish.registry.resumed_runs import offered_names, resumed_runs
from flinkish.restore.plan.query_id import newest_batch
from flinkish.savepoint.directory.leases import LeaseRecord, read_leases
from flinkish.units import counted

_SAVEPOINTS = "execution.checkpointing.savepoint-dir"


@dataclass(frozen=True)
class PurgeOutcome:
    """What was done about one ended job.

    ``plan``: the job's parts, each with the reason why it stays, if it does, or the reasons why the
    whole job stays. ``removed``: whether everything that the plan removes is gone.
    """

    plan: JobPlan
    removed: bool = False
    error: FlinkishError | None = None

    @property
    def job(self) -> JobRecord:
        """The job as it was found."""
        return self.plan.job


@public_evolving
@dataclass(frozen=True)
class PurgeResult:
    """What a purge did, or with ``dry_run`` would do.

    Parameters
    ----------
    ended_before : float
        In seconds since the epoch; only jobs that ended before this time are purged.
    dry_run : bool
        Whether nothing was touched.
    jobs : tuple of PurgeOutcome
        Each job that has ended, by start time.
    leftovers : tuple of Leftover
        Each directory of a rehearsal beside the checkpoints of jobs.
    """

    ended_before: float
    dry_run: bool
    jobs: tuple[PurgeOutcome, ...] = ()
    leftovers: tuple[Leftover, ...] = ()

    @property
    def going(self) -> tuple[PurgeOutcome, ...]:
        """The jobs with parts that are to be removed."""
        return tuple(each for each in self.jobs if not each.plan.keep)

    @property
    def going_leftovers(self) -> tuple[Leftover, ...]:
        """The directories of rehearsals that are to be removed."""
        return tuple(each for each in self.leftovers if each.stays is None)

    @property
    def errors(self) -> tuple[FlinkishError, ...]:
        """The errors of failed removals."""
        errors = [each.error for each in self.jobs] + [each.error for each in self.leftovers]
        return tuple(error for error in errors if error is not None)

    @property
    def failure(self) -> PartialFailure | None:
        """The error of a purge that could not remove everything, or None."""
        if not self.errors:
            return None
        first, leftovers = self.errors[0], self.going_leftovers
        parts = [counted(len(self.going), "job")] if self.going else []
        if leftovers:
            parts.append(f"{counted(len(leftovers), 'leftover')} of rehearsals")
        return PartialFailure(
            f"{len(self.errors)} of {' and '.join(parts)} could not be removed: {first.message}",
            hint=first.hint or "run the command again to continue",
        )


def purge_jobs(
    context: Context,
    age: float,
    *,
    failed: bool = False,
    dry_run: bool = False,
    agree: Callable[[PurgeResult], object] | None = None,
) -> PurgeResult:
    """Remove jobs that ended more than ``age`` seconds ago, and leftovers of rehearsals that old.

    ``failed``: whether to remove jobs with unacknowledged failures, too.
    ``dry_run``: only return what would be done. ``agree``: called with what would be done, before
    anything is removed; it raises ConsentNeeded to refuse. Only what ``agree`` has seen is removed.

    Failed removals are in the result's ``errors``.

    Raises RegistryError if the registry cannot be read; ConsentNeeded if ``agree`` refused.
    """
    plan = _purged(context, age, failed=failed, dry_run=True)
    if dry_run or not (plan.going or plan.going_leftovers):
        return replace(plan, dry_run=dry_run)
    if agree is not None:
        agree(plan)
    agreed = {each.job.job_id for each in plan.going}
    agreed |= {each.location for each in plan.going_leftovers}
    return _purged(context, age, failed=failed, dry_run=False, agreed=agreed)


def _purged(
    context: Context,
    age: float,
    *,
    failed: bool,
    dry_run: bool,
    agreed: Collection[str] | None = None,
) -> PurgeResult:
    """Purge, or plan it; with ``agreed`` only these jobs (ids) and leftovers (locations) may go."""
    rules = Rules(context.registry.now() - age, failed)
    jobs, savepoints = _facts(context, rules)
    outcomes = []
    for plan in plan_purge(jobs, savepoints, rules):
        if not plan.keep and agreed is not None and plan.job.job_id not in agreed:
            plan = JobPlan(plan.job, ("not agreed to",))
        outcomes.append(PurgeOutcome(plan))
    leftovers = [
        replace(each, stays="not agreed to")
        if each.stays is None and agreed is not None and each.location not in agreed
        else each
        for each in _leftovers(context, [facts.job for facts in jobs], rules)
    ]
    if not dry_run:
        by_id = {facts.job.job_id: facts for facts in jobs}
        outcomes = [
            each if each.plan.keep else _carry_out(context, by_id[each.job.job_id], each)
            for each in outcomes
        ]
        leftovers = [each if each.stays else remove_leftover(each) for each in leftovers]
    return PurgeResult(rules.ended_before, dry_run, tuple(outcomes), tuple(leftovers))


def _carry_out(context: Context, facts: JobFacts, outcome: PurgeOutcome) -> PurgeOutcome:
    """Remove the parts of a job that its plan names; the record, which locates them, goes last."""
    registry, job = context.registry, outcome.job
    batches = {run.query_id: run.batch_id for run in facts.runs if run.batch_id is not None}
    try:
        registry.begin_purge(job, batches)
        for item in outcome.plan.items:
            if item.stays is not None:
                continue
            if item.what is What.RECORD:
                registry.forget(job.job_id)
                continue
            assert item.location is not None
            root, name = storage.split(item.location)
            if item.what is What.LOG:
                storage.remove_file(root, name)
            elif not storage.remove_tree(root, name):
                raise StorageError(
                    f"{item.location} could not be removed completely",
                    hint="check who owns the remaining files; you can run purge again",
                )
    except FlinkishError as error:
        return replace(outcome, error=error)
    return replace(outcome, removed=True)


def _leftovers(context: Context, jobs: Sequence[JobRecord], rules: Rules) -> tuple[Leftover, ...]:
    """Find leftovers of rehearsals in the directories of the checkpoints of jobs."""
    directories = {
        storage.one_name(directory): directory for directory in _directories(context, jobs)
    }
    return find_leftovers(directories.values(), rules.ended_before, context.reporter)


def _directories(context: Context, jobs: Sequence[JobRecord]) -> Iterator[str]:
    yield checkpoint_directory(context.config)
    yield from filter(None, map(parent_of_checkpoints, jobs))


def _facts(
    context: Context, rules: Rules
) -> tuple[tuple[JobFacts, ...], tuple[SavepointFacts, ...]]:
    """Collect the facts on which the plan is based."""
    registry = context.registry
    jobs = reconcile(registry, registry.jobs())
    runs = registry.runs()
    unacknowledged = {job.job_id for job in registry.unacknowledged()}
    records = registry.savepoints()
    facts = [
        _known(
            job,
            runs.get(job.job_id, ()),
            origin=_origin(job, runs, records),
            is_unacknowledged=job.job_id in unacknowledged,
        )
        for job in jobs
    ]
    chosen = {f.job.job_id for f in facts if standing_reason(f, rules) is None}
    saving = dict.fromkeys(registry.jobs_in_upgrades(), "it has an unfinished upgrade")
    saving |= _needed_by_runs(registry, jobs)
    saving |= _saving(context, [f for f in facts if f.job.job_id in chosen], records)
    facts_of_jobs = tuple(
        _looked_up(replace(f, saving=saving.get(f.job.job_id))) if f.job.job_id in chosen else f
        for f in facts
    )
    return facts_of_jobs, tuple(
        SavepointFacts(
            record.path,
            storage.one_name(record.path),
            {query.query_id: query.batch_id for query in record.queries},
        )
        for record in records
    )


def _needed_by_runs(registry: Registry, jobs: Sequence[JobRecord]) -> dict[str, str]:
    """Return the ended jobs that other runs need, each with the reason to keep it.

    Such a run is the next ``run --resume`` of a name, or a resumed job that may start further
    queries. It may need several ended jobs: a job that was killed may not have started all queries
    of the job that it had resumed.
    """
    active = [job for job in jobs if not job.state.is_final]
    resumed = [job for job in active if job.launch.restore and job.launch.restore.job]
    names = {job.name for job in jobs if job.launch.resumes} - {job.name for job in active}
    standings = {name: standing(registry, name) for name in sorted(names)}
    stand = [each.job for each in standings.values() if each is not None]
    # Without these records the next run would not know that it must start from a savepoint.
    held = [meant_to_begin(registry, name) for name, each in standings.items() if each is None]
    return {
        job.job_id: "flinkish run --resume must know that it never started from its savepoint"
        for job in held
        if job is not None
    } | {
        run.job.job_id: "flinkish run --resume continues from it"
        for job in (*stand, *resumed)
        for run in resumed_runs(registry, job).runs
        if run.job.state.is_final
    }


def _known(
    job: JobRecord, queries: Sequence[QueryStatus], *, origin: str | None, is_unacknowledged: bool
) -> JobFacts:
    """Return what the registry knows about a job."""
    return JobFacts(
        job,
        tuple(
            RunFacts(
                q.name,
                q.query_id,
                q.checkpoint_dir,
                storage.one_name(q.checkpoint_dir),
                q.batch_id,
                _own_place(job, q),
            )
            for q in queries
        ),
        None if job.checkpoint_dir is None else storage.one_name(job.checkpoint_dir),
        origin,
        is_unacknowledged,
    )


def _origin(
    job: JobRecord,
    runs: Mapping[str, Sequence[QueryStatus]],
    savepoints: Sequence[SavepointSummary],
) -> str | None:
    """Return the place that a job was restored from; None if the job does not need it any more."""
    spec = job.launch.restore
    if spec is None or spec.is_awaited:
        return None
    # _needed_by_runs finds what the next run needs of an ended job.
    offered = () if job.state.is_final else offered_names(spec, runs, savepoints)
    return None if outlived(runs.get(job.job_id, ()), offered) else storage.one_name(spec.path)


def _looked_up(facts: JobFacts) -> JobFacts:
    """Add what only the storage knows: the files of a candidate, and its newest batches."""
    return replace(
        facts,
        runs=tuple(replace(run, batch_id=_newest(run)) for run in facts.runs),
        checkpoint=_checkpoint(facts.job),
        log_bytes=_log_bytes(facts.job.log_path),
    )


@dataclass(frozen=True)
class _Committing:
    checkpoint_dir: str
    batch_id: int | None


def _newest(run: RunFacts) -> int | None:
    return newest_batch(_Committing(run.checkpoint, run.batch_id))


def _checkpoint(job: JobRecord) -> Found | None:
    """Return the files of a job's directory of checkpoints; None if there is none."""
    path = job.checkpoint_dir
    files = None if path is None else found_below(path)
    if path is None or files is None or storage.base_name(path) == job.job_id:
        return files
    return Found(stays="its name is not that of a checkpoint of flinkish")


def _log_bytes(path: str | None) -> int | None:
    if path is None:
        return None
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def _saving(
    context: Context, candidates: Sequence[JobFacts], savepoints: Sequence[SavepointSummary]
) -> Mapping[str, str]:
    """Return the jobs whose savepoint is being written, or may be, each with the reason.

    A savepoint of an ended job is written by the process that asks for it, and only the leases of
    that process show this: in the target, and beside the checkpoints, where an export has one, too.
    Targets are known from earlier savepoints and from the configuration.
    """
    reasons: dict[str, str] = {}
    by_id = {facts.job.job_id: facts for facts in candidates}
    targets: dict[str, set[str]] = {}
    for record in savepoints:
        targets.setdefault(storage.parent(record.path), set()).add(record.job_id)
    configured = [(context.config.get(_SAVEPOINTS), set(by_id))]
    configured += [(f.job.launch.options.get(_SAVEPOINTS), {f.job.job_id}) for f in candidates]
    configured += [(parent_of_checkpoints(f.job), {f.job.job_id}) for f in candidates]
    for directory, owners in configured:
        if directory:
            targets.setdefault(directory, set()).update(owners)
    now = time.time()
    for target, owners in targets.items() if candidates else ():
        try:
            leases = [lease for lease in read_leases(target) if not lease.is_stale(now)]
        except FlinkishError as error:
            context.reporter.warning(f"{target} was not checked: {error.message}")
            reason = f"a savepoint of it may be in progress in {target}, which cannot be checked"
            reasons.update((job_id, reason) for job_id in owners & by_id.keys())
            continue
        for lease in leases:
            reasons.update((job_id, lease.describe()) for job_id in _of(lease, by_id.values()))
    return reasons


def _of(lease: LeaseRecord, candidates: Iterable[JobFacts]) -> list[str]:
    """Return the ids of the candidates that a lease is about."""
    return [
        facts.job.job_id
        for facts in candidates
        if lease.job_id == facts.job.job_id
        or (lease.path and facts.place and is_inside(storage.one_name(lease.path), facts.place))
    ]


def _own_place(job: JobRecord, query: QueryStatus) -> str:
    """Return the place of the checkpoint that a query's program names; empty if there is none."""
    own = query.own_location
    if own and not own.startswith("/") and ":" not in own.partition("/")[0]:
        own = os.path.join(job.launch.working_directory or "/", own)
    return storage.one_name(own) if own else ""
