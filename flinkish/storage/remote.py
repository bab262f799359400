"""Remote storage through fsspec: S3 (s3fs), HDFS (hdfs-native), WebHDFS, memory and all others.

Credentials, endpoints and other options come from fsspec's own configuration and environment
(``FSSPEC_S3_ENDPOINT_URL``, ``~/.config/fsspec/*.json``, ``AWS_*`` ...) and stay there: nothing of
them is part of a location. Listings are never cached: another process writes what is listed here.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, BinaryIO, cast

from flinkish.config import mask_secrets
from flinkish.errors import StorageError
from flinkish.storage import bounded, s3
from flinkish.storage.errors import Replaced, storage_error
from flinkish.storage.limits import connections
from flinkish.storage.listing import FileEntry, Listing, remote_entry
from flinkish.storage.locations import base_name, is_local, parent, scheme_of

#: Files up to this size pass through memory in one piece, so that their digest costs no reading.
SMALL = 16 << 20
_BLOCK = 4 << 20
#: What larger files are sent and read in; the libraries' own blocks are of 50 MB.
_PART = 5 << 20
#: S3 takes 10,000 parts of a file.
_PARTS = 9000
#: Bytes of files that are in memory at once, however many requests are in flight.
_ROOM = 150 << 20
#: Requests that one thread has in flight at most, where the client can do that.
_BATCH = 16
#: Stores without directories: a name with slashes is all there is.
_FLAT = frozenset({"s3", "gs", "abfs", "abfss", "az", "oss", "oci"})
_EXTRAS = {"s3": "s3", "hdfs": "hdfs"}

_stores: dict[tuple[str, str], RemoteStore] = {}
_lock = threading.Lock()


def store_of(location: str) -> RemoteStore:
    """The store that a remote location is on, opened once for each scheme and authority.

    Raises StorageError for an unknown scheme and where the library for it is not installed.
    """
    scheme, _, rest = location.partition("://")
    key = scheme, rest.partition("/")[0]
    with _lock:
        if key not in _stores:
            _stores[key] = RemoteStore(_open(location, scheme), scheme)
        return _stores[key]


def forget_stores() -> None:
    """Open stores anew from now on (the environment has changed, or the process was forked)."""
    with _lock:
        _stores.clear()


def _open(location: str, scheme: str) -> Any:
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]

    options: dict[str, Any] = {"use_listings_cache": False}
    if scheme == "s3":
        options["config_kwargs"] = s3.client_settings(connections())
    elif scheme in {"hdfs", "viewfs"}:
        options = _hadoop_options()
    try:
        return url_to_fs(location, **options)[0]
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        raise StorageError(
            f"cannot open {location}: {error}",
            hint=f"pip install 'flinkish[{extra}]'" if extra else "install the library it names",
            path=location,
        ) from error
    except ValueError as error:
        raise StorageError(
            f"cannot open {location}: {error}",
            hint="flinkish reads and writes what fsspec knows: local paths, s3://, hdfs:// ...",
            path=location,
        ) from error
    except Exception as error:
        raise _failure("open", location, error) from error


def _hadoop_options() -> dict[str, Any]:
    """Options for hdfs-native, which takes all it is given for Hadoop's.

    By Hadoop's default a NameNode that is not there is tried 15 times, for three minutes. Where no
    configuration of Hadoop's may say otherwise, 4 times (some 15 seconds) are enough.
    """
    if any(os.environ.get(name) for name in ("HADOOP_CONF_DIR", "HADOOP_HOME")):
        return {}
    return {"dfs.client.failover.max.attempts": "4"}


def _failure(verb: str, location: str, error: BaseException) -> StorageError:
    found = storage_error(verb, location, error)
    found.message = mask_secrets(found.message)
    return found


@contextmanager
def refused(verb: str, location: str) -> Iterator[None]:
    """Turn whatever a store's library raises into StorageError; a file to read may be absent.

    Each library has errors of its own (botocore's, hdfs-native's, those of requests ...) that share
    no base class: this is the border where they become ours.
    """
    try:
        yield
    except (Replaced, StorageError):
        raise
    except FileNotFoundError as error:
        if verb != "write":
            raise
        # Not what is read is gone, but the bucket that is written to.
        raise _failure(verb, location, error) from error
    except Exception as error:
        raise _failure(verb, location, error) from error


_room = bounded.Room(_ROOM)


class RemoteStore:
    """One remote file system; all of its methods take locations and are safe in any thread."""

    def __init__(self, fs: Any, scheme: str) -> None:
        self._fs = fs
        self._s3 = s3.S3Calls(fs) if scheme == "s3" else None
        self.flat = scheme in _FLAT
        self._overwrites = scheme in {"hdfs", "viewfs"}
        #: hdfs-native streams by itself; others read ahead by blocks.
        self._streams = scheme in {"hdfs", "memory"}
        #: Their own request removes a tree; elsewhere fsspec would look for patterns in the name.
        self._recursive = scheme in {"hdfs", "viewfs", "webhdfs"}

    def _open(self, location: str, mode: str, size: int) -> Any:
        """Open a file that is read or written in blocks of ``size`` bytes, where there are any."""
        blocks = {} if self._streams else {"block_size": size}
        return self._fs.open(self._path(location), mode, **blocks)

    def _path(self, location: str) -> str:
        return str(self._fs._strip_protocol(location))

    def list_directory(self, location: str) -> Listing:
        """One request (one a thousand names on S3); an absent directory is an empty listing."""
        path = self._path(location)
        files: dict[str, FileEntry] = {}
        directories: list[str] = []
        with refused("list", location):
            try:
                infos = self._fs.ls(path, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return Listing(location)
            for info in infos:
                name = str(info["name"]).rstrip("/")
                if name == path.rstrip("/"):
                    if info["type"] == "file":
                        continue  # a file was listed, or S3's marker of an empty directory
                    continue
                name = name.rpartition("/")[2]
                if name.startswith("."):
                    continue
                if info["type"] == "directory":
                    directories.append(name)
                else:
                    files[name] = remote_entry(info)
        return Listing(location, files, tuple(directories))

    def exists(self, location: str) -> bool:
        """Whether a file or a directory is there."""
        with refused("read", location):
            return bool(self._fs.exists(self._path(location)))

    def is_directory(self, location: str) -> bool:
        """Whether a directory is there (on S3: anything below it)."""
        with refused("read", location):
            return bool(self._fs.isdir(self._path(location)))

    def entry(self, location: str) -> FileEntry:
        """What a listing would say of a file; FileNotFoundError when it is not there."""
        with refused("read", location):
            return remote_entry(self._fs.info(self._path(location)))

    def read_bytes(self, location: str) -> bytes:
        """The whole of a file; FileNotFoundError when it is not there."""
        with refused("read", location):
            return bytes(self._fs.cat_file(self._path(location)))

    def read_head(self, location: str, count: int) -> bytes:
        """The first ``count`` bytes of a file, or all of them."""
        with refused("read", location), self._open(location, "rb", 1 << 18) as file:
            return bytes(file.read(count))

    def open_file(self, location: str) -> BinaryIO:
        """Open for reading; FileNotFoundError when it is not there. Small files are read whole."""
        with refused("read", location):
            info = self._fs.info(self._path(location))
            if info.get("type") == "directory":
                raise IsADirectoryError(21, "is a directory")
            if int(info.get("size") or 0) <= SMALL:
                return io.BytesIO(self._fs.cat_file(self._path(location)))
            return cast(BinaryIO, self._open(location, "rb", _PART))

    def write_bytes(self, location: str, data: bytes) -> None:
        """Write a whole file; on object stores it appears at once and complete."""
        with refused("write", location):
            self._fs.pipe_file(self._path(location), data)

    def write_atomically(self, location: str, data: bytes) -> None:
        """Write a file so that it appears complete or not at all."""
        with refused("write", location):
            if self.flat:
                self._fs.pipe_file(self._path(location), data)
                return
            temporary = f"{parent(location)}/.{base_name(location)}.{secrets.token_hex(6)}.tmp"
            self._fs.pipe_file(self._path(temporary), data)
            self._rename(temporary, location)

    def upload(self, source: str, location: str) -> None:
        """Bring a local file there so that it appears complete or not at all."""
        with refused("write", location):
            if self.flat:
                with open(source, "rb") as reader:
                    self.receive(location, reader, os.fstat(reader.fileno()).st_size)
                return
            temporary = f"{parent(location)}/.{base_name(location)}.{secrets.token_hex(6)}.tmp"
            self._fs.put_file(source, self._path(temporary))
            self._rename(temporary, location)

    def _rename(self, old: str, new: str) -> None:
        """Rename a file over whatever stands there (WebHDFS leaves it, without a word)."""
        if self._overwrites:
            self._fs.mv(self._path(old), self._path(new), overwrite=True)
            return
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._path(new))
        self._fs.mv(self._path(old), self._path(new))

    def make_directory(self, location: str) -> None:
        """Create a directory and its parents, where there is such a thing."""
        if not self.flat:
            with refused("create directory", location):
                self._fs.makedirs(self._path(location), exist_ok=True)

    def copy_within(
        self, source: str, target: str, stamp: str | None, size: int | None
    ) -> tuple[int, str | None]:
        """Copy by the store itself, or its client: the size, and the digest if it is known.

        ``size`` is the source's as listed with ``stamp``: it saves asking for both.
        Raises FileNotFoundError when the source is gone, Replaced when it lacks ``stamp``.
        """
        with refused("copy to", target):
            if self._s3 is not None:
                copying = (self._path(source), self._path(target), stamp, size)
                (found,) = self._s3.copy_all([copying])
                if isinstance(found, BaseException):
                    raise found
                return found
            return self._stream(source, target, stamp)

    def copy_all(
        self, copies: Sequence[tuple[str, str, str | None, int | None]]
    ) -> list[tuple[int, str | None] | FileNotFoundError | Replaced]:
        """Several of :meth:`copy_within`, given as (source, target, stamp, size), at once; on S3.

        A source that is gone or replaced is told in its place.
        """
        assert self._s3 is not None, "only S3 copies"
        results: list[tuple[int, str | None] | FileNotFoundError | Replaced] = []
        calls = [(self._path(s), self._path(t), stamp, size) for s, t, stamp, size in copies]
        for (_, target, _, _), found in zip(copies, self._s3.copy_all(calls), strict=True):
            if isinstance(found, tuple | FileNotFoundError | Replaced):
                results.append(found)
            else:
                raise _failure("copy to", target, found) from found
        return results

    def receive_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write several small files, given as (location, content), at once; on S3."""
        assert self._s3 is not None, "only S3 has such files"
        with _room.taken(2 * sum(len(data) for _, data in files)):
            errors = self._s3.put_all([(self._path(target), data) for target, data in files])
        for (target, _), error in zip(files, errors, strict=True):
            if error is not None:
                raise _failure("write", target, error) from error

    def _stream(self, source: str, target: str, stamp: str | None) -> tuple[int, str]:
        """Through this process: for stores whose own copying is no better, and gives no digest."""
        self.check_stamp(source, stamp)
        digest, size = hashlib.sha256(), 0
        with (
            _room.taken(10 * _PART),
            self._open(source, "rb", _PART) as reader,
            self._open(target, "wb", _PART) as writer,
        ):
            while block := reader.read(_BLOCK):
                digest.update(block)
                size += len(block)
                writer.write(block)
        self.check_stamp(source, stamp)
        return size, f"sha256:{digest.hexdigest()}"

    def check_stamp(self, location: str, stamp: str | None) -> None:
        """Raise Replaced when a file does not have ``stamp`` (None: anything goes)."""
        if stamp is not None and self.entry(location).stamp() != stamp:
            raise Replaced(f"{location} was replaced")

    def receive(self, target: str, reader: IO[bytes], size: int) -> tuple[int, str]:
        """Write what ``reader`` gives, ``size`` bytes as far as known: size and digest."""
        digest, written = hashlib.sha256(), 0
        with refused("write", target):
            if size <= SMALL:
                with _room.taken(2 * size):
                    data = reader.read()
                    digest.update(data)
                    self._fs.pipe_file(self._path(target), data)
                return len(data), f"sha256:{digest.hexdigest()}"
            part = max(_PART, size // _PARTS)
            # Gathered, cut off, signed and sent: a part was measured to take many times its size.
            with _room.taken(10 * part), self._open(target, "wb", part) as writer:
                while block := reader.read(_BLOCK):
                    digest.update(block)
                    written += len(block)
                    writer.write(block)
        return written, f"sha256:{digest.hexdigest()}"

    def send(self, source: str, writer: IO[bytes], stamp: str | None) -> tuple[int, str]:
        """Write a file's bytes to ``writer``: size and digest."""
        digest, size = hashlib.sha256(), 0
        with refused("read", source):
            with _room.taken(3 * _PART), self._open(source, "rb", _PART) as reader:
                while block := reader.read(_BLOCK):
                    digest.update(block)
                    size += len(block)
                    writer.write(block)
            self.check_stamp(source, stamp)
        return size, f"sha256:{digest.hexdigest()}"

    def delete_file(self, location: str) -> bool:
        """Delete one file; False when it was not there (S3 does not say: True)."""
        with refused("remove", location):
            try:
                if not self.flat and not self._fs.exists(self._path(location)):
                    return False
                self._fs.rm_file(self._path(location))
            except FileNotFoundError:
                return False
        return True

    def delete_files(self, locations: Iterable[str]) -> None:
        """Delete many files, a thousand a request on S3; those that are not there do not matter."""
        if self._s3 is None:
            for _ in in_flight(self.delete_file, locations):
                pass
            return
        batch: list[str] = []
        for location in locations:
            # By the letter: an object whose name ends with a slash is another one.
            batch.append(self._path(location) + ("/" if location.endswith("/") else ""))
            if len(batch) == s3.DELETE_BATCH:
                with refused("remove", location):
                    self._s3.delete(batch)
                batch = []
        if batch:
            with refused("remove", batch[0]):
                self._s3.delete(batch)

    def delete_directory(self, location: str) -> bool:
        """Delete a directory that is empty, where there is such a thing; True when it is gone now.

        Others stay.
        """
        path = self._path(location)
        with refused("remove", location), suppress(FileNotFoundError):
            if self.flat:
                # Hadoop leaves empty objects in the place of directories.
                self._fs.rm_file(path + "/")
            elif self._fs.isdir(path) and not self._fs.ls(path, detail=False):
                self._remove_directory(path)
                return True
        return False

    def _remove_directory(self, path: str) -> None:
        """Remove one directory that is empty; WebHDFS's own call for that is none."""
        if self._recursive:
            self._fs.rm(path, recursive=False)
        else:
            self._fs.rmdir(path)

    def delete_tree(self, root: str, name: str, tell: Callable[[str], object] | None) -> bool:
        """Delete a directory ``name`` below ``root`` and all below it; True when nothing is left.

        Only what lies below it by its name: a library that would take ``*`` or ``[`` in names for
        patterns is given one name after the other.
        """
        location = f"{root}/{name}"
        path = self._path(location)
        names = list(self.find_all(root, name)) if tell is not None else ()
        with refused("remove", location):
            if self.flat:
                self.delete_files(f"{root}/{each}" for each in self.find_all(root, name))
                with suppress(FileNotFoundError):
                    self._fs.rm_file(path + "/")
            elif self._recursive:
                with suppress(FileNotFoundError):
                    self._fs.rm(path, recursive=True)
            else:
                for each in self.find_all(root, name):
                    with suppress(FileNotFoundError):
                        if each.endswith("/"):
                            self._fs.rmdir(self._path(f"{root}/{each[:-1]}"))
                        else:
                            self._fs.rm_file(self._path(f"{root}/{each}"))
            gone = not self._fs.exists(path)
        if tell is not None:
            for each in names:
                tell(each)
        return gone

    def find_all(self, root: str, name: str) -> Iterator[str]:
        """Whatever lies at or below ``name``, hidden things too, as names below ``root``.

        Directories come after what is in them, with a slash at their end; flat stores have none.
        """
        location = f"{root}/{name}"
        path = self._path(location)
        if self.flat:
            with refused("list", location):
                keys = self._fs.find(path)
            for key in keys:
                if key == path or key.startswith(f"{path}/"):
                    yield name + key[len(path) :]
            return
        with refused("list", location):
            try:
                info = self._fs.info(path)
            except FileNotFoundError:
                return
        yield from self._walk(path, name, info["type"] == "directory")

    def all_names(self, location: str) -> list[str] | None:
        """All names in a directory, hidden ones too; None where there is no such thing."""
        if self.flat:
            return None
        with refused("list", location):
            try:
                found = self._fs.ls(self._path(location), detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return [str(each).rstrip("/").rpartition("/")[2] for each in found]

    def _walk(self, path: str, name: str, is_directory: bool) -> Iterator[str]:
        if not is_directory:
            yield name
            return
        with refused("list", path):
            try:
                infos = self._fs.ls(path, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return
        for info in infos:
            below = str(info["name"]).rstrip("/").rpartition("/")[2]
            # A link (sftp) is neither a file nor a directory: it is not gone into.
            yield from self._walk(f"{path}/{below}", f"{name}/{below}", info["type"] == "directory")
        yield f"{name}/"


def batch_size(source: str, target: str) -> int:
    """How many small files one call of :meth:`RemoteStore.receive_all` or ``copy_all`` is for."""
    if scheme_of(target) != "s3" or not (is_local(source) or scheme_of(source) == "s3"):
        return 1
    return max(1, min(_BATCH, connections() // 4))


def in_flight(
    function: Callable[[Any], Any], items: Iterable[Any], batch: int = 1
) -> Iterator[Any]:
    """``map`` with a bounded number of calls at once; results in order, memory bounded.

    ``batch`` is how many requests a call has in flight: there are fewer calls then, though enough
    that the connections are used while some batches wait for their last.
    """
    workers = connections() if batch == 1 else max(2, 2 * connections() // batch)
    yield from bounded.in_flight(function, items, workers)
