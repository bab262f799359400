from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkish import storage
from flinkish import storage as files
from flinkish.errors import FlinkishError, StorageError, UsageError


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
        ("//a//b", "/a/b"),
        ("file:////a", "/a"),
    ],
)
def test_local_path(location: str, expected: str) -> None:
    assert files.locate(location) == expected


def test_relative_paths_and_colons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert files.locate("x/y") == str(tmp_path / "x/y")
    assert files.locate("./a:b") == str(tmp_path / "a:b")
    assert files.locate("10:30") == str(tmp_path / "10:30")


def test_places_are_the_same_behind_links_and_in_other_spellings(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert storage.same_place(f"file:{tmp_path}/link/x", str(tmp_path / "x"))
    assert storage.same_place("s3a://bucket/x/", "s3://bucket/x")
    assert storage.same_place("other:x", "other:x")
    assert not storage.same_place("other:x", str(tmp_path / "x"))


@pytest.mark.parametrize(
    ("text", "expected", "for_spark"),
    [
        ("s3://bucket/x/", "s3://bucket/x", "s3a://bucket/x"),
        ("s3a://bucket//x", "s3://bucket/x", "s3a://bucket/x"),
        ("S3N://bucket", "s3://bucket", "s3a://bucket"),
        ("hdfs://nn:8020/x/./y", "hdfs://nn:8020/x/y", "hdfs://nn:8020/x/y"),
        ("webhdfs://user@nn:9870/x", "webhdfs://user@nn:9870/x", "webhdfs://user@nn:9870/x"),
        ("gs://b/c d%20e", "gs://b/c d%20e", "gs://b/c d%20e"),
    ],
)
def test_urls(text: str, expected: str, for_spark: str) -> None:
    assert storage.locate(text) == expected
    assert storage.locate(expected) == expected
    assert storage.for_spark(expected) == for_spark
    assert not storage.is_local(expected)


@pytest.mark.parametrize("text", ["s3://KEY:verysecret@bucket/x", "s3a://verysecret@bucket/x"])
def test_credentials_in_a_url_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(StorageError) as caught:
        storage.locate(text)
    assert "verysecret" not in str(caught.value.to_record())
    assert "environment" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3:/KEY:verysecret@bucket/x", "s3:******@bucket/x names no bucket or host"),
        ("s3:KEY:verysecret@bucket/x", "s3:******@bucket/x is a s3 URL without a slash"),
        ("file://me:verysecret@nas/x", "file:******@nas/x names the host nas"),
    ],
)
def test_a_url_that_is_refused_shows_no_password(text: str, shown: str) -> None:
    with pytest.raises(FlinkishError) as caught:
        storage.locate(text)
    assert caught.value.message.startswith(shown)
    assert "verysecret" not in str(caught.value.to_record())


@pytest.mark.parametrize("text", ["s3:///x", "hdfs:/x", "s3://b/../c", "hdfs://nn/a?b"])
def test_urls_that_say_no_place_are_refused(text: str) -> None:
    with pytest.raises(StorageError):
        storage.locate(text)


@pytest.mark.parametrize("text", ["", " ", "file:sp", "FILE:sp", "s3a:b/x", "hdfs:x"])
def test_what_is_neither_path_nor_url_is_a_mistake(text: str) -> None:
    with pytest.raises(UsageError):
        storage.locate(text)


def test_what_is_printed_is_accepted() -> None:
    for text in ("//a/b", "file:////a/b", "/a b"):
        location = storage.locate(text)
        assert storage.locate(storage.to_uri(location)) == location


def test_parts_of_locations() -> None:
    assert storage.join("s3://b/x", "y/z") == "s3://b/x/y/z"
    assert storage.parent("s3://b/x/y") == "s3://b/x"
    assert storage.parent("s3://b") == "s3://b"
    assert storage.base_name("s3://b/x/y") == "y"
    assert storage.base_name("s3://b") == ""
    assert storage.parent("/a/b") == "/a"
    assert storage.base_name("/a/b") == "b"
    assert storage.to_uri("s3://b/x") == "s3://b/x"
    assert storage.scheme_of("/a") == "file"


def test_other_hosts_are_refused() -> None:
    with pytest.raises(StorageError, match="names the host nas"):
        files.locate("file://nas/x")


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
    everything = sorted(files.list_names(str(tmp_path), hidden=True))
    assert everything == [".1.delta.crc", ".2.delta.uuid.tmp", "1.delta", "d"]
    assert [name for name, _ in files.walk_files(str(tmp_path))] == ["1.delta", "d/x"]


def test_absent_directories_are_empty(tmp_path: Path) -> None:
    assert files.list_directory(str(tmp_path / "no")).files == {}
    assert files.list_names(str(tmp_path / "no")) == []
    assert list(files.walk_files(str(tmp_path / "no"))) == []


def test_a_gone_file_is_told_apart_from_a_refused_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.read_bytes(str(tmp_path / "no"))
    with pytest.raises(StorageError) as caught:
        files.read_bytes(str(tmp_path / ("x" * 300)))
    assert str(tmp_path) in caught.value.message
    assert caught.value.data["errno"] is not None
    with pytest.raises(StorageError):
        files.list_directory(os.path.join(str(tmp_path), "x" * 300))
