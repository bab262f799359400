"""Strict reading of the tables' files: a value that does not fit is refused by its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, NoReturn

from flinkish.errors import FlinkishError

REINSTALL = "this installation of flinkish is damaged; install it again"


def read_data(name: str) -> str:
    """Return the text of a file in ``data/``; FlinkishError if it cannot be read."""
    try:
        path = resources.files("flinkish.compat") / "data" / name
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FlinkishError(
            f"the compatibility table {name} cannot be read: {error}", hint=REINSTALL
        ) from error


@dataclass(frozen=True)
class Node:
    """A value of a document and its path in it; ``place`` names the file."""

    place: str
    value: Any
    path: str = ""

    def fail(self, what: str) -> NoReturn:
        """Refuse the document because of this value."""
        where = f"{self.place}: {self.path}" if self.path else self.place
        raise FlinkishError(f"{where}: {what}", hint=REINSTALL)

    def at(self, key: str) -> Node:
        """Return the value under a key."""
        return Node(self.place, self.value[key], f"{self.path}.{key}" if self.path else key)

    def items(self) -> Iterator[Node]:
        """Yield the items of a list; refuse anything else."""
        if not isinstance(self.value, list):
            self.fail("must be a list")
        for number, item in enumerate(self.value):
            yield Node(self.place, item, f"{self.path}[{number}]")

    def keys(self, required: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Refuse anything but an object with exactly these keys."""
        if not isinstance(self.value, Mapping):
            self.fail("must be an object")
        missing = [key for key in required if key not in self.value]
        unknown = sorted(set(self.value) - {*required, *optional})
        if missing:
            self.fail(f"lacks {', '.join(missing)}")
        if unknown:
            self.fail(f"has unknown keys: {', '.join(unknown)}")

    def text(self, pattern: re.Pattern[str] | None = None) -> str:
        """Return the value, which must be a text (of a form)."""
        if not isinstance(self.value, str) or not self.value.strip():
            self.fail("must be a text")
        if pattern is not None and not pattern.fullmatch(self.value):
            self.fail(f"{self.value!r} is not of the form {pattern.pattern}")
        return str(self.value)

    def one_of(self, allowed: Sequence[str]) -> str:
        """Return the value, which must be one of these texts."""
        if not isinstance(self.value, str) or self.value not in allowed:
            self.fail(f"{self.value!r} is not one of {', '.join(allowed)}")
        return str(self.value)

    def unique(self, values: Sequence[object]) -> None:
        """Refuse values that are there twice."""
        seen: set[object] = set()
        for number, value in enumerate(values):
            if value in seen:
                Node(self.place, value, f"{self.path}[{number}]").fail("is there twice")
            seen.add(value)
