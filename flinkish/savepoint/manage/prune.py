"""Removing savepoints by a retention policy, and what dead writers left behind.

Every removal is two-phase (:func:`flinkish.savepoint.directory.dispose.dispose`): ``_metadata``
goes first, so an interrupted prune leaves no half savepoint that looks whole, only garbage for the
next one.
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

#: Seconds without a change after which a directory without ``_metadata`` counts as left behind.
GARBAGE_AGE = 3600.0
_USED = "other savepoints use its files"


@dataclass(frozen=True)
class PruneOutcome:
    """What became of one savepoint.

    ``reasons`` say why it is kept; without any it is removed: ``removed`` says whether it really
    was, ``error`` why not. ``bytes`` are those of the files that go (with ``dry_run``: would go;
    other names of hard links keep them on the disk), ``shared`` counts its files that stay because
    other savepoints use them. ``gone``: see :class:`GarbageOutcome`; only where it was asked for.
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
    """What became of one directory without ``_metadata``; ``reason`` says why it stays.

    ``only``: these files of it go, given relative to it, and the rest stays; None: all of it goes.
    ``lists``: directories of other savepoints in which it says that it uses files of them.
    ``gone``: locations of all that went (with ``dry_run``: will go), directories with a slash at
    their end.
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
    """What a prune did, or would do."""

    directory: str
    savepoints: tuple[PruneOutcome, ...]
    unreadable: tuple[Unreadable, ...]

    @property
    def errors(self) -> tuple[FlinkishError, ...]:
        """Why savepoints that were to go are still there."""
        return tuple(found.error for found in self.savepoints if found.error is not None)

    @property
    def bytes(self) -> int:
        """Bytes of all files that went."""
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

    Savepoints that cannot be read are left alone and reported. Of one whose files others share,
    only what is its own goes. One that cannot be removed does not stop the rest.

    Parameters
    ----------
    protected: path of a savepoint that must stay -> why (a running job still depends on it).
    dry_run: only say what would be done.
    running: ids of running jobs; the newest savepoint of each stays.
    jobs: only savepoints of these job ids and of others with the same names; None: of all.
    agreed: remove at most these paths (what the user was shown); None: all the policy says.
    owner: who asks, for the lease (``user@host``).
    now: seconds since the epoch; default: the clock.
    names: say of each what goes, file by file.

    Raises UsageError for an empty policy, Locked while another operation holds the directory,
    StorageError.
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
        # The oldest goes first: interrupted anywhere, what is left is a sensible selection.
        gone: set[str] = set()
        done = [_carry_out(outcome, dry_run, names, gone) for outcome in reversed(outcomes)]
    return Pruned(location, tuple(reversed(done)), catalog.unreadable)


def candidates(
    savepoints: Sequence[CatalogEntry],
    protected: Mapping[str, str],
    running: Collection[str] = (),
    jobs: Collection[str] | None = None,
) -> tuple[Candidate, ...]:
    """The savepoints to decide on. Pure. ``savepoints`` are given newest first; see :func:`prune`.

    They count by the name of their job: a job that is restored gets a new id and keeps its name.
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
    """The directory's lease while a block runs that removes something; Locked when another has it.

    A directory that is not there needs none (and must not come to be by the lease's file).
    """
    if dry_run or not storage.is_directory(directory):
        return nullcontext()
    return leases.Lease.take(directory, leases.Kind.PRUNE, owner=owner)


def _same_place(path: str) -> str:
    """One form for all spellings of a place: links of the local file system are followed."""
    return os.path.realpath(path) if storage.is_local(path) else path


def _carry_out(outcome: PruneOutcome, dry_run: bool, names: bool, before: set[str]) -> PruneOutcome:
    """The outcome, carried out or planned; ``before`` is what those before it removed, and grows
    by what this one does."""
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
    """Remove the directories of unfinished savepoints that nobody writes any more, and the husks.

    A husk is what a disposed savepoint left because others used its files: it goes when they are
    gone, and what an interrupted disposal left beside their files at once. Of an unfinished one
    that used files of others its lists there go too; leases of the dead count for nothing, and are
    removed. Only directories named as flinkish names savepoints are looked at.

    Parameters
    ----------
    writing: target directory and job id of every savepoint that a request has under way.
    others: see :func:`prune`.

    Raises Locked while another operation holds the directory, StorageError.
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
    """Which directories without ``_metadata`` are garbage. Pure.

    Parameters
    ----------
    catalog: of the directory they are in, its savepoints opened.
    writers: first six digits of the ids of jobs that are writing a savepoint here.
    named: names of the directories that live leases are for.
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
    # One that is being written may use a husk's files before its own _metadata says so.
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
    """The outcomes with what else goes: lists in other savepoints, files of husks nobody uses."""
    going = {outcome.found.path for outcome in judged if outcome.reason is None}
    # One whose files others use is itself no longer anybody's user.
    dead = {storage.base_name(o.found.path) for o in judged if o.reason in (None, _USED)}
    there = {*catalog.unfinished}
    done: list[GarbageOutcome] = []
    for outcome in judged:
        found = outcome.found
        # The lists in a directory that goes as a whole need no removal of their own.
        holders = lists.holders(storage.base_name(found.path))
        kept = tuple(holder for holder in holders if holder not in going)
        if found.path not in there:
            if not kept:
                continue
            # Nothing but its lists: what else may have that name is no business of theirs.
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
    """The outcome, carried out where it is no dry run, with what went or is to go; ``before``: see
    :func:`_carry_out`."""
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
        # Last, so that an interrupted removal is found again by them.
        for holder in outcome.lists:
            sharing.forget_references(holder, name, tell)
        return replace(outcome, removed=removed)
    except FlinkishError as error:
        return replace(outcome, error=error)


def _plan(outcome: GarbageOutcome, tell: Tell, before: Collection[str]) -> None:
    """Tell what :func:`_remove` is going to remove, in its order."""
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
    """The directories that may be empty when these files, relative to ``name``, are gone."""
    return {f"{name}/{each}".rstrip("/") for each in directories_of(files)} if files else set()
