"""Finding the definition that a fault names, and the source with the fault in it.

A definition (a function, a class, a name that a module assigns) is found by its qualified name,
wherever in the package it stands. Where several have that name, a room or module before it tells
which: ``"compat:_cells"``, ``"engine.rows.columns:_decimals"``.
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.mutants.operators import Change, New, Operator

_DEFINED = re.compile(
    r"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]*)?=", re.MULTILINE
)


class Unfit(Exception):
    """A fault does not fit the source."""


@dataclass(frozen=True)
class Definition:
    """A definition: its file, relative to the checkout, and its tree with all that is around it."""

    file: str
    text: str
    node: ast.AST


@dataclass
class Source:
    """A package below a checkout, each file read and parsed once."""

    root: Path
    package: str = "flinkish"
    _known: dict[str, list[tuple[str, ast.AST]]] = field(default_factory=dict)

    @cached_property
    def texts(self) -> dict[str, str]:
        """What stands in each file, by its path relative to the checkout."""
        paths = sorted((self.root / self.package).rglob("*.py"))
        return {p.relative_to(self.root).as_posix(): p.read_text(encoding="utf-8") for p in paths}

    @cached_property
    def _files(self) -> dict[str, set[str]]:
        """Name -> the files that may define it."""
        found: dict[str, set[str]] = {}
        for file, text in self.texts.items():
            for names in _DEFINED.findall(text):
                found.setdefault(names[0] or names[1], set()).add(file)
        return found

    def find(self, name: str) -> Definition:
        """The only definition of that name; raises Unfit."""
        room, _, qualname = name.rpartition(":")
        below = "/".join([self.package, *(room.split(".") if room else [])])
        found = [
            Definition(file, self.texts[file], node)
            for file in sorted(self._files.get(qualname.split(".")[-1], ()))
            if not room or file.startswith(f"{below}/") or file == f"{below}.py"
            for defined, node in self._definitions(file)
            if defined == qualname
        ]
        if not found:
            raise Unfit(f"nothing in the package is called {name}")
        if len(found) > 1:
            files = ", ".join(each.file for each in found)
            raise Unfit(f"{name} is defined in {files}: name its room, as room:{qualname}")
        return found[0]

    def _definitions(self, file: str) -> list[tuple[str, ast.AST]]:
        if file not in self._known:
            self._known[file] = list(_definitions(ast.parse(self.texts[file])))
        return self._known[file]


def mutated(definition: Definition, operator: Operator) -> str:
    """The source of the definition's file with the fault in it; raises Unfit."""
    changes = list(operator.changes(definition.node))
    if len(changes) != 1:
        raise Unfit(f"{operator} fits {len(changes)} places of {definition.file}, not one")
    for old, new in changes[0]:
        if _code(new) == ast.unparse(old):
            raise Unfit(f"{operator} changes nothing")
    found = _edited(definition, changes[0])
    _check_names(definition, changes[0])
    return found


def _edited(definition: Definition, change: Change) -> str:
    data = definition.text.encode()
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    for old, new in sorted(change, key=lambda pair: -_position(pair[0])):
        node, replacement = _outside_of_strings(definition.node, old, new)
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        if isinstance(replacement, ast.expr):
            text = f"({ast.unparse(replacement)})"
        else:
            text = ("\n" + " " * node.col_offset).join(_lines(replacement))
        data = data[:start] + text.encode() + data[end:]
    return data.decode()


def _lines(statements: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        yield from ast.unparse(statement).splitlines()


def _position(node: ast.AST) -> int:
    located: Any = node
    return int(located.lineno * 100_000 + located.col_offset)


def _outside_of_strings(place: ast.AST, old: ast.AST, new: New) -> tuple[Any, New]:
    """A node and what replaces it; of a part of an f-string the whole of it.

    What stands in an f-string has no usable position before Python 3.12.
    """
    for node in ast.walk(place):
        if isinstance(node, ast.JoinedStr) and any(part is old for part in ast.walk(node)):
            return node, copy.deepcopy(node, {id(old): new})
    return old, new


def _code(new: New) -> str:
    return ast.unparse(new) if isinstance(new, ast.expr) else "\n".join(_lines(new))


def _check_names(definition: Definition, change: Change) -> None:
    """See that a fault uses no name that its file does not have: that is another fault."""
    known = set(re.findall(r"\w+", definition.text)) | set(dir(builtins))
    used = {
        node.id
        for _, new in change
        for part in ([new] if isinstance(new, ast.expr) else new)
        for node in ast.walk(part)
        if isinstance(node, ast.Name)
    }
    if used - known:
        raise Unfit(f"{definition.file} does not know {', '.join(sorted(used - known))}")


def _definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """All definitions with their qualified names, those below ``if`` and ``try`` too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name, node
            yield from _definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in _targets(node):
                if isinstance(target, ast.Name):
                    yield prefix + target.id, node
        elif not isinstance(node, ast.expr):
            yield from _definitions(node, prefix)


def _targets(node: ast.Assign | ast.AnnAssign) -> Sequence[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]
