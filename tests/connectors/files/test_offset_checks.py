"""What becomes of a file source whose files lie elsewhere than it reads now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.connectors.files.connector import FILES
from flinkish.connectors.files.offset_checks import (
    base_of,
    has_pattern,
    judge_unknown,
    without_pattern,
)
from flinkish.connectors.files.reading import FileReading
from flinkish.connectors.offsets import Target, parse_target
from flinkish.connectors.source_plan import FileMove, SourcePlan
from flinkish.messages.plan import RestoreOutcome
from flinkish.messages.restore_options import NO_OPTIONS
from tests.support.restore.query_builders import reads, source

OLD, NEW = "file[in/old]", "file[in/new]"
CHANGED = SourcePlan(reads(NEW), source(OLD), "changed", "path-changed", "other path")
SAME = SourcePlan(reads(NEW), source(NEW), "as-is", "same-source", "goes on")
RESET = replace(CHANGED, verdict="reset", reason="reset-source")
MOVE = FileMove("file:///in/old", "file:///in/new")
READING = FileReading("in/new", files=4, outside=4, moved=4, move=MOVE)
FLAG = "--set-offsets 'file[in/new]=moved'"


def judged(
    row: SourcePlan, reading: FileReading = READING, target: Target | None = None
) -> SourcePlan:
    return FILES.judge(row, reading, target, NO_OPTIONS)


@pytest.mark.parametrize("row", [CHANGED, SAME])  # SAME: a relative path in another directory
def test_files_that_were_moved_would_be_read_again(row: SourcePlan) -> None:
    found = judged(row)
    assert (found.verdict, found.reason) == ("consent-needed", "source-moved")
    assert "4 of the 4 files read from another path are now below in/new: Spark" in found.text
    assert found.advice == (
        f"if the files were moved, keep the position: {FLAG}; or read everything that is there "
        "again: --reset-source 'file[in/new]'"
    )


def test_moved_gives_the_files_in_the_log_their_new_paths() -> None:
    found = judged(CHANGED, target=parse_target("moved"))
    assert (found.verdict, found.move, found.elsewhere) == ("set", MOVE, True)
    assert "continues after the 4 files that were moved from file:///in/old to" in found.text
    # Said of files that lie where they lay, it changes nothing.
    assert judged(SAME, FileReading("in/new", files=4), parse_target("moved")) == SAME
    covered = FileReading("in", files=4, too_deep=True)
    told = FILES.changed(reads(NEW), source(OLD))
    assert judged(told, covered, parse_target("moved")) == judged(told, covered)
    assert "are not read again" in judged(told, covered).text
    unread = FILES.judge(CHANGED, None, parse_target("moved"), NO_OPTIONS)
    assert (unread.verdict, unread.reason) == ("incompatible", "set-offsets-form")
    assert "its files could not be looked for" in unread.text
    none = judged(CHANGED, replace(READING, moved=0), parse_target("moved"))
    assert (none.verdict, none.reason) == ("incompatible", "source-moved")
    assert "none of the 4 files" in none.text
    # A planned batch is read again: all its files have to be there.
    planned = replace(READING, moved=3, planned_outside=2, planned_moved=1)
    assert (
        "1 file of the planned batch is not below"
        in judged(CHANGED, planned, parse_target("moved")).text
    )


def test_a_new_directory_with_new_files_is_read() -> None:
    found = judged(CHANGED, replace(READING, moved=0))
    assert (found.verdict, found.elsewhere, found.blocks) == ("changed", True, False)
    assert "every file there is new and will be read" in found.text
    # It is not known what is there.
    unknown = judged(CHANGED, replace(READING, moved=0, known=False))
    assert unknown.verdict == "changed"
    assert "copies" in unknown.text


@pytest.mark.parametrize("reading", [READING, replace(READING, moved=0, known=False)])
def test_a_path_that_was_changed_before_the_savepoint_is_not_told_again(
    reading: FileReading,
) -> None:
    mixed = replace(reading, files=10, moved=0)
    assert judged(SAME, mixed) == replace(SAME, elsewhere=True)
    # Files that were moved since are read again, unless they are known by name.
    assert judged(SAME, replace(mixed, moved=2)).verdict == "consent-needed"
    assert judged(SAME, replace(mixed, moved=2, by_name=True)) == replace(SAME, elsewhere=True)
    assert judged(SAME, replace(mixed, planned_outside=1)).blocks
    # Back in a path that was read before the other one.
    back = judged(CHANGED, mixed)
    assert back.verdict == "changed"
    assert "every file there other than the 6 files already read is new and will be" in back.text


def test_files_that_are_known_by_name_or_by_their_full_paths_are_not_read_again() -> None:
    by_name = judged(CHANGED, replace(READING, by_name=True))
    assert (by_name.verdict, by_name.elsewhere) == ("changed", True)
    assert "identified by name (fileNameOnly)" in by_name.text
    assert "not read again" in by_name.text
    wider = judged(CHANGED, FileReading("in/*", files=4, pattern=True))
    assert (wider.verdict, wider.elsewhere, wider.advice) == ("changed", False, "")
    assert "; they are identified by full path and are not read again; other" in wider.text


@pytest.mark.parametrize("by_name", [False, True])
def test_a_planned_batch_with_files_elsewhere_is_not_begun(by_name: bool) -> None:
    planned = replace(READING, planned_outside=2, planned_moved=2, by_name=by_name)
    found = judged(CHANGED, planned)
    assert (found.verdict, found.reason) == ("consent-needed", "source-moved")
    assert "2 files of the planned batch, which Spark reads first" in found.text
    assert FLAG in found.advice
    left = judged(CHANGED, replace(planned, moved=0, planned_moved=0))
    assert left.verdict == "consent-needed"
    assert "have the program read the old path until that batch is committed" in left.advice
    # A pattern is no base: Spark reads them where they still lie.
    glob = replace(planned, moved=0, planned_moved=0, pattern=True)
    assert not judged(CHANGED, glob).blocks


def test_the_files_of_an_only_batch_are_asked_for() -> None:
    found = judged(CHANGED, replace(READING, only_batch=True, by_name=True))
    assert (found.verdict, found.reason) == ("consent-needed", "source-moved")
    assert (
        "Spark asks for the files of the only batch again, and 4 files of it are not" in found.text
    )
    assert FLAG in found.advice
    elsewhere = judged(CHANGED, replace(READING, only_batch=True, moved=0))
    assert elsewhere.advice.startswith("if the files already read are elsewhere now")
    assert "--map-path /in/old=/in/new; or read everything that is there again" in elsewhere.advice
    assert not judged(CHANGED, replace(READING, only_batch=True, moved=0, pattern=True)).blocks


def test_a_checkpoint_that_does_not_describe_its_sources_is_refused_where_spark_would_fail() -> (
    None
):
    unknown = SourcePlan(reads(NEW), None, "as-is", "source-unknown", "in their order")
    asked = replace(READING, asked_outside=2)
    found = judge_unknown(unknown, asked)
    assert (found.verdict, found.reason) == ("incompatible", "source-moved")
    assert "Spark reads 2 files of the checkpoint again, and they are not below" in found.text
    advice = "give both places: --map-path /in/old=/in/new; or run the program on the old"
    assert advice in found.advice
    assert judge_unknown(unknown, None) == judge_unknown(unknown, READING) == unknown
    assert judge_unknown(unknown, replace(asked, pattern=True)) == unknown


def test_a_source_that_starts_afresh_is_told_what_it_reads_again() -> None:
    (note,) = judged(RESET).checks
    assert note.outcome is RestoreOutcome.NOTE
    assert "up to 4 of the 4 files already read are still there and are read again" in note.text
    assert judged(RESET, replace(READING, moved=0)).checks == ()


def test_directories_that_spark_does_not_look_into_are_told() -> None:
    (check,) = judged(CHANGED, FileReading("in", files=4, too_deep=True)).checks
    assert (check.id, check.outcome) == ("files-too-deep", RestoreOutcome.WARNING)


@pytest.mark.parametrize(
    ("path", "base", "pattern"),
    [
        ("in/*", "in", True),
        ("in/d[01]/x", "in", True),
        ("/in/{a,b}", "/in", True),
        ("*", "", True),
        ("/*", "/", True),
        ("in/2024/", "in/2024", False),
    ],
)
def test_patterns(path: str, base: str, pattern: bool) -> None:
    assert (without_pattern(path), has_pattern(path)) == (base, pattern)


@pytest.mark.parametrize(
    ("path", "base"),
    [
        ("in/a b", "file:///w/in/a%20b"),
        ("/w/in/a b/*", "file:///w/in/a%20b"),
        ("./in", "file:///w/in"),
        ("elsewhere", "file:///w/in/a%20b"),  # what all files have in common
        (None, "file:///w/in/a%20b"),
    ],
)
def test_the_directory_from_which_files_were_read(path: str | None, base: str) -> None:
    urls = [f"file:///w/in/a%20b/{name}" for name in ("x/1.json", "x/2.json", "y/3.json")]
    assert base_of(urls, path) == base
    assert base_of([], path) is None
    assert base_of(["file:///w/in/a%20b/x/1.json"], "in/a b") == "file:///w/in/a%20b"
