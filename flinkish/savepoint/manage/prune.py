"""Pruning: remove savepoints by a retention policy, and the remains of killed writers.

Every removal has two phases (:func:`flinkish.savepoint.directory.dispose.dispose`): ``_metadata``
goes first, so an interrupted prune leaves no incomplete savepoint that looks whole, only garbage
for the next prune.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from flinkish import storage
from flinkish.errors import FlinkishError
from flinkish.savepoint.directory import leases, orphans, sharing
from flinkish.savepoint.directory.catalog import (
    Catalog,
    CatalogEntry,
    Unfinished,
    Unreadable,
    job_prefix,
    look_at,
    read_catalog,
)
from flinkish.savepoint.directory.dispose import Tell, directories_of, dispose
from flinkish.savepoint.format.metadata import FILE_NAME
from flinkish.savepoint.manage.retention import Candidate, Policy, plan

#: Seconds without a change after which a directory without ``_metadata`` is garbage.
GARBAGE_AGE = 3600.0
_USED = "other savepoints use its files"


@dataclass(frozen=True)
class PruneOutcome:
    """The outcome for one savepoint.

    Attributes
    ----------
    reasons
        Why it is kept; empty: it is to be removed.
    removed
        Whether it was removed; ``error`` says why not.
    bytes
        Bytes of the files that are removed (with ``dry_run``: would be). Hard links elsewhere keep
        them on the disk.
    shared
        Number of its files that stay because other savepoints use them.
    gone
        See :class:`GarbageOutcome`; only if requested.
    """

    savepoint: CatalogEntry
    reasons: tuple[str, ...]
    removed: bool = False
    bytes: int = 0
    shared: int = 0
    error: FlinkishError | None = None
    gone: tuple[str, ...] = ()

    @property
    def keep(self) -> bool:
        """Whether it is to be kept."""
        return bool(self.reasons)


@dataclass(frozen=True)
class GarbageOutcome:
    """The outcome for one directory without ``_metadata``.

    Attributes
    ----------
    reason
        Why it stays; None: it is to be removed.
    only
        Remove only these files, relative to the directory; None: remove all of it.
    lists
        Directories of other savepoints in which it has a list of used files.
    gone
        Locations that were removed (with ``dry_run``: will be); directories end with a slash.
    """

    found: Unfinished
    reason: str | None
    removed: bool = False
    error: FlinkishError | None = None
    only: tuple[str, ...] | None = None
    lists: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pruned:
    """The result of a prune, or of its dry run."""

    directory: str
    savepoints: tuple[PruneOutcome, ...]
    unreadable: tuple[Unreadable, ...]

    @property
    def errors(self) -> tuple[FlinkishError, ...]:
        """Errors of savepoints that could not be removed."""
        return tuple(found.error for found in self.savepoints if found.error is not None)

    @property
    def bytes(self) -> int:
        """Bytes of all removed files."""
        return sum(found.bytes for found in self.savepoints)


def prune(
    directory: str,
    policy: Policy,
    protected: Mapping[str, str],
    dry_run: bool = False,
    *,
    running: Collection[str] = (),
    jobs: Collection[str] | None = None,
    agreed: Collection[str] | None = None,
    owner: str = "prune",
    now: float | None = None,
    names: bool = False,
) -> Pruned:
    """Remove from ``directory`` the savepoints that ``policy`` does not keep.

    Unreadable savepoints are left alone and reported. Of a savepoint that shares files with others,
    only the files that nothing else uses are removed. A failure does not stop the rest.

    Parameters
    ----------
    protected
        Path of a savepoint that must stay -> the reason (a running job still depends on it).
    dry_run
        Only report what would be done.
    running
        Ids of running jobs; the newest savepoint of each stays.
    jobs
        Only savepoints of these job ids and of other jobs with the same names; None: all.
    agreed
        Remove at most these paths (those shown to the user); None: all that the policy selects.
    owner
        User for the lease (``user@host``).
    now
        Seconds since the epoch; default: the clock.
    names
        Report every removed file.

    Raises
    ------
    UsageError
        The policy is empty.
    Locked
        Another operation holds the directory.
    StorageError
        The storage refuses an operation.
    """
    policy.check()
    location = storage.locate(directory)
    with _exclusive(location, dry_run, owner):
        catalog = read_catalog(location, whole=True)
        chosen = candidates(catalog.savepoints, protected, running, jobs)
        by_path = {savepoint.path: savepoint for savepoint in catalog.savepoints}
        outcomes = []
        for decision in plan(chosen, policy, time.time() if now is None else now):
            path = decision.candidate.path
            reasons = decision.reasons
            if not reasons and orphans.is_link(path):
                reasons = ("it is a link: what it leads to is not in this directory",)
            if not reasons and agreed is not None and path not in agreed:
                reasons = ("not agreed to",)
            outcomes.append(PruneOutcome(by_path[path], reasons))
        # The oldest goes first, so that an interruption leaves a sensible selection.
        gone: set[str] = set()
        done = [_carry_out(outcome, dry_run, names, gone) for outcome in reversed(outcomes)]
    return Pruned(location, tuple(reversed(done)), catalog.unreadable)


def candidates(
    savepoints: Sequence[CatalogEntry],
    protected: Mapping[str, str],
    running: Collection[str] = (),
    jobs: Collection[str] | None = None,
) -> tuple[Candidate, ...]:
    """Return the savepoints to decide on; for the parameters see :func:`prune`. Pure.

    ``savepoints`` are sorted newest first. They are counted by job name, because a restored job
    gets a new id and keeps its name.
    """
    names = {s.header.job_name for s in savepoints if jobs is None or s.header.job_id in jobs}
    newest: dict[str, str] = {}
    for savepoint in savepoints:
        newest.setdefault(savepoint.header.job_id, savepoint.path)
    kept = {_same_place(path): reason for path, reason in protected.items()}
    found = []
    for savepoint in savepoints:
        header = savepoint.header
        if header.job_name not in names:
            continue
        needed = []
        if _same_place(savepoint.path) in kept:
            needed.append(kept[_same_place(savepoint.path)])
        if header.job_id in running and newest[header.job_id] == savepoint.path:
            needed.append(f"newest of the running job {header.job_id[:6]}")
        found.append(Candidate(savepoint.path, header.job_name, header.created, tuple(needed)))
    return tuple(found)


def _exclusive(directory: str, dry_run: bool, owner: str) -> AbstractContextManager[object]:
    """Return the lease for removals in the directory, as a context; raise Locked if it is held.

    A dry run needs none. A directory that does not exist needs none either, and must not be created
    by the lease's file.
    """
    if dry_run or not storage.is_directory(directory):
        return nullcontext()
    return leases.Lease.take(directory, leases.Kind.PRUNE, owner=owner)


def _same_place(path: str) -> str:
    """Return a normal form of a location: on the local file system, links are resolved."""
    return os.path.realpath(path) if storage.is_local(path) else path


def _carry_out(outcome: PruneOutcome, dry_run: bool, names: bool, before: set[str]) -> PruneOutcome:
    """Remove the savepoint, or plan its removal, and return the outcome.

    ``before`` contains the locations removed for earlier savepoints; those of this one are added.
    """
    if outcome.keep:
        return outcome
    gone: list[str] = []
    tell = gone.append if names else None
    path, known = outcome.savepoint.path, before if dry_run else ()
    try:
        done = dispose(path, dry_run=dry_run, follow=False, tell=tell, gone=known)
    except FlinkishError as error:
        return replace(outcome, error=error, gone=tuple(gone))
    before.update(gone)
    return replace(
        outcome, removed=not dry_run, bytes=done.bytes, shared=done.kept, gone=tuple(gone)
    )


def collect_garbage(
    directory: str,
    writing: Collection[tuple[str, str]],
    dry_run: bool = False,
    *,
    agreed: Collection[str] | None = None,
    owner: str = "prune",
    now: float | None = None,
    names: bool = False,
) -> tuple[GarbageOutcome, ...]:
    """Remove the directories of unfinished savepoints that no process writes any more, and husks.

    A husk is the remainder of a disposed savepoint, kept because other savepoints used its files.
    It is removed when these are gone; its files that nobody uses, left by an interrupted disposal,
    are removed at once. Lists of an unfinished savepoint in other savepoints are removed, too.
    Stale leases are ignored, and removed. Only directories with a name that flinkish gives to
    savepoints are examined.

    Parameters
    ----------
    writing
        Target directory and job id of every savepoint that a request has under way.
    dry_run, agreed, owner, now, names
        See :func:`prune`.

    Raises
    ------
    Locked
        Another operation holds the directory.
    StorageError
        The storage refuses an operation.
    """
    location = storage.locate(directory)
    clock = time.time() if now is None else now
    with _exclusive(location, dry_run, owner):
        catalog = read_catalog(location, whole=True)
        live = [record for record in leases.read_leases(location) if not record.is_stale(clock)]
        writers = {job_id[:6] for target, job_id in writing if _same(target, location)}
        writers |= {r.job_id[:6] for r in live if r.kind is leases.Kind.WRITE and r.job_id}
        named = {storage.base_name(record.path) for record in live if record.path}
        lists = orphans.read_lists(location, catalog)
        found = orphans.with_lists(location, look_at(catalog.unfinished), lists)
        judged = _extended(judge_garbage(found, catalog, writers, named, clock), catalog, lists)
        gone: set[str] = set()
        return tuple(
            outcome
            if outcome.reason or (agreed is not None and outcome.found.path not in agreed)
            else _with_names(outcome, dry_run, names, gone)
            for outcome in judged
        )


def judge_garbage(
    found: Sequence[Unfinished],
    catalog: Catalog,
    writers: Collection[str],
    named: Collection[str],
    now: float,
) -> tuple[GarbageOutcome, ...]:
    """Decide which directories without ``_metadata`` are garbage. Pure.

    Parameters
    ----------
    catalog
        Catalog of the directory that contains them, with its savepoints opened.
    writers
        First six digits of the ids of jobs that are writing a savepoint here.
    named
        Names of the directories that live leases are for.
    now
        Seconds since the epoch.
    """
    complete = orphans.complete_names(catalog)
    holders = {name for s in catalog.savepoints if s.opened for name in s.opened.holders}
    reasons: dict[str, str | None] = {}
    for each in found:
        name = storage.base_name(each.path)
        reason = None
        if name in named or job_prefix(each.path) in writers:
            reason = "it is being written"
        elif each.modified is None:
            reason = "the storage does not tell its age"
        elif now - each.modified < GARBAGE_AGE:
            reason = "it was changed within the last hour"
        elif name in holders or complete.intersection(each.users):
            reason = _USED
        reasons[name] = reason
    # A savepoint being written may use a husk's files before its own _metadata lists them.
    young = {name for name, reason in reasons.items() if reason is not None}
    return tuple(
        GarbageOutcome(
            each,
            reasons[storage.base_name(each.path)]
            or ("a savepoint being written uses its files" if young & {*each.users} else None),
        )
        for each in found
    )


def _extended(
    judged: Sequence[GarbageOutcome], catalog: Catalog, lists: orphans.Lists
) -> list[GarbageOutcome]:
    """Add to the outcomes what else goes: lists in other savepoints, unused files of husks."""
    going = {outcome.found.path for outcome in judged if outcome.reason is None}
    # A directory whose files others use is itself no longer a user of other files.
    dead = {storage.base_name(o.found.path) for o in judged if o.reason in (None, _USED)}
    there = {*catalog.unfinished}
    done: list[GarbageOutcome] = []
    for outcome in judged:
        found = outcome.found
        # Lists in a directory that is removed as a whole need no separate removal.
        holders = lists.holders(storage.base_name(found.path))
        kept = tuple(holder for holder in holders if holder not in going)
        if found.path not in there:
            if not kept:
                continue
            # Remove only its lists, and nothing else that may have that name.
            outcome = replace(outcome, only=())
        if outcome.reason == _USED:
            unused = orphans.unused_files(found, catalog, dead)
            if unused or kept:
                found = replace(found, files=len(unused) + len(kept), bytes=sum(unused.values()))
                outcome = replace(outcome, found=found, reason=None, only=tuple(unused))
        done.append(replace(outcome, lists=kept))
    return done


def _same(target: str, location: str) -> bool:
    return _same_place(storage.locate(target)) == _same_place(location)


def _with_names(
    outcome: GarbageOutcome, dry_run: bool, names: bool, before: set[str]
) -> GarbageOutcome:
    """Remove the garbage, or plan its removal in a dry run; return the outcome with the locations.

    ``before``: see :func:`_carry_out`.
    """
    gone: list[str] = []
    if not dry_run:
        return replace(_remove(outcome, gone.append if names else None), gone=tuple(gone))
    if not names:
        return outcome
    try:
        _plan(outcome, gone.append, before)
    except FlinkishError as error:
        return replace(outcome, error=error)
    before.update(gone)
    return replace(outcome, gone=tuple(gone))


def _remove(outcome: GarbageOutcome, tell: Tell | None) -> GarbageOutcome:
    path = outcome.found.path
    directory, name = storage.split(path)

    def told(below: str) -> None:
        if tell is not None:
            tell(storage.join(directory, below))

    try:
        if storage.exists(storage.join(path, FILE_NAME)):
            return replace(outcome, reason="it was finished meanwhile")
        if outcome.only is None:
            removed = storage.remove_tree(directory, name, told)
        else:
            storage.remove_files(directory, (f"{name}/{each}" for each in outcome.only), told)
            storage.remove_empty_directories(directory, _directories(name, outcome.only), told)
            removed = True
        # Last, because after an interruption the next prune finds it by these lists.
        for holder in outcome.lists:
            sharing.forget_references(holder, name, tell)
        return replace(outcome, removed=removed)
    except FlinkishError as error:
        return replace(outcome, error=error)


def _plan(outcome: GarbageOutcome, tell: Tell, before: Collection[str]) -> None:
    """Call ``tell`` with each location that :func:`_remove` would remove, in its order."""
    directory, name = storage.split(outcome.found.path)
    if outcome.only is None:
        planned = list(storage.plan_tree(directory, name))
    else:
        planned = [f"{name}/{each}" for each in outcome.only]
        goes = frozenset(planned).__contains__
        planned += storage.plan_empty_directories(directory, _directories(name, outcome.only), goes)
    for each in planned:
        tell(storage.join(directory, each))
    for holder in outcome.lists:
        sharing.plan_forgetting(holder, name, tell, before)


def _directories(name: str, files: Collection[str]) -> set[str]:
    """Return the directories that may be empty after the removal of files, relative to ``name``."""
    return {f"{name}/{each}".rstrip("/") for each in directories_of(files)} if files else set()
