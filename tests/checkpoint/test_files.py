from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkish.checkpoint import files
from flinkish.errors import StorageError


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a/b", "/a/b"),
        ("/a/../b/", "/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("FILE:///a/b", "/a/b"),
        ("file://localhost/a", "/a"),
        ("file:/a b%20c", "/a b%20c"),
        ("/a%20b", "/a%20b"),
    ],
)
def test_local_path(location: str, expected: str) -> None:
    assert files.local_path(location) == expected


def test_relative_paths_and_colons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert files.local_path("x/y") == str(tmp_path / "x/y")
    assert files.local_path("./a:b") == str(tmp_path / "a:b")
    assert files.local_path("10:30") == str(tmp_path / "10:30")


@pytest.mark.parametrize("location", ["s3://bucket/x", "hdfs://nn:8020/x", "s3a://b", "gs://b/c"])
def test_other_schemes_are_refused(location: str) -> None:
    with pytest.raises(StorageError) as caught:
        files.local_path(location)
    assert location in caught.value.message
    assert "only local paths" in caught.value.hint


def test_other_hosts_are_refused() -> None:
    with pytest.raises(StorageError, match="names the host nas"):
        files.local_path("file://nas/x")


def test_listing_leaves_hidden_files_out(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_bytes(b"123")
    (tmp_path / "1.delta").write_bytes(b"12345")
    (tmp_path / ".1.delta.crc").write_bytes(b"")
    (tmp_path / ".2.delta.uuid.tmp").write_bytes(b"")
    listing = files.list_directory(str(tmp_path))
    assert list(listing.files) == ["1.delta"]
    assert listing.directories == ("d",)
    assert listing.size("1.delta") == 5
    assert sorted(files.list_names(str(tmp_path))) == ["1.delta", "d"]
    assert [name for name, _ in files.walk_files(str(tmp_path))] == ["1.delta", "d/x"]


def test_absent_directories_are_empty(tmp_path: Path) -> None:
    assert files.list_directory(str(tmp_path / "no")).files == {}
    assert files.list_names(str(tmp_path / "no")) == []
    assert list(files.walk_files(str(tmp_path / "no"))) == []


def test_a_gone_file_is_told_apart_from_a_refused_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.read_bytes(str(tmp_path / "no"))
    with pytest.raises(StorageError) as caught:
        files.read_bytes(str(tmp_path))  # a directory
    assert str(tmp_path) in caught.value.message
    assert caught.value.data["errno"] is not None
    with pytest.raises(StorageError):
        files.list_directory(os.path.join(str(tmp_path), "x" * 300))
