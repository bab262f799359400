"""What one Python source says of others: pure, of the standard library alone."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

#: Names of modules inside strings.
_MODULE = re.compile(r"\b(?:flinkish|tests|tools)(?:\.\w+)+")
#: The same in the product's own texts, which advise users: "call flinkish.attach()" calls nothing.
_OWN_MODULE = re.compile(_MODULE.pattern + r"(?!\w*\()")
_FROM = re.compile(r"from ((?:flinkish|tests|tools)[\w.]*) import (\w+)")
#: What may be (the beginning of) a command line: its first words, options apart.
_LINE = re.compile(r"(?:^|flinkish )((?:[a-z-]+\s?)+)")
#: A call of the command line: its name, or a line of a script.
_CALL = re.compile(r"^(?:\$ )?(?:\S*/)?flinkish(?: [a-z-]|$)", re.M)
#: The table of a package that gives names on demand: name -> the submodule that has it.
_HOMES = "_HOMES"


@dataclass
class Source:
    """What a module refers to.

    Parameters
    ----------
    imports
        ``(module, name)`` as in ``from module import name``; also ``module.name`` where it is used.
    on_demand
        The same inside a package's ``__getattr__``: imported for those who ask for a name.
    homes
        The package's names on demand and the submodules that have them.
    defined
        Names that the module has by itself.
    said
        The same in strings: programs given as text, ``python -m``, ``monkeypatch``.
    files
        Parts of whatever may be a path: strings without white space, taken apart at "/".
    calls
        Whether a string that is more than compared with is ``flinkish``, or begins so.
    words
        Words that strings begin with: commands of the command line among them.
    marks
        ``deep``, ``matrix`` -> the names at module level whose definitions have this marker.
    """

    imports: set[tuple[str, str]] = field(default_factory=set)
    on_demand: set[tuple[str, str]] = field(default_factory=set)
    said: set[tuple[str, str]] = field(default_factory=set)
    homes: dict[str, str] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    calls: bool = False
    words: set[str] = field(default_factory=set)
    marks: dict[str, set[str]] = field(default_factory=dict)


def read(text: bytes, module: str, *, is_package: bool) -> Source:
    """Read a source; one that Python cannot parse refers to nothing."""
    source = Source()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return source
    package = module if is_package else module.rpartition(".")[0]
    may_wait = b"__getattr__" in text
    for statement in tree.body:
        names = set(_defines(statement))
        source.defined |= names
        found: set[tuple[str, str]] = set()
        for node in _executed(statement):
            _read_node(node, package, source, found, names)
        on_demand = (
            may_wait
            and isinstance(statement, (ast.If, ast.FunctionDef))
            and any(
                isinstance(each, ast.FunctionDef) and each.name == "__getattr__"
                for each in ast.walk(statement)
            )
        )
        (source.on_demand if on_demand else source.imports).update(found)
        if _HOMES in names and isinstance(statement, ast.Assign):
            source.homes = ast.literal_eval(statement.value)
    source.imports |= _used(tree, {name for name, attribute in source.imports if not attribute})
    source.defined -= {"__getattr__"}
    return source


def _read_node(
    node: ast.AST, package: str, source: Source, found: set[tuple[str, str]], names: set[str]
) -> None:
    if isinstance(node, ast.Import):
        found |= {(each.name, "") for each in node.names}
    elif isinstance(node, ast.ImportFrom):
        parents = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*(parents if node.level else []), *filter(None, [node.module])])
        found |= {(base, each.name) for each in node.names}
    elif isinstance(node, ast.Attribute) and node.attr in ("deep", "matrix"):
        if isinstance(node.value, ast.Attribute) and node.value.attr == "mark":
            source.marks.setdefault(node.attr, set()).update(names or {""})
    elif isinstance(node, (ast.Compare, ast.Subscript)) or _is_lookup(node):
        for child in ast.iter_child_nodes(node):
            child.__dict__["compared"] = True
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
        source.words.update(word for line in _LINE.findall(text) for word in line.split())
        source.said.update(_FROM.findall(text))
        modules = _OWN_MODULE if package.split(".")[0] == "flinkish" else _MODULE
        source.said.update(_split(module) for module in modules.findall(text))
        source.calls |= bool(_CALL.search(text)) and not hasattr(node, "compared")
        if text and not re.search(r"\s", text):
            source.files.update(part for part in text.split("/") if part)
            if re.fullmatch(r"(\.\w+)+", text):
                found.add(_split(package + text))


def _is_lookup(node: ast.AST) -> bool:
    """Return whether a node calls a method that looks up its argument: ``conf.get("flinkish")``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("get", "index", "setitem")
    )


def _split(name: str) -> tuple[str, str]:
    base, _, last = name.rpartition(".")
    return base, last


def digest(text: bytes) -> str:
    """Return a digest of what a source does: its comments, docstrings and layout do not count."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return hashlib.sha256(text).hexdigest()
    for node in ast.walk(tree):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _defines(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.For, ast.With)):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from (each.asname or each.name.split(".")[0] for each in statement.names)
    elif isinstance(statement, ast.Try) or (
        isinstance(statement, ast.If) and not _is_type_checking(statement.test)
    ):
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.stmt):
                yield from _defines(child)


def _executed(statement: ast.AST) -> Iterator[ast.AST]:
    """Walk what runs: neither docstrings nor what only type checkers read."""
    left: list[ast.AST] = [statement]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            left += node.orelse
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        else:
            left += ast.iter_child_nodes(node)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


#: The packages of this repository: files of others are nobody's dependency.
_OURS = {"flinkish", "tests", "tools"}


def _used(tree: ast.Module, modules: set[str]) -> set[tuple[str, str]]:
    """Return the names used of modules that are imported whole: ``flinkish.uid``."""
    roots = {module.split(".")[0] for module in modules}
    if not roots & _OURS:
        return set()
    aliases = {
        each.asname: each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for each in node.names
        if each.asname
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names = [node.attr]
            value = node.value
            while isinstance(value, ast.Attribute):
                names.append(value.attr)
                value = value.value
            if isinstance(value, ast.Name) and (value.id in roots or value.id in aliases):
                names.append(aliases.get(value.id, value.id))
                *base, name = reversed(names)
                found.add((".".join(base), name))
    return found
