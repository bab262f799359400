"""Old savepoints: those that a retention policy does not keep, and what dead writers have left."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkish.client.context import Context, requester
from flinkish.errors import FlinkishError, PartialFailure, RegistryError, SavepointNotFound

if TYPE_CHECKING:
    from flinkish.savepoint.manage.prune import GarbageOutcome, PruneOutcome
    from flinkish.savepoint.manage.retention import Policy


@dataclass(frozen=True)
class Removal:
    """What was removed after a savepoint.

    Parameters
    ----------
    removed : tuple of str
        Locations of the savepoints that are gone.
    error : FlinkishError or None
        Why not all that was to go is gone.
    """

    removed: tuple[str, ...] = ()
    error: FlinkishError | None = None


@dataclass(frozen=True)
class PruneResult:
    """What a prune did, or with ``dry_run`` would do.

    Parameters
    ----------
    directory : str
        The directory of savepoints, absolute.
    dry_run : bool
        Whether nothing was touched.
    savepoints : tuple of Outcome
        Each savepoint: whether it is kept and why, or was removed.
    garbage : tuple of GarbageOutcome
        Each directory without ``_metadata``, where garbage was asked for.
    unreadable : tuple of (str, FlinkishError)
        Savepoints that cannot be read; they are left alone.
    """

    directory: str
    dry_run: bool
    savepoints: tuple[PruneOutcome, ...] = ()
    garbage: tuple[GarbageOutcome, ...] = ()
    unreadable: tuple[tuple[str, FlinkishError], ...] = ()

    @property
    def going(self) -> tuple[PruneOutcome, ...]:
        """The savepoints that no rule keeps."""
        return tuple(each for each in self.savepoints if not each.keep)

    @property
    def trash(self) -> tuple[GarbageOutcome, ...]:
        """The unfinished ones that nobody writes any more."""
        return tuple(each for each in self.garbage if each.reason is None)

    @property
    def removed(self) -> tuple[str, ...]:
        """Locations of the savepoints that are gone."""
        return tuple(each.savepoint.path for each in self.savepoints if each.removed)

    @property
    def errors(self) -> tuple[FlinkishError, ...]:
        """Why what was to go is still there."""
        found = [each.error for each in self.savepoints] + [each.error for each in self.garbage]
        return tuple(error for error in found if error is not None)


def prune_savepoints(
    context: Context,
    directory: str,
    policy: Policy,
    *,
    garbage: bool = False,
    dry_run: bool = False,
    agreed: Collection[str] | None = None,
    names: bool = False,
) -> PruneResult:
    """Remove the savepoints of a directory that a policy does not keep, each job's for itself.

    Parameters
    ----------
    context : Context
        Its registry knows which savepoints running jobs need.
    directory : str
        The directory of savepoints.
    policy : Policy
        What is kept. An empty one is for garbage alone.
    garbage : bool
        Whether unfinished ones go that nobody writes any more.
    dry_run : bool
        Only say what would be done.
    agreed : collection of str, optional
        At most these go, what was shown of a dry run; None: all.
    names : bool
        Whether each outcome lists what goes, file by file.

    Returns
    -------
    PruneResult
        What could not be removed is in its ``errors``.

    Raises
    ------
    UsageError
        The policy is empty, or has numbers below zero.
    SavepointNotFound
        There is no such directory.
    Locked
        Another operation holds the directory.
    StorageError, RegistryError
        Nothing can be found out.
    """
    from flinkish import storage
    from flinkish.registry.in_use import savepoints_in_use
    from flinkish.savepoint.manage.prune import collect_garbage, prune

    if not garbage or not policy.is_empty:
        policy.check()
    location = storage.locate(directory)
    if not storage.is_directory(location):
        raise SavepointNotFound(
            f"there is no directory {location}", hint="check the path", path=location
        )
    in_use = savepoints_in_use(context.registry)
    savepoints: tuple[PruneOutcome, ...] = ()
    unreadable: tuple[tuple[str, FlinkishError], ...] = ()
    left: tuple[GarbageOutcome, ...] = ()
    if not policy.is_empty:
        done = prune(
            location,
            policy,
            in_use.protected,
            dry_run,
            running=in_use.running,
            agreed=agreed,
            owner=requester(),
            names=names,
        )
        savepoints = done.savepoints
        unreadable = tuple((each.path, each.error) for each in done.unreadable)
    if garbage:
        left = collect_garbage(
            location, in_use.writing, dry_run, agreed=agreed, owner=requester(), names=names
        )
    result = PruneResult(location, dry_run, savepoints, left, unreadable)
    if not dry_run:
        _tell_registry(context, result.removed)
    return result


def not_removed(result: PruneResult, total: int) -> PartialFailure | None:
    """Return the error of a prune that did not remove all that was to go; None for none.

    ``total`` is the number of those that were to go.
    """
    if not result.errors:
        return None
    first = result.errors[0]
    return PartialFailure(
        f"{len(result.errors)} of {total} could not be removed: {first.message}", hint=first.hint
    )


def remove_old(context: Context, target: str, policy: Policy, job_ids: Collection[str]) -> Removal:
    """Prune a directory of the savepoints of some jobs, if the policy says anything.

    Raises nothing of its own: new savepoints have been taken, whatever becomes of the old ones.

    Parameters
    ----------
    context : Context
        Its registry knows which savepoints running jobs need.
    target : str
        The directory of savepoints.
    policy : Policy
        What is kept; an empty one keeps all.
    job_ids : collection of str
        The jobs.
    """
    if policy.is_empty or not job_ids:
        return Removal()
    from flinkish.registry.in_use import savepoints_in_use
    from flinkish.savepoint.manage.prune import prune

    registry = context.registry
    removed: list[str] = []
    try:
        needed = savepoints_in_use(registry)
        done = prune(
            target,
            policy,
            needed.protected,
            running=needed.running,
            jobs=job_ids,
            owner=requester(),
        )
        for outcome in done.savepoints:
            if outcome.removed:
                removed.append(outcome.savepoint.path)
                registry.mark_disposed(outcome.savepoint.path)
    except FlinkishError as refused:
        return Removal(tuple(removed), refused)
    if not done.errors:
        return Removal(tuple(removed))
    first = done.errors[0]
    some = PartialFailure(
        f"{len(done.errors)} of them could not be removed: {first.message}", hint=first.hint
    )
    return Removal(tuple(removed), some)


def not_pruned(target: str, error: FlinkishError) -> PartialFailure:
    """Return the error of a use case whose savepoint was taken and whose old ones are there."""
    return PartialFailure(
        f"the savepoint was taken, but old ones in {target} were not removed: {error.message}",
        hint=error.hint,
        cause=error.id,
    )


def _tell_registry(context: Context, paths: Sequence[str]) -> None:
    try:
        for path in paths:
            context.registry.mark_disposed(path)
    except RegistryError as error:
        context.reporter.warning(f"the registry does not know yet what is gone: {error.message}")
