"""The codec of documents: what it writes, what it refuses, and in which words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Literal

import pytest

from flinkish.errors import Corrupt, UnsupportedFormat
from flinkish.messages.codec import OMIT_DEFAULT, decode, encode


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    number: int
    ratio: float = 0.5


@dataclass(frozen=True)
class Outer:
    VERSION: ClassVar[int] = 3

    name: str
    colour: Colour
    inner: Inner | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    inners: tuple[Inner, ...] = ()
    table: Mapping[str, Inner] = field(default_factory=dict)
    anything: Any = None
    mode: Literal["one", "two"] = "one"
    sure: bool = False
    words: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)


WHOLE = Outer(
    "n",
    Colour.BLUE,
    Inner(1, 2.5),
    (("a", "b"),),
    (Inner(2), Inner(3)),
    {"x": Inner(4)},
    {"plain": [1, None, {"deep": "data"}]},
    "two",
    sure=True,
    words=("w",),
)
DOCUMENT = {
    "version": 3,
    "name": "n",
    "colour": "blue",
    "inner": {"number": 1, "ratio": 2.5},
    "pairs": [["a", "b"]],
    "inners": [{"number": 2, "ratio": 0.5}, {"number": 3, "ratio": 0.5}],
    "table": {"x": {"number": 4, "ratio": 0.5}},
    "anything": {"plain": [1, None, {"deep": "data"}]},
    "mode": "two",
    "sure": True,
    "words": ["w"],
}


def test_a_document_is_the_fields_and_a_version() -> None:
    assert encode(WHOLE) == DOCUMENT
    assert decode(Outer, json.loads(json.dumps(encode(WHOLE)))) == WHOLE


def test_what_has_a_default_may_be_missing() -> None:
    assert decode(Outer, {"version": 1, "name": "n", "colour": "red"}) == Outer("n", Colour.RED)
    assert "words" not in encode(Outer("n", Colour.RED))
    assert encode(Outer("n", Colour.RED))["pairs"] == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_documents_of_older_versions_are_read(version: int) -> None:
    assert decode(Outer, DOCUMENT | {"version": version}) == WHOLE


def test_a_newer_document_is_refused_by_its_version_whatever_is_in_it() -> None:
    with pytest.raises(UnsupportedFormat) as refused:
        decode(Outer, {"version": 4, "of_a_newer_flinkish": 1})
    assert refused.value.message == (
        "Outer is a document of version 4, made by a newer flinkish; this one reads versions up "
        "to 3"
    )
    assert "upgrade flinkish" in refused.value.hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"other": 1}, "Outer has an unknown key 'other'"),
        ({"inner": {"number": 1, "size": 2}}, "Outer.inner has an unknown key 'size'"),
        ({"inner": {}}, "Outer.inner lacks the key 'number'"),
        ({"inner": [1]}, "Outer.inner is [1], where an object is expected"),
        ({"name": None}, "Outer.name is None, where text is expected"),
        ({"name": 3}, "Outer.name is 3, where text is expected"),
        ({"colour": "green"}, "Outer.colour is 'green', where 'red' or 'blue' is expected"),
        ({"inner": {"number": True}}, "Outer.inner.number is True, where an integer is expected"),
        ({"inner": {"number": 1.0}}, "Outer.inner.number is 1.0, where an integer is expected"),
        (
            {"inner": {"number": 1, "ratio": "1"}},
            "Outer.inner.ratio is '1', where a number is expected",
        ),
        ({"pairs": "ab"}, "Outer.pairs is 'ab', where a list is expected"),
        ({"pairs": [["a"]]}, "Outer.pairs[0] is ['a'], where a list of 2 is expected"),
        ({"pairs": [["a", 1]]}, "Outer.pairs[0][1] is 1, where text is expected"),
        ({"table": {"x": None}}, "Outer.table.x is None, where an object is expected"),
        ({"mode": "three"}, "Outer.mode is 'three', where 'one' or 'two' is expected"),
        ({"sure": 1}, "Outer.sure is 1, where true or false is expected"),
        (
            {"version": "3"},
            "Outer.version is '3', where an integer of at least 1 is expected",
        ),
        ({"version": None}, "Outer.version is None, where an integer of at least 1 is expected"),
        ({"version": 0}, "Outer.version is 0, where an integer of at least 1 is expected"),
        ({"version": True}, "Outer.version is True, where an integer of at least 1 is expected"),
    ],
)
def test_what_is_no_such_document_is_refused(change: Mapping[str, Any], message: str) -> None:
    with pytest.raises(Corrupt) as refused:
        decode(Outer, {**DOCUMENT, **change})
    assert refused.value.message == message


@pytest.mark.parametrize("document", [None, [], "text", 3])
def test_a_document_is_an_object(document: object) -> None:
    with pytest.raises(Corrupt, match="where an object is expected"):
        decode(Outer, document)


def test_whole_numbers_are_numbers() -> None:
    assert decode(Inner, {"version": 1, "number": 1, "ratio": 60}).ratio == 60
