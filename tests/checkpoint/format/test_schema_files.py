"""State schema files of each version; what Spark cannot have written is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from flinkish.checkpoint.format.errors import (
    CannotWrite,
    CheckpointFormatError,
    UnsupportedCheckpointFormat,
)
from flinkish.checkpoint.format.schema_files import (
    FamilySchemas,
    parse_schema_file,
    schema_version,
    write_schema_file,
)
from flinkish.checkpoint.format.text import spark_json
from tests.support.checkpoints.recorded import unpack


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
        [found] = parse_schema_file(data, "schema")
        assert found.name == "default"
        assert found.key == json.loads(KEY)
        assert found.value == json.loads(VALUE)
    v3 = utf("v3") + struct.pack(">i", 2) + family("count") + family("$rowCounter_x")
    assert [f.name for f in parse_schema_file(v3, "schema")] == ["count", "$rowCounter_x"]


def test_every_truncation_is_noticed() -> None:
    for whole in (
        utf("v2") + chunks(KEY) + chunks(VALUE),
        utf("v3") + struct.pack(">i", 1) + family("a"),
    ):
        for length in range(len(whole)):
            with pytest.raises(CheckpointFormatError):
                parse_schema_file(whole[:length], "schema")


V1 = utf("v1") + utf(KEY) + utf(VALUE)
V2 = utf("v2") + chunks(KEY) + chunks(VALUE)


@pytest.mark.parametrize(
    ("data", "offset", "reason"),
    [
        # Taken by the cut, refused by the engine, before there was one parser.
        *[(whole + b"\x00", len(whole), "content follows the end") for whole in (V1, V2)],
        (utf("v3") + struct.pack(">i", 1) + family("a") + b"junk", None, "content follows the end"),
        (utf("v3") + struct.pack(">i", -1), 4, "the number -1 is negative"),
        (utf("v2") + struct.pack(">i", -1), 4, "the number -1 is negative"),
        (
            utf("v3") + struct.pack(">i", (1 << 31) - 1),
            4,
            "the file is too short for 2147483647 items",
        ),
        (utf("v1") + utf("[]") + utf("{}"), 4, "a schema is not a struct"),
        (utf("v1") + utf(KEY) + utf("{"), 4 + 2 + len(KEY), "a schema is not JSON"),
        (
            utf("v2") + struct.pack(">i", (1 << 31) - 1),
            4,
            "the file is too short for 2147483647 items",
        ),
        (utf("v1") + utf("[" * 5000) + utf("{}"), 4, "nested more than"),
        (utf("v1") + utf('{"fields": [{"name": "a"}]}') * 2, 4, "neither a name nor an object"),
        (utf("v1") + utf('{"fields": [7]}') * 2, 4, "a field has no name"),
        (b"\x00\x02\xff\xff", 0, "damaged text"),
        (utf("w1"), 0, "'w1' is not a version of state schemas"),
        (b"", 0, "the file ends too early"),
    ],
)
def test_what_cannot_be_is_refused(data: bytes, offset: int | None, reason: str) -> None:
    with pytest.raises(CheckpointFormatError, match=reason) as caught:
        parse_schema_file(data, "0/_metadata/schema")
    assert caught.value.file == "0/_metadata/schema"
    assert not isinstance(caught.value, UnsupportedCheckpointFormat)
    assert offset is None or caught.value.offset == offset


def test_a_newer_version_is_not_damage() -> None:
    with pytest.raises(UnsupportedCheckpointFormat, match="'v4'; the newest known is 'v3'"):
        parse_schema_file(utf("v4"), "schema")
    assert [schema_version(data, "schema") for data in (V1, V2, utf("v3"))] == [1, 2, 3]


STRUCT = {"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": True}]}
ENCODER = {"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_schema_files_of_every_version(version: int) -> None:
    long = {"type": "struct", "fields": [{"name": "x" * 70_000, "type": "long"}]}
    odd = {"type": "struct", "fields": [{"name": 'ä\0"\\u001f\x1f😀\n', "type": "long"}]}
    value = odd if version == 1 else long
    family = FamilySchemas("default", odd, value, ENCODER if version == 3 else None)
    families = [family, FamilySchemas("o", STRUCT, STRUCT, ENCODER, 3, 4, spark_json(STRUCT))]
    families = families if version == 3 else [family]
    data = write_schema_file(families, version)
    assert parse_schema_file(data, "schema") == tuple(families)
    assert write_schema_file(parse_schema_file(data, "schema"), version) == data


def test_schema_files_that_cannot_be_are_refused() -> None:
    family = FamilySchemas("default", STRUCT, STRUCT)
    for families, version in (([family, family], 2), ([], 1), ([family], 4), ([family], 3)):
        with pytest.raises(CannotWrite):
            write_schema_file(families, version)


@pytest.mark.parametrize("name", ["spark35-rocksdb-agg", "spark43-rocksdb-tws"])
def test_every_cut_of_a_schema_file_is_noticed(name: str, tmp_path: Path) -> None:
    """Formats v2 and v3; of v1 only the head differs."""
    operator = unpack(name, tmp_path) / "state" / "0"
    found = [*operator.glob("0/_metadata/schema"), *operator.glob("_stateSchema/*/[0-9]*")]
    assert found
    for path in found:
        whole = path.read_bytes()
        assert parse_schema_file(whole, path.name)
        for size in range(len(whole)):
            with pytest.raises(CheckpointFormatError):
                parse_schema_file(whole[:size], path.name)
        with pytest.raises(CheckpointFormatError, match="content follows"):
            parse_schema_file(whole + b"x", path.name)
        with pytest.raises(UnsupportedCheckpointFormat, match="of version 'v9'"):
            parse_schema_file(b"\x00\x02v9" + whole[4:], path.name)
