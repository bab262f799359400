"""Resolve ids, prefixes of ids, and names to a job or a request. Pure decisions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from flinkish.errors import AmbiguousJob, FlinkishError, JobNotFound, UsageError
from flinkish.messages.launch import RestoreSpec
from flinkish.registry.jobs import JobRecord

ID_LENGTH = 32
MIN_PREFIX = 4


def is_id(text: str) -> bool:
    """Return whether the text is a complete job or request id: 32 hex digits in any case."""
    return re.fullmatch(r"[0-9a-fA-F]{32}", text) is not None


def is_prefix(text: str) -> bool:
    """Return whether the text may be the beginning of an id: 4 to 32 hex digits."""
    return re.fullmatch(r"[0-9a-fA-F]{4,32}", text) is not None


def name_matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern: ``*`` and ``?`` are the only wildcards."""
    from fnmatch import fnmatchcase  # only where there is a pattern: `list` starts without it

    return name == pattern or fnmatchcase(name, pattern.replace("[", "[[]"))


def choose(
    reference: str, by_id: Sequence[JobRecord], by_name: Sequence[JobRecord], *, include_final: bool
) -> JobRecord:
    """Return the one job that ``reference`` refers to.

    A prefix matches a job in any state (the caller checks the state). A name refers to unfinished
    jobs first, and with ``include_final`` to a finished one if there is no other. ``by_id`` are the
    jobs whose id starts with the reference (empty if it cannot be an id), ``by_name`` those with
    exactly that name. Raises AmbiguousJob, JobNotFound, or UsageError for a malformed id.
    """
    active = [job for job in by_name if not job.state.is_final]
    named = active or (list(by_name) if include_final else [])
    candidates = {job.job_id: job for job in (*by_id, *named)}
    if len(candidates) == 1:
        return next(iter(candidates.values()))
    if candidates:
        raise _ambiguous(reference, sorted(candidates.values(), key=lambda job: job.start_time))
    raise _nothing(reference, by_name)


def takes_up(restore: RestoreSpec | None, job_id: str, savepoints: Collection[str]) -> bool:
    """Return whether a restore starts from a job's checkpoints or one of its savepoints. Pure."""
    if restore is None or restore.options.fork:
        return False
    return restore.job == job_id or (bool(restore.path) and restore.path in savepoints)


def without_superseded(
    jobs: Sequence[JobRecord],
    query_ids: Mapping[str, Collection[str]],
    savepoints: Mapping[str, Collection[str]],
) -> list[JobRecord]:
    """Return the ended jobs that no later one of them has continued. Pure.

    A later job continues another if it runs one of its queries, if it started from its checkpoints
    or one of its savepoints, or if both started from the same one, as after an upgrade that was
    rolled back. A fork does not continue the other job, nor does a job that never started a query.
    ``query_ids`` and ``savepoints`` (paths) are by job id.
    """

    def goes_on(later: JobRecord, job: JobRecord) -> bool:
        if later.start_time <= job.start_time or not query_ids[later.job_id]:
            return False
        restore, own = later.launch.restore, job.launch.restore
        if not set(query_ids[later.job_id]).isdisjoint(query_ids[job.job_id]):
            return True
        both = () if own is None or own.options.fork else (own.path,)
        return takes_up(restore, job.job_id, (*savepoints[job.job_id], *both))

    return [job for job in jobs if not any(goes_on(later, job) for later in jobs)]


def _ambiguous(reference: str, jobs: Sequence[JobRecord]) -> AmbiguousJob:
    lines = ", ".join(f"{job.job_id} {job.name} ({job.state.value})" for job in jobs[:5])
    more = f" and {len(jobs) - 5} more" if len(jobs) > 5 else ""
    return AmbiguousJob(
        f"{reference!r} means {len(jobs)} jobs: {lines}{more}",
        hint="give the id of one of them",
        candidates=[
            {"job_id": job.job_id, "name": job.name, "state": job.state.value} for job in jobs
        ],
    )


def _nothing(reference: str, by_name: Sequence[JobRecord]) -> FlinkishError:
    if by_name:
        last = max(by_name, key=lambda job: job.start_time)
        return JobNotFound(
            f"no job named {reference!r} is running; its last one, {last.job_id}, "
            f"is {last.state.value}",
            hint="name a finished job by its id; see them with: flinkish list -a",
        )
    if is_id(reference):
        return JobNotFound(f"could not find job {reference.lower()}")
    if len(reference) == ID_LENGTH:
        return UsageError(
            f'cannot parse JobID from "{reference}": '
            "the expected format is [0-9a-fA-F]{32}, a job id of 32 hex digits",
            hint=JobNotFound.default_hint,
        )
    if is_prefix(reference):
        return JobNotFound(f"no job has an id that begins with {reference!r}, or that name")
    if re.fullmatch(r"[0-9a-fA-F]{1,3}", reference):
        return JobNotFound(
            f"no job is named {reference!r}, and as the beginning of an id it is too short",
            hint=f"use at least {MIN_PREFIX} digits; see the jobs with: flinkish list -a",
        )
    return JobNotFound(f"no running job is named {reference!r}, and it is not a job id")
