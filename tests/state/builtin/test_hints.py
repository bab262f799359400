"""From type hints to serializers, and what to use where there is none."""

from __future__ import annotations

import enum
import typing
from collections import namedtuple
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, Optional

import numpy as np
import pytest

from flinkish.errors import UsageError
from flinkish.state import AvroSerializer, serializer_of
from flinkish.state.builtin.record_types import check_key, is_named_tuple


class Pair(NamedTuple):
    a: int
    b: str


@dataclass
class Mutable:
    x: int


class Colour(enum.Enum):
    RED = 1


Untyped = namedtuple("Untyped", "a b")


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (bool, "bool"),
        (int, "int"),
        (float, "float"),
        (str, "str"),
        (bytes, "bytes"),
        (date, "date"),
        (datetime, "datetime"),
        (Decimal, "Decimal"),
        (np.float32, "numpy.float32"),
        (np.float64, "numpy.float64"),
        (np.bool_, "numpy.bool"),
        (list[int], "list[int]"),
        (typing.List[int], "list[int]"),  # noqa: UP006
        (dict[str, list[bytes]], "dict[str, list[bytes]]"),
        (tuple[int, str], "tuple[int, str]"),
        (tuple[()], "tuple[()]"),
        (Optional[int], "Optional[int]"),  # noqa: UP045
        (int | None, "Optional[int]"),
        (None | int, "Optional[int]"),
        (Annotated[int, "metres"], "int"),
        (Pair, "Pair"),
        (Mutable, "Mutable"),
        (AvroSerializer("long"), "Avro long"),
        (Annotated[Any, AvroSerializer("long")], "Avro long"),
        (list[Annotated[Any, AvroSerializer("long")]], "list[Avro long]"),
    ],
)
def test_supported(hint: Any, name: str) -> None:
    assert serializer_of(hint).type_name == name


@pytest.mark.parametrize(
    ("hint", "advice"),
    [
        (list, "list[int]"),
        (dict, "dict[str, int]"),
        (tuple, "tuple[int, str]"),
        (tuple[int, ...], "use list[T]"),
        (set[int], "dict[T, bool]"),
        (frozenset, "dict[T, bool]"),
        (None, "use Optional[T]"),
        (type(None), "use Optional[T]"),
        (int | str, "a class with a field for each case"),
        (int | str | None, "a class with a field for each case"),
        (Any, "use a dataclass"),
        (object, "use a dataclass"),
        (Colour, "use a dataclass"),
        (complex, "use a dataclass"),
        (np.ndarray, "use a dataclass"),
        (np.datetime64, "datetime.datetime"),
        (dict[list[int], int], "make the keys immutable"),
        (dict[Mutable, int], "make the keys immutable"),
        (list[set[int]], "dict[T, bool]"),
        ("int", "use a dataclass"),
        (5, "use a dataclass"),
        (Untyped, "typing.NamedTuple"),
    ],
)
def test_unsupported_types_say_what_to_use(hint: Any, advice: str) -> None:
    with pytest.raises(UsageError) as caught:
        serializer_of(hint)
    assert advice in caught.value.hint


def test_keys() -> None:
    check_key(dict[Pair, int], Pair)
    assert is_named_tuple(Pair)
    assert not is_named_tuple(tuple)
    assert serializer_of(dict[Pair, int]).serialize({Pair(1, "x"): 2})
