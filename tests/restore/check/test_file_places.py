"""Where the files of a file source are, on checkpoints with its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.restore.check.file_places import file_reading
from flinkish.restore.materialize.source_logs import read_files, with_moved_files
from flinkish.restore.plan.source_row import FileMove, FileReading
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
