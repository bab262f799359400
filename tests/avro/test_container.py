"""Avro's container files: what fastavro writes is read, and damage ends at a bound."""

from __future__ import annotations

import io
import zlib
from typing import Any

import fastavro
import pytest
import zstandard

from flinkish.avro.container import (
    COMPRESS,
    DECOMPRESS,
    MAGIC,
    SYNC_BYTES,
    ContainerReader,
    UnsupportedAvro,
    encode_long,
)
from flinkish.avro.decoding import DamagedAvro

SYNC = b"s" * SYNC_BYTES
MOST = 1 << 16


def container(*blocks: tuple[int, bytes], metadata: bytes = b"\0") -> bytes:
    framed = (encode_long(n) + encode_long(len(data)) + data + SYNC for n, data in blocks)
    return b"".join([MAGIC, metadata, SYNC, *framed])


def read(data: bytes, codec: str = "null") -> list[tuple[int, int, bytes]]:
    reader = ContainerReader(io.BytesIO(data), max_header=MOST, max_block=MOST)
    _, sync = reader.header()
    blocks = reader.blocks(sync, lambda packed: DECOMPRESS[codec](packed, MOST))
    return [(block.offset, block.count, block.data) for block in blocks]


def test_a_file_of_fastavro() -> None:
    file = io.BytesIO()
    numbers: Any = [0, -1, 300]
    fastavro.writer(file, "long", numbers, codec="deflate", sync_marker=SYNC, metadata={"é": "1"})
    file.seek(0)
    reader = ContainerReader(file, max_header=MOST, max_block=MOST)
    metadata, sync = reader.header()
    start = reader.offset
    assert (metadata["é"], metadata["avro.codec"], sync) == (b"1", b"deflate", SYNC)
    [block] = reader.blocks(sync, lambda packed: DECOMPRESS["deflate"](packed, MOST))
    assert (block.offset, block.count) == (start, 3)
    assert block.data == b"".join(map(encode_long, numbers))


TWO = container((1, b"a"), (2, b"bc"))


def test_blocks_and_where_they_begin() -> None:
    assert read(TWO) == [(21, 1, b"a"), (40, 2, b"bc")]


@pytest.mark.parametrize(
    ("data", "offset", "reason"),
    [
        (b"", 0, "ends too early"),
        (b"PAR1" + TWO[4:], 0, "not an Avro object container file"),
        (container(metadata=encode_long(1 << 60)), 0, "a part of|ends too early"),
        (container(metadata=encode_long(1) + encode_long(MOST + 1)), 0, f"a part of {MOST + 1}"),
        (container(metadata=b"\x04" + (encode_long(40_000) + b"x" * 40_000) * 4), 0, "too long"),
        (container(metadata=b"\xff" * 11), 0, "more than 64 bits"),
        (container((-1, b"a")), 21, "a block of -1 records"),
        (container((1, b"a"), (1, b"x" * (MOST + 1))), 40, "a part of"),
        (TWO[:-1] + b"t", 40, "the marker after the block is wrong"),
        (TWO[:-1], 40, "the file ends too early, at 59"),
    ],
)
def test_damage_is_named_with_its_place(data: bytes, offset: int, reason: str) -> None:
    with pytest.raises(DamagedAvro, match=reason) as caught:
        read(data)
    assert (caught.value.code, caught.value.offset) == (15, offset)


def test_a_block_that_does_not_decompress() -> None:
    with pytest.raises(DamagedAvro, match="a damaged block: ") as caught:
        read(container((1, b"\xff")), "deflate")
    assert caught.value.offset == 21


def test_another_version() -> None:
    with pytest.raises(UnsupportedAvro, match="version 2 of Avro's container files"):
        read(b"Obj\x02" + TWO[4:])


@pytest.mark.parametrize("codec", ["zstandard", "deflate"])
def test_codecs(codec: str) -> None:
    data = bytes(range(256)) * 100
    packed = COMPRESS[codec](data)
    assert DECOMPRESS[codec](packed, len(data)) == data, "a block that fills its bound"
    for most in (len(data) - 1, 1):
        with pytest.raises(ValueError, match="compressed data of more than"):
            DECOMPRESS[codec](packed, most)
    for size in range(len(packed)):
        with pytest.raises(ValueError, match=r"too early|more than"):
            DECOMPRESS[codec](packed[:size], len(data))
    with pytest.raises(ValueError, match=r"follows the compressed data|bytes follow it"):
        DECOMPRESS[codec](packed + b"12345", len(data))
    assert DECOMPRESS["deflate"](zlib.compress(data)[2:], len(data)) == data, "and its checksum"


def test_a_frame_without_a_size_is_read() -> None:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    packed = packer.compress(b"\0" * (4 << 20)) + packer.flush()
    assert DECOMPRESS["zstandard"](packed, 4 << 20) == b"\0" * (4 << 20)
