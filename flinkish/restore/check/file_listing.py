"""The files that Spark's file source finds below a path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flinkish import storage
from flinkish.storage.listing import FileEntry

#: The most directories that are listed for one source.
MOST_DIRECTORIES = 1000
_HIDDEN = re.compile(r"[._](?!.*=)")
_COPYING = "._COPYING_"


class TooManyDirectories(Exception):
    """More directories than :data:`MOST_DIRECTORIES` would have to be listed."""


def files_below(root: str, pattern: str, *, deep: bool) -> Iterator[tuple[str, FileEntry]]:
    """Yield the path below ``root`` of each file that Spark finds, and its entry.

    As ``InMemoryFileIndex`` lists them: without hidden files, and only directories ``key=value``
    below a path, or all.

    Parameters
    ----------
    root
        A location without a pattern.
    pattern
        What follows it in the path of the source; empty without a pattern.
    deep
        Whether all directories are looked into (``recursiveFileLookup``).

    Raises
    ------
    TooManyDirectories
        It is not known what is there.
    """
    budget = iter(range(MOST_DIRECTORIES))
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
        known = deep or "=" in name if wanted is None else wanted.fullmatch(name)
        if known and not _HIDDEN.match(name):
            yield from _below(root, f"{place}/{name}".lstrip("/"), parts[1:], budget, deep=deep)


def _regex(glob: str) -> str:
    """Return the regular expression of one name in a pattern of Hadoop. Pure."""
    found, depth = "", 0
    characters = iter(glob)
    for each in characters:
        if each == "\\":
            found += re.escape(next(characters, ""))
        elif each in "*?":
            found += ".*" if each == "*" else "."
        elif each == "[":
            inside = "".join(iter(lambda: next(characters, "]"), "]"))
            negated = inside[:1] in ("^", "!")
            found += f"[{'^' if negated else ''}{inside[negated:]}]"
        elif each == "{" or (each == "}" and depth):
            depth += 1 if each == "{" else -1
            found += "(?:" if each == "{" else ")"
        else:
            found += "|" if each == "," and depth else re.escape(each)
    return found
