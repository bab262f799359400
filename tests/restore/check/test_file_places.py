"""Where the files of a file source are, on checkpoints with its log."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.connectors.files.reading import Cleaned, FileReading
from flinkish.connectors.source_plan import FileMove
from flinkish.restore.check import file_places
from flinkish.restore.check.file_places import TooManyDirectories, file_reading, files_below
from flinkish.restore.materialize.source_logs import read_files, with_moved_files
from tests.restore.check.test_source_files import Saved, at
from tests.support.restore.query_builders import source


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    """Three files in batches 0, 3 and 4; the last is planned."""
    found = Saved(tmp_path)
    found.log("0", "2.compact", (found.file(0), 0))
    found.log("0", "3", (found.file(1), 3))
    found.log("0", "4", (found.file(2), 4))
    found.offsets(3, at(3))
    found.offsets(4, at(4))
    return found


def reading(saved: Saved, path: Path, pattern: str = "", **options: str) -> FileReading:
    place = source(f"file[{saved.input}]", offset=at(3))
    shown = f"{path}{pattern}"
    found = file_reading(saved.origin(), place, shown, path.as_uri(), options)
    assert found is not None
    return found


def test_files_below_the_path_stay_where_they_are(saved: Saved) -> None:
    assert reading(saved, saved.input) == FileReading(str(saved.input), files=3)
    # From above only a pattern, or recursiveFileLookup, reaches them.
    assert reading(saved, saved.root).too_deep
    assert not reading(saved, saved.root, "/*").too_deep
    assert not reading(saved, saved.root, recursivefilelookup="true").too_deep
    # Spark compares the beginnings of texts, but a directory's name is not one.
    assert reading(saved, saved.root / "in").outside == 3


def test_files_that_were_moved_are_found_at_their_place(saved: Saved) -> None:
    moved = saved.root / "elsewhere"
    saved.input.rename(moved)
    found = reading(saved, moved)
    move = FileMove(saved.input.as_uri(), moved.as_uri())
    counts = (found.outside, found.planned_outside, found.moved, found.planned_moved)
    assert (counts, found.move, found.known) == ((3, 1, 3, 1), move, True)
    (moved / "2.json").unlink()
    found = reading(saved, moved, "/*", filenameonly="TRUE")
    assert (found.moved, found.planned_moved, found.pattern, found.by_name) == (2, 0, True, True)


def test_a_file_that_was_read_in_both_places_was_not_moved(saved: Saved) -> None:
    old = saved.root / "old"
    old.mkdir()
    saved.log("0", "3", *(((old / f"{n}.json").as_uri(), 3) for n in (0, 7)))
    assert reading(saved, saved.input).moved == 0
    saved.file(7)
    assert reading(saved, saved.input).moved == 1


def test_the_files_that_spark_asks_for_are_those_of_the_newest_batch(saved: Saved) -> None:
    (saved.root / "checkpoint/offsets/4").unlink()
    elsewhere = saved.root / "elsewhere"
    for before, asked in ((at(2), 1), (at(3), 0), ("-", 2)):
        saved.offsets(2, before)
        assert reading(saved, elsewhere).asked_outside == asked


def test_another_kind_of_position_has_no_files(saved: Saved) -> None:
    saved.offsets(2, "4")
    saved.offsets(3, "5")
    saved.offsets(4, "6")
    assert (
        file_reading(saved.origin(), source("rate[]", offset="5"), "in", "file:///in", {}) is None
    )


def test_a_log_with_moved_files_keeps_the_rest_of_its_lines() -> None:
    kept = b'{"path":"file:///b/1","timestamp":1,"batchId":0}'
    moved = '{"path":"file:/a%20a/ü","timestamp":2,"batchId":1,"action":"add"}'.encode()
    data = b"\n".join([b"v1", kept, moved])
    found = with_moved_files(data, "1", ("file:///a%20a", "file:///c"))
    assert found.split(b"\n")[:2] == [b"v1", kept]
    assert found.split(b"\n")[2] == moved.replace(b"file:/a%20a", b"file:///c")
    assert [each.path for each in read_files(found, "1")] == ["file:///b/1", "file:///c/ü"]


def test_what_was_archived_since_is_not_read(saved: Saved) -> None:
    """Only what the position has not read counts; whoever deletes leaves no more than a batch."""
    archive = saved.root / "archive"
    options = {"cleansource": "archive", "sourcearchivedir": str(archive)}

    def cleaned(
        mode: str = "archive",
        gone_on: int | None = None,
        *,
        unlisted: str = "",
        recorded: Mapping[str, str] | None = None,
    ) -> Cleaned | None:
        given = options | {"cleansource": mode}
        place = replace(source(f"file[{saved.input}]", offset=at(3)), options=recorded)
        url = saved.input.as_uri()
        found = file_reading(
            saved.origin(),
            place,
            str(saved.input),
            url,
            given,
            archive=None if unlisted else archive.as_uri(),
            unlisted=unlisted,
            gone_on=gone_on,
        )
        assert found is not None
        return found.cleaned

    there = archive / saved.input.relative_to("/")
    there.mkdir(parents=True)
    (saved.input / "0.json").rename(there / "0.json")
    assert cleaned() is None
    assert cleaned(gone_on=8) is None
    (there / "9.json").write_text("{}")
    assert cleaned() == Cleaned("archive", 1, archive.as_uri())
    # What lay in the archive when the newest batch was planned, an earlier checkpoint has read.
    saved.offsets(4, at(4), time=int(time.time() * 1000) + 3_600_000)
    assert cleaned() is None
    assert cleaned(gone_on=8) == Cleaned("archive", 1, archive.as_uri(), gone_on=8)
    saved.offsets(4, at(4), time=int(time.time() * 1000) - 3_600_000)
    (saved.input / "10.json").write_text("{}")
    os.utime(saved.input / "10.json", (0, 0))
    (saved.input / "10.json").rename(there / "9.json")
    assert cleaned() == Cleaned("archive", 1, archive.as_uri()), "a rename keeps the file's time"
    assert cleaned(unlisted="/there") == Cleaned("archive", unlisted="/there")
    assert cleaned("delete", unlisted="/there") is None
    assert cleaned("off", gone_on=8) is None
    assert cleaned("delete") is None
    assert cleaned("delete", gone_on=8) == Cleaned("delete", gone_on=8)
    assert cleaned("off", gone_on=8, recorded={"cleansource": "delete"}) is not None
    assert cleaned("delete", gone_on=8, recorded={}) is None, "the saved program cleaned nothing"


def test_what_waits_is_looked_at_where_the_age_has_changed(saved: Saved) -> None:
    waits = saved.input / "old.json"
    waits.write_text("{}")
    os.utime(waits, (0, 0))
    saved.log("0", "4", (saved.file(2), 4), time=30 * 86_400_000)
    before = {"latestfirst": "true", "maxfilespertrigger": "1"}

    def lost(options: Mapping[str, str], recorded: Mapping[str, str] | None) -> int:
        place = replace(source(f"file[{saved.input}]", offset=at(3)), options=recorded)
        url = saved.input.as_uri()
        found = file_reading(saved.origin(), place, str(saved.input), url, options)
        assert found is not None
        return found.ages.lost

    assert lost({}, before) == 1
    assert lost(before, before) == 0
    assert lost({"maxfileage": "40d"}, before) == 0
    assert lost({}, {}) == 0, "it was left out before, too"
    assert lost({}, None) == 0


def test_files_of_another_path_that_are_too_old_are_never_read(saved: Saved) -> None:
    """Whatever was recorded: nothing of that path was read before."""
    other = saved.root / "other"
    other.mkdir()
    for name, days in (("late", 1), ("b", 31)):
        (other / name).write_text("{}")
        os.utime(other / name, (days * 86_400,) * 2)
    saved.log("0", "4", (saved.file(2), 4), time=31 * 86_400_000)
    place = replace(source(f"file[{saved.input}]", offset=at(3)), options={})
    found = file_reading(saved.origin(), place, str(other), other.as_uri(), {})
    assert found is not None
    assert (found.ages.lost, found.ages.days) == (1, 31)
    # As soon as it has read a file there, the limit held there too.
    saved.log("0", "3", ((other / "b").as_uri(), 3), time=31 * 86_400_000)
    for signature, lost in ((f"file[{saved.input}]", 1), (f"file[{other}]", 0)):
        place = replace(source(signature, offset=at(3)), options={})
        found = file_reading(saved.origin(), place, str(other), other.as_uri(), {})
        assert found is not None
        assert found.ages.lost == lost


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
    monkeypatch.setattr(file_places, "MAX_DIRECTORIES", 2)
    with pytest.raises(TooManyDirectories):
        list(files_below(root, "", deep=True))
