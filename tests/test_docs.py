"""The README does not lie: its tables come from the code, its commands and links exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flinkish.cli import command_index, docs
from flinkish.errors import error_classes

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_tables_are_up_to_date() -> None:
    assert docs.render(README) == README, "run: make docs"


def test_rendering_twice_changes_nothing() -> None:
    emptied = re.sub(r"(<!-- begin [^\n]*\n).*?(<!-- end)", r"\1\2", README, flags=re.DOTALL)
    assert emptied != README
    assert docs.render(emptied) == README


def test_a_missing_place_is_an_error() -> None:
    with pytest.raises(ValueError, match="no place for the table: <!-- begin exit codes -->"):
        docs.render(README.replace("<!-- begin exit codes -->", ""))


def test_every_exit_code_has_a_meaning() -> None:
    assert {cls.code for cls in error_classes()} - set(docs.MEANINGS) == set()


def test_every_command_is_in_the_table() -> None:
    table = docs.command_table()
    for name in command_index.COMMANDS:
        assert f"| `{name}" in table


def test_links_lead_somewhere() -> None:
    for page in (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert "://" in target or (ROOT / target).exists(), f"{page.name}: {target}"


def test_the_commands_shown_exist() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for word in re.findall(r"^\$ flinkish (\S+)", text, flags=re.MULTILINE):
            assert word in command_index.COMMANDS
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in re.findall(r"(?:^\$ |`)make ([a-z0-9-]+)", text, flags=re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_tables_do_not_depend_on_what_is_imported() -> None:
    from flinkish.checkpoint.errors import FilesVanished

    assert f"`{FilesVanished.id}`" not in docs.exit_code_table()
