"""Schemas of documents, with jsonschema as the judge of what they accept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import pytest
from jsonschema import Draft202012Validator

from flinkish.messages.codec import OMIT_DEFAULT, decode_fields, encode_fields, named
from flinkish.messages.json_schema import DIALECT, Format, schema_of, summary


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Part:
    """A part.

    Attributes
    ----------
    size, weight
        In the units of :class:`~somewhere.Unit`,
        as ``always``.
    """

    size: int
    weight: float | None = None


@dataclass(frozen=True)
class Whole:
    name: str
    colour: Colour
    kind: Literal["a", "b"]
    parts: tuple[Part, ...]
    both: tuple[int, str]
    table: Mapping[str, Part]
    either: Part | str
    anything: Any
    is_new: bool
    origin: str | None = field(default=None, metadata=named("from"))
    hidden: int | None = field(default=3, metadata=OMIT_DEFAULT)


class SamePart(TypedDict):
    x: int


SamePart.__name__ = "Part"


class Envelope(TypedDict):
    schema_version: Literal[1]


class Simple(TypedDict):
    """A simple one. It has more."""

    when: Annotated[str | None, Format("date-time"), "the moment"]
    parts: list[Part]


class _May(TypedDict, total=False):
    note: str


class Other(_May):
    size: int


WHOLE = Whole("n", Colour.RED, "a", (Part(1, 2.5),), (1, "x"), {"k": Part(2)}, Part(3), [1], True)


def judge(*documents: type) -> Draft202012Validator:
    schema = schema_of(documents, Envelope, title="a title")
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == DIALECT
    return Draft202012Validator(schema)


def test_what_the_codec_writes_is_accepted_and_nothing_else() -> None:
    accepts, whole = judge(Whole).is_valid, {"schema_version": 1, **encode_fields(WHOLE)}
    assert accepts(whole)
    assert accepts({**whole, "hidden": None, "added_later": 1})
    for key in whole:
        assert not accepts({k: v for k, v in whole.items() if k != key}), key
    for key, wrong in {
        "name": 1,
        "colour": "green",
        "kind": "c",
        "parts": [{"size": 1}],
        "both": [1],
        "table": {"k": 1},
        "either": 5,
        "is_new": 1,
        "from": 1,
        "hidden": "x",
        "schema_version": 2,
    }.items():
        assert not accepts({**whole, key: wrong}), key


@pytest.mark.parametrize("value", [None, 1, 1.5, "x", True, [], {}])
def test_a_schema_accepts_of_each_field_what_the_reader_accepts(value: Any) -> None:
    from flinkish.errors import Corrupt

    plain = encode_fields(WHOLE)
    accepts = judge(Whole).is_valid
    for key in plain:
        changed = {**plain, key: value}
        try:
            decode_fields(Whole, changed)
        except Corrupt:
            readable = False
        else:
            readable = True
        assert accepts({"schema_version": 1, **changed}) == readable, key


def test_what_a_docstring_says_of_a_field_is_its_description() -> None:
    schema = schema_of([Simple], Envelope, title="t")
    assert schema["description"] == "A simple one. It has more."
    assert summary(Simple) == "A simple one"
    assert schema["properties"]["when"] == {
        "type": ["string", "null"],
        "format": "date-time",
        "description": "the moment",
    }
    part = schema["$defs"]["Part"]
    assert part["description"] == "A part."
    for key in ("size", "weight"):
        assert part["properties"][key]["description"] == "In the units of Unit, as always."


def test_a_document_is_one_of_several_and_no_mixture() -> None:
    accepts = judge(Simple, Other).is_valid
    simple: dict[str, Any] = {"schema_version": 1, "when": None, "parts": []}
    other = {"schema_version": 1, "size": 1}
    assert accepts(simple)
    assert accepts(other)
    assert accepts({**other, "note": "x", "added_later": 1})
    assert accepts({**simple, "note": "x"})  # a later one may have what another has now and then
    assert not accepts({**simple, "size": 1})
    assert not accepts({**other, "parts": []})


def test_a_type_that_the_codec_does_not_know_is_refused() -> None:
    class Unknown(TypedDict):
        raw: bytes

    with pytest.raises(TypeError, match="does not know the type"):
        schema_of([Unknown], Envelope, title="t")


def test_two_types_of_one_name_are_refused() -> None:
    class Both(TypedDict):
        a: Part
        b: SamePart

    with pytest.raises(TypeError, match="two types are called Part"):
        schema_of([Both], Envelope, title="t")
