"""Sizes in front of parts: back as they were, and damage is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.errors import Corrupt
from flinkish.state.wire import Parts, put_part, put_size, put_text


@given(st.integers(0, 2**63 - 1), st.binary(max_size=300), st.text())
def test_what_was_put_is_read(size: int, part: bytes, text: str) -> None:
    out = bytearray()
    put_size(out, size)
    put_part(out, part)
    put_text(out, text)
    parts = Parts(bytes(out), "it")
    assert (parts.size(), parts.part(), parts.text()) == (size, part, text)
    parts.end()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends within a size"),
        (b"\x80", "ends within a size"),
        (b"\x80\x00", "more bytes than it needs"),
        (b"\xff" * 12, "too long"),
        (b"\x05abc", "a part of 5 bytes is cut off"),
        (b"\xff\xff\xff\xff\x7f", "is cut off"),
    ],
)
def test_damage_is_found(data: bytes, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        Parts(data, "it").part()


def test_what_is_left_over_too_much_or_no_text_is_found() -> None:
    with pytest.raises(Corrupt, match="2 extra bytes"):
        Parts(b"ab", "it").end()
    with pytest.raises(Corrupt, match="the maximum is 2"):
        Parts(b"\x03abc", "it").part(2)
    with pytest.raises(Corrupt, match="not UTF-8"):
        Parts(b"\x01\xff", "it").text()
    with pytest.raises(Corrupt, match="200 parts should follow"):
        Parts(b"\xc8\x01", "it").count()
