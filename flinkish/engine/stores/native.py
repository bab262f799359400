"""Read and write RocksDB's rows in blocks, with the optional package ``flinkish_rocksdb``.

Its C functions (``native/flinkish_rocksdb.c``) call the RocksDB in the library ``librocksdbjni`` of
Spark's own jars, without a Python object for each row. Where these cannot be used, for example
because the package, a jar with a library for this machine, or a symbol of that library is missing,
:func:`library` returns None, and the binding (:mod:`.rocksdb`) does the same work. A later failure
raises :class:`NativeError`; callers then log the reason and use the binding, which reports damage.
What the machine refuses (a full disk, too many open files) would fail with the binding as well, and
raises a StorageError.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import importlib.util
import logging
import os
import platform
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from flinkish.engine.bounds import MAX_ROW
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.stores.rocksdb import open_files, refusal
from flinkish.errors import StorageError
from flinkish.storage.deletion import remove_file

#: Version of the functions that this module calls.
VERSION: Final = 3
_ROWS: Final = 1 << 15
_KEYS_ROOM: Final = 4 << 20
_VALUES_ROOM: Final = 8 << 20
_MESSAGE: Final = 1024
_POINTER, _INT, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_LONG, _HASH = ctypes.c_int64, ctypes.c_uint64
_BINARIES = (_POINTER,) * 3
#: Types of each function's result and parameters, so that ctypes refuses other arguments.
_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "rows_load": (_INT, (_TEXT, _POINTER)),
    "rows_open": (_POINTER, (_TEXT, _INT, _POINTER)),
    "rows_close": (None, (_POINTER,)),
    "rows_next": (
        _LONG,
        (_POINTER, _LONG, _LONG, _LONG, *(*_BINARIES, _LONG) * 2, _POINTER, _POINTER),
    ),
    "rows_digest_family": (_LONG, (_POINTER, _LONG, _HASH, _POINTER, _POINTER)),
    "rows_peek": (_INT, (_POINTER, _LONG, _POINTER, _POINTER)),
    "rows_digest": (None, (_LONG, *_BINARIES, *_BINARIES, _HASH, _POINTER)),
    "rows_create": (_POINTER, (_TEXT, _POINTER)),
    "rows_put": (_INT, (_POINTER, _LONG, _POINTER, *_BINARIES, *_BINARIES, _POINTER)),
    "rows_size": (_LONG, (_POINTER,)),
    "rows_finish": (_INT, (_POINTER, _INT, _POINTER)),
}


_log: Final = logging.getLogger(__name__)


class NativeError(Exception):
    """The native functions cannot do what the binding may still do; ``args[0]`` is the reason."""


@functools.lru_cache(maxsize=1)
def library() -> Any:
    """Load the functions, once in each process; return None if they cannot be used."""
    return _load()


def _load() -> Any:
    module = importlib.util.find_spec("flinkish_rocksdb")
    if module is None or module.origin is None:
        return None
    try:
        functions = ctypes.CDLL(module.origin)
        version = functions.rows_version()
        if version != VERSION:
            raise NativeError(f"it is of version {version}, and this release uses {VERSION}")
        path = _rocksdb_library()
        if path is None:
            raise NativeError(
                "Spark's jars have no RocksDB for this machine, or its library cannot be copied"
            )
        for name, (result, parameters) in _SIGNATURES.items():
            function = getattr(functions, name)
            function.restype, function.argtypes = result, parameters
        message = _Message()
        if functions.rows_load(path.encode(), message.buffer):
            raise message.error()
    except (NativeError, OSError, AttributeError, zipfile.BadZipFile) as error:
        tell_unused(error)
        return None
    return functions


def tell_unused(error: Exception) -> None:
    """Log why the binding is used in place of the installed native functions."""
    _log.warning("flinkish_rocksdb is not used, which is slower: %s", error)


def _rocksdb_library() -> str | None:
    """Return the path of RocksDB's library, copied from Spark's jar to this user's directory.

    None if no jar has a library for this machine, or the directory is not safe.
    """
    member = _member()
    for jar in _jars() if member else ():
        with zipfile.ZipFile(jar) as archive:
            if member not in archive.namelist():
                continue
            info = archive.getinfo(member)
            directory = _private_directory()
            if directory is None:
                return None
            path = os.path.join(directory, f"{info.CRC:08x}-{info.file_size}-{member}")
            if not os.path.exists(path):
                descriptor, part = tempfile.mkstemp(dir=directory)
                try:
                    with os.fdopen(descriptor, "wb") as target, archive.open(info) as source:
                        shutil.copyfileobj(source, target, 1 << 20)
                    os.rename(part, path)
                except BaseException:
                    remove_file(directory, os.path.basename(part))
                    raise
            return path
    return None


def _member() -> str | None:
    """Return the name of this machine's library in the jar; None if there is none.

    Source: ``org.rocksdb.util.Environment``.
    """
    machine = platform.machine().lower()
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return None
    name = {"x86_64": "linux64", "amd64": "linux64", "aarch64": "linux-aarch64"}.get(machine)
    musl = "" if platform.libc_ver()[0] == "glibc" else "-musl"
    return f"librocksdbjni-{name}{musl}.so" if name else None


def _jars() -> list[str]:
    homes = [os.environ.get("SPARK_HOME")]
    pyspark = importlib.util.find_spec("pyspark")
    homes += pyspark.submodule_search_locations or [] if pyspark is not None else []
    patterns = [
        os.path.join(glob.escape(home), "jars", "rocksdbjni-*.jar") for home in homes if home
    ]
    return [jar for pattern in patterns for jar in sorted(glob.glob(pattern))]


def _private_directory() -> str | None:
    """Return a directory that only this user can write into; None if other users can, or own it."""
    path = os.path.join(tempfile.gettempdir(), f"flinkish-rocksdb-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return path if mine and not status.st_mode & 0o022 else None


def _at(array: Any) -> Any:
    return array.ctypes.data_as(ctypes.c_void_p)


class _Message:
    """A buffer for an error's reason."""

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(_MESSAGE)

    def error(self) -> NativeError | StorageError:
        text = self.buffer.value.decode(errors="replace")
        return refusal(text) or NativeError(text)


class Reader:
    """The rows of databases in local directories, merged in key order; the caller must close it.

    ``prefix`` is the number of bytes of a family's id at the start of each key. Each database keeps
    up to ``most_files`` files open.
    """

    def __init__(
        self,
        functions: Any,
        directories: Sequence[str],
        prefix: int,
        most_files: int = open_files(1),
    ) -> None:
        self._functions = functions
        self._prefix = prefix
        self._stores: list[Any] = []
        self._message = _Message()
        try:
            for directory in directories:
                path = os.fsencode(directory)
                store = functions.rows_open(path, most_files, self._message.buffer)
                if not store:
                    raise self._message.error()
                self._stores.append(store)
        except BaseException:
            self.close()
            raise

    def blocks(self) -> Iterator[tuple[Binaries, Binaries]]:
        """Yield the keys (with prefix) and values of blocks of rows, each block of one family.

        A block is valid until the next one is read.
        """
        stores = (ctypes.c_void_p * len(self._stores))(*self._stores)
        places = [np.empty(_ROWS, np.int64) for _ in range(4)]
        rooms = [_KEYS_ROOM, _VALUES_ROOM]
        data = [np.zeros(room, np.uint8) for room in rooms]
        need = np.zeros(2, np.int64)
        while True:
            rows = self._functions.rows_next(
                stores, len(self._stores), _ROWS, self._prefix,
                _at(places[0]), _at(places[1]), _at(data[0]), rooms[0],
                _at(places[2]), _at(places[3]), _at(data[1]), rooms[1],
                _at(need), self._message.buffer,
            )  # fmt: skip
            if rows == -1:
                raise self._message.error()
            if rows == -2:
                if need.max() > MAX_ROW:
                    raise NativeError(f"a key or value of more than {MAX_ROW} bytes")
                larger = [int(size) + 7 & ~7 for size in need]
                rooms = [max(both) for both in zip(rooms, larger, strict=True)]
                data = [np.zeros(room, np.uint8) for room in rooms]
                continue
            if not rows:
                return
            yield (
                Binaries(data[0], places[0][:rows], places[1][:rows], None),
                Binaries(data[1], places[2][:rows], places[3][:rows], None),
            )

    def digests(self, salt_of: Any) -> Iterator[tuple[int, int, int]]:
        """Yield (rows, digest of keys, of content) of each family of the only database.

        ``salt_of`` returns a family's salt, given its prefix. No row becomes a Python object.
        """
        (store,) = self._stores
        prefix = ctypes.create_string_buffer(max(self._prefix, 1))
        length = self._prefix
        while True:
            more = self._functions.rows_peek(store, length, prefix, self._message.buffer)
            if more < 0:
                raise self._message.error()
            if not more:
                return
            sums = np.zeros(2, np.uint64)
            salt = salt_of(prefix.raw[: self._prefix])
            rows = self._functions.rows_digest_family(
                store, length, salt, _at(sums), self._message.buffer
            )
            if rows < 0:
                raise self._message.error()
            yield rows, int(sums[0]), int(sums[1])

    def close(self) -> None:
        """Close the databases."""
        stores, self._stores = self._stores, []
        for store in stores:
            self._functions.rows_close(store)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def digest(functions: Any, keys: Binaries, values: Binaries, salt: int) -> tuple[int, int]:
    """Return the digests of keys and of content, as :func:`~.row_blocks.digest_rows`."""
    sums = np.zeros(2, np.uint64)
    functions.rows_digest(len(keys), *_placed(keys), *_placed(values), salt, _at(sums))
    return int(sums[0]), int(sums[1])


def _placed(rows: Binaries) -> tuple[Any, Any, Any]:
    data, starts, lengths = rows.placed()
    return _at(starts), _at(lengths), _at(data)


class Files:
    """SSTs of the partitions 0 to ``partitions`` - 1, one open file for each.

    The caller must close the object.
    """

    def __init__(self, functions: Any, partitions: int) -> None:
        self._functions = functions
        self._files = (ctypes.c_void_p * partitions)()
        self._message = _Message()

    def size(self, partition: int) -> int:
        """Return the bytes in the open file of a partition; 0 if it has none."""
        file = self._files[partition]
        return int(self._functions.rows_size(file)) if file else 0

    def open(self, partition: int, path: str) -> None:
        """Open a new file of a partition, after completing the previous one."""
        self.finish(partition)
        file = self._functions.rows_create(os.fsencode(path), self._message.buffer)
        if not file:
            raise self._message.error()
        self._files[partition] = file

    def put(self, keys: Binaries, values: Binaries, partitions: Any) -> None:
        """Put each row into the file of its partition, in key order."""
        numbers = np.ascontiguousarray(partitions, np.int32)
        arguments = (_at(numbers), *_placed(keys), *_placed(values))
        if self._functions.rows_put(self._files, len(keys), *arguments, self._message.buffer):
            raise self._message.error()

    def finish(self, partition: int) -> None:
        """Complete the open file of a partition."""
        file, self._files[partition] = self._files[partition], None
        if file and self._functions.rows_finish(file, 1, self._message.buffer):
            raise self._message.error()

    def close(self) -> None:
        """Abandon the files that are not complete."""
        for partition, file in enumerate(self._files):
            if file:
                self._functions.rows_finish(file, 0, self._message.buffer)
                self._files[partition] = None
