"""Pruning: remove savepoints according to a policy, and the remains of killed writers.

Every removal of a savepoint has two phases (:func:`flinkish.savepoint.directory.dispose.dispose`):
``_metadata`` is removed first, so an interrupted prune leaves no incomplete savepoint that looks
whole, only garbage for the next prune.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from flinkish import storage
from flinkish.errors import FlinkishError, SavepointNotFound
from flinkish.savepoint.directory import leases, orphans, sharing
from flinkish.savepoint.directory.catalog import (
    Catalog,
    CatalogEntry,
    Unfinished,
    Unreadable,
    find_damage,
    job_prefix,
    look_at,
    read_catalog,
)
from flinkish.savepoint.directory.dispose import (
    Tell,
    directories_of,
    dispose,
    unknown_users,
)
from flinkish.savepoint.directory.places import is_future, place_keys
from flinkish.savepoint.format.metadata import FILE_NAME
from flinkish.savepoint.format.reader import LOGS
from flinkish.savepoint.manage.candidates import Generation, Known, generations
from flinkish.savepoint.manage.retention import Policy, plan_whole

#: Seconds without a change after which a directory without ``_metadata`` is garbage.
GARBAGE_AGE = 3600.0
_USED = "other savepoints use its files"


@dataclass(frozen=True)
class PruneOutcome:
    """The outcome for one savepoint.

    ``reasons`` say why it is kept; without a reason it is to be removed. If the removal failed,
    ``error`` says why. ``bytes`` is the size of the files that are removed (with ``dry_run``: would
    be); hard links elsewhere keep them on the disk. ``shared`` is the number of its files that stay
    because other savepoints use them. ``gone`` is as in :class:`GarbageOutcome`, only if requested.
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

    ``reason`` is why it stays; None means that it is to be removed. ``only`` restricts the removal
    to these files, relative to the directory. ``lists`` are directories of other savepoints in
    which it has a list of used files. ``gone``, only if requested, are locations that were removed
    (with ``dry_run``: would be); directories end with a slash.
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
    """The result of a prune, or of its dry run.

    Three kinds of savepoints are left alone: the ``_metadata`` of ``unreadable`` ones cannot be
    read, so their jobs are unknown; ``damaged`` ones would be kept if they were whole;
    ``unknown`` ones cannot be read and may use files of others, which are therefore kept. The
    metadata of ``future`` ones has a time in the future.
    """

    directory: str
    savepoints: tuple[PruneOutcome, ...]
    unreadable: tuple[Unreadable, ...]
    damaged: tuple[Unreadable, ...] = ()
    future: tuple[CatalogEntry, ...] = ()
    unknown: tuple[Unreadable, ...] = ()

    @property
    def errors(self) -> tuple[FlinkishError, ...]:
        """Errors of savepoints that could not be removed."""
        return tuple(outcome.error for outcome in self.savepoints if outcome.error is not None)

    @property
    def bytes(self) -> int:
        """Bytes of all removed files."""
        return sum(outcome.bytes for outcome in self.savepoints)


def prune(
    directory: str,
    policy: Policy,
    protected: Mapping[str, str],
    dry_run: bool = False,
    *,
    running: Collection[str] = (),
    known_jobs: Collection[str] | None = None,
    taken_here: Collection[str] = (),
    jobs: Collection[str] | None = None,
    agreed: Collection[str] | None = None,
    owner: str = "prune",
    now: float | None = None,
    names: bool = False,
) -> Pruned:
    """Remove from ``directory`` the savepoints that ``policy`` does not keep.

    Savepoints that cannot be read, and damaged ones that the policy would keep, are left alone and
    reported; the policy does not count them. If a savepoint shares files with others, only the
    files that nothing else uses are removed. A savepoint whose files an unreadable one may use
    stays. A failed removal does not stop the others.

    ``protected`` maps paths of savepoints that must stay to the reason. ``running``, ``known_jobs``
    and ``taken_here`` are as in :class:`~flinkish.savepoint.manage.candidates.Known`, ``jobs`` as
    in :func:`~flinkish.savepoint.manage.candidates.generations`. ``agreed`` limits the removal to
    these paths (those shown to the user). ``owner`` is the user for the lease (``user@host``).
    ``names`` reports every removed file.

    Raises UsageError for an invalid policy or a directory that is itself a savepoint, Locked if
    another process writes or removes savepoints there, UnsafePath if the directory of leases is a
    link, and StorageError.
    """
    policy.check()
    location = storage.locate(directory)
    clock = time.time() if now is None else now
    with _exclusive(location, dry_run, owner):
        catalog = read_catalog(location, whole=True)
        known = Known(protected, running, known_jobs, taken_here)
        outcomes, damaged = _decide(
            catalog, generations(catalog, known, jobs, clock), policy, clock
        )
        outcomes = [
            replace(each, reasons=("not agreed to",))
            if not each.keep and agreed is not None and each.savepoint.path not in agreed
            else each
            for each in outcomes
        ]
        unknown: dict[str, Unreadable] = {}
        for index, each in enumerate(outcomes):
            users = () if each.keep else _unknown_users(each, catalog)
            if users:
                unknown.update((user.path, user) for user in users)
                outcomes[index] = replace(each, reasons=(_may_use(users[0]),))
        # The oldest goes first, so that an interruption leaves a sensible selection.
        gone: set[str] = set()
        outcomes_after = [
            _carry_out(outcome, dry_run, names, gone, catalog) for outcome in reversed(outcomes)
        ]
    seen = {outcome.savepoint.path for outcome in outcomes_after} | {each.path for each in damaged}
    return Pruned(
        location,
        tuple(reversed(outcomes_after)),
        catalog.unreadable,
        tuple(damaged),
        tuple(
            entry
            for entry in catalog.own
            if entry.path in seen and is_future(entry.header.created, clock)
        ),
        tuple(unknown.values()),
    )


def _unknown_users(outcome: PruneOutcome, catalog: Catalog) -> tuple[Unreadable, ...]:
    opened = outcome.savepoint.opened
    return () if opened is None else unknown_users(opened, catalog)


def _may_use(user: Unreadable) -> str:
    return f"{storage.base_name(user.path)} may use its files, and cannot be read"


def _decide(
    catalog: Catalog, candidates: Sequence[Generation], policy: Policy, now: float
) -> tuple[list[PruneOutcome], list[Unreadable]]:
    """Return the decision on each savepoint, newest first and links last, and the damaged ones.

    A savepoint is whole if one of its copies is.
    """
    entries = {entry.path: entry for entry in catalog.savepoints}
    paths = {each.candidate.path: each.paths for each in candidates}
    looked: dict[str, FlinkishError | None] = {}

    def damage(path: str) -> FlinkishError | None:
        if path not in looked:
            # A restore checks at this level by default, so what is kept as whole can be restored.
            looked[path] = find_damage(entries[path], LOGS)
        return looked[path]

    def damage_of_all(path: str) -> FlinkishError | None:
        return None if any(damage(each) is None for each in paths[path]) else damage(path)

    decisions, bad = plan_whole([each.candidate for each in candidates], policy, now, damage_of_all)
    outcomes = []
    damaged = [
        Unreadable(path, error)
        for first in bad
        for path in paths[first]
        if (error := damage(path)) is not None and not isinstance(error, SavepointNotFound)
    ]
    for decision in decisions:
        reasons = decision.reasons
        for path in paths[decision.candidate.path]:
            error = damage(path) if decision.keep else None
            if error is not None:
                if not isinstance(error, SavepointNotFound):  # removed meanwhile
                    damaged.append(Unreadable(path, error))
                continue
            outcomes.append(PruneOutcome(entries[path], reasons))
            if decision.keep:
                reasons = (f"it is a copy of {storage.base_name(outcomes[-1].savepoint.path)}",)
    outcomes += [
        PruneOutcome(entry, (_why_link(entry, catalog),))
        for entry in catalog.savepoints
        if entry.leads_to is not None
    ]
    return outcomes, damaged


def _why_link(entry: CatalogEntry, catalog: Catalog) -> str:
    if any(each.path == entry.leads_to for each in catalog.own):
        return f"it is a link to {storage.base_name(entry.leads_to or '')}, and counts with it"
    return "it is a link: what it leads to is not in this directory"


def _exclusive(directory: str, dry_run: bool, owner: str) -> AbstractContextManager[object]:
    """Return a lease for removals in the directory, as a context; raise the errors of taking it.

    A dry run needs no lease. A directory that does not exist needs none either, and must not be
    created for the lease's file.
    """
    if dry_run or not storage.is_directory(directory):
        return nullcontext()
    return leases.Lease.take(directory, leases.Kind.PRUNE, owner=owner)


def _carry_out(
    outcome: PruneOutcome,
    dry_run: bool,
    names: bool,
    before: set[str],
    catalog: Catalog,
) -> PruneOutcome:
    """Remove the savepoint, or plan its removal, and return the outcome.

    ``before`` contains the locations removed for earlier savepoints; this savepoint's are added.
    ``catalog`` has the savepoints that the directory had at the start.
    """
    if outcome.keep:
        return outcome
    gone: list[str] = []
    tell = gone.append if names or dry_run else None
    path, gone_before = outcome.savepoint.path, before if dry_run else ()
    try:
        disposed = dispose(
            path, dry_run=dry_run, follow=False, tell=tell, gone=gone_before, siblings=catalog
        )
    except FlinkishError as error:
        return replace(outcome, error=error, gone=tuple(gone) if names else ())
    before.update(gone)
    return replace(
        outcome,
        removed=not dry_run,
        bytes=disposed.bytes,
        shared=disposed.kept,
        gone=tuple(gone) if names else (),
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
    It is removed when these savepoints are gone. Files in it that nobody uses, left by an
    interrupted disposal, are removed at once. Lists of an unfinished savepoint in other savepoints
    are removed, too. Nothing is removed while a savepoint cannot be read, as it may use the files.
    Stale leases are ignored, and removed unless this is a dry run. Only directories with a name
    that flinkish gives to savepoints are examined.

    ``writing`` has the target directory and job id of every savepoint that a request is writing;
    the other parameters are those of :func:`prune`. Raises UsageError if the directory is itself a
    savepoint, Corrupt if a ``_metadata`` changes meanwhile, Locked and StorageError.
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
        unfinished = orphans.with_lists(location, look_at(catalog.unfinished), lists)
        judged = _extended(
            judge_garbage(unfinished, catalog, writers, named, clock), catalog, lists
        )
        gone: set[str] = set()
        return tuple(
            outcome
            if outcome.reason or (agreed is not None and outcome.found.path not in agreed)
            else _with_names(outcome, dry_run, names, gone)
            for outcome in judged
        )


def judge_garbage(
    unfinished: Sequence[Unfinished],
    catalog: Catalog,
    writers: Collection[str],
    named: Collection[str],
    now: float,
) -> tuple[GarbageOutcome, ...]:
    """Decide which directories without ``_metadata`` are garbage. Pure.

    ``catalog`` is of the directory that contains them, with its savepoints opened. ``writers`` are
    the first six digits of the ids of jobs that are writing a savepoint here, ``named`` the
    directories with live leases. ``now`` is in seconds since the epoch.
    """
    complete = orphans.complete_names(catalog)
    holders = {name for s in catalog.savepoints if s.opened for name in s.opened.holders}
    reasons: dict[str, str | None] = {}
    for each in unfinished:
        name = storage.base_name(each.path)
        reason = None
        if name in named or job_prefix(each.path) in writers:
            reason = "it is being written"
        elif each.modified is None:
            reason = "its age is unknown"
        elif now - each.modified < GARBAGE_AGE:
            reason = "it was changed within the last hour"
        elif catalog.unreadable:  # renamed or copied, it may use files without a list of its name
            reason = _may_use(catalog.unreadable[0])
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
        for each in unfinished
    )


def _extended(
    judged: Sequence[GarbageOutcome], catalog: Catalog, lists: orphans.Lists
) -> list[GarbageOutcome]:
    """Add the other removals to the outcomes: lists in other savepoints, unused files of husks."""
    going = {outcome.found.path for outcome in judged if outcome.reason is None}
    # A directory whose files others use is itself no longer a user of other files.
    dead = {storage.base_name(o.found.path) for o in judged if o.reason in (None, _USED)}
    there = {*catalog.unfinished}
    extended: list[GarbageOutcome] = []
    for outcome in judged:
        unfinished = outcome.found
        # Lists in a directory that is removed as a whole need no separate removal.
        holders = lists.holders(storage.base_name(unfinished.path))
        kept = tuple(holder for holder in holders if holder not in going)
        if unfinished.path not in there:
            if not kept:
                continue
            # Remove only its lists, and nothing else that may have that name.
            outcome = replace(outcome, only=())
        if outcome.reason == _USED:
            unused = orphans.unused_files(unfinished, catalog, dead)
            if unused or kept:
                unfinished = replace(
                    unfinished, files=len(unused) + len(kept), bytes=sum(unused.values())
                )
                outcome = replace(outcome, found=unfinished, reason=None, only=tuple(unused))
        extended.append(replace(outcome, lists=kept))
    return extended


def _same(target: str, location: str) -> bool:
    return not place_keys(storage.locate(target)).isdisjoint(place_keys(location))


def _with_names(
    outcome: GarbageOutcome, dry_run: bool, names: bool, before: set[str]
) -> GarbageOutcome:
    """Remove the garbage, or plan it in a dry run; ``before`` is that of :func:`_carry_out`."""
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
        # Lists go last: after an interruption, the next prune finds the savepoint by its lists.
        for holder in outcome.lists:
            sharing.forget_references(holder, name, tell)
        return replace(outcome, removed=removed)
    except FlinkishError as error:
        return replace(outcome, error=error)


def _plan(outcome: GarbageOutcome, tell: Tell, before: Collection[str]) -> None:
    """Call ``tell`` with each location that :func:`_remove` would remove, in the same order."""
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
    """Return the paths, beginning with ``name``, of directories that removal may leave empty."""
    return {f"{name}/{each}".rstrip("/") for each in directories_of(files)} if files else set()
