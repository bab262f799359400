"""The site has the guides and what is made from the code."""

from __future__ import annotations

import re
from pathlib import Path

from tools import site_pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_site_has_every_guide_and_no_other_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    nav = re.findall(r"^ +- [^:\n]+: (\S+\.md)$", text.partition("\nnav:\n")[2], re.MULTILINE)
    made = {site_pages.HOME, site_pages.COMMANDS, site_pages.API}
    assert sorted(nav) == sorted([*made, *(page.name for page in DOCS.glob("*.md"))])


def test_the_home_page_of_the_site_is_the_readme() -> None:
    home = site_pages.home()
    assert "](concepts.md)" in home
    targets = re.findall(r"\]\(([^)#\s]+)", home)
    inside = [target for target in targets if not target.startswith(("../", "http"))]
    assert [target for target in inside if not (DOCS / target).exists()] == []


def test_every_exported_name_and_command_is_there() -> None:
    api = site_pages.api()
    assert "### Client\n\n::: flinkish.client.client.Client" in api
    assert "### uid\n\n::: flinkish.operators.tagging.uid\n" in api
    help_of_run = site_pages.commands().partition("## flinkish run\n")[2].partition("\n## ")[0]
    assert "Examples" in help_of_run
    assert "--fromSavepoint" in help_of_run


def test_links_that_leave_the_site_become_their_texts() -> None:
    text = "[a](../ci/x.yml) [b](https://x.example) [c](#d) [e](storage.md#f)"
    shown = site_pages.on_page_markdown(text, None, None, None)
    assert shown == "a [b](https://x.example) [c](#d) [e](storage.md#f)"
    html = "<p>see :class:<code>~flinkish.errors.Corrupt</code></p>"
    assert site_pages.on_page_content(html, None, None, None) == "<p>see <code>Corrupt</code></p>"
