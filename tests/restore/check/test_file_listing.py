"""The files that Spark's file source would find below a path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkish.restore.check import file_listing
from flinkish.restore.check.file_listing import TooManyDirectories, files_below


@pytest.fixture
def root(tmp_path: Path) -> str:
    for name in ("a.json", "b.csv", "_hidden", "c._COPYING_", "day=1/d", "sub/e.json", "sub/f/g"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        os.utime(path, (1.5, 1.5))
    return str(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "deep", "found"),
    [
        ("", False, ["a.json", "b.csv", "day=1/d"]),
        ("", True, ["a.json", "b.csv", "day=1/d", "sub/e.json", "sub/f/g"]),
        ("/*", False, ["a.json", "b.csv", "day=1/d", "sub/e.json"]),
        ("*.json", False, ["a.json"]),
        ("/{sub,day*}/*.json", False, ["sub/e.json"]),
        ("[ab].{json,csv}", False, ["a.json", "b.csv"]),
        ("[^b].*", False, ["a.json"]),
        ("sub/?", False, ["sub/f/g"]),
    ],
)
def test_what_spark_finds(root: str, pattern: str, deep: bool, found: list[str]) -> None:
    listed = dict(files_below(root, pattern, deep=deep))
    assert sorted(listed) == found
    assert {entry.modified() for entry in listed.values()} == {1.5}


def test_more_directories_than_are_listed_are_not_known(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_listing, "MAX_DIRECTORIES", 2)
    with pytest.raises(TooManyDirectories):
        list(files_below(root, "", deep=True))
