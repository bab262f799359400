"""Rows, keys and streams of real Spark 4.3 (recorded by ``golden``): its own bytes are the oracle.

Rows decode to the values that Spark itself gave for them, and encode to the bytes they were.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from typing import Any

import pyarrow as pa
import pytest

from flinkish.engine.rows.encodings import (
    NO_PREFIX,
    PREFIX_SCAN,
    RANGE_SCAN,
    TIMESTAMP_POSTFIX,
    TIMESTAMP_PREFIX,
    join_list,
    split_value,
)
from flinkish.engine.rows.row_codec import compile_key, compile_schema, prefix_encoder
from flinkish.engine.stores.codecs import decompressed
from flinkish.engine.stores.writers import compressor
from tests.support.engine.golden_rows import LARGE, PATH, ROWS, content, plain


def golden() -> dict[str, Any]:
    with gzip.open(PATH) as file:
        data: dict[str, Any] = json.load(file)
    return data


GOLDEN = golden()


def unhex(texts: list[str]) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


@pytest.mark.parametrize("case", ROWS)
def test_rows_have_sparks_values_and_bytes(case: str) -> None:
    found = GOLDEN["rows"][case]
    codec, rows = compile_schema(found["schema"]), unhex(found["rows"])
    batch = codec.decode(rows)
    batch.validate(full=True)
    assert batch.schema.names == list(ROWS[case])
    assert len(rows) == len(found["values"])
    for index, name in enumerate(batch.schema.names):
        column = batch.column(index)
        ours = [plain(as_spark(value, column.type)) for value in column.to_pylist()]
        assert ours == [row[index] for row in found["values"]], name
    assert codec.encode(batch).rows() == rows
    # A part of the batch, whose arrays do not start at their buffers' starts.
    assert codec.encode(batch.slice(1, len(rows) - 2)).rows() == rows[1:-1]


def as_spark(value: Any, arrow: Any) -> Any:
    """A value of Arrow's as Spark gives it: structs without names, maps as dictionaries."""
    if value is None:
        return None
    if pa.types.is_struct(arrow):
        fields = zip(value.values(), arrow, strict=True)
        return tuple(as_spark(part, field.type) for part, field in fields)
    if pa.types.is_map(arrow):
        pairs = ((as_spark(k, arrow.key_type), as_spark(v, arrow.item_type)) for k, v in value)
        return dict(pairs)
    if pa.types.is_list(arrow):
        return [as_spark(part, arrow.value_type) for part in value]
    return value


@pytest.mark.parametrize("name", GOLDEN["families"])
def test_keys_and_values_of_real_queries(name: str) -> None:
    found = GOLDEN["families"][name]
    keys, values = unhex(found["keys"]), unhex(found["values"])
    encoder = found["encoder"]
    if name.startswith("rocksdb-session"):  # its schema file has format v2, which has no encoder
        encoder = prefix_encoder(1)
    codec = compile_key(found["key"], encoder)
    batch = codec.decode(keys, framed=True)
    batch.validate(full=True)
    assert batch.num_columns == len(found["key"]["fields"])
    assert codec.encode(batch, framed=True) == keys
    # Without the encoding they are bare rows, as in a HDFS-backed store.
    bare = codec.encode(batch, framed=False)
    assert codec.decode(bare, framed=False).equals(batch)
    value_codec = compile_schema(found["value"])
    for value in values:
        rows = split_value(value)
        again = value_codec.encode(value_codec.decode(rows)).rows()
        assert again == rows
        if value[:1] != b"\x00":
            assert split_value(join_list(again, b",")) == rows


def test_the_recorded_families_have_every_encoding() -> None:
    kinds = {
        family["encoder"]["keyStateEncoderType"]
        for family in GOLDEN["families"].values()
        if family["encoder"]
    }
    assert kinds == {NO_PREFIX, PREFIX_SCAN, RANGE_SCAN, TIMESTAMP_PREFIX, TIMESTAMP_POSTFIX}


@pytest.mark.parametrize("codec", GOLDEN["compressed"])
def test_streams_are_sparks(codec: str) -> None:
    """Spark's is read, ours has the same content, and every byte where the compressor allows.

    Snappy chooses other matches in a large block than the version in Spark, and LZF chunks are
    not compressed by us at all.
    """
    found = GOLDEN["compressed"][codec]
    small, large = content(700), content(LARGE)
    stream = bytes.fromhex(found["small"])
    assert b"".join(decompressed(io.BytesIO(stream), codec, "f")) == small
    for data in (small, large):
        assert b"".join(decompressed(io.BytesIO(compress(codec, data)), codec, "f")) == data
    if codec != "lzf":
        assert compress(codec, small) == stream
    if codec in {"lz4", "zstd"}:
        assert hashlib.sha256(compress(codec, large)).hexdigest() == found["large"]


def compress(codec: str, data: bytes) -> bytes:
    file = io.BytesIO()
    target = compressor(file, codec)
    for at in range(0, len(data), 999):
        target.write(data[at : at + 999])
    target.finish()
    return file.getvalue()
