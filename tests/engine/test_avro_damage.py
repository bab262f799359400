"""Canonical state files that are damaged, cut short, foreign or newer."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkish.engine.avro_container import zigzag
from flinkish.engine.avro_files import FORMAT_KEY, row_schema
from flinkish.engine.errors import StateFormatError, UnsupportedState
from tests.engine.test_avro_files import FAR, MAP, batch_of, far_batch, parsed, read, written
from tests.engine.test_rowcodec import texts


def sample() -> bytes:
    key = parsed(("id", "long", False), ("tags", {"type": "array", "elementType": "string"}, True))
    keys = batch_of(key, [1, 2], [["a", None], None])
    data, _ = written(key, FAR, *[(keys, far_batch())] * 3, metadata={"job": "a"})
    return data


def consumed(data: bytes) -> Iterator[str]:
    for keys, values in read(data).blocks:
        yield from texts(keys)
        yield from texts(values)


def test_every_truncation_is_noticed_but_between_blocks() -> None:
    data = sample()
    whole = list(consumed(data))
    sync = data[-16:]
    ends = [i + 16 for i in range(len(data)) if data.startswith(sync, i)]
    assert len(ends) == 4
    for size in range(len(data)):
        if size in ends:
            found = list(consumed(data[:size]))
            assert found == whole[: len(found)]
            continue
        with pytest.raises(StateFormatError, match=r"0\.avro at byte \d+: ") as caught:
            list(consumed(data[:size]))
        begun = [0, *(end for end in ends if end <= size)]
        assert caught.value.offset == begun[-1]


def test_flipped_bits_are_noticed() -> None:
    data = sample()
    whole = list(consumed(data))
    start = data.index(data[-16:]) + 16
    chosen = random.Random(5)
    unnoticed = 0
    for _ in range(400):
        damaged = bytearray(data)
        at = chosen.randrange(start * 8, len(data) * 8)
        damaged[at // 8] ^= 1 << at % 8
        # zstd's frames have a bit that says nothing.
        with contextlib.suppress(StateFormatError):
            assert list(consumed(bytes(damaged))) == whole
            unnoticed += 1
    assert unnoticed < 10
    for _ in range(400):  # the header: names and properties are not covered by anything
        damaged = bytearray(data)
        at = chosen.randrange(start * 8)
        damaged[at // 8] ^= 1 << at % 8
        with contextlib.suppress(StateFormatError):
            assert len(list(consumed(bytes(damaged)))) == len(whole)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(-3, 300))
def test_any_bytes_in_a_block_are_rows_or_an_error(garbage: bytes, count: int) -> None:
    key = parsed(("k", "string", True), ("n", {**MAP, "valueType": "decimal(20,2)"}, True))
    value = parsed(("v", "decimal(3,1)", False))
    head, _ = written(key, value)
    framed = zigzag(count) + zigzag(len(garbage)) + garbage + head[-16:]
    plain = head.replace(b"\x12zstandard", b"\x08null")
    with contextlib.suppress(StateFormatError):
        for keys, values in read(plain + framed).blocks:
            keys.validate()
            values.validate()


def renamed(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) == 1
    return data.replace(old, new)


def test_foreign_and_newer_files_are_refused() -> None:
    data = sample()
    version = zigzag(len(FORMAT_KEY)) + FORMAT_KEY.encode() + b"\x021"
    newer = renamed(data, version, version[:-1] + b"2")
    with pytest.raises(UnsupportedState, match="version 2 of canonical state: only 1 is read"):
        read(newer)
    with pytest.raises(UnsupportedState, match="version 2 of Avro's container files"):
        read(b"Obj\x02" + data[4:])
    with pytest.raises(StateFormatError, match="no Avro object container file"):
        read(b"PAR1" + data[4:])
    with pytest.raises(UnsupportedState, match="the codec bzip2"):
        read(renamed(data, b"\x12zstandard", b"\x0abzip2"))
    out = io.BytesIO()
    foreign: Any = {"type": "record", "name": "r", "fields": [{"name": "key", "type": "long"}]}
    fastavro.writer(out, foreign, [{"key": 1}])
    with pytest.raises(StateFormatError, match=r"the metadata has no flinkish\.format"):
        read(out.getvalue())
    out = io.BytesIO()
    fastavro.writer(out, foreign, [{"key": 1}], metadata={FORMAT_KEY: "1"})
    with pytest.raises(StateFormatError, match="the header has no schema of a state"):
        read(out.getvalue())


def test_a_schema_that_lies_about_its_bytes_is_refused() -> None:
    key = parsed(("id", "short", False))
    schema = row_schema(key, None)
    text = json.dumps(schema).replace('"spark.type": "short"', '"spark.type": "string"')
    out = io.BytesIO()
    fastavro.writer(out, json.loads(text), [{"key": {"id": 1}}], metadata={FORMAT_KEY: "1"})
    with pytest.raises(StateFormatError, match="the schema in the header is none of a state"):
        read(out.getvalue())
