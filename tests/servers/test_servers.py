"""Every server holds what fsspec puts there; fsspec is configured by the environment alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import fsspec
import pytest

from tests.support.servers.hdfs import HdfsServer
from tests.support.servers.s3 import S3Server

pytestmark = pytest.mark.servers

CONTENT = bytes(range(256)) * 4096  # 1 MiB


def put_list_read_move_delete(url: str) -> None:
    """The round of a file below a URL that exists."""
    filesystem, root = fsspec.core.url_to_fs(url)
    directory = f"{root.rstrip('/')}/dir"
    filesystem.makedirs(directory, exist_ok=True)
    path, moved = f"{directory}/a.bin", f"{directory}/b.bin"
    filesystem.pipe_file(path, CONTENT)
    assert listing(filesystem, directory) == {path: len(CONTENT)}
    assert filesystem.cat_file(path) == CONTENT
    assert filesystem.cat_file(path, start=1000, end=1010) == CONTENT[1000:1010]
    filesystem.mv(path, moved)
    assert listing(filesystem, directory) == {moved: len(CONTENT)}
    filesystem.rm_file(moved)
    filesystem.invalidate_cache()
    assert not filesystem.exists(moved)


def listing(filesystem: fsspec.AbstractFileSystem, directory: str) -> dict[str, int]:
    """The sizes of what the store has in a directory now, not of what the client remembers."""
    filesystem.invalidate_cache()
    return {entry["name"]: entry["size"] for entry in filesystem.ls(directory, detail=True)}


def test_moto_s3(moto_s3: S3Server) -> None:
    bucket = moto_s3.create_bucket("round")
    with moto_s3.configured():
        put_list_read_move_delete(bucket)
        put_list_read_move_delete(bucket.replace("s3:", "s3a:"))


@pytest.mark.deep
def test_second_s3(second_s3: S3Server) -> None:
    bucket = second_s3.create_bucket("round")
    with second_s3.configured():
        put_list_read_move_delete(bucket)


@pytest.mark.parametrize("server", ["moto_s3", pytest.param("second_s3", marks=pytest.mark.deep)])
def test_buckets_may_exist(server: str, request: pytest.FixtureRequest) -> None:
    s3 = request.getfixturevalue(server)
    assert s3.create_bucket("twice") == s3.create_bucket("twice") == "s3://twice"


def test_environment_is_enough_for_a_child(moto_s3: S3Server) -> None:
    bucket = moto_s3.create_bucket("child")
    source = f"import fsspec; fsspec.open({bucket + '/x'!r}, 'wb').open().close()"
    environment = {**os.environ, **moto_s3.environment()}
    subprocess.run([sys.executable, "-c", source], env=environment, check=True, timeout=60)
    with moto_s3.configured():
        assert fsspec.filesystem("s3").ls("child") == ["child/x"]


@pytest.mark.deep
def test_slow_s3(moto_s3: S3Server, slow_s3: Callable[..., S3Server]) -> None:
    """Requests at once are late once; one after the other, each is late."""
    latency = 0.2
    slow = slow_s3(latency)
    slow.create_bucket("slow")
    with slow.configured():
        filesystem = fsspec.filesystem("s3")
        many = {f"slow/{number}": b"x" for number in range(8)}
        filesystem.pipe_file("slow/first", b"x")  # opens the connection
        began = time.monotonic()
        filesystem.pipe(many)
        together = time.monotonic() - began
        began = time.monotonic()
        for path, content in many.items():
            filesystem.pipe_file(path, content)
        one_by_one = time.monotonic() - began
    assert latency <= together < one_by_one
    assert one_by_one >= len(many) * latency


@pytest.mark.deep
def test_hdfs(hdfs: HdfsServer) -> None:
    put_list_read_move_delete(f"{hdfs.url}/round")


@pytest.mark.deep
def test_webhdfs(hdfs: HdfsServer) -> None:
    put_list_read_move_delete(f"{hdfs.webhdfs_url}/webround")
