"""Decide which ended jobs a purge removes, with the reason for everything that stays. Pure.

A purged job loses its record with its requests, its log, and the checkpoints that flinkish placed
for it. A job stays as a whole if the rules exclude it (it ended too recently, its failure is not
acknowledged, a savepoint of it is being written), if its checkpoints cannot be removed, if another
program has written to them, or if they are needed by a job that stays or have a savepoint inside.
Savepoints share no files with checkpoints.

The record alone stays, without the files, while a savepoint, or a job that stays, is at an earlier
batch of one of its queries. Sinks remember query ids and batch numbers, so a restore of that batch
must know that later batches were already written (``flinkish.restore.plan.query_id``). The record
also stays while the program's own ``checkpointLocation`` is at an earlier batch, because a restored
job has left that checkpoint behind, and a plain start would continue in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from flinkish.registry.jobs import JobRecord


class What(str, Enum):
    """The parts of a job."""

    CHECKPOINT = "checkpoint"
    LOG = "log"
    RECORD = "record"


@dataclass(frozen=True)
class RunFacts:
    """One run of a query.

    ``checkpoint`` is as recorded, ``place`` its normalised form for comparisons. ``batch_id`` is
    the newest batch that the run has committed. ``own_place`` is the place of the program's own
    checkpoint, where a start without a savepoint would continue; empty if the program names none.
    """

    name: str
    query_id: str
    checkpoint: str
    place: str
    batch_id: int | None
    own_place: str = ""


@dataclass(frozen=True)
class Found:
    """What is below a directory that flinkish has created (for checkpoints, for example).

    ``stays`` is why the files are never removed (the directory is a link, for instance), or None.
    ``modified`` is when a file was last written there, in seconds since the epoch.
    """

    files: int = 0
    bytes: int = 0
    stays: str | None = None
    modified: float = 0.0


@dataclass(frozen=True)
class JobFacts:
    """What the plan must know about a job.

    ``place`` is its own directory of checkpoints, ``origin`` what it was restored from, until its
    own checkpoints replace that; both normalised. ``is_unacknowledged`` is set if it has failed and
    nobody has acknowledged the failure. ``saving`` is why the job is needed: by a savepoint that
    may be in progress, an upgrade, or another run. ``checkpoint`` and ``log_bytes`` are looked up
    only for candidates (those without a :func:`standing_reason`).
    """

    job: JobRecord
    runs: Sequence[RunFacts] = ()
    place: str | None = None
    origin: str | None = None
    is_unacknowledged: bool = False
    saving: str | None = None
    checkpoint: Found | None = None
    log_bytes: int | None = None


@dataclass(frozen=True)
class SavepointFacts:
    """A savepoint that exists: its location, and the batch of each of its queries by query id."""

    path: str
    place: str
    batches: Mapping[str, int]


@dataclass(frozen=True)
class Item:
    """A part of a job: it is removed, or stays for a reason.

    ``location`` is its path or URL; None for the record.
    """

    what: What
    location: str | None = None
    bytes: int = 0
    stays: str | None = None


@dataclass(frozen=True)
class JobPlan:
    """What a purge does with one ended job.

    ``reasons`` are why the job stays as a whole. In that case ``items``, the job's parts, is empty.
    """

    job: JobRecord
    reasons: tuple[str, ...] = ()
    items: tuple[Item, ...] = ()

    @property
    def keep(self) -> bool:
        """Whether nothing of the job is removed."""
        return all(item.stays is not None for item in self.items)

    @property
    def bytes(self) -> int:
        """The number of bytes removed."""
        return sum(item.bytes for item in self.items if item.stays is None)


@dataclass(frozen=True)
class Rules:
    """Which jobs to purge.

    Jobs that ended before ``ended_before`` (seconds since the epoch) are purged. With ``failed``,
    that includes jobs whose failures are not acknowledged.
    """

    ended_before: float
    failed: bool = False


def standing_reason(facts: JobFacts, rules: Rules) -> str | None:
    """Return why a job is kept regardless of the others; None for a candidate."""
    if not facts.job.state.is_final:
        return f"it is {facts.job.state.value}"
    if facts.job.end_time is None or facts.job.end_time >= rules.ended_before:
        return "it ended too recently"
    if facts.is_unacknowledged and not rules.failed:
        return "its failure is not acknowledged (flinkish ack, or --failed)"
    return facts.saving


def plan_purge(
    jobs: Sequence[JobFacts], savepoints: Sequence[SavepointFacts], rules: Rules
) -> tuple[JobPlan, ...]:
    """Decide what a purge does with each ended job, in the order of ``jobs``.

    ``jobs`` are all jobs of the registry. ``savepoints`` are the registry's savepoints that still
    exist.
    """
    kept = {facts.job.job_id: standing_reason(facts, rules) for facts in jobs}
    while True:  # a job that stays may need another's checkpoint, and that job a third's
        staying = [facts for facts in jobs if kept[facts.job.job_id] is not None]
        more = {
            facts.job.job_id: reason
            for facts in jobs
            if kept[facts.job.job_id] is None
            and (reason := _needed(facts, staying, savepoints, rules)) is not None
        }
        if not more:
            break
        kept.update(more)
    plans = []
    for facts in jobs:
        reason = kept[facts.job.job_id]
        if reason is None:
            plans.append(JobPlan(facts.job, items=tuple(_items(facts, jobs, staying, savepoints))))
        elif facts.job.state.is_final:
            plans.append(JobPlan(facts.job, (reason,)))
    return tuple(plans)


def _needed(
    facts: JobFacts,
    staying: Sequence[JobFacts],
    savepoints: Sequence[SavepointFacts],
    rules: Rules,
) -> str | None:
    """Return why the job's checkpoints must stay; None if they may be removed."""
    place = facts.place
    if place is None or facts.checkpoint is None:
        return None
    if facts.checkpoint.stays is not None:
        return f"its checkpoints stay: {facts.checkpoint.stays}"
    if facts.checkpoint.modified >= rules.ended_before:
        return "its checkpoints were written to after it had ended"
    for savepoint in savepoints:
        if _overlap(savepoint.place, place):
            return f"the savepoint {savepoint.path} is in its checkpoints"
    for other in staying:
        who = f"job {other.job.name} ({other.job.job_id})"
        if any(_overlap(run.place, place) for run in other.runs):
            return f"{who} has its checkpoints there"
        if other.origin is not None and _overlap(other.origin, place):
            return f"{who} was restored from its checkpoints and has no commit of its own yet"
    return None


def _items(
    facts: JobFacts,
    jobs: Collection[JobFacts],
    staying: Collection[JobFacts],
    savepoints: Collection[SavepointFacts],
) -> Iterator[Item]:
    """Yield the parts of a job that is purged."""
    job, checkpoint = facts.job, facts.checkpoint
    if checkpoint is not None:
        yield Item(What.CHECKPOINT, job.checkpoint_dir, checkpoint.bytes)
    for run in facts.runs:
        if facts.place is None or not is_inside(run.place, facts.place):
            yield Item(What.CHECKPOINT, run.checkpoint, stays="the program chose that place")
    if facts.log_bytes is not None:
        named = job.log_path is not None and job.log_path.endswith(f"/{job.job_id}.log")
        stays = None if named else "it does not have the name of a flinkish log"
        yield Item(What.LOG, job.log_path, facts.log_bytes, stays)
    stays = _remembered(facts, staying, savepoints) or _makes_stale(facts, jobs)
    yield Item(What.RECORD, stays=stays)


def _remembered(
    facts: JobFacts, staying: Collection[JobFacts], savepoints: Collection[SavepointFacts]
) -> str | None:
    """Return why the record stays: a restore of an earlier batch must know the later ones."""
    for run in facts.runs:
        if run.batch_id is None:
            continue
        went_on = f"of query '{run.name}', which this job continued to batch {run.batch_id}"
        for savepoint in savepoints:
            batch = savepoint.batches.get(run.query_id)
            if batch is not None and batch < run.batch_id:
                return f"the savepoint {savepoint.path} is of batch {batch} {went_on}"
        for other in staying:
            for theirs in other.runs:
                if theirs.query_id == run.query_id and (theirs.batch_id or 0) < run.batch_id:
                    who = f"job {other.job.name} ({other.job.job_id})"
                    return f"{who} is at an earlier batch {went_on}"
    return None


def _makes_stale(facts: JobFacts, jobs: Collection[JobFacts]) -> str | None:
    """Return why the record stays: the program's own checkpoint is at an earlier batch.

    A plain ``run`` would continue in that checkpoint, and only the record shows that this job has
    gone on from it. The record of a later run of the query would serve as well.
    """
    for run in facts.runs:
        if not run.own_place or run.own_place == run.place or run.batch_id is None:
            continue
        others = [each for other in jobs if other is not facts for each in other.runs]
        if not any(
            each.query_id == run.query_id
            and run.own_place in (each.own_place, each.place)
            and (each.batch_id or 0) > run.batch_id
            for each in others
        ):
            return (
                f"the checkpoint {run.own_place} of its program does not have the batches of query "
                f"'{run.name}' up to {run.batch_id}"
            )
    return None


def is_inside(place: str, directory: str) -> bool:
    """Return whether a place is a directory or lies in it; both are normalised."""
    return place == directory or place.startswith(f"{directory.rstrip('/')}/")


def _overlap(one: str, other: str) -> bool:
    return is_inside(one, other) or is_inside(other, one)
