"""The files that Spark's file source finds below a path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flinkish import storage
from flinkish.storage.listing import FileEntry

#: Maximum number of directories that are listed for one source.
MAX_DIRECTORIES = 1000
_HIDDEN = re.compile(r"[._](?!.*=)")
_COPYING = "._COPYING_"


class TooManyDirectories(Exception):
    """More directories than :data:`MAX_DIRECTORIES` would have to be listed."""


def files_below(root: str, pattern: str, *, deep: bool) -> Iterator[tuple[str, FileEntry]]:
    """Yield the path below ``root`` of each file that Spark finds, and its entry.

    As ``InMemoryFileIndex`` lists them: without hidden files, and only in directories named
    ``key=value``, or in all if ``deep`` (``recursiveFileLookup``). ``pattern`` is the part of the
    source's path after ``root`` that has wildcards; it may be empty.
    """
    budget = iter(range(MAX_DIRECTORIES))
    yield from _below(root, "", [part for part in pattern.split("/") if part], budget, deep=deep)


def _below(
    root: str, place: str, parts: list[str], budget: Iterator[int], *, deep: bool
) -> Iterator[tuple[str, FileEntry]]:
    if next(budget, None) is None:
        raise TooManyDirectories
    listing = storage.list_directory(storage.join(root, place) if place else root)
    wanted = re.compile(_regex(parts[0])) if parts else None
    for name, entry in listing.files.items():
        if _HIDDEN.match(name) or name.endswith(_COPYING) or len(parts) > 1:
            continue
        if wanted is None or wanted.fullmatch(name):
            yield f"{place}/{name}".lstrip("/"), entry
    for name in listing.directories:
        is_listed = deep or "=" in name if wanted is None else wanted.fullmatch(name)
        if is_listed and not _HIDDEN.match(name):
            yield from _below(root, f"{place}/{name}".lstrip("/"), parts[1:], budget, deep=deep)


def _regex(glob: str) -> str:
    """Return the regular expression of one name in a Hadoop path pattern. Pure."""
    expression, depth = "", 0
    characters = iter(glob)
    for each in characters:
        if each == "\\":
            expression += re.escape(next(characters, ""))
        elif each in "*?":
            expression += ".*" if each == "*" else "."
        elif each == "[":
            inside = "".join(iter(lambda: next(characters, "]"), "]"))
            negated = inside[:1] in ("^", "!")
            expression += f"[{'^' if negated else ''}{inside[negated:]}]"
        elif each == "{" or (each == "}" and depth):
            depth += 1 if each == "{" else -1
            expression += "(?:" if each == "{" else ")"
        else:
            expression += "|" if each == "," and depth else re.escape(each)
    return expression
