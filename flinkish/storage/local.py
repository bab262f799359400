"""The local file system.

A hard link costs no data. It is safe because Spark never writes into a finished checkpoint file: it
writes a temporary file and renames it. Where a link is refused (another file system, too many
links, a protected file), the file is copied.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from typing import BinaryIO

from flinkish.errors import Corrupt
from flinkish.storage import deletion
from flinkish.storage.errors import ReadFile, Replaced, not_regular, storage_error
from flinkish.storage.listing import FileEntry, Listing, LocalEntry, local_stamp
from flinkish.storage.locations import split

_COPY_BLOCK = 1 << 20
#: Maximum size in bytes of a file for :func:`read_bytes`: logs, schemas, metadata.
MAX_SMALL = 1 << 30
#: Errors of the system for a path at which there is no entry.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
#: Errors of os.link after which a copy is still possible.
_LINK_REFUSED = frozenset(
    {
        errno.EXDEV,
        errno.EPERM,
        errno.EACCES,
        errno.EMLINK,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.ENOSYS,
    }
)


def status_of(path: str, *, follow: bool) -> os.stat_result | None:
    """Return the status of the entry at ``path``; None if there is no entry.

    Raises StorageError if the storage does not say whether there is an entry.
    """
    try:
        return os.stat(path) if follow else os.lstat(path)
    except ValueError:  # NUL in the path
        return None
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise storage_error("read", path, error) from error


def stat_of(path: str) -> os.stat_result:
    """Return the status of a file or directory; raise FileNotFoundError if it does not exist.

    A path below a file does not exist, as in :func:`list_directory`.
    """
    try:
        return os.stat(path)
    except NotADirectoryError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise storage_error("read", path, error) from error


def list_directory(path: str) -> Listing:
    """List a directory's visible entries, without a stat for each; an absent one is empty."""
    files: dict[str, FileEntry] = {}
    directories: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if _is_directory(entry):
                    directories.append(entry.name)
                else:
                    files[entry.name] = LocalEntry(entry)
    except (FileNotFoundError, NotADirectoryError):
        return Listing(path)
    except OSError as error:
        raise storage_error("read", path, error) from error
    return Listing(path, files, tuple(directories))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a directory or a link to one; False if it cannot be followed."""
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno in _ABSENT or error.errno == errno.EACCES:
            return False
        raise


def walk_files(
    path: str, prefix: str = "", *, follow: bool = False
) -> Iterator[tuple[str, FileEntry]]:
    """Yield every visible file below a directory, see :func:`flinkish.storage.walk_files`."""
    files: list[os.DirEntry[str]] = []
    directories: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
                else:
                    files.append(entry)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise storage_error("read", path, error) from error
    for entry in sorted(files, key=lambda each: each.name):
        yield prefix + entry.name, LocalEntry(entry, follow=follow)
    for name in sorted(directories):
        yield from walk_files(os.path.join(path, name), f"{prefix}{name}/", follow=follow)


def list_names(path: str, *, hidden: bool = False) -> list[str]:
    """Return the visible names in a directory, with ``hidden`` all names; [] if it is absent."""
    try:
        return [name for name in os.listdir(path) if hidden or not name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise storage_error("read", path, error) from error


def open_file(path: str) -> BinaryIO:
    """Open a regular file for reading.

    Raises FileNotFoundError, or NotRegular for a directory, a device, a pipe, or a link to one,
    because reading it might fail, block or never end.
    """
    try:
        descriptor = _open_regular(path)
        try:
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except FileNotFoundError:
        raise
    except OSError as error:
        raise storage_error("read", path, error) from error


def read_range(path: str, start: int, end: int, stamp: str | None = None) -> bytes:
    """Read the bytes from ``start`` up to ``end``; raise the errors of :func:`open_file`.

    Raises Replaced if the file does not have ``stamp`` (None: any file is accepted).
    """
    try:
        descriptor = _open_regular(path)
        try:
            data = os.pread(descriptor, end - start, start)
            _check_stamp(path, os.fstat(descriptor), stamp)
            return data
        finally:
            os.close(descriptor)
    except (FileNotFoundError, Replaced):
        raise
    except OSError as error:
        raise storage_error("read", path, error) from error


def _open_regular(path: str) -> int:
    """Open a regular file and return its descriptor."""
    _check_regular(path, stat_of(path))  # opening a device may have side effects
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_regular(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise not_regular(path)


def read_bytes(path: str) -> bytes:
    """Read a whole small file (at most :data:`MAX_SMALL` bytes).

    Raises FileNotFoundError, NotRegular, or Corrupt if the file is larger.
    """
    with open_file(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_SMALL:
                raise Corrupt(
                    f"{path} has {size:,} bytes; at most {MAX_SMALL:,} are read",
                    hint="check what the file is",
                    path=path,
                )
            return file.read(size)
        except OSError as error:
            raise storage_error("read", path, error) from error


def make_directory(path: str) -> None:
    """Create a directory and its parents."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise storage_error("create directory", path, error) from error


def make_new_directory(path: str) -> None:
    """Create a directory that must not exist yet."""
    try:
        os.mkdir(path)
    except OSError as error:
        raise storage_error("create directory", path, error) from error


def place(source: str, target: str, stamp: str | None) -> tuple[int, bool]:
    """Link ``source`` to ``target``, or copy it; replace an existing ``target``.

    Returns the size in bytes, and whether the target is a link. Raises FileNotFoundError if the
    source or the target's directory is gone, Replaced if the source no longer has ``stamp``.
    """
    try:
        # os.link would link a symbolic link itself, and the link's target may be removed later.
        original = os.path.realpath(source) if os.path.islink(source) else source
        try:
            os.link(original, target)
        except FileExistsError:
            deletion.remove_file(*split(target))
            os.link(original, target)
        status = os.stat(target)
        _check_stamp(source, status, stamp)
        return status.st_size, True
    except (FileNotFoundError, Replaced):
        raise
    except OSError as error:
        if error.errno not in _LINK_REFUSED:
            raise storage_error("write", target, error) from error
    return copy(source, target, stamp), False


def copy(source: str, target: str, stamp: str | None = None) -> int:
    """Copy a file, flush it to the disk, and return its number of bytes.

    Raises FileNotFoundError if the source no longer exists, Replaced if it no longer has ``stamp``,
    StorageError if the target's directory does not exist.
    """
    with open_file(source) as reader:
        _check_stamp(source, os.fstat(reader.fileno()), stamp)
        try:
            with open(target, "wb") as writer:
                shutil.copyfileobj(ReadFile(reader, source), writer, _COPY_BLOCK)
                writer.flush()
                os.fsync(writer.fileno())
                return writer.tell()
        except OSError as error:
            raise storage_error("write", target, error) from error


def read_stamped(path: str, stamp: str | None) -> bytes:
    """Read a whole small file that must have ``stamp``; raise the errors of :func:`read_range`."""
    with open_file(path) as file:
        try:
            data = file.read()
        except OSError as error:
            raise storage_error("read", path, error) from error
        _check_stamp(path, os.fstat(file.fileno()), stamp)
    return data


def check_stamp(path: str, stamp: str | None) -> None:
    """Raise Replaced if the file does not have ``stamp`` (None: any file is accepted)."""
    if stamp is not None:
        _check_stamp(path, stat_of(path), stamp)


def _check_stamp(path: str, status: os.stat_result, stamp: str | None) -> None:
    if stamp is not None and local_stamp(status) != stamp:
        raise Replaced(f"{path} was replaced")


def write_bytes(path: str, data: bytes) -> None:
    """Write a file, replacing its content if it exists, and flush it to the disk."""
    try:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise storage_error("write", path, error) from error


def publish(temporary: str, final: str) -> None:
    """Rename a finished file or directory into place, and sync the directory that contains it."""
    try:
        os.rename(temporary, final)
    except OSError as error:
        raise storage_error("write", final, error) from error
    sync_directory(os.path.dirname(final))


def sync_directory(path: str) -> None:
    """Flush the entries of a directory to the disk, if the file system supports it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise storage_error("open", path, error) from error
    try:
        os.fsync(descriptor)
    except OSError as error:
        # EINVAL, ENOTSUP: this file system cannot sync directories; nothing more can be done.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}:
            raise storage_error("sync", path, error) from error
    finally:
        os.close(descriptor)
