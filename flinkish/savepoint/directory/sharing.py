"""Files that one savepoint holds for others.

Where files can be linked (a local disk) every savepoint has its own names for them, and nothing is
to be kept account of. Elsewhere a savepoint may leave a file where an earlier one in the same
directory has it. Whoever uses a file says so in the holder's directory, in ``_refs/<user>``: the
list of what it uses, written before the user is complete. So disposing of the holder knows what to
leave, and disposing of the last user removes the rest.

The order matters, as two hosts may be at it: a user writes its list, then looks whether the holder
is still whole; the holder's ``_metadata`` is removed first, then the lists are read. One of the two
sees the other.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, groupby, repeat

from flinkish import storage
from flinkish.errors import Corrupt, UnsafePath
from flinkish.savepoint.format.limits import MAX_REFERENCES
from flinkish.savepoint.format.metadata import FILE_NAME

DIRECTORY = "_refs"
#: Bytes of a list, compressed: a million files of long names take a tenth of it.
LIST_BYTES = 256 << 20
#: A query's directory in a savepoint: its number, and its name made safe.
_QUERY = re.compile(r"[0-9]+-.+", re.DOTALL)
_HINT = "nothing was removed; if the savepoint of that name is gone, remove the file by hand"
#: Seconds after which a list counts whose user never became complete.
UNFINISHED = 3600.0


def holder_of(held: str) -> str:
    """The name of the savepoint that holds a file, from where it lies. Pure."""
    return held.partition("/")[0]


def write_references(holder: str, user: str, paths: Iterable[str]) -> None:
    """Say that the savepoint named ``user`` uses files of ``holder``, given relative to it."""
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
    """The files of ``holder`` that ``user`` uses; none when it says nothing (any more).

    Raises Corrupt for a list that is damaged, or names anything but a query's file in the holder:
    who uses what is not known then, so nothing may be removed.
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
    """Raise UnsafePath or Corrupt unless ``path`` may stand in the list of ``user`` in ``holder``:
    it is a file of a query, relative to the holder."""
    try:
        parts = storage.parts_of(holder, path)
    except UnsafePath as error:
        where = storage.join(holder, DIRECTORY, user)
        raise UnsafePath(f"{where} is damaged: {error.message}", hint=_HINT, path=where) from error
    if len(parts) < 2 or not _QUERY.fullmatch(parts[0]):
        raise _damaged(holder, user, f"it names {path[:200]!r}, which is no file of a query")


def _damaged(holder: str, user: str, reason: str) -> Corrupt:
    where = storage.join(holder, DIRECTORY, user)
    return Corrupt(f"{where} is damaged: {reason}", hint=_HINT, path=where)


def _unpacked(data: bytes) -> bytes:
    """A list's bytes; ValueError where it is damaged, or has more than ``MAX_REFERENCES``."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(data, MAX_REFERENCES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("the list is too long, or does not end where it should")
    return found


def users_of(holder: str) -> dict[str, float]:
    """Names of all savepoints that say they use files of ``holder``, and when they said so.

    0.0 for a list that is gone since it was listed (another removes it), or leads nowhere: it is
    its savepoint then that tells whether it is still used.
    """
    listing = storage.list_directory(storage.join(holder, DIRECTORY))
    return {name: _written(listing, name) for name in listing.files}


def _written(listing: storage.Listing, name: str) -> float:
    try:
        return listing.modified(name)
    except FileNotFoundError:
        return 0.0


def live_users(holder: str, now: float, gone: Collection[str] = ()) -> tuple[str, ...]:
    """Those that are there, or may still be being written.

    Lists at the locations ``gone`` do not count (a dry run has not removed them).
    """
    parent = storage.parent(holder)
    return tuple(
        name
        for name, written in sorted(users_of(holder).items())
        if list_of(holder, name) not in gone
        and (storage.exists(storage.join(parent, name, FILE_NAME)) or now - written < UNFINISHED)
    )


def forget_references(holder: str, user: str, tell: Callable[[str], object] | None = None) -> None:
    """``user`` no longer uses anything of ``holder``; ``tell`` gets the locations that go."""
    root, prefix = storage.prefixed(holder)

    def told(name: str) -> None:
        if tell is not None:
            tell(storage.join(root, name))

    storage.remove_file(root, f"{prefix}{DIRECTORY}/{user}", told)
    storage.remove_empty_directories(root, [f"{prefix}{DIRECTORY}"], told)


def plan_forgetting(
    holder: str, user: str, tell: Callable[[str], object], gone: Collection[str] = ()
) -> None:
    """Tell what :func:`forget_references` is going to remove; ``gone``: see :func:`live_users`."""
    root, prefix = storage.prefixed(holder)
    own = f"{prefix}{DIRECTORY}/{user}"
    storage.parts_of(root, own)
    tell(storage.join(root, own))

    def goes(name: str) -> bool:
        return name == own or storage.join(root, name) in gone

    for name in storage.plan_empty_directories(root, [f"{prefix}{DIRECTORY}"], goes):
        tell(storage.join(root, name))


def list_of(holder: str, user: str) -> str:
    """The location of a user's list."""
    return storage.join(holder, DIRECTORY, user)


def is_whole(holder: str, gone: Collection[str] = ()) -> bool:
    """Whether a holder is still a savepoint, which nobody has begun to dispose of.

    ``gone``: see :func:`live_users`.
    """
    metadata = storage.join(holder, FILE_NAME)
    return metadata not in gone and storage.exists(metadata)


def by_holder(held: Iterable[str]) -> Iterator[tuple[str, Iterator[str]]]:
    """The holders' names of held files that come sorted, each with the paths inside it. Pure.

    The paths of one are to be used before the next is asked for: there may be a million.
    """
    for holder, paths in groupby(held, key=holder_of):
        yield holder, (path.partition("/")[2] for path in paths)
