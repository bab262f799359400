"""Remove old savepoints that a retention policy does not keep, and leftovers of dead writers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinkish.annotations import public_evolving
from flinkish.client.context import Context, requester
from flinkish.client.requests import Outcome, Removal
from flinkish.errors import FlinkishError, PartialFailure, RegistryError, SavepointNotFound
from flinkish.units import counted

if TYPE_CHECKING:
    from flinkish.savepoint.directory.catalog import CatalogEntry
    from flinkish.savepoint.manage.prune import GarbageOutcome, Pruned, PruneOutcome
    from flinkish.savepoint.manage.retention import Policy


@public_evolving
@dataclass(frozen=True)
class PruneResult:
    """What a prune did, or with ``dry_run`` would do.

    Parameters
    ----------
    directory : str
        The directory of savepoints, absolute.
    dry_run : bool
        Whether nothing was touched.
    savepoints : tuple of PruneOutcome
        Each savepoint: whether it is kept and why, or was removed.
    garbage : tuple of GarbageOutcome
        Each directory without ``_metadata``, if garbage was included.
    unreadable : tuple of (str, FlinkishError)
        Savepoints that cannot be read or are not whole: the policy ignores them, and they stay.
    warnings : tuple of str
        Sentences about savepoints with times in the future, and about unreadable savepoints that
        may use files of others, which are therefore kept.
    """

    directory: str
    dry_run: bool
    savepoints: tuple[PruneOutcome, ...] = ()
    garbage: tuple[GarbageOutcome, ...] = ()
    unreadable: tuple[tuple[str, FlinkishError], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def going(self) -> tuple[PruneOutcome, ...]:
        """The savepoints that are not kept."""
        return tuple(each for each in self.savepoints if not each.keep)

    @property
    def trash(self) -> tuple[GarbageOutcome, ...]:
        """The unfinished savepoints that no process writes any more."""
        return tuple(each for each in self.garbage if each.reason is None)

    @property
    def removed(self) -> tuple[str, ...]:
        """Locations of the savepoints that are gone."""
        return tuple(each.savepoint.path for each in self.savepoints if each.removed)

    @property
    def errors(self) -> tuple[FlinkishError, ...]:
        """The errors of failed removals."""
        errors = [each.error for each in self.savepoints] + [each.error for each in self.garbage]
        return tuple(error for error in errors if error is not None)

    @property
    def failure(self) -> PartialFailure | None:
        """The error of a prune that could not remove all, or None."""
        if not self.errors:
            return None
        first, total = self.errors[0], len(self.going) + len(self.trash)
        return PartialFailure(
            f"{len(self.errors)} of {total} could not be removed: {first.message}", hint=first.hint
        )


def prune_savepoints(
    context: Context,
    directory: str,
    policy: Policy,
    *,
    garbage: bool = False,
    dry_run: bool = False,
    agree: Callable[[PruneResult], object] | None = None,
    names: bool = False,
) -> PruneResult:
    """Remove the savepoints of a directory that a policy does not keep.

    The policy applies to each job separately, and the newest whole savepoint of a job always stays.

    ``context``: its registry knows which savepoints running jobs need. ``directory``: the directory
    of savepoints. ``policy``: what is kept. An empty one removes garbage only. ``garbage``: whether
    to remove unfinished savepoints that no process writes any more. ``dry_run``: only return what
    would be done. ``agree``: called first with what would be done, if that removes anything; it
    raises ConsentNeeded to refuse. Only what it has seen is removed. ``names``: whether each
    outcome lists the files to be removed.

    Failed removals are in the result's ``errors``.

    Raises UsageError if the policy has negative numbers, or is empty without ``garbage``;
    SavepointNotFound if there is no such directory; Locked if another operation holds the
    directory; StorageError or RegistryError if the directory or the registry cannot be read;
    ConsentNeeded if ``agree`` refused.
    """
    plan = _pruned(context, directory, policy, garbage=garbage, dry_run=True, names=names)
    if dry_run or not (plan.going or plan.trash):
        return replace(plan, dry_run=dry_run)
    if agree is not None:
        agree(plan)
    agreed = {each.savepoint.path for each in plan.going} | {g.found.path for g in plan.trash}
    # Planned again, because time has passed.
    return _pruned(
        context, directory, policy, garbage=garbage, dry_run=False, names=names, agreed=agreed
    )


def _pruned(
    context: Context,
    directory: str,
    policy: Policy,
    *,
    garbage: bool,
    dry_run: bool,
    names: bool,
    agreed: Collection[str] | None = None,
) -> PruneResult:
    """Prune, or plan it; with ``agreed`` only these locations may be removed."""
    from flinkish import storage
    from flinkish.registry.in_use import savepoints_in_use
    from flinkish.savepoint.manage.prune import collect_garbage, prune

    if not garbage or not policy.is_empty:
        policy.check()
    location = storage.locate(directory)
    if not storage.is_directory(location):
        raise SavepointNotFound(
            f"directory {location} does not exist", hint="check the path", path=location
        )
    in_use = savepoints_in_use(context.registry)
    savepoints: tuple[PruneOutcome, ...] = ()
    unreadable: tuple[tuple[str, FlinkishError], ...] = ()
    warnings: tuple[str, ...] = ()
    left: tuple[GarbageOutcome, ...] = ()
    if not policy.is_empty:
        pruned = prune(
            location,
            policy,
            in_use.protected,
            dry_run,
            running=in_use.running,
            known_jobs=in_use.jobs,
            taken_here=in_use.taken,
            agreed=agreed,
            owner=requester(),
            names=names,
        )
        savepoints = pruned.savepoints
        unreadable = tuple(
            (each.path, each.error) for each in (*pruned.unreadable, *pruned.damaged)
        )
        warnings = _warnings(pruned)
        if not dry_run:  # before the garbage, whose removal may raise an error
            removed = [each.savepoint.path for each in savepoints if each.removed]
            tell_registry(context, _records_of(removed, in_use.recorded))
    if garbage:
        left = collect_garbage(
            location, in_use.writing, dry_run, agreed=agreed, owner=requester(), names=names
        )
        # A disposal that was cut off after the removal of _metadata may not have been recorded.
        husks = [each.found.path for each in left if each.removed]
        tell_registry(context, _records_of(husks, in_use.recorded))
    return PruneResult(location, dry_run, savepoints, left, unreadable, warnings)


def remove_old(
    context: Context,
    target: str,
    policy: Policy,
    job_ids: Collection[str],
    taken: Collection[str],
) -> Removal:
    """Prune the savepoints of some jobs in a directory, if the policy has any rule.

    Errors are returned, not raised: the new savepoints have been taken in any case.

    ``context``: its registry knows which savepoints running jobs need. ``target``: the directory of
    savepoints. ``policy``: what is kept; an empty one keeps all. ``taken``: locations of the new
    savepoints. They stay regardless of the policy and the clocks.
    """
    if policy.is_empty or not job_ids:
        return Removal()
    from flinkish.registry.in_use import savepoints_in_use
    from flinkish.savepoint.manage.prune import prune

    removed: list[str] = []
    try:
        in_use = savepoints_in_use(context.registry)
        pruned = prune(
            target,
            policy,
            {**in_use.protected, **dict.fromkeys(taken, "just taken")},
            running=in_use.running,
            known_jobs=in_use.jobs,
            taken_here=in_use.taken,
            jobs=job_ids,
            owner=requester(),
        )
        removed = [each.savepoint.path for each in pruned.savepoints if each.removed]
        tell_registry(context, _records_of(removed, in_use.recorded))
    except FlinkishError as refused:
        return Removal(tuple(removed), refused)
    warnings = (
        *_warnings(pruned),
        *(
            f"{each.path} was kept but does not count: {each.error.message}"
            for each in pruned.damaged
        ),
    )
    if not pruned.errors:
        return Removal(tuple(removed), None, warnings)
    first = pruned.errors[0]
    some = PartialFailure(
        f"{counted(len(pruned.errors), 'old savepoint')} could not be removed: {first.message}",
        hint=first.hint,
    )
    return Removal(tuple(removed), some, warnings)


def with_removal(
    context: Context,
    outcome: Outcome,
    keep: Policy | None,
    on_taken: Callable[[Outcome], object],
) -> Outcome:
    """Remove the old savepoints of a job that has a new one, if a policy has any rule.

    ``outcome``: if it has no savepoint, as in a dry run, nothing is done. ``on_taken``: called with
    the outcome first, because the removal may take long.

    Returns an outcome with the removal, whose error is not raised.
    """
    savepoint, target = outcome.savepoint, outcome.target
    if savepoint is None or target is None:
        return outcome
    on_taken(outcome)
    if keep is None:
        return outcome
    removal = remove_old(context, target, keep, [outcome.job_id], [savepoint.path])
    if removal.removed:
        removed = counted(len(removal.removed), "older savepoint")
        context.reporter.note(f"Removed {removed} of the job.")
    for text in removal.warnings:
        context.reporter.warning(text)
    return replace(outcome, removal=removal)


def _warnings(done: Pruned) -> tuple[str, ...]:
    from flinkish.savepoint.directory.dispose import UNKNOWN_HINT

    return (
        *(in_the_future(each) for each in done.future),
        *(
            f"{each.path} cannot be read, and others are kept because it may use their files: "
            f"{UNKNOWN_HINT}"
            for each in done.unknown
        ),
    )


def in_the_future(savepoint: CatalogEntry) -> str:
    """Return the warning about a savepoint whose metadata has a time in the future. Pure."""
    from flinkish.savepoint.format.reader import iso_time

    created, host = savepoint.header.created, savepoint.header.job.host or "the host that took it"
    return (
        f"{savepoint.path} is dated {iso_time(created)}, in the future: the clock of {host} was "
        "wrong, or the clock of this host is; the savepoint's batches and the time of its "
        "_metadata file are used instead"
    )


def not_pruned(target: str, error: FlinkishError) -> PartialFailure:
    """Return the error of a use case that took a savepoint but could not remove old savepoints."""
    return PartialFailure(
        f"the savepoint was taken, but old ones in {target} were not removed: {error.message}",
        hint=error.hint,
        cause=error.id,
    )


def _records_of(removed: Sequence[str], recorded: Collection[str]) -> list[str]:
    """Return the paths of removed savepoints, and those by which the registry recorded them."""
    from flinkish.savepoint.directory.places import place_keys

    gone = {key for path in removed for key in place_keys(path)}
    others = (path for path in recorded if not gone.isdisjoint(place_keys(path)))
    return list(dict.fromkeys((*removed, *others)))


def tell_registry(context: Context, paths: Sequence[str]) -> None:
    """Record that the savepoints at these paths are gone; a failure is only a warning."""
    try:
        for path in paths:
            context.registry.mark_disposed(path)
    except RegistryError as error:
        context.reporter.warning(f"the registry could not be updated: {error.message}")
