"""Records rewritten by their bytes: the same bytes as one by one, for whole columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.state import serializer_of, state_type, write_snapshot
from flinkish.state.builtin.splicing import Rewriter, splice_of
from flinkish.state.generations import StateFormat, resolve_state
from flinkish.state.snapshots import ModuleLoader


@dataclass
class Old:
    n: int
    name: str
    total: float
    tags: list[str]


@state_type(aliases=["Old"], fields={"label": ["name"]})
@dataclass(frozen=True)
class New:
    tags: list[str]
    label: str
    n: int
    more: float = 0.5
    maybe: Optional[int] = None  # noqa: UP045 - the older way to write it
    listed: list[int] = field(default_factory=list)


def format_of(old: type, new: type) -> StateFormat:
    before = write_snapshot(serializer_of(old).snapshot_configuration())
    loader = ModuleLoader("it", ("flinkish", "tests"))
    found = resolve_state([before], serializer_of(new), loader, eager=True).rewriting
    assert found is not None
    return found


OLDS = st.builds(
    Old,
    st.integers(-(2**63), 2**63 - 1),
    st.text(max_size=6),
    st.floats(),
    st.lists(st.text(max_size=3), max_size=3),
)


def stored(value: Any) -> bytes:
    return b"\0" + serializer_of(type(value)).serialize(value)


@given(st.lists(st.none() | OLDS, max_size=6), st.integers(0, 3))
def test_a_whole_column_as_one_by_one(values: list[Old | None], start: int) -> None:
    rewriter = Rewriter(format_of(Old, New))
    column = [None if value is None else stored(value) for value in values]
    array = pa.array(column, pa.binary()).slice(start)
    found = rewriter.many(array)
    assert found is not None
    found.validate(full=True)
    assert found.to_pylist() == [None if v is None else rewriter(v) for v in column[start:]]


def test_bytes_that_are_of_another_form_are_left_to_the_serializers() -> None:
    rewriter = Rewriter(format_of(Old, New))
    good = stored(Old(1, "a", 2.0, []))
    long = stored(Old(1, "x" * 200, 2.0, []))
    for other in (long, good[:-1], good + b"\0", b"\1" + good[1:], b"", b"\0"):
        assert rewriter.many(pa.array([good, other], pa.binary())) is None
    assert rewriter(long).count(b"x") == 200


@dataclass
class Checked:
    n: int
    more: int = 0

    def __post_init__(self) -> None:
        self.more = self.n + 1


@dataclass
class Constructed:
    n: int
    more: int = 0

    def __init__(self, n: int, more: int = 0) -> None:
        self.n, self.more = abs(n), more


@dataclass
class Unsteady:
    n: int
    more: bytes = field(default_factory=lambda: b"new each time")


class Tuple(NamedTuple):
    n: int
    more: int = 0


@dataclass
class One:
    n: int
    gone: str


@dataclass
class Parts:
    ones: list[One]
    gone: str


@state_type(aliases=["One"])
@dataclass
class OneNow:
    n: int


@state_type(aliases=["Parts"])
@dataclass
class PartsNow:
    ones: list[OneNow]


@pytest.mark.parametrize("new", [Checked, Constructed, Unsteady, Tuple])
def test_where_making_an_object_does_more_it_is_made(new: type) -> None:
    aliased = state_type(aliases=["One"])(new)
    assert splice_of(format_of(One, aliased)) is None


def test_where_a_field_itself_is_migrated_objects_are_made() -> None:
    rewriter = Rewriter(format_of(Parts, PartsNow))
    array = pa.array([stored(Parts([One(1, "x")], "y"))], pa.binary())
    assert rewriter.many(array) is None
    assert rewriter(array[0].as_py()) == stored(PartsNow([OneNow(1)]))
