from __future__ import annotations

import json
import struct

import pytest

from flinkish.checkpoint.schema import (
    SchemaFormatError,
    decode_modified_utf8,
    parse_schema_file,
)


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def chunks(text: str, size: int = 60) -> bytes:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return struct.pack(">i", len(pieces)) + b"".join(utf(piece) for piece in pieces)


KEY = json.dumps({"type": "struct", "fields": [{"name": "k", "type": "string"}]})
VALUE = json.dumps({"type": "struct", "fields": [{"name": "v" * 90, "type": "long"}]})


def family(name: str) -> bytes:
    return (
        utf(name)
        + struct.pack(">h", 0)
        + chunks(KEY)
        + struct.pack(">h", 1)
        + chunks(VALUE)
        + chunks('{"keyStateEncoderType":"NoPrefixKeyStateEncoderSpec"}')
        + chunks("{    }")
    )


def test_versions() -> None:
    for data in (utf("v1") + utf(KEY) + utf(VALUE), utf("v2") + chunks(KEY) + chunks(VALUE)):
        [found] = parse_schema_file(data)
        assert found.name == "default"
        assert found.key_schema == json.loads(KEY)
        assert found.value_schema == json.loads(VALUE)
    v3 = utf("v3") + struct.pack(">i", 2) + family("count") + family("$rowCounter_x")
    assert [f.name for f in parse_schema_file(v3)] == ["count", "$rowCounter_x"]


def test_every_truncation_is_noticed() -> None:
    for whole in (
        utf("v2") + chunks(KEY) + chunks(VALUE),
        utf("v3") + struct.pack(">i", 1) + family("a"),
    ):
        for length in range(len(whole)):
            with pytest.raises(SchemaFormatError):
                parse_schema_file(whole[:length])


@pytest.mark.parametrize(
    "data", [utf("v4"), utf("v1") + utf("[]") + utf("{}"), b"\x00\x02\xff\xff"]
)
def test_unknown(data: bytes) -> None:
    with pytest.raises(SchemaFormatError):
        parse_schema_file(data)


def test_modified_utf8() -> None:
    assert decode_modified_utf8(b"a\xc0\x80b") == "a\x00b"
    # U+1F600 as Java writes it: two surrogates of three bytes each.
    assert decode_modified_utf8(b"\xed\xa0\xbd\xed\xb8\x80") == "\U0001f600"
    assert decode_modified_utf8("ä€".encode()) == "ä€"
