"""What a killed process leaves in directories other than the one it was writing.

A savepoint that shares files says so in the directories that hold them (``_refs/<its name>``)
before it is complete; killed there, its lists stay in savepoints that are whole. A disposal that is
killed leaves files that nobody uses beside those that others do. Both would stay as long as the
savepoints around them, which may be for ever.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from flinkish import storage
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.directory.catalog import Catalog, CatalogEntry, Unfinished


@dataclass(frozen=True)
class Lists:
    """Who says to use whose files: user's name -> holder's location -> seconds since the epoch."""

    by_user: Mapping[str, Mapping[str, float]]

    def holders(self, user: str) -> tuple[str, ...]:
        """Locations of the directories in which ``user`` has a list."""
        return tuple(self.by_user.get(user, {}))


def read_lists(directory: str, catalog: Catalog) -> Lists:
    """The lists of savepoints that are not complete, by one listing for each directory.

    ``catalog`` is that of ``directory``, its savepoints opened. A directory of which a savepoint
    uses files without having a list there is left out: the savepoint has been renamed, and a list
    with its old name is what keeps its files. Raises StorageError.
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


def is_link(path: str) -> bool:
    """Whether a directory is but a link: what it leads to is not in the directory of savepoints."""
    return storage.is_local(path) and os.path.islink(path)


def complete_names(catalog: Catalog) -> set[str]:
    """Names of the directories that have a ``_metadata``, readable or not. Pure."""
    found = {storage.base_name(entry.path) for entry in catalog.savepoints}
    return found | {storage.base_name(each.path) for each in catalog.unreadable}


def users_by_metadata(savepoints: Sequence[CatalogEntry], holder: str) -> set[str]:
    """Names of the savepoints that have files in ``holder``, as their own metadata says. Pure."""
    return {
        storage.base_name(entry.path)
        for entry in savepoints
        if entry.opened is not None and holder in entry.opened.holders
    }


def with_lists(directory: str, found: Sequence[Unfinished], lists: Lists) -> list[Unfinished]:
    """The unfinished ones with what their lists tell; those that have left nothing but lists, too.

    Pure. A list is younger than the files of its user: the age is that of the younger.
    """
    known = {storage.base_name(each.path): each for each in found}
    for user, written in lists.by_user.items():
        each = known.get(user) or Unfinished(storage.join(directory, user), None, (), 0, 0)
        known[user] = replace(
            each,
            modified=max(each.modified or 0.0, *written.values()),
            files=each.files + len(written),
        )
    return list(known.values())


def unused_files(holder: Unfinished, catalog: Catalog, dead: Collection[str]) -> Mapping[str, int]:
    """What lies in a disposed savepoint's directory although nobody uses it.

    Parameters
    ----------
    holder: the directory, without ``_metadata``, of which complete savepoints use files.
    catalog: of the directory that it is in, its savepoints opened.
    dead: names of unfinished savepoints that nobody writes any more.

    Returns the paths inside the holder with their sizes in bytes; none where somebody has a list of
    whom it is not known what he uses. Raises Corrupt for a ``_metadata`` that has changed since,
    StorageError.
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
                continue  # gone meanwhile
    return unused
