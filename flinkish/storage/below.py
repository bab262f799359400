"""Names below a root: which names are refused, and how files are reached without following links.

Anyone who can write into a shared directory chooses names: the names in reference lists and leases,
and the names of links. A root is given by the user or by Spark, and is trusted; no name below it is
trusted. On local storage every step down from the root opens a directory descriptor with
``O_NOFOLLOW``, so a directory that is replaced by a link in the meantime is not followed. On remote
storage a name is a part of a key below the root's key.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from flinkish.errors import Corrupt, UnsafePath
from flinkish.storage.errors import storage_error
from flinkish.storage.locations import has_queries, is_local, join, scheme_of

#: Flags to traverse a directory. Where the system has ``O_PATH``, no permission to list is needed.
_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: Errors of opening a link, or something that is not a directory.
_NO_DIRECTORY = frozenset({errno.ENOTDIR, errno.ELOOP, errno.EMLINK})
_SHOWN = 200


def unsafe(root: str, name: str, reason: str) -> UnsafePath:
    """Return the error for a name that must not be used."""
    text = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
    return UnsafePath(f"{text!r} below {root} is refused: {reason}", root=root, name=text)


def parts_of(root: str, name: str) -> tuple[str, ...]:
    """Split a name below ``root`` into its parts; UnsafePath if it is unsafe. Pure.

    A name is unsafe if it is absolute, is empty or contains NUL; if a part of it is empty, ``.`` or
    ``..`` (also with backslashes read as slashes, as some stores do); or if the library for the
    root's scheme reads a ``?`` or ``#`` in the name as in a URL (for S3 only ``?versionId=``).
    """
    if "\0" in name:
        raise unsafe(root, name, "it contains NUL")
    for text in (name, name.replace("\\", "/")):
        if text.startswith("/"):
            raise unsafe(root, name, "it is absolute")
        if not {"", ".", ".."}.isdisjoint(text.split("/")):
            raise unsafe(root, name, "it has an empty part, '.' or '..'")
    scheme = scheme_of(root)
    if (has_queries(scheme) and ("?" in name or "#" in name)) or (
        scheme == "s3" and "?versionId=" in name
    ):
        raise unsafe(root, name, f"{scheme} URLs give it another meaning")
    return tuple(name.split("/"))


class LocalRoot:
    """A local directory, below which files are reached without following links.

    The descriptors of the directories traversed last stay open, because names arrive grouped by
    directory. The object is a context manager.
    """

    def __init__(self, root: str) -> None:
        self.path = root
        self._open: list[tuple[str, int]] = []
        try:
            self._root: int | None = os.open(root, _THROUGH)
        except (FileNotFoundError, NotADirectoryError):
            self._root = None
        except OSError as error:
            raise storage_error("open", root, error) from error

    def __enter__(self) -> LocalRoot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all descriptors."""
        self._leave(0)
        if self._root is not None:
            os.close(self._root)
            self._root = None

    def _leave(self, depth: int) -> None:
        while len(self._open) > depth:
            os.close(self._open.pop()[1])

    def directory(self, parts: Sequence[str]) -> int | None:
        """Return the descriptor of a directory, valid until the next call; None if it is absent.

        Raises UnsafePath for a symbolic link on the way, StorageError if a directory does not open.
        """
        same = 0
        while same < min(len(parts), len(self._open)) and self._open[same][0] == parts[same]:
            same += 1
        self._leave(same)
        current = self._open[-1][1] if self._open else self._root
        for depth in range(same, len(parts)):
            if current is None:
                return None
            try:
                current = enter(current, parts[depth], listed=False)
            except OSError as error:
                where = join(self.path, *parts[: depth + 1])
                raise storage_error("open", where, error) from error
            if current is None:
                if self._is_link(parts[:depth], parts[depth]):
                    name = "/".join(parts[: depth + 1])
                    raise unsafe(self.path, name, "it is a link, and links are not followed")
                return None
            self._open.append((parts[depth], current))
        return current

    def _is_link(self, parents: Sequence[str], name: str) -> bool:
        directory = self.directory(parents)
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISLNK(status.st_mode)


def enter(directory: int, name: str, *, listed: bool) -> int | None:
    """Open the directory ``name`` in ``directory``; None if it is absent or not a directory.

    ``listed`` requests a descriptor that can be listed, not only traversed. Links are not followed.
    """
    try:
        flags = (_LISTED if listed else _THROUGH) | os.O_NOFOLLOW
        return os.open(name, flags, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _NO_DIRECTORY:
            return None
        raise


def read_below(root: str, name: str, limit: int) -> bytes:
    """Read a whole small regular file below ``root``.

    Raises FileNotFoundError, StorageError, UnsafePath (also for a link, a directory, a pipe or a
    device, which is not even opened), or Corrupt if the file has more than ``limit`` bytes.
    """
    parts = parts_of(root, name)
    if is_local(root):
        data = _read_local(root, parts, limit)
    else:
        from flinkish.storage.stores import store_of

        data = store_of(root).read_head(join(root, name), limit + 1)
    if len(data) > limit:
        raise Corrupt(f"{join(root, name)} is too large: more than {limit:,} bytes", path=name)
    return data


def _read_local(root: str, parts: tuple[str, ...], limit: int) -> bytes:
    name = "/".join(parts)
    with LocalRoot(root) as place:
        directory = place.directory(parts[:-1])
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", join(root, name))
        try:
            status = os.stat(parts[-1], dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise unsafe(root, name, "it is not a regular file")
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(parts[-1], flags, dir_fd=directory), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise unsafe(root, name, "it is not a regular file")
                # Python allocates the requested size before it reads.
                return file.read(min(limit, status.st_size) + 1)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise unsafe(root, name, "it is a link, and links are not followed") from error
            raise storage_error("read", join(root, name), error) from error
