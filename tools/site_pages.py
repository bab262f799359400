"""Hook of mkdocs (``mkdocs.yml``): the pages of the site that are no files of ``docs/``.

The README is the home page. The help of every command and the docstrings of the exported names are
pages of their own, made from the code. Links to files outside of ``docs/`` become their texts, and
Sphinx's roles in docstrings become names.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from flinkish.cli import command_index

ROOT = Path(__file__).parents[1]
#: The packages whose exported names are shown.
PACKAGES = ("flinkish", "flinkish.state", "flinkish.testing")
HOME, COMMANDS, API = "index.md", "commands.md", "api.md"
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")
_ROLE = re.compile(r":[a-z:]+:<code>~?([\w.]*?)(\w+)</code>")
#: Columns of the commands' help.
_WIDTH = 96


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made (an event of mkdocs)."""
    from mkdocs.structure.files import File

    for name, text in {HOME: home(), COMMANDS: commands(), API: api()}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Keep of a link that leaves the site only its text (an event of mkdocs)."""
    return _LINK.sub(lambda link: link[1] if link[2].startswith("../") else link[0], markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Show the names that docstrings refer to (an event of mkdocs)."""
    return _ROLE.sub(r"<code>\2</code>", html)


def home() -> str:
    """Return the README with links as seen from ``docs/``."""

    def moved(link: re.Match[str]) -> str:
        target = link[2].removeprefix("docs/")
        return f"[{link[1]}]({target if target != link[2] else f'../{target}'})"

    return _LINK.sub(moved, (ROOT / "README.md").read_text("utf-8"))


def commands() -> str:
    """Return the help of every command."""
    parts = ["# Commands", "As `flinkish COMMAND --help` and the manual pages have them."]
    for name, command in command_index.every_command():
        context = click.Context(command, info_name=f"flinkish {name}", terminal_width=_WIDTH)
        parts.append(f"## flinkish {name}\n\n```text\n{command.get_help(context)}\n```")
    return "\n\n".join(parts) + "\n"


def api() -> str:
    """Return a page on which mkdocstrings puts the docstrings of the exported names."""
    promise = "What may change with which release: [Compatibility](compatibility.md)."
    parts = ["# Python interface", promise]
    for package in PACKAGES:
        parts.append(f"## {package}")
        parts += [f"### {name}\n\n::: {place}" for name, place in _exported(package)]
    return "\n\n".join(parts) + "\n"


def _exported(package: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the classes and functions that a package exports, and their places."""
    module = importlib.import_module(package)
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if callable(value):
            yield name, f"{value.__module__}.{value.__qualname__}"
