"""Version lines, JSON and Java's strings: what Spark writes is read, the rest is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.checkpoint.format.errors import (
    CannotWrite,
    CheckpointFormatError,
    UnsupportedCheckpointFormat,
)
from flinkish.checkpoint.format.text import (
    MAX_DEPTH,
    decode_modified_utf8,
    json_bytes,
    parse_json,
    parse_object,
    spark_json,
    split_version,
    write_utf,
)


@pytest.mark.parametrize("head", [b"", b"v", b"v0", b"v01", b" v1", b"v1 ", b"1", b"v1x", b"\xff"])
def test_a_first_line_that_is_no_version(head: bytes) -> None:
    with pytest.raises(CheckpointFormatError, match="f at byte 0: the first line is") as caught:
        split_version(head + b"\n{}", "f", "log")
    assert not isinstance(caught.value, UnsupportedCheckpointFormat)


def test_versions() -> None:
    assert split_version(b"v2\n{}", "f", "log") == (2, 3)
    with pytest.raises(UnsupportedCheckpointFormat, match="log version v10 is newer than v2"):
        split_version(b"v10", "f", "log")
    with pytest.raises(CheckpointFormatError, match="f at byte 2: the file ends too early"):
        split_version(b"v1", "f", "log")


@pytest.mark.parametrize(
    ("data", "offset", "reason"),
    [
        (b'{"a":1,}', 107, "not JSON"),
        ('{"é":'.encode(), 106, "not JSON"),
        (b'{"a":"\xff"}', 106, "not UTF-8"),
        (b"[]", 100, "not a JSON object"),
        (b"[" * 100_000, 100, "nested"),
        (b'{"a":' + b"9" * 5000 + b"}", 100, "not JSON"),
    ],
)
def test_objects_are_refused_where_they_are_wrong(data: bytes, offset: int, reason: str) -> None:
    with pytest.raises(CheckpointFormatError, match=reason) as caught:
        parse_object(data, "f", 100)
    assert caught.value.offset == offset


def test_depth_is_bounded_not_length() -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_json("[" + "[]," * 10_000 + "[]]")[0] == []
    assert parse_json(deep.encode()) == parse_json(deep)
    with pytest.raises(ValueError, match="nested more than"):
        parse_json(f"[{deep}]")


@pytest.mark.parametrize("end", ["", "\\"])
def test_a_string_without_an_end_is_the_rest_of_the_text(end: str) -> None:
    with pytest.raises(ValueError, match="Unterminated string"):
        parse_json('"' + "[" * (MAX_DEPTH + 1) + end)
    # Not each of these quotes begins a string that is looked through: that would take hours.
    with pytest.raises(ValueError, match="nested more than"):
        parse_json("[" * (MAX_DEPTH + 1) + '"' + '\\"' * 500_000 + end)


def test_jackson_escapes_in_capitals() -> None:
    assert spark_json({"a": "\x1f\\u001f\n"}) == '{"a":"\\u001F\\\\u001f\\n"}'


def test_half_a_pair_stays_an_escape() -> None:
    text = b'{"a":"\\uD800"}'
    assert json_bytes(parse_object(text, "f")) == text
    assert json_bytes({"a": "\U0001f600"}) == '{"a":"\U0001f600"}'.encode()


def test_modified_utf8() -> None:
    assert decode_modified_utf8(b"a\xc0\x80b") == "a\x00b"
    # U+1F600 as Java writes it: two surrogates of three bytes each.
    assert decode_modified_utf8(b"\xed\xa0\xbd\xed\xb8\x80") == "\U0001f600"
    assert decode_modified_utf8("ä€".encode()) == "ä€"
    with pytest.raises(CannotWrite, match="too long"):
        write_utf("é" * 40_000)


@given(st.text(max_size=50))
def test_strings_are_read_as_they_were_written(text: str) -> None:
    assert decode_modified_utf8(write_utf(text)[2:]) == text
