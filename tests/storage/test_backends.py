"""The contract, on every storage: local, memory, two S3 servers, Google, Azure, HDFS twice.

Local, memory and moto's S3 show it in the fast tier; the Java servers are deep. What no server does
on request (to fail, to be cut off) is shown by file systems of fsspec that do it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractBufferedFile

from flinkish import storage
from flinkish.errors import Corrupt, StorageError
from flinkish.storage import s3, stores
from flinkish.storage.remote import SMALL, RemoteStore
from flinkish.storage.stores import forget_stores
from tests.support.servers.clouds import AzureServer, GcsServer
from tests.support.servers.hdfs import HdfsServer
from tests.support.servers.s3 import S3Server
from tests.support.storage_contract import StorageContract


class TestLocal(StorageContract):
    many = 100  # each is brought to the disk

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "root")


class TestMemory(StorageContract):
    @pytest.fixture
    def root(self) -> Iterator[str]:
        yield (location := f"memory://{uuid.uuid4().hex}/root")
        storage.remove_tree(*storage.split(location))


class _S3(StorageContract):
    @pytest.fixture
    def server(self) -> S3Server:
        raise NotImplementedError

    @pytest.fixture
    def root(self, server: S3Server) -> Iterator[str]:
        with server.configured():
            yield f"{server.create_bucket('contract')}/{uuid.uuid4().hex}"


@pytest.mark.servers
class TestMoto(_S3):
    @pytest.fixture
    def server(self, moto_s3: S3Server) -> S3Server:
        return moto_s3


@pytest.mark.servers
@pytest.mark.deep
class TestS3Proxy(_S3):
    @pytest.fixture
    def server(self, second_s3: S3Server) -> S3Server:
        return second_s3


# Their clients give aiohttp the parts of a large file as bytes.
_LARGE = pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")


@_LARGE
@pytest.mark.servers
@pytest.mark.deep
class TestGcs(StorageContract):
    many = 150

    @pytest.fixture
    def root(self, gcs_server: GcsServer) -> Iterator[str]:
        with gcs_server.configured():
            yield f"{gcs_server.create_bucket('contract')}/{uuid.uuid4().hex}"


@_LARGE
@pytest.mark.servers
@pytest.mark.deep
class TestAzure(StorageContract):
    many = 150

    @pytest.fixture
    def root(self, azure_server: AzureServer) -> Iterator[str]:
        with azure_server.configured():
            yield f"{azure_server.create_container('contract')}/{uuid.uuid4().hex}"


@pytest.mark.servers
@pytest.mark.deep
class TestHdfs(StorageContract):
    many = 150

    @pytest.fixture
    def root(self, hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> str:
        for name, value in hdfs.environment().items():
            monkeypatch.setenv(name, value)
        forget_stores()
        return f"{hdfs.url}/{uuid.uuid4().hex}"


@pytest.mark.servers
@pytest.mark.deep
class TestWebHdfs(StorageContract):
    many = 50

    @pytest.fixture
    def root(self, hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> str:
        for name, value in hdfs.environment().items():
            monkeypatch.setenv(name, value)
        forget_stores()
        return f"{hdfs.webhdfs_url}/{uuid.uuid4().hex}"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_that_of_the_target() -> None:
    source = f"memory://{uuid.uuid4().hex}/f"
    storage.write_bytes(source, b"x" * 1_000_000)
    with pytest.raises(StorageError, match="disk full: cannot write /dev/full"):
        storage.place(source, "/dev/full")
    storage.remove_file(*storage.split(source))


class _Unreachable(AbstractFileSystem):  # type: ignore[misc]  # it is untyped
    """A file system whose server does not answer."""

    def info(self, path: str, **_: Any) -> Any:
        raise OSError(errno.EIO, "no answer", path)

    def rm(self, path: str, **_: Any) -> None:
        """Accept the request."""

    def rm_file(self, path: str) -> None:
        raise OSError(errno.EACCES, "access denied", path)


def test_what_a_store_refuses_to_remove_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("webhdfs", "gs"):
        store = RemoteStore(_Unreachable(), scheme)
        monkeypatch.setitem(stores._stores, (scheme, "host"), store)
        removed: list[str] = []
        with pytest.raises(StorageError):
            storage.remove_files(f"{scheme}://host/savepoint", ["a", "b"], removed.append)
        assert removed == []


@pytest.mark.parametrize(
    ("scheme", "ask"),
    [
        ("webhdfs", lambda store, path: store.exists(path)),
        ("webhdfs", lambda store, path: store.is_directory(path)),
        ("gs", lambda store, path: store.is_directory(path)),
        ("abfss", lambda store, path: store.is_directory(path)),
        ("webhdfs", lambda store, path: store.delete_file(path)),
        ("webhdfs", lambda store, path: store.delete_directory(path)),
        ("webhdfs", lambda store, path: store.delete_tree(*storage.split(path), None)),
    ],
)
def test_a_store_that_does_not_answer_has_not_said_that_nothing_is_there(
    scheme: str, ask: Callable[[RemoteStore, str], object]
) -> None:
    with pytest.raises(StorageError, match="no answer"):
        ask(RemoteStore(_Unreachable(), scheme), f"{scheme}://host:1/savepoint")


def test_a_copy_whose_source_cannot_be_read_names_the_source() -> None:
    copy = ("webhdfs://host:1/from/a", "webhdfs://host:1/to/a", None, None, hashlib.sha256())
    with pytest.raises(StorageError, match="cannot read webhdfs://host:1/from/a: no answer"):
        RemoteStore(_Unreachable(), "webhdfs").copy_within(*copy)


class _Endless(AbstractFileSystem):  # type: ignore[misc]  # it is untyped
    """A file system with one endless file."""

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        class File(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                assert size is not None
                assert size >= 0, "the whole file is asked for"
                return b"x" * size

        return File()


def test_no_more_is_read_below_a_root_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = RemoteStore(_Endless(), "webhdfs")
    monkeypatch.setitem(stores._stores, ("webhdfs", "endless:1"), store)
    with pytest.raises(Corrupt, match="too large: more than 1,000 bytes"):
        storage.read_below("webhdfs://endless:1/savepoints", "_locks/x", 1000)


class _Upload(AbstractBufferedFile):  # type: ignore[misc]  # it is untyped
    """An object that is written in parts, and there when the last one has come."""

    def _initiate_upload(self) -> None:
        self.parts = b""

    def _upload_chunk(self, final: bool = False) -> bool:
        self.parts += self.buffer.getvalue()
        if final:
            self.fs.objects[self.path] = self.parts
        return True

    def discard(self) -> None:
        self.fs.discarded.append(self.path)


class _Objects(AbstractFileSystem):  # type: ignore[misc]  # it is untyped
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self.discarded: list[str] = []

    def _open(self, path: str, mode: str = "rb", **blocks: Any) -> AbstractBufferedFile:
        return _Upload(self, path, mode, **blocks)


class _Interrupted(io.BytesIO):
    """A file whose reading ends with Ctrl-C."""

    def read(self, size: int | None = -1) -> bytes:
        block = super().read(size)
        if not block:
            raise KeyboardInterrupt
        return block


def test_an_upload_that_is_cut_off_puts_nothing_in_place() -> None:
    objects = _Objects()
    store = RemoteStore(objects, "gs")
    content = b"x" * (SMALL + 1)
    with pytest.raises(KeyboardInterrupt):
        store.receive("gs://b/_metadata", _Interrupted(content), len(content), hashlib.sha256())
    assert objects.objects == {}
    assert len(objects.discarded) == 1
    store.receive("gs://b/_metadata", io.BytesIO(content), len(content), hashlib.sha256())
    assert list(objects.objects.values()) == [content]


class _Directories(MemoryFileSystem):  # type: ignore[misc]  # it is untyped
    """A file system whose renames fail while ``broken`` is set, or do nothing, as WebHDFS's do."""

    cachable = False
    broken: Callable[[str], bool] | None = None
    is_silent = False

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        if self.broken is None or not self.broken(path2):
            self.store[path2] = self.store.pop(path1)
        elif not self.is_silent:
            raise OSError(errno.EIO, "connection lost")


@pytest.mark.parametrize("is_silent", [False, True], ids=["an error", "nothing is renamed"])
@pytest.mark.parametrize("target", ["aside", "in place"])
@pytest.mark.parametrize("put", ["write_atomically", "upload"])
def test_a_file_that_cannot_be_replaced_stays_and_nothing_is_left_beside_it(
    put: str, target: str, is_silent: bool, tmp_path: Path
) -> None:
    files = _Directories()
    store = RemoteStore(files, "webhdfs")
    (tmp_path / "new").write_bytes(b"new")

    def write() -> None:
        if put == "upload":
            store.upload(str(tmp_path / "new"), "memory://d/_metadata")
        else:
            store.write_atomically("memory://d/_metadata", b"new")

    store.write_bytes("memory://d/_metadata", b"old")
    once = iter([True])
    files.is_silent = is_silent
    files.broken = lambda path: (
        path.endswith("_metadata") == (target == "in place") and next(once, False)
    )
    with pytest.raises(StorageError, match="cannot write memory://d/_metadata"):
        write()
    assert {path: each.getvalue() for path, each in files.store.items()} == {"/d/_metadata": b"old"}
    files.broken = None
    write()
    assert {path: each.getvalue() for path, each in files.store.items()} == {"/d/_metadata": b"new"}


class _Reset(AbstractFileSystem):  # type: ignore[misc]  # it is untyped
    """A file system with a large file whose reading ends with an error of the library."""

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "type": "file", "size": SMALL + 1}

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        class File(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                raise ValueError("reset: https://me:secret@host/x")

        return File()


def test_an_error_in_the_middle_of_a_large_file_is_the_storage_s() -> None:
    file = RemoteStore(_Reset(), "webhdfs").open_file("webhdfs://host:1/zip")
    with file, pytest.raises(StorageError, match="cannot read webhdfs://host:1/zip") as caught:
        file.read(10)
    assert "secret" not in caught.value.message


class _Throttled:
    """An s3fs file system whose answers to bulk deletions are given; it records their keys."""

    def __init__(self, *answers: dict[str, str]) -> None:
        self.answers = [*answers]
        self.asked: list[list[str]] = []

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def call_s3(self, _: str, *, Bucket: str, Delete: Any) -> dict[str, Any]:
        self.asked.append([each["Key"] for each in Delete["Objects"]])
        answer = self.answers.pop(0)
        return {"Errors": [{"Key": k, "Code": code, "Message": "no"} for k, code in answer.items()]}


def test_objects_that_s3_was_too_busy_to_delete_are_deleted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(s3, "_PAUSE", 0)
    fs = _Throttled({"a": "SlowDown", "c": "InternalError"}, {"c": "SlowDown"}, {})
    s3.S3Calls(fs).delete(["b/a", "b/b", "b/c"])
    assert fs.asked == [["a", "b", "c"], ["a", "c"], ["c"]]
    for number, answers in (
        (errno.EIO, [{"a": "SlowDown"}] * 4),
        (errno.EIO, [{"a": "NoSuchVersion"}]),
        (errno.EACCES, [{"a": "SlowDown", "c": "AccessDenied"}]),
    ):
        fs = _Throttled(*answers)
        with pytest.raises(OSError, match=r"\w+: no") as caught:
            s3.S3Calls(fs).delete(["b/a", "b/b", "b/c"])
        assert caught.value.errno == number
        assert fs.answers == []
