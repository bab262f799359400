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

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, repeat

from flinkish import storage
from flinkish.savepoint.metadata import FILE_NAME

DIRECTORY = "_refs"
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
    """The files of ``holder`` that ``user`` uses; none when it says nothing (any more)."""
    try:
        data = storage.read_bytes(storage.join(holder, DIRECTORY, user))
        return tuple(zlib.decompress(data).decode().split("\n"))
    except (FileNotFoundError, ValueError, zlib.error):
        return ()


def users_of(holder: str) -> dict[str, float]:
    """Names of all savepoints that say they use files of ``holder``, and when they said so."""
    listing = storage.list_directory(storage.join(holder, DIRECTORY))
    return {name: listing.modified(name) for name in listing.files}


def live_users(holder: str, now: float) -> tuple[str, ...]:
    """Those that are there, or may still be being written."""
    parent = storage.parent(holder)
    return tuple(
        name
        for name, written in sorted(users_of(holder).items())
        if storage.exists(storage.join(parent, name, FILE_NAME)) or now - written < UNFINISHED
    )


def forget_references(holder: str, user: str) -> None:
    """``user`` no longer uses anything of ``holder``."""
    storage.remove_file(storage.join(holder, DIRECTORY, user))
    storage.remove_empty_directories([storage.join(holder, DIRECTORY)])


def is_whole(holder: str) -> bool:
    """Whether a holder is still a savepoint, which nobody has begun to dispose of."""
    return storage.exists(storage.join(holder, FILE_NAME))


def by_holder(held: Iterable[str]) -> Iterator[tuple[str, Iterator[str]]]:
    """The holders' names of held files that come sorted, each with the paths inside it. Pure.

    The paths of one are to be used before the next is asked for: there may be a million.
    """
    for holder, paths in groupby(held, key=holder_of):
        yield holder, (path.partition("/")[2] for path in paths)
