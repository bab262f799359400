"""A remote file system through fsspec: S3 (s3fs), HDFS (hdfs-native), WebHDFS and others."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import IO, Any, BinaryIO, cast

from flinkish.storage import s3
from flinkish.storage.concurrency import Room, requests_in_flight
from flinkish.storage.errors import ReadFile, Replaced, not_regular, refused, remote_failure
from flinkish.storage.hashing import Hasher, digest_of
from flinkish.storage.listing import FileEntry, Listing, remote_entry
from flinkish.storage.locations import base_name, parent

#: Files up to this size in bytes are read into memory, or written from it, by one request.
SMALL = 16 << 20
_BLOCK = 4 << 20
#: Bytes per part when larger files are sent or read; the libraries' default is 50 MB.
_PART = 5 << 20
#: Maximum number of parts of a file; S3 accepts 10,000.
_PARTS = 9000
#: Maximum bytes in memory of files in transfer, whatever the number of requests in flight.
_ROOM = 150 << 20
#: Stores without directories: slashes are only characters of a name.
_FLAT = frozenset({"s3", "gs", "abfs", "abfss", "az", "oss", "oci"})

_room = Room(_ROOM)


class RemoteStore:
    """One remote file system. All methods take locations and are thread-safe."""

    def __init__(self, fs: Any, scheme: str) -> None:
        self._fs = fs
        self._s3 = s3.S3Calls(fs) if scheme == "s3" else None
        self.flat = scheme in _FLAT
        self._overwrites = scheme in {"hdfs", "viewfs"}
        #: hdfs-native streams on its own, memory has no blocks; others read ahead in blocks.
        self._streams = scheme in {"hdfs", "memory"}
        #: These stores remove a tree by one request; in others fsspec would expand patterns.
        self._recursive = scheme in {"hdfs", "viewfs", "webhdfs"}

    def _open(self, location: str, mode: str, size: int) -> Any:
        """Open a file in blocks of ``size`` bytes, if the library uses blocks."""
        blocks = {} if self._streams else {"block_size": size}
        return self._fs.open(self._path(location), mode, **blocks)

    @contextmanager
    def _new_file(self, location: str, part: int) -> Iterator[Any]:
        """Open a new file for writing; after an error, flat stores put nothing in place.

        fsspec's own context completes the upload after an error too, and so does its destructor.
        """
        writer = self._open(location, "wb", part)
        try:
            yield writer
        except BaseException:
            if self.flat:
                with suppress(Exception):
                    writer.discard()
                with suppress(Exception):
                    writer.closed = True
            with suppress(Exception):
                writer.close()
            raise
        writer.close()

    def _path(self, location: str) -> str:
        return str(self._fs._strip_protocol(location))

    def list_directory(self, location: str, *, hidden: bool = False) -> Listing:
        """List a directory by one request (S3: one per 1000 names); an absent one is empty.

        With ``hidden``, names that begin with a dot are listed too.
        """
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
                    continue  # a file was listed, or S3's marker of an empty directory
                name = name.rpartition("/")[2]
                if name.startswith(".") and not hidden:
                    continue
                if info["type"] == "directory":
                    directories.append(name)
                else:
                    files[name] = remote_entry(info)
        return Listing(location, files, tuple(directories))

    def exists(self, location: str) -> bool:
        """Return whether a file or a directory exists."""
        with refused("read", location):
            if self.flat:
                return bool(self._fs.exists(self._path(location)))
        return self._info(location) is not None

    def is_directory(self, location: str) -> bool:
        """Return whether a directory exists (on S3: whether any object lies below it).

        A whole bucket is asked for in another way: its properties may be refused to those who may
        use what is in it.
        """
        if self._s3 is not None:
            with refused("read", location):
                return bool(self._fs.isdir(self._path(location)))
        if self.flat and not base_name(location):
            return self.exists(location)
        info = self._info(location)
        return info is not None and info["type"] == "directory"

    def _info(self, location: str) -> Mapping[str, Any] | None:
        """Return fsspec's record of the entry at ``location``; None if there is no entry.

        fsspec's ``isdir`` answers False after any error, except for S3; so does its ``exists`` in
        stores that are not flat.
        """
        with refused("read", location):
            try:
                return cast(Mapping[str, Any], self._fs.info(self._path(location)))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def entry(self, location: str) -> FileEntry:
        """Return the listing entry of a file; raise FileNotFoundError if it does not exist."""
        with refused("read", location):
            return remote_entry(self._fs.info(self._path(location)))

    def read_bytes(self, location: str) -> bytes:
        """Read a whole file; raise FileNotFoundError if it does not exist."""
        with refused("read", location):
            return bytes(self._fs.cat_file(self._path(location)))

    def read_head(self, location: str, count: int) -> bytes:
        """Read at most the first ``count`` bytes of a file."""
        with refused("read", location), self._open(location, "rb", 1 << 18) as file:
            return bytes(file.read(count))

    def read_range(self, location: str, start: int, end: int) -> bytes:
        """Read the bytes from ``start`` up to ``end`` of a file; fewer if it is shorter."""
        if end <= start:
            return b""
        with refused("read", location):
            if self._s3 is not None:
                return self._s3.read_range(self._path(location), start, end)
            return bytes(self._fs.cat_file(self._path(location), start=start, end=end))

    def open_file(self, location: str) -> BinaryIO:
        """Open a file for reading, small ones from memory; raise FileNotFoundError if missing."""
        with refused("read", location):
            info = self._fs.info(self._path(location))
            if info.get("type") == "directory":
                raise not_regular(location)
            if int(info.get("size") or 0) <= SMALL:
                return io.BytesIO(self._fs.cat_file(self._path(location)))
            return cast(BinaryIO, ReadFile(self._open(location, "rb", _PART), location))

    def write_bytes(self, location: str, data: bytes) -> None:
        """Write a whole file; on object stores it appears at once and complete."""
        with refused("write", location):
            self._fs.pipe_file(self._path(location), data)

    def write_atomically(self, location: str, data: bytes) -> None:
        """Write a file so that it appears complete or not at all."""
        with refused("write", location):
            if self.flat:
                self._fs.pipe_file(self._path(location), data)
            else:
                self._build(location, lambda path: self._fs.pipe_file(path, data))

    def upload(self, source: str, location: str) -> None:
        """Upload a local file so that it appears complete or not at all."""
        with refused("write", location):
            if self.flat:
                with open(source, "rb") as reader:
                    size = os.fstat(reader.fileno()).st_size
                    self.receive(location, reader, size, hashlib.sha256())
            else:
                self._build(location, lambda path: self._fs.put_file(source, path))

    def _build(self, location: str, write: Callable[[str], object]) -> None:
        """Create a hidden file with ``write``, and rename it; after an error, remove it."""
        hidden = f"{parent(location)}/.{base_name(location)}.{secrets.token_hex(6)}"
        temporary = f"{hidden}.tmp"
        try:
            write(self._path(temporary))
            if self._overwrites:
                self._fs.mv(self._path(temporary), self._path(location), overwrite=True)
            elif self.exists(location):
                self._exchange(temporary, location, f"{hidden}.old")
            else:
                self._rename(temporary, location)
        except BaseException:
            with suppress(Exception):
                self._fs.rm_file(self._path(temporary))
            raise

    def _exchange(self, new: str, location: str, aside: str) -> None:
        """Replace a file where a rename cannot; after an error, try to put the old file back."""
        try:
            self._rename(location, aside)
            self._rename(new, location)
        except BaseException:
            with suppress(Exception):
                self._rename(aside, location)
            raise
        with suppress(Exception):
            self._fs.rm_file(self._path(aside))

    def _rename(self, old: str, new: str) -> None:
        """Rename a file to a name that is free (where it is not, WebHDFS silently does nothing)."""
        self._fs.mv(self._path(old), self._path(new))
        if self.exists(old):
            raise OSError(errno.EIO, f"the storage did not rename {old}")

    def make_directory(self, location: str) -> None:
        """Create a directory and its parents, if the store has directories."""
        if not self.flat:
            with refused("create directory", location):
                self._fs.makedirs(self._path(location), exist_ok=True)

    def is_same(self, other: RemoteStore) -> bool:
        """Return whether both are one store, with one endpoint and one identity.

        Two S3 buckets may have different endpoints or identities, from the section ``flinkish`` of
        fsspec's configuration (:mod:`.stores`). S3 cannot copy between such buckets.
        """
        one, two = self._fs, other._fs
        return one is two or (type(one) is type(two) and one.storage_options == two.storage_options)

    def copy_within(
        self,
        source: str,
        target: str,
        stamp: str | None,
        size: int | None,
        hasher: Hasher,
    ) -> tuple[int, str | None]:
        """Copy a file inside the store and return its size, and its digest if known.

        S3 copies on the server; for other stores the bytes pass through this process. ``size`` is
        the listed size that belongs to ``stamp``; with both, no request for them is needed. Raises
        FileNotFoundError if the source no longer exists, Replaced if it does not have ``stamp``.
        """
        with refused("copy to", target):
            if self._s3 is not None:
                copying = (self._path(source), self._path(target), stamp, size)
                (copied,) = self._s3.copy_all([copying])
                if isinstance(copied, BaseException):
                    raise copied
                return copied
            return self._stream(source, target, stamp, hasher), digest_of(hasher)

    def copy_all(
        self, copies: Sequence[tuple[str, str, str | None, int | None]]
    ) -> list[tuple[int, str | None] | FileNotFoundError | Replaced]:
        """Copy several files, given as (source, target, stamp, size), concurrently. Only on S3.

        Returns :meth:`copy_within`'s result for each; the exception for a source gone or replaced.
        """
        assert self._s3 is not None, "only S3 copies"
        results: list[tuple[int, str | None] | FileNotFoundError | Replaced] = []
        calls = [(self._path(s), self._path(t), stamp, size) for s, t, stamp, size in copies]
        for (_, target, _, _), copied in zip(copies, self._s3.copy_all(calls), strict=True):
            if isinstance(copied, tuple | FileNotFoundError | Replaced):
                results.append(copied)
            else:
                raise remote_failure("copy to", target, copied) from copied
        return results

    def receive_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write several small files, given as (location, content), concurrently. Only on S3."""
        assert self._s3 is not None, "only S3 has such files"
        with _room.taken(2 * sum(len(data) for _, data in files)):
            errors = self._s3.put_all([(self._path(target), data) for target, data in files])
        for (target, _), error in zip(files, errors, strict=True):
            if error is not None:
                raise remote_failure("write", target, error) from error

    def _stream(self, source: str, target: str, stamp: str | None, hasher: Hasher) -> int:
        """Copy through this process, as the store's own copy is no better and has no digest."""
        self.check_stamp(source, stamp)
        size = 0
        with (
            _room.taken(10 * _PART),
            self.open_file(source) as reader,
            self._new_file(target, _PART) as writer,
        ):
            while block := reader.read(_BLOCK):
                hasher.update(block)
                size += len(block)
                writer.write(block)
        self.check_stamp(source, stamp)
        return size

    def check_stamp(self, location: str, stamp: str | None) -> None:
        """Raise Replaced if the file does not have ``stamp`` (None: any file is accepted)."""
        if stamp is not None and self.entry(location).stamp() != stamp:
            raise Replaced(f"{location} was replaced")

    def receive(self, target: str, reader: IO[bytes], size: int, hasher: Hasher) -> int:
        """Write the content of ``reader``, about ``size`` bytes; return its size."""
        written = 0
        with refused("write", target):
            if size <= SMALL:
                with _room.taken(2 * size):
                    data = reader.read()
                    hasher.update(data)
                    self._fs.pipe_file(self._path(target), data)
                return len(data)
            part = max(_PART, size // _PARTS)
            # To buffer, split, sign and send a part takes many times its size in memory
            # (measured).
            with _room.taken(10 * part), self._new_file(target, part) as writer:
                while block := reader.read(_BLOCK):
                    hasher.update(block)
                    written += len(block)
                    writer.write(block)
        return written

    def send(
        self, source: str, writer: IO[bytes], stamp: str | None, hasher: Hasher | None = None
    ) -> int:
        """Write the bytes of a file to ``writer`` (and to ``hasher``); return its size.

        Raises FileNotFoundError if the file no longer exists, Replaced if it does not have
        ``stamp``, and OSError if ``writer`` fails.
        """
        size = 0
        with closing(self._blocks(source)) as blocks:
            for block in blocks:
                if hasher is not None:
                    hasher.update(block)
                size += len(block)
                writer.write(block)
        self.check_stamp(source, stamp)
        return size

    def _blocks(self, location: str) -> Generator[bytes, None, None]:
        with (
            refused("read", location),
            _room.taken(3 * _PART),
            self._open(location, "rb", _PART) as reader,
        ):
            while block := reader.read(_BLOCK):
                yield block

    def delete_file(self, location: str) -> bool:
        """Delete one file; return False if it did not exist (S3 does not report this: True)."""
        with refused("remove", location):
            try:
                if not self.flat and not self.exists(location):
                    return False
                self._fs.rm_file(self._path(location))
            except FileNotFoundError:
                return False
        return True

    def delete_files(self, locations: Iterable[str]) -> None:
        """Delete many files, a thousand per request on S3; ignore those that do not exist."""
        if self._s3 is None:
            for _ in requests_in_flight(self.delete_file, locations):
                pass
            return
        batch: list[str] = []
        for location in locations:
            # Keep a trailing slash: an object with it is a different object.
            batch.append(self._path(location) + ("/" if location.endswith("/") else ""))
            if len(batch) == s3.DELETE_BATCH:
                with refused("remove", location):
                    self._s3.delete(batch)
                batch = []
        if batch:
            with refused("remove", batch[0]):
                self._s3.delete(batch)

    def delete_directory(self, location: str) -> bool:
        """Delete a directory if it is empty; return whether this call deleted it.

        Returns False for flat stores, where only an object that marks a directory is deleted.
        """
        path = self._path(location)
        with refused("remove", location), suppress(FileNotFoundError):
            if self.flat:
                # Hadoop creates empty objects as markers of directories.
                self._fs.rm_file(path + "/")
            elif self.is_directory(location) and not self._fs.ls(path, detail=False):
                self._remove_directory(path)
                return True
        return False

    def _remove_directory(self, path: str) -> None:
        """Remove one empty directory; not every store has its own call for this (WebHDFS)."""
        if self._recursive:
            self._fs.rm(path, recursive=False)
        else:
            self._fs.rmdir(path)

    def delete_tree(self, root: str, name: str, tell: Callable[[str], object] | None) -> bool:
        """Delete the directory ``name`` below ``root`` with its content; True when nothing is left.

        Names are taken literally. Libraries that would expand ``*`` or ``[`` in names as patterns
        get one name at a time.
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
            gone = not self.exists(location)
        if tell is not None:
            for each in names:
                tell(each)
        return gone

    def find_all(self, root: str, name: str) -> Iterator[str]:
        """Yield all entries at or below ``name``, also hidden ones, as names relative to ``root``.

        A directory follows its content and ends with a slash. Flat stores have no directories.
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

    def has_sizes(self, location: str, sizes: Mapping[str, int]) -> bool:
        """Return whether a compiled client finds files of these sizes, by name, in a directory."""
        if self._s3 is None:
            return False
        there = self._s3.sizes(self._path(location))
        return there is not None and sizes.items() <= there.items()

    def all_names(self, location: str) -> list[str] | None:
        """Return all names in a directory, also hidden ones; None if absent, or on flat stores."""
        if self.flat:
            return None
        with refused("list", location):
            try:
                entries = self._fs.ls(self._path(location), detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return [str(each).rstrip("/").rpartition("/")[2] for each in entries]

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
            # A link (sftp) is neither a file nor a directory: it is not followed.
            yield from self._walk(f"{path}/{below}", f"{name}/{below}", info["type"] == "directory")
        yield f"{name}/"
