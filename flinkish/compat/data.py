"""Read the files of the tables strictly, in the form that ``data/schema.json`` describes.

A value that does not fit is refused; the error names the file and the value's path in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NoReturn

from flinkish.compat.model import (
    FLINK,
    FRAMEWORKS,
    NO_BACKEND,
    SPARK,
    STATELESS,
    Cell,
    CompatVerdict,
    Limitation,
    Matrix,
    Precondition,
    Releases,
    Rewrite,
    VersionLine,
)
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
        """Refuse anything but an object with all required keys and no unknown key."""
        if not isinstance(self.value, Mapping):
            self.fail("must be an object")
        missing = [key for key in required if key not in self.value]
        unknown = sorted(set(self.value) - {*required, *optional})
        if missing:
            self.fail(f"lacks {', '.join(missing)}")
        if unknown:
            self.fail(f"has unknown keys: {', '.join(unknown)}")

    def text(self, pattern: re.Pattern[str] | None = None) -> str:
        """Return the value, which must be a nonblank text that matches ``pattern``, if given."""
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
        """Refuse the document if two of these values are equal."""
        seen: set[object] = set()
        for number, value in enumerate(values):
            if value in seen:
                Node(self.place, value, f"{self.path}[{number}]").fail("is there twice")
            seen.add(value)


#: The version of the files; raised when their form changes.
DATA_VERSION = 1
BACKENDS = ("hdfs", "rocksdb")

_LINE = re.compile(r"[0-9]+\.[0-9]+")
_RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@cache
def load(framework: str) -> Matrix:
    """Return the table of ``spark`` or ``flink``; FlinkishError if it is missing or invalid."""
    return parse(read_text(framework), f"flinkish/compat/data/{framework}.json", framework)


def read_text(framework: str) -> str:
    """Return the text of a table's file; FlinkishError if it cannot be read."""
    return read_data(f"{framework}.json")


def parse(text: str, place: str, framework: str) -> Matrix:
    """Parse the text of a table for ``framework``; ``place`` names the file in messages. Pure.

    Raises FlinkishError, which names the file and the path in it, if the text does not fit
    ``data/schema.json``.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise FlinkishError(f"{place}: not JSON: {error}", hint=REINSTALL) from error
    root = Node(place, document)
    required = ["schema_version", "framework", "scope", "versions", "limitations", "cells"]
    own = {SPARK: ["measured"], FLINK: ["source", "preconditions"]}[framework]
    root.keys([*required, *own])
    if root.value["schema_version"] is True or root.value["schema_version"] != DATA_VERSION:
        root.at("schema_version").fail(f"must be {DATA_VERSION}")
    root.at("framework").one_of([name for name in FRAMEWORKS if name == framework])
    lines = [_line(node, framework) for node in root.at("versions").items()]
    root.at("versions").unique([line.line for line in lines])
    limitations = [_limitation(node, framework) for node in root.at("limitations").items()]
    root.at("limitations").unique([one.id for one in limitations])
    preconditions = root.at("preconditions").items() if "preconditions" in own else ()
    versions = [name for line in lines for name in (line.line, *line.also)]
    cells = [
        _cell(node, framework, versions, {one.id for one in limitations})
        for node in root.at("cells").items()
    ]
    root.at("cells").unique(
        [(one.created, one.resumed, one.operator, one.backend, one.formats) for one in cells]
    )
    return Matrix(
        framework=framework,
        scope=root.at("scope").text(),
        versions=tuple(lines),
        limitations={one.id: one for one in limitations},
        cells=tuple(cells),
        preconditions=tuple(_precondition(node) for node in preconditions),
        measured=root.at("measured").text(_DAY) if "measured" in own else None,
        source=root.at("source").text() if "source" in own else None,
    )


def _line(node: Node, framework: str) -> VersionLine:
    node.keys(
        ["line", "measured"] if framework == SPARK else ["line"],
        ["also"] if framework == SPARK else [],
    )
    line = node.at("line").text(_LINE)
    if framework != SPARK:
        return VersionLine(line)
    measured = node.at("measured").text()
    if not (_RELEASE.fullmatch(measured) and measured.startswith(f"{line}.")):
        node.at("measured").fail(f"{measured!r} is not a release of {line}")
    releases = list(node.at("also").items()) if "also" in node.value else []
    also = tuple(item.text(_RELEASE) for item in releases)
    for item, release in zip(releases, also, strict=True):
        if not release.startswith(f"{line}.") or release == measured:
            item.fail(f"{release!r} is not another release of {line}")
    if also:
        node.at("also").unique(also)
    return VersionLine(line, measured, also)


def _limitation(node: Node, framework: str) -> Limitation:
    node.keys(["id", "text", "advice"], ["releases"] if framework == FLINK else ["rewrite"])
    pairs = node.at("releases").items() if "releases" in node.value else ()
    return Limitation(
        id=node.at("id").text(_ID),
        text=node.at("text").text(),
        advice=node.at("advice").text(),
        rewrite=Rewrite(node.at("rewrite").one_of([each.value for each in Rewrite]))
        if "rewrite" in node.value
        else None,
        releases=tuple(_releases(pair) for pair in pairs),
    )


def _releases(pair: Node) -> tuple[Releases, Releases]:
    pair.keys(["from", "to"])
    return _release_range(pair.at("from")), _release_range(pair.at("to"))


def _release_range(node: Node) -> Releases:
    node.keys(["line"], ["patches"])
    line = node.at("line").text(_LINE)
    if "patches" not in node.value:
        return Releases(line)
    patches = node.at("patches")
    bounds = [item.value for item in patches.items()]
    if len(bounds) != 2 or not all(type(bound) is int for bound in bounds):
        patches.fail("must be the first and the last patch number")
    if not 0 <= bounds[0] <= bounds[1]:
        patches.fail(f"{bounds} is not a range")
    return Releases(line, bounds[0], bounds[1])


def _precondition(node: Node) -> Precondition:
    node.keys(["id", "text", "advice"])
    return Precondition(node.at("id").text(_ID), node.at("text").text(), node.at("advice").text())


def _cell(node: Node, framework: str, lines: Sequence[str], limitation_ids: set[str]) -> Cell:
    own = ["operator", "backend", "formats", "error"] if framework == SPARK else []
    node.keys(["from", "to", "verdict", "limitations", *own])
    verdict = CompatVerdict(node.at("verdict").one_of([one.value for one in CompatVerdict]))
    limitations = tuple(
        item.one_of(sorted(limitation_ids)) for item in node.at("limitations").items()
    )
    node.at("limitations").unique(limitations)
    if not limitations and verdict not in (CompatVerdict.OK, CompatVerdict.UNKNOWN):
        node.at("limitations").fail(f"the verdict {verdict.value} needs one")
    created, resumed = node.at("from").one_of(lines), node.at("to").one_of(lines)
    if framework != SPARK:
        return Cell(created, resumed, verdict, limitations)
    operator = node.at("operator").text()
    backend = node.at("backend").one_of([NO_BACKEND] if operator == STATELESS else BACKENDS)
    formats = [item.text(_ID) for item in node.at("formats").items()]
    if formats != sorted(set(formats)):
        node.at("formats").fail("must be sorted, each once")
    error = None if node.value["error"] is None else node.at("error").text()
    if error is not None and verdict not in (CompatVerdict.NEEDS_MIGRATION, CompatVerdict.FAILS):
        node.at("error").fail(f"the verdict {verdict.value} has none")
    return Cell(
        created, resumed, verdict, limitations, operator, backend, frozenset(formats), error
    )
