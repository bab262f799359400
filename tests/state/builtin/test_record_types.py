"""What a class says of its fields, and what it may not say."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar, NamedTuple, Optional

import pytest

from flinkish.errors import UsageError
from flinkish.state.builtin.record_types import class_aliases, record_fields, state_type


@state_type(aliases=["Old", "other.module:Older"], fields={"b": ["bee"]})
@dataclass
class Stats:
    a: int
    b: Optional[str] = None  # noqa: UP045
    c: list[int] = field(default_factory=list, metadata={"aliases": ["sea", "see"]})
    shared: ClassVar[int] = 1


@dataclass
class Child(Stats):
    d: float = 0.0


class Pair(NamedTuple):
    a: int
    b: str = "x"


@dataclass
class Unknown:
    a: Nowhere  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Initialised:
    a: int
    seed: InitVar[int]


@dataclass(init=False)
class OwnConstructor:
    a: str
    b: int

    def __init__(self, text: str) -> None:
        self.a, self.b = text, len(text)


@dataclass
class Twice:
    a: int = field(default=0, metadata={"aliases": ["x"]})
    b: int = field(default=0, metadata={"aliases": ["x"]})


@state_type(fields={"nope": ["x"]})
@dataclass
class Stray:
    a: int


@dataclass
class BadAliases:
    a: int = field(default=0, metadata={"aliases": "x"})


def test_fields_in_order() -> None:
    found = record_fields(Stats)
    assert [each.name for each in found] == ["a", "b", "c"]
    assert [each.aliases for each in found] == [(), ("bee",), ("sea", "see")]
    assert [each.default and each.default() for each in found] == [None, None, []]
    assert found[0].default is None
    assert [each.name for each in record_fields(Pair)] == ["a", "b"]
    assert record_fields(Pair)[1].default


def test_former_names_of_the_class() -> None:
    assert class_aliases(Stats) == (f"{__name__}:Old", "other.module:Older")
    assert class_aliases(Child) == (), "those of a base class are its own"
    assert [each.name for each in record_fields(Child)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (int, "neither a dataclass nor a NamedTuple"),
        (Unknown, "the type hints of .* cannot be read: name 'Nowhere'"),
        (Initialised, "needs seed, which is not a field"),
        (OwnConstructor, "the constructor of .* does not take its fields"),
        (Twice, "b has the alias x, which is its own name or already an alias"),
        (Stray, "has aliases for nope, but no such field"),
        (BadAliases, "the aliases of a are not a list of names: 'x'"),
    ],
)
def test_what_cannot_be_kept_is_refused(cls: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        record_fields(cls)


def test_a_class_in_a_function_is_refused() -> None:
    @dataclass
    class Local:
        a: int

    with pytest.raises(UsageError, match="not at the top level"):
        record_fields(Local)


def test_aliases_are_lists_of_names() -> None:
    for bad in ("Old", [""], [1]):
        with pytest.raises(UsageError, match="not a list of names"):
            state_type(aliases=bad)  # type: ignore[arg-type]
