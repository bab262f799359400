"""The documentation does not lie: its tables come from the code, its commands and links exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flinkish import errors
from flinkish.cli import command_index, docs
from flinkish.errors import error_classes

ROOT = Path(__file__).resolve().parent.parent
GUIDES = sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", *GUIDES)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", docs.PAGES)
def test_the_tables_are_up_to_date(page: str) -> None:
    assert docs.render(text_of(page), docs.PAGES[page]) == text_of(page), "run: make docs"


@pytest.mark.parametrize("page", docs.PAGES)
def test_rendering_twice_changes_nothing(page: str) -> None:
    text = text_of(page)
    emptied = re.sub(r"(<!-- begin [^\n]*\n).*?(<!-- end)", r"\1\2", text, flags=re.DOTALL)
    assert emptied != text
    assert docs.render(emptied, docs.PAGES[page]) == text


def test_a_missing_place_is_an_error() -> None:
    text = text_of("README.md").replace("<!-- begin exit codes -->", "")
    with pytest.raises(ValueError, match="no place for the table: <!-- begin exit codes -->"):
        docs.render(text, docs.PAGES["README.md"])


def test_every_exit_code_has_a_meaning() -> None:
    assert {cls.code for cls in error_classes()} - set(docs.MEANINGS) == set()


def test_every_error_is_in_the_tree_of_its_module() -> None:
    tree = re.findall(r"(\w+) +(\d+) +([a-z-]+)", errors.__doc__ or "")
    classes = [cls for cls in error_classes() if cls.__module__ == errors.__name__]
    assert sorted(tree) == sorted((cls.__name__, str(cls.code), cls.id) for cls in classes)


def test_every_command_is_in_the_table() -> None:
    table = docs.command_table()
    for name in command_index.COMMANDS:
        assert f"| `{name}" in table


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text_of(page)):
        found = (ROOT / page).parent / target
        assert "://" in target or found.exists(), f"{page}: {target}"


@pytest.mark.parametrize("page", GUIDES)
def test_every_guide_is_linked_from_the_readme(page: str) -> None:
    assert f"({page})" in text_of("README.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_shown_exist(page: str) -> None:
    text = text_of(page)
    for block in re.findall(r"```(?:console|bash)\n(.*?)```", text, flags=re.DOTALL):
        for word in re.findall(r"^(?:\$ )?flinkish (?:--json |-q )?([a-z]\S*)", block, flags=re.M):
            assert word in command_index.COMMANDS, f"{page}: flinkish {word}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|^\$ |`)make ([a-z0-9-]+)", text, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_tables_do_not_depend_on_what_is_imported() -> None:
    from flinkish.checkpoint.errors import FilesVanished

    assert f"`{FilesVanished.id}`" not in docs.exit_code_table()
