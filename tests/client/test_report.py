"""The report on a directory of savepoints: growth, parents, and what is judged."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.client import report as module
from flinkish.client.report import Report, growth_of, report_directory
from flinkish.errors import SavepointNotFound, UsageError
from flinkish.savepoint.directory.catalog import CatalogEntry
from tests.support.savepoint.small_savepoints import header, make_savepoint, operator, query

OLD, NEW = "a" * 32, "b" * 32


def _entry(created: float, *rows: int | None, uid: str | None = "counts") -> CatalogEntry:
    operators = [operator(ordinal, uid, each) for ordinal, each in enumerate(rows)]
    return CatalogEntry(f"/sp/{created:.0f}", header(created), (query("q", *operators),))


def _lineage(report: Report) -> dict[str, tuple[str | None, bool]]:
    return {each.entry.path: (each.parent, each.parent_here) for each in report.savepoints}


def test_growth_follows_an_operator_by_its_uid() -> None:
    moved = _entry(3.0, None)
    [saved] = moved.queries
    later = replace(saved, name="renamed", operators=(operator(1, "counts", 9),))
    [growth] = growth_of([replace(moved, queries=(later,)), _entry(2.0, 5), _entry(1.0, None)])
    assert growth.address == "renamed/counts"
    assert [(point.created, point.rows) for point in growth.points] == [(1, None), (2, 5), (3, 9)]


def test_growth_without_uids_goes_by_ordinal_and_by_query() -> None:
    entry = _entry(1.0, 1, 2, uid=None)
    [saved] = entry.queries
    other = replace(saved, query_id="other", name="r", operators=(operator(0, None, 3),))
    growth = growth_of([replace(entry, queries=(saved, other))])
    assert {each.address: each.points[0].rows for each in growth} == {"q/0": 1, "q/1": 2, "r/0": 3}


def test_the_parent_is_the_savepoint_before_it_else_the_origin_of_the_run(tmp_path: Path) -> None:
    first = make_savepoint(str(tmp_path), 10.0, job_id=OLD, restored_from="/elsewhere/sp")
    second = make_savepoint(str(tmp_path), 20.0, job_id=OLD, restored_from="/elsewhere/sp")
    third = make_savepoint(str(tmp_path), 30.0, job_id=NEW, restored_from=f"{second}/")
    fourth = make_savepoint(str(tmp_path), 40.0, job_id=NEW, restored_from=f"{second}/")
    again = make_savepoint(str(tmp_path), 50.0, job_id=NEW, restored_from=first)
    lone = make_savepoint(str(tmp_path), 60.0, job_id="c" * 32)
    expected = {
        lone: (None, False),
        again: (first, True),
        fourth: (third, True),
        third: (second, True),
        second: (first, True),
        first: ("/elsewhere/sp", False),
    }
    assert _lineage(report_directory(str(tmp_path))) == expected


def test_in_a_copy_of_the_directory_parents_are_found_by_name(tmp_path: Path) -> None:
    first = make_savepoint(str(tmp_path / "a"), 10.0, job_id=OLD)
    make_savepoint(str(tmp_path / "a"), 20.0, job_id=NEW, restored_from=first)
    shutil.move(tmp_path / "a", tmp_path / "b")
    [newer, older] = report_directory(str(tmp_path / "b")).savepoints
    assert (newer.parent, newer.parent_here) == (older.entry.path, True)


def test_a_savepoint_that_names_itself_has_no_parent_here(tmp_path: Path) -> None:
    path = make_savepoint(str(tmp_path), 10.0, job_id=OLD)
    name = os.path.basename(path)
    shutil.rmtree(path)
    made = make_savepoint(str(tmp_path), 10.0, job_id=OLD, restored_from=path)
    os.rename(made, tmp_path / name)
    [reported] = report_directory(str(tmp_path)).savepoints
    assert (reported.parent, reported.parent_here) == (path, False)


def test_what_is_whole_is_judged_and_what_is_damaged_is_not(tmp_path: Path) -> None:
    make_savepoint(str(tmp_path), 10.0)
    damaged = make_savepoint(str(tmp_path), 20.0)
    os.remove(f"{damaged}/0-counts/metadata")
    junk = tmp_path / "junk" / "_metadata"
    junk.parent.mkdir()
    junk.write_bytes(b"junk")
    (tmp_path / "savepoint-abcdef-0123456789ab").mkdir()
    report = report_directory(str(tmp_path))
    [bad, good] = report.savepoints
    assert good.damage is None
    assert [each.versions.running for each in good.answers] == ["4.1", "4.2", "4.3"]
    assert {each.versions.created for each in good.answers} == {"4.3.0"}
    assert good.answers[-1].versions.verdict == "ok"
    assert bad.damage is not None
    assert bad.answers == ()
    assert [each.path for each in report.unreadable] == [str(junk.parent)]
    assert (report.unfinished, report.omitted) == (1, 0)


def test_the_newest_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    paths = [make_savepoint(str(tmp_path), 10.0 * number) for number in range(1, 5)]
    report = report_directory(str(tmp_path))
    assert [each.entry.path for each in report.savepoints] == [paths[3], paths[2]]
    assert (report.omitted, len(report.growth[0].points)) == (2, 2)
    assert _lineage(report) == {paths[3]: (paths[2], True), paths[2]: (paths[1], False)}


def test_no_directory_and_a_savepoint_itself_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SavepointNotFound):
        report_directory(str(tmp_path / "none"))
    with pytest.raises(UsageError, match="is itself a savepoint"):
        report_directory(make_savepoint(str(tmp_path), 10.0))
