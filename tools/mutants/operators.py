"""What a fault does to the definition it is made in: the operators, on syntax trees.

An operator names the code that it changes by what it is (a call, an argument, an assignment, an
expression), never by where it stands: how code is laid out, and in which file, makes no difference.
Each gives the changes that fit; a fault is good when that is exactly one.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

#: What stands instead of a node: an expression, or statements.
New = ast.expr | Sequence[ast.stmt]
#: Nodes with what stands instead of each.
Change = Sequence[tuple[ast.AST, New]]
_Node = TypeVar("_Node", bound=ast.AST)


@runtime_checkable
class Operator(Protocol):
    """A way to break code."""

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Every change in a definition that the operator could mean. Pure."""


@dataclass(frozen=True)
class Replace:
    """The expression ``was`` becomes ``now``."""

    was: str
    now: str

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each of the expressions."""
        return ([(node, expression(self.now))] for node in occurrences(place, self.was))


@dataclass(frozen=True)
class Swap:
    """The expressions ``one`` and ``other``, parts of the same whole, change places."""

    one: str
    other: str

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each pair."""
        for whole in ast.walk(place):
            parts = list(ast.iter_child_nodes(whole))
            ones, others = ([p for p in parts if is_code(p, t)] for t in (self.one, self.other))
            for first, second in zip(ones, others, strict=False):
                yield [(first, _expression_of(second)), (second, _expression_of(first))]


@dataclass(frozen=True)
class Compare:
    """The comparison of ``left`` is made by another operator: ``Compare("n", "<", "<=")``."""

    left: str
    was: str
    now: str

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each comparison that begins so."""
        for node in _all(place, ast.Compare):
            if _operator(node) == self.was and is_code(node.left, self.left):
                right = ast.unparse(node.comparators[0])
                yield [(node, expression(f"({ast.unparse(node.left)}) {self.now} ({right})"))]


@dataclass(frozen=True)
class Argument:
    """The keyword argument ``name`` gets another value."""

    name: str
    now: str

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each argument of that name."""
        for node in _all(place, ast.keyword):
            if node.arg == self.name:
                yield [(node.value, expression(self.now))]


@dataclass(frozen=True)
class Assign:
    """What is assigned to ``target`` is another value."""

    target: str
    now: str

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each assignment to it."""
        for node in _all(place, ast.stmt):
            targets: Sequence[ast.expr] = ()
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AnnAssign | ast.AugAssign):
                targets = [node.target]
            if any(is_code(target, self.target) for target in targets):
                value = getattr(node, "value", None)
                if value is not None:
                    yield [(value, expression(self.now))]


@dataclass(frozen=True)
class Return:
    """What is returned is another value.

    Without ``was`` (what is returned now) and ``when`` (the condition of the ``if`` it stands
    under) it is the only return.
    """

    now: str
    was: str = ""
    when: str = ""

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each such return."""
        wholes = [place]
        if self.when:
            wholes = [node for node in _all(place, ast.If) if is_code(node.test, self.when)]
        for node in (node for whole in wholes for node in _all(whole, ast.Return)):
            if node.value is not None and (not self.was or is_code(node.value, self.was)):
                yield [(node.value, expression(self.now))]


@dataclass(frozen=True)
class Choose:
    """Of ``a if condition else b`` it is always the one or the other: ``True`` or ``False``."""

    condition: str
    always: bool

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each conditional expression on it."""
        for node in _all(place, ast.IfExp):
            if is_code(node.test, self.condition):
                yield [(node, node.body if self.always else node.orelse)]


@dataclass(frozen=True)
class Drop:
    """A part goes: of ``and``, ``or`` or ``|``, of a list, a call's arguments, a filter."""

    part: str

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each whole without the part."""
        for whole in ast.walk(place):
            rest = _without(whole, self.part)
            if rest is not None:
                yield [(whole, rest)]


@dataclass(frozen=True)
class Entry:
    """What a dictionary has under ``key`` is another value."""

    key: str
    now: str

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each entry of that key."""
        for node in _all(place, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and is_code(key, self.key):
                    yield [(value, expression(self.now))]


@dataclass(frozen=True)
class Text:
    """In a string, an SQL statement say, what fits a pattern becomes ``now``."""

    pattern: str
    now: str

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each string that has it."""
        for node in _all(place, ast.Constant):
            if isinstance(node.value, str) and re.search(self.pattern, node.value):
                yield [(node, ast.Constant(re.sub(self.pattern, self.now, node.value)))]


@dataclass(frozen=True)
class DropCall:
    """The statement that is a call of ``function`` goes."""

    function: str

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each such statement."""
        return ([(node, [ast.Pass()])] for node in _calls(place, self.function))


@dataclass(frozen=True)
class Insert:
    """Before the statement that is a call, or behind it, comes code.

    The call is named by its function, or whole.
    """

    code: str
    before: str = ""
    after: str = ""

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each such statement."""
        new = ast.parse(self.code).body
        for node in _calls(place, self.before or self.after):
            yield [(node, [*new, node] if self.before else [node, *new])]


@dataclass(frozen=True)
class Both:
    """Two changes that make one fault together."""

    one: Operator
    other: Operator

    def changes(self, place: ast.AST) -> Iterator[Change]:
        """Each pair of them."""
        for one in self.one.changes(place):
            for other in self.other.changes(place):
                yield [*one, *other]


def expression(code: str) -> ast.expr:
    """The tree of an expression."""
    return ast.parse(code, mode="eval").body


def is_code(node: ast.AST, code: str) -> bool:
    """Whether a node is an expression of that code, however it is laid out."""
    wanted = expression(code)
    return type(node) is type(wanted) and ast.unparse(node) == ast.unparse(wanted)


def occurrences(place: ast.AST, code: str) -> Iterator[ast.AST]:
    """Every expression in a definition that is that code."""
    wanted = expression(code)
    text = ast.unparse(wanted)
    return (node for node in _all(place, type(wanted)) if ast.unparse(node) == text)


def _all(place: ast.AST, kind: type[_Node]) -> Iterator[_Node]:
    return (node for node in ast.walk(place) if isinstance(node, kind))


def _calls(place: ast.AST, call: str) -> Iterator[ast.Expr]:
    for node in _all(place, ast.Expr):
        value = node.value
        if isinstance(value, ast.Call) and (is_code(value.func, call) or is_code(value, call)):
            yield node


def _operator(node: ast.Compare) -> str:
    """How the only operator of a comparison is written; "" when there are several."""
    if len(node.ops) > 1:
        return ""
    simple = ast.Compare(ast.Name("a"), node.ops, [ast.Name("b")])
    return ast.unparse(simple)[2:-2]


def _expression_of(node: ast.AST) -> ast.expr:
    assert isinstance(node, ast.expr)
    return node


def _without(whole: ast.AST, part: str) -> ast.expr | None:
    """An expression without a part of it; None when it is no part."""
    if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.BitOr):
        if is_code(whole.right, part):
            return whole.left
        return whole.right if is_code(whole.left, part) else None
    if not isinstance(whole, ast.expr) or isinstance(whole, ast.JoinedStr):
        return None
    for field in ("values", "elts", "args", "keywords"):
        parts = getattr(whole, field, None)
        if not isinstance(parts, list):
            continue
        kept: list[ast.expr] = [each for each in parts if not _is_part(each, part)]
        if len(kept) == len(parts):
            continue
        if isinstance(whole, ast.BoolOp) and len(kept) == 1:
            return kept[0]
        found: ast.expr = copy.copy(whole)
        setattr(found, field, kept)
        if isinstance(found, ast.Dict) and isinstance(whole, ast.Dict):
            pairs = zip(whole.keys, whole.values, strict=True)
            found.keys = [key for key, value in pairs if value in kept]
        return found
    if isinstance(whole, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for number, generator in enumerate(whole.generators):
            filters = [each for each in generator.ifs if not is_code(each, part)]
            if len(filters) < len(generator.ifs):
                found = copy.deepcopy(whole)
                found.generators[number].ifs = filters
                return found
    return None


def _is_part(node: ast.AST, part: str) -> bool:
    if isinstance(node, ast.keyword):
        return node.arg == part
    return is_code(node, part)
