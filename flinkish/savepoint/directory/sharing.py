"""Files that one savepoint holds for others, and the space that a savepoint really takes.

If files can be linked (on a local disk), every savepoint has its own links, and no accounting is
needed. On other storage a savepoint may use a file in an earlier savepoint of the same directory.
The user of a file records this in the holder's directory, in the reference list ``_refs/<user>``,
which is written before the user is complete. A disposal of the holder can then see which
files to keep, and the disposal of their last user removes them.

The order matters, because two hosts may take and dispose of savepoints at once. A user writes its
list, then checks that the holder is still whole. A disposal removes the holder's ``_metadata``
first, then reads the lists. At least one of the two sees the other. A new user may also take over
files that an earlier user has in a holder which was disposed of before. The new user then writes
its list in the holder and checks that the earlier user is still whole. A disposal of the earlier
user removes that user's ``_metadata`` first, then reads the holder's lists.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby, repeat

from flinkish import storage
from flinkish.errors import Corrupt, UnsafePath
from flinkish.savepoint.format.contents import FileRecord
from flinkish.savepoint.format.limits import MAX_REFERENCES
from flinkish.savepoint.format.metadata import FILE_NAME
from flinkish.savepoint.format.reader import OpenSavepoint

DIRECTORY = "_refs"
#: Maximum bytes of a compressed list. That of a million files with long names has a tenth of these.
LIST_BYTES = 256 << 20
#: Directory of a query in a savepoint: its number and its sanitized name.
_QUERY = re.compile(r"[0-9]+-.+", re.DOTALL)
_HINT = "nothing was removed; if the savepoint of that name is gone, remove the file by hand"
#: Seconds for which a list counts although its user is not complete.
UNFINISHED = 3600.0


def holder_of(held: str) -> str:
    """Return the name of the savepoint that holds a file, from the file's path. Pure."""
    return held.partition("/")[0]


def write_references(holder: str, user: str, paths: Iterable[str]) -> None:
    """Write the list of files of ``holder``, relative to it, that the savepoint ``user`` uses."""
    directory = storage.join(holder, DIRECTORY)
    storage.make_directory(directory)
    packer = zlib.compressobj()
    data = b"".join(
        packer.compress(f"{separator}{path}".encode())
        for separator, path in zip(chain([""], repeat("\n")), paths, strict=False)
    )
    data += packer.flush()
    storage.write_atomically(storage.join(directory, user), data)


def read_references(holder: str, user: str) -> tuple[str, ...]:
    """Return the files of ``holder`` that ``user`` uses; none if it has no list (any more).

    Raises Corrupt if the list is damaged or names anything but a query's file in the holder. It is
    then unknown which files are used, so nothing may be removed.
    """
    root, prefix = storage.prefixed(holder)
    try:
        data = storage.read_below(root, f"{prefix}{DIRECTORY}/{user}", LIST_BYTES)
        paths = _unpacked(data).decode().split("\n")
    except FileNotFoundError:
        return ()
    except ValueError as error:
        raise _damaged(holder, user, f"it cannot be read ({error})") from error
    for path in paths:
        check_reference(holder, user, path)
    return tuple(paths)


def check_reference(holder: str, user: str, path: str) -> None:
    """Check that ``path`` may be in the list of ``user``: a query's file, relative to ``holder``.

    Raises UnsafePath if it leads out of the holder, Corrupt if it is not a file of a query.
    """
    try:
        parts = storage.parts_of(holder, path)
    except UnsafePath as error:
        where = storage.join(holder, DIRECTORY, user)
        raise UnsafePath(f"{where} is damaged: {error.message}", hint=_HINT, path=where) from error
    if len(parts) < 2 or not _QUERY.fullmatch(parts[0]):
        raise _damaged(holder, user, f"it names {path[:200]!r}, which is not a file of a query")


def _damaged(holder: str, user: str, reason: str) -> Corrupt:
    where = storage.join(holder, DIRECTORY, user)
    return Corrupt(f"{where} is damaged: {reason}", hint=_HINT, path=where)


def _unpacked(data: bytes) -> bytes:
    """Decompress a list; raise ValueError if it is damaged or exceeds ``MAX_REFERENCES`` bytes."""
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(data, MAX_REFERENCES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("the list is too long, or does not end where it should")
    return content


def users_of(holder: str) -> dict[str, float]:
    """Return the names of all savepoints with a list in ``holder``, and when each list was written.

    Times are in seconds since the epoch. The time is 0.0 for a list removed since the listing, or a
    dangling link; then the user's own ``_metadata`` decides whether it still counts.
    """
    listing = storage.list_directory(storage.join(holder, DIRECTORY))
    return {name: _written(listing, name) for name in listing.files}


def _written(listing: storage.Listing, name: str) -> float:
    try:
        return listing.modified(name)
    except FileNotFoundError:
        return 0.0


def live_users(holder: str, now: float, gone: Collection[str] = ()) -> tuple[str, ...]:
    """Return the sorted names of users that exist or may still be under way.

    Lists at the locations ``gone`` are ignored (a dry run has not removed them). ``now`` is in
    seconds since the epoch.
    """
    parent = storage.parent(holder)
    return tuple(
        name
        for name, written in sorted(users_of(holder).items())
        if list_of(holder, name) not in gone
        and (storage.exists(storage.join(parent, name, FILE_NAME)) or now - written < UNFINISHED)
    )


def forget_references(holder: str, user: str, tell: Callable[[str], object] | None = None) -> None:
    """Remove the list of ``user`` from ``holder``, and the directory of lists if it is then empty.

    ``tell`` is called with each removed location.
    """
    root, prefix = storage.prefixed(holder)

    def told(name: str) -> None:
        if tell is not None:
            tell(storage.join(root, name))

    storage.remove_file(root, f"{prefix}{DIRECTORY}/{user}", told)
    storage.remove_empty_directories(root, [f"{prefix}{DIRECTORY}"], told)


def plan_forgetting(
    holder: str, user: str, tell: Callable[[str], object], gone: Collection[str] = ()
) -> None:
    """Call ``tell`` with each location that :func:`forget_references` would remove.

    ``gone``: see :func:`live_users`.
    """
    root, prefix = storage.prefixed(holder)
    own = f"{prefix}{DIRECTORY}/{user}"
    storage.parts_of(root, own)
    tell(storage.join(root, own))

    def goes(name: str) -> bool:
        return name == own or storage.join(root, name) in gone

    for name in storage.plan_empty_directories(root, [f"{prefix}{DIRECTORY}"], goes):
        tell(storage.join(root, name))


def list_of(holder: str, user: str) -> str:
    """Return the location of a user's list."""
    return storage.join(holder, DIRECTORY, user)


def is_whole(holder: str, gone: Collection[str] = ()) -> bool:
    """Return whether a holder is still a savepoint, that is, has its ``_metadata``.

    ``gone``: see :func:`live_users`.
    """
    metadata = storage.join(holder, FILE_NAME)
    return metadata not in gone and storage.exists(metadata)


def by_holder(held: Iterable[str]) -> Iterator[tuple[str, Iterator[str]]]:
    """Group sorted held files by holder; yield the holder's name and the paths inside it. Pure.

    Use the paths of one holder before requesting the next: there may be a million.
    """
    for holder, paths in groupby(held, key=holder_of):
        yield holder, (path.partition("/")[2] for path in paths)


@dataclass(frozen=True)
class Space:
    """Bytes of a savepoint's data files, and the names of the savepoints it shares files with.

    Files are shared if an earlier savepoint holds them for this one (``holders``), if later ones
    use them (``users``), or if they are local and have other hard links (in a checkpoint or another
    savepoint): disposing of this savepoint alone does not free them.
    """

    own_bytes: int
    shared_bytes: int
    holders: tuple[str, ...]
    users: tuple[str, ...]


def measure(savepoint: OpenSavepoint) -> Space:
    """Measure all files of ``savepoint``; those that are missing in its directory count as own.

    Local files take one ``stat`` each. Raises Corrupt for damaged metadata or reference lists.
    """
    users = live_users(savepoint.path, time.time())
    used = {p for user in users for p in read_references(savepoint.path, user)}
    own = shared = 0
    for record in savepoint.iter_files():
        if (
            record.held is not None
            or _inside(savepoint, record) in used
            or _linked(savepoint, record)
        ):
            shared += record.size
        else:
            own += record.size
    return Space(own, shared, savepoint.holders, users)


def _inside(savepoint: OpenSavepoint, record: FileRecord) -> str:
    return f"{savepoint.queries[record.query].directory}/{record.path}"


def _linked(savepoint: OpenSavepoint, record: FileRecord) -> bool:
    location = savepoint.locate_file(record)
    if not storage.is_local(location):
        return False
    try:
        return os.stat(location).st_nlink > 1
    except OSError:
        return False
