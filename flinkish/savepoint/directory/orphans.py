"""Remains of killed processes in directories other than the one they were writing.

A savepoint that shares files writes lists into the directories that hold them (``_refs/<its
name>``) before it is complete. If its writer is killed, these lists stay in complete savepoints. A
disposal that is killed leaves unused files next to files that others use. Such lists and files
would stay as long as the savepoints around them, possibly forever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from flinkish import storage
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.directory.catalog import Catalog, CatalogEntry, Unfinished
from flinkish.savepoint.directory.places import is_link


@dataclass(frozen=True)
class Lists:
    """Reference lists: user's name -> holder's location -> when written (seconds since epoch)."""

    by_user: Mapping[str, Mapping[str, float]]

    def holders(self, user: str) -> tuple[str, ...]:
        """Return the locations of the directories in which ``user`` has a list."""
        return tuple(self.by_user.get(user, {}))


def read_lists(directory: str, catalog: Catalog) -> Lists:
    """Read the lists of incomplete savepoints, with one listing per directory.

    A directory is skipped if a savepoint uses its files without a list there: that savepoint has
    been renamed, and the list under its old name keeps the files that it uses. The savepoints of
    ``catalog`` must be opened.
    """
    complete = complete_names(catalog)
    places = [
        *(entry.path for entry in catalog.savepoints),
        *(each.path for each in catalog.unreadable),
        *catalog.unfinished,
    ]
    by_user: dict[str, dict[str, float]] = {}
    for place, users in zip(
        places, storage.in_flight(directory, sharing.users_of, places), strict=True
    ):
        if users_by_metadata(catalog.savepoints, storage.base_name(place)) - users.keys():
            continue
        for user in users.keys() - complete:
            by_user.setdefault(user, {})[place] = users[user]
    return Lists(by_user)


def complete_names(catalog: Catalog) -> set[str]:
    """Return the names of the directories that have a ``_metadata``, readable or not. Pure."""
    names = {storage.base_name(entry.path) for entry in catalog.savepoints}
    return names | {storage.base_name(each.path) for each in catalog.unreadable}


def users_by_metadata(savepoints: Sequence[CatalogEntry], holder: str) -> set[str]:
    """Return the names of savepoints whose own metadata lists files in ``holder``. Pure."""
    return {
        storage.base_name(entry.path)
        for entry in savepoints
        if entry.opened is not None and holder in entry.opened.holders
    }


def with_lists(directory: str, unfinished: Sequence[Unfinished], lists: Lists) -> list[Unfinished]:
    """Add the reference lists to the unfinished savepoints. Pure.

    A savepoint that has left only lists is appended. A list may be newer than the files of its
    user, so the later time is used.
    """
    by_name = {storage.base_name(each.path): each for each in unfinished}
    for user, written in lists.by_user.items():
        each = by_name.get(user) or Unfinished(storage.join(directory, user), None, (), 0, 0)
        by_name[user] = replace(
            each,
            modified=max(each.modified or 0.0, *written.values()),
            files=each.files + len(written),
        )
    return list(by_name.values())


def unused_files(holder: Unfinished, catalog: Catalog, dead: Collection[str]) -> Mapping[str, int]:
    """Find the files in the directory of a disposed savepoint that no savepoint uses.

    ``holder`` is the directory, without ``_metadata``; ``dead`` names unfinished savepoints that
    nobody is writing. Returns paths inside the holder and their sizes in bytes; empty if the files
    of some user are unknown, or ``holder`` is a link. Raises Corrupt if a ``_metadata`` has changed
    since it was opened.
    """
    if is_link(holder.path):
        return {}
    if catalog.unreadable or {*holder.users} - complete_names(catalog) - {*dead}:
        return {}
    name = storage.base_name(holder.path)
    used = {
        record.held
        for entry in catalog.savepoints
        if entry.opened is not None and name in entry.opened.holders
        for record in entry.opened.iter_files()
        if record.held is not None
    }
    unused: dict[str, int] = {}
    for path, file in storage.walk_files(holder.path):
        if f"{name}/{path}" not in used and not path.startswith(f"{sharing.DIRECTORY}/"):
            try:
                unused[path] = file.size()
            except FileNotFoundError:
                continue  # removed in the meantime
    return unused
