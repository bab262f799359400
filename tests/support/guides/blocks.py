"""What stands in the fenced blocks of the README and the guides."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))
#: Blocks whose flinkish command lines must parse; a program or a program's output is none.
WITH_COMMANDS = ("bash", "console", "crontab", "ini", "yaml")
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PROCESS = re.compile(r"<\([^)]*\)")
_ARGS = re.compile(r"^( *)args:\n((?:\1 *- .*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block; ``line`` is the page's line of its fence."""

    page: str
    language: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Step:
    """A command of a console block (or a heading, ``== ...``), and what is below it."""

    head: str
    output: tuple[str, ...]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str | None = None) -> list[Block]:
    """Return the blocks of a page in order, or those of one language."""
    text = text_of(page)
    found = [
        Block(page, match[1], text[: match.start()].count("\n") + 1, match[2])
        for match in _FENCED.finditer(text)
    ]
    return [block for block in found if language in (None, block.language)]


def is_script(block: Block) -> bool:
    """Return whether a block is a file, not what is typed (its own test runs it)."""
    return block.text.startswith("#!")


def commands(block: Block) -> list[str]:
    """Return the commands of a bash block, one a line; a line that ends with ``\\`` goes on."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def steps(text: str) -> list[Step]:
    """Take a console block, or all that a terminal showed, apart."""
    found: list[Step] = []
    for part in re.split(r"^(?=\$ |== )", text, flags=re.MULTILINE):
        head, *output = part.rstrip().splitlines() or [""]
        if head:
            found.append(Step(head, tuple(line.rstrip() for line in output)))
    return found


def joined(parts: list[Step]) -> str:
    """Return the text of a console block."""
    return "\n\n".join("\n".join((step.head, *step.output)) for step in parts) + "\n"


def calls(block: Block) -> Iterator[list[str]]:
    """Yield the words behind ``flinkish`` of each call in a block of commands."""
    text = block.text.replace("\\\n", " ")
    if block.language == "yaml":
        for _, items in _ARGS.findall(text):
            text = " ".join(re.findall(r"- (.*)", items))
            yield from _calls(text)
        return
    for line in text.splitlines():
        if block.language == "console":
            if not line.startswith("$ "):
                continue
            line = line[2:]
        if block.language == "ini":
            key, _, line = line.partition("=")
            if not key.startswith("Exec"):
                continue
        yield from _calls(line)


def _calls(line: str) -> Iterator[list[str]]:
    """Yield the calls of a line of shell, which may be in a pipeline or an assignment."""
    line = _PROCESS.sub("/dev/fd/63", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    call: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("();<>|&"):
            names = [Path(each).name for each in call]
            if "flinkish" in names:
                yield call[names.index("flinkish") + 1 :]
            call = []
        else:
            call.append(word)
