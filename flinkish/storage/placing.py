"""Transfers of files between locations, by the cheapest available method."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, cast

from flinkish.storage import deletion, local
from flinkish.storage.concurrency import connections
from flinkish.storage.errors import ReadFile, Replaced, storage_error
from flinkish.storage.hashing import Hasher, digest_of
from flinkish.storage.locations import is_local, scheme_of, split

if TYPE_CHECKING:
    from flinkish.storage.remote import RemoteStore

#: Maximum bytes of a file that is buffered in memory between two stores; a larger one goes to disk.
_SPOOLED = 16 << 20
#: Maximum number of requests that one thread has in flight, if the client supports it.
_BATCH = 16


@dataclass(frozen=True)
class PlacedFile:
    """A file that has been placed: its size in bytes, whether it is a link, its digest if known.

    ``digest`` has one of the forms of :mod:`flinkish.savepoint.format.digests`. It is known when
    the bytes passed through this process to or from a remote store, or when the store reports it.
    """

    size: int
    linked: bool
    digest: str | None = None


def _store(location: str) -> RemoteStore:
    from flinkish.storage.stores import store_of

    return store_of(location)


def place(
    source: str,
    target: str,
    *,
    stamp: str | None = None,
    size: int | None = None,
    link: bool = True,
    hasher: Hasher | None = None,
) -> PlacedFile:
    """Place a file at ``target`` by the cheapest available method; replace an existing target.

    A local file is linked to a local ``target`` if ``link`` is set and the file system permits
    (:func:`.local.place`); otherwise it is copied. S3 itself copies within one store. In all other
    cases the bytes pass through this process, and ``hasher`` gets them (default: SHA-256).
    ``stamp`` and ``size`` are from the source's listing; without a stamp any content is accepted;
    the size saves a request. Raises FileNotFoundError if the source, or the directory of a linked
    target, no longer exists; Replaced if the source no longer has ``stamp``.
    """
    if is_local(source) and is_local(target):
        if link:
            return PlacedFile(*local.place(source, target, stamp))
        return PlacedFile(local.copy(source, target, stamp), linked=False)
    hasher = hasher or hashlib.sha256()
    if is_local(source):
        return _upload(source, target, stamp, hasher)
    if is_local(target):
        return _download(source, target, stamp, hasher)
    if _store(source).is_same(_store(target)):
        size, digest = _store(source).copy_within(source, target, stamp, size, hasher)
        return PlacedFile(size, False, digest)
    with tempfile.SpooledTemporaryFile(_SPOOLED) as file:
        try:
            _store(source).send(source, file, stamp)
        except (FileNotFoundError, Replaced):
            raise
        except OSError as error:
            raise storage_error("write", tempfile.gettempdir(), error) from error
        size = file.tell()
        file.seek(0)
        _store(target).receive(target, file, size, hasher)
        return PlacedFile(size, False, digest_of(hasher))


@dataclass(frozen=True, slots=True)
class Placing:
    """A file to place, as plain data: the arguments of :func:`place`.

    ``digest`` is the recorded digest of the file's bytes, if there is one.
    """

    source: str
    target: str
    stamp: str | None
    size: int
    digest: str | None = None


def batch_size(source: str, target: str) -> int:
    """Return how many files to pass to :func:`place_all` at once; 1 if batching does not help."""
    if is_local(target) or scheme_of(target) != "s3":
        return 1
    if not is_local(source) and not _store(source).is_same(_store(target)):
        return 1
    return max(1, min(_BATCH, connections() // 4))


def _sha256(_: Placing) -> Hasher:
    return hashlib.sha256()


def place_all(
    files: Sequence[Placing], hasher_of: Callable[[Placing], Hasher] = _sha256
) -> list[PlacedFile | FileNotFoundError | Replaced]:
    """Place several files, all from one storage and all to one, with concurrent requests to S3.

    One thread per request would cost more than the request. Files that pass through this process
    are in memory at the same time, so pass small ones. Returns the result for each file, or the
    exception if the source is gone or was replaced; other failures are raised. ``hasher_of``
    returns the ``hasher`` of :func:`place` for each file.
    """
    if len(files) > 1 and batch_size(files[0].source, files[0].target) > 1:
        store = _store(files[0].target)
        if not is_local(files[0].source):
            copies = [(f.source, f.target, f.stamp, f.size) for f in files]
            return [
                PlacedFile(copied[0], False, copied[1]) if isinstance(copied, tuple) else copied
                for copied in store.copy_all(copies)
            ]
        return _upload_all(files, store, hasher_of)
    return [_placed_or_lost(file, hasher_of(file)) for file in files]


def _placed_or_lost(file: Placing, hasher: Hasher) -> PlacedFile | FileNotFoundError | Replaced:
    try:
        return place(file.source, file.target, stamp=file.stamp, size=file.size, hasher=hasher)
    except (FileNotFoundError, Replaced) as lost:
        return lost


def _upload_all(
    files: Sequence[Placing], store: RemoteStore, hasher_of: Callable[[Placing], Hasher]
) -> list[PlacedFile | FileNotFoundError | Replaced]:
    results: list[PlacedFile | FileNotFoundError | Replaced] = []
    contents: list[tuple[str, bytes]] = []
    for file in files:
        try:
            data = local.read_stamped(file.source, file.stamp)
        except (FileNotFoundError, Replaced) as lost:
            results.append(lost)
            continue
        contents.append((file.target, data))
        hasher = hasher_of(file)
        hasher.update(data)
        results.append(PlacedFile(len(data), False, digest_of(hasher)))
    store.receive_all(contents)
    return results


def _upload(source: str, target: str, stamp: str | None, hasher: Hasher) -> PlacedFile:
    with local.open_file(source) as reader:
        size = os.fstat(reader.fileno()).st_size
        content = cast("IO[bytes]", ReadFile(reader, source))
        written = _store(target).receive(target, content, size, hasher)
    local.check_stamp(source, stamp)
    return PlacedFile(written, False, digest_of(hasher))


def _download(source: str, target: str, stamp: str | None, hasher: Hasher) -> PlacedFile:
    try:
        with open(target, "wb") as writer:
            size = _store(source).send(source, writer, stamp, hasher)
            writer.flush()
            os.fsync(writer.fileno())
    except OSError as error:
        if isinstance(error, FileNotFoundError | Replaced) and os.path.exists(target):
            deletion.remove_file(*split(target))
            raise
        raise storage_error("write", target, error) from error
    return PlacedFile(size, False, digest_of(hasher))
