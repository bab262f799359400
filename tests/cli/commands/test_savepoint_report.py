"""``flinkish savepoint report``: where the page goes, and its data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.savepoint.small_savepoints import make_savepoint


@pytest.fixture
def savepoints(tmp_path: Path) -> str:
    directory = str(tmp_path / "sp")
    first = make_savepoint(directory, 1e9, name="flights")
    make_savepoint(directory, 1.1e9, name="flights", job_id="b" * 32, restored_from=first)
    return directory


def test_the_page_replaces_the_file(cli: Command, savepoints: str, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("of before")
    result = cli.ok("savepoint", "report", savepoints, "-o", str(target))
    assert result.out == f"Report on 2 savepoints: {target}\n"
    page = target.read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>\n<html")
    assert page.endswith("</html>\n")
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []
    quiet = cli.ok("savepoint", "report", savepoints, "-q", "-o", str(target))
    assert quiet.out == f"{target}\n"
    on_stdout = cli.ok("savepoint", "report", savepoints, "-o", "-").out
    assert on_stdout.startswith("<!DOCTYPE html>\n")
    assert on_stdout.count("<section") == page.count("<section")


def test_the_data_without_and_with_the_page(cli: Command, savepoints: str, tmp_path: Path) -> None:
    document = cli.ok("savepoint", "report", savepoints, "--json").json()
    assert (document["directory"], document["page"]) == (savepoints, None)
    newest, oldest = document["savepoints"]
    assert (newest["parent"], newest["parent_here"]) == (oldest["path"], True)
    assert (oldest["parent"], oldest["state"]) == (None, "complete")
    assert [each["to"] for each in newest["sparks"]] == ["4.1", "4.2", "4.3"]
    [growth] = document["operators"]
    assert growth["address"] == "counts/counts"
    assert [point["path"] for point in growth["points"]] == [oldest["path"], newest["path"]]
    target = str(tmp_path / "page.html")
    both = cli.ok("savepoint", "report", savepoints, "--json", "-o", target).json()
    assert both == {**document, "page": target}
    assert Path(target).exists()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "-o FILE is missing"),
        (("--json", "-o", "-"), 2, "mutually exclusive"),
        (("-o", "/no/such/directory/x.html"), 16, "/no/such/directory"),
    ],
)
def test_a_page_that_has_no_place(
    cli: Command, savepoints: str, words: tuple[str, ...], code: int, text: str
) -> None:
    result = cli("savepoint", "report", savepoints, *words)
    assert (result.code, result.out) == (code, "")
    assert text in result.err


def test_a_directory_that_is_not_there_writes_nothing(cli: Command, tmp_path: Path) -> None:
    result = cli("savepoint", "report", str(tmp_path / "none"), "-o", str(tmp_path / "x.html"))
    assert result.code == 11
    assert not (tmp_path / "x.html").exists()
