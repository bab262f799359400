"""Paths that are mapped to other places: pure."""

from __future__ import annotations

import pytest

from flinkish.connectors.path_map import PathMap, overlapping

PATHS = PathMap(
    (
        ("/data/in put", "s3://new/in"),
        ("s3://old/a", "/mnt/a b"),
        ("hdfs://one:8020", "hdfs://two:8020/from one"),
        ("s3://old/k=1", "s3://new/k=1"),
    )
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("file:///data/in%20put/x%20y/1.json", "s3a://new/in/x%20y/1.json"),
        ("file:/data/in%20put/1.json", "s3a://new/in/1.json"),
        ("file:///data/in%20putting/1.json", None),
        ("file:///data/1.json", None),
        ("s3a://old/a/b.json", "file:///mnt/a%20b/b.json"),
        ("s3n://old/k=1/b.json", "s3n://new/k=1/b.json"),  # the scheme of the same program
        ("s3a://older/a/b.json", None),
        ("hdfs://one:8020/in/%C3%BC.json", "hdfs://two:8020/from%20one/in/%C3%BC.json"),
        ("hdfs://one:8021/in/x.json", None),
    ],
)
def test_files_in_a_log(old: str, new: str | None) -> None:
    assert PATHS.url(old) == new


def test_what_is_read_and_written() -> None:
    assert PATHS.signature("file[/data/in put/*.json]") == "file[s3a://new/in/*.json]"
    assert PATHS.signature("delta[s3a://old/a]") == "delta[/mnt/a b]"
    assert PATHS.signature("kafka[subscribe=a]") is None
    assert PATHS.signature("rate") is None
    assert PATHS.path("file:///data/in put/") == "s3a://new/in"
    assert PATHS.path("") is None


def test_no_file_is_mapped_twice() -> None:
    swapped = PathMap((("/a", "/b"), ("/b", "/a")))
    assert (swapped.url("file:///a/1"), swapped.url("file:///b/1")) == (
        "file:///b/1",
        "file:///a/1",
    )


def test_what_is_at_its_new_place_stays() -> None:
    deeper = PathMap((("/data", "/data/new"), ("s3://old/a", "/b c")))
    once = deeper.url_from_outside("file:///data/1", "/data/new")
    assert once == "file:///data/new/1"
    assert deeper.url_from_outside(once, "file:/data/new") is None
    assert deeper.url_from_outside("file:///b%20c/1", "file:/b c") is None
    assert deeper.leads_to("file:///data/new/x")
    assert not deeper.leads_to("/data/newer")


@pytest.mark.parametrize("way", ["/../victim", "/x/../../victim", "/..", "/x/./../.."])
def test_what_leads_out_of_a_place_is_not_in_it(way: str) -> None:
    paths = PathMap((("/old", "/new"),))
    assert paths.path(f"/old{way}") is None
    assert paths.signature(f"file[/old{way}]") is None
    assert paths.url(f"file:///old{way}/1") is None
    assert not paths.leads_to(f"/new{way}")
    assert not paths.leads_to(f"file:///new{way}")


def test_a_path_with_dots_that_stays_in_its_place_is_mapped() -> None:
    paths = PathMap((("/old", "/new"),))
    assert paths.path("/old/x/../..y") == "/new/x/../..y"
    assert paths.leads_to("/new/x/../..y")


@pytest.mark.parametrize(
    ("pairs", "overlap"),
    [
        ((("/a", "/x"), ("/a/b", "/y")), ("/a", "/a/b")),
        ((("/a", "/x"), ("/a", "/y")), ("/a", "/a")),
        ((("/a", "/x/y"), ("/b", "/x")), ("/x", "/x/y")),
        ((("s3://b/a", "/x"), ("s3a://b/a/c", "/y")), ("s3://b/a", "s3a://b/a/c")),
        ((("/a", "/x"), ("/ab", "/xy")), None),
        ((("/a", "/b"), ("/b", "/a")), None),
    ],
)
def test_overlaps(pairs: tuple[tuple[str, str], ...], overlap: tuple[str, str] | None) -> None:
    found = [tuple(sorted(each)) for each in overlapping(pairs)]
    assert found == ([] if overlap is None else [overlap])
