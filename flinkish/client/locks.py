"""The locks of a directory of savepoints; the removal of stale locks or, if forced, of all."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkish.client.context import Context
from flinkish.client.requests import SAVEPOINT_DIR
from flinkish.errors import NoSavepointDirectory, SavepointNotFound, quoted_path

if TYPE_CHECKING:
    from flinkish.savepoint.directory.leases import FoundLease


@dataclass(frozen=True)
class Locks:
    """The locks of a directory, and those that an unlock has removed, or would remove.

    ``found``: all files among the locks, also foreign ones. ``stale``: names of the locks that no
    process refreshes any more.
    ``chosen``: the locks that were removed, or would be.
    """

    directory: str
    found: tuple[FoundLease, ...]
    stale: frozenset[str]
    chosen: tuple[FoundLease, ...]

    @property
    def alive(self) -> tuple[FoundLease, ...]:
        """The chosen locks whose owners may still be at work, and the chosen foreign files."""
        return tuple(each for each in self.chosen if each.name not in self.stale)


def unlock(
    context: Context,
    directory: str | None,
    *,
    force: bool = False,
    dry_run: bool = False,
    agree: Callable[[Locks], object] | None = None,
) -> Locks:
    """Remove the locks of a directory of savepoints that no process refreshes any more.

    ``context``: has the configured directory. ``directory``: a path or a URL; None means the
    configured directory. ``force``: whether to also remove locks whose owners may be alive, and
    foreign files among the locks. ``dry_run``: remove nothing. ``agree``: called before any of the
    files that need ``force`` is removed; it raises ConsentNeeded to refuse.

    Returns all locks, and those that were removed, or with ``dry_run`` would be.

    Raises NoSavepointDirectory if no directory is given or configured; SavepointNotFound if it does
    not exist; UnsafePath if the directory of the locks is a link; StorageError if it cannot be
    read, or the locks cannot be removed.
    """
    from flinkish import storage
    from flinkish.savepoint.directory import leases

    where = directory or context.config.get(SAVEPOINT_DIR)
    if where is None:
        raise NoSavepointDirectory(
            f"no directory was specified, and {SAVEPOINT_DIR} is not set",
            hint="flinkish savepoint unlock DIR",
        )
    location = storage.locate(where)
    if not storage.is_directory(location):
        raise SavepointNotFound(
            f"directory {location} does not exist", hint="check the path", path=location
        )
    held = leases.find_leases(location)
    now = time.time()
    stale = frozenset(each.name for each in held if not each.is_foreign and each.is_stale(now))
    chosen = tuple(each for each in held if force or each.name in stale)
    locks = Locks(location, tuple(held), stale, chosen)
    if dry_run:
        return locks
    if locks.alive and agree is not None:
        agree(locks)
    for each in chosen:
        leases.remove(location, each.name)
    storage.remove_empty_directories(location, [leases.DIRECTORY])
    return locks


def damage_text(locks: Locks, lease: FoundLease, *, gone: bool) -> str:
    """Return a message about a damaged file among the locks, and how to remove it.

    ``gone`` says that the file has been removed already.
    """
    from flinkish import storage
    from flinkish.savepoint.directory import leases

    file = storage.join(locks.directory, leases.DIRECTORY, lease.name)
    text = f"{file} is damaged: {lease.damage}"
    if gone:
        return text
    state = "it locks nothing"
    if not lease.is_foreign:
        state = f"it expires {leases.STALE:.0f} s after it was last written"
    return (
        f"{text}; {state}; to remove it: "
        f"flinkish savepoint unlock --force --yes {quoted_path(locks.directory)}"
    )
