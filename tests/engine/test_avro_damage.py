"""Canonical state files that are damaged, cut short, foreign or newer."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from flinkish.avro.container import encode_long
from flinkish.engine.avro.state_avro import FORMAT_KEY, row_schema
from flinkish.engine.errors import StateFormatError, UnsupportedState
from tests.engine.avro.test_state_avro import FAR, MAP, batch_of, far_batch, parsed, read, written
from tests.engine.rows.test_row_codec import texts
from tests.support.examples import attempt, examples


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


KEY = parsed(("k", "string", True), ("n", {**MAP, "valueType": "decimal(20,2)"}, True))
VALUE = parsed(("v", "decimal(3,1)", False))
#: Rows as fastavro writes them, and what damage makes of them.
ROWS = st.builds(
    lambda key, pairs, value: {
        "key": {"k": key, "n": pairs},
        "value": {"v": Decimal(value).scaleb(-1)},
    },
    st.none() | st.text(max_size=5),
    st.none()
    | st.lists(
        st.builds(
            lambda k, n: {"key": k, "value": None if n is None else Decimal(n).scaleb(-2)},
            st.text(max_size=3),
            st.none() | st.integers(-999_999, 999_999),
        ),
        max_size=2,
    ),
    st.integers(-999, 999),
)


def encoded(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    schema: Any = fastavro.parse_schema(row_schema(KEY, VALUE))
    for row in rows:
        fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


@examples(
    60,
    200,
    st.lists(ROWS, max_size=3),
    st.integers(0, 60),
    st.integers(0, 4),
    st.binary(max_size=8),
    st.integers(-3, 3),
)
def test_any_bytes_in_a_block_are_fastavros_rows_or_an_error(
    rows: list[dict[str, Any]], at: int, length: int, put: bytes, more: int
) -> None:
    good = encoded(rows)
    block = good[:at] + put + good[at + length :]
    count = len(rows) + more if more < 0 else len(rows)
    head, _ = written(KEY, VALUE)
    framed = encode_long(count) + encode_long(len(block)) + block + head[-16:]
    data = head.replace(b"\x12zstandard", b"\x08null") + framed
    found = attempt(
        lambda: [row for keys, values in read(data).blocks for row in plain(keys, values)],
        StateFormatError,
    )
    if isinstance(found, StateFormatError):
        assert found.file == "0.avro"
        assert (block, count) != (good, len(rows)), "nothing is damaged"
    else:
        assert len(found) == count
        assert found == list(fastavro.reader(io.BytesIO(data), handle_unicode_errors="replace"))


def plain(keys: Any, values: Any) -> Iterator[dict[str, Any]]:
    """The rows of a block as fastavro shows them; strings are Spark's bytes, UTF-8 or not."""
    keys.validate()
    values.validate()
    names, maps = keys.columns
    ends = maps.offsets.to_pylist()
    entries = list(zip(_strings(maps.keys), maps.items.to_pylist(), strict=True))
    for i, (name, value) in enumerate(zip(_strings(names), values[0].to_pylist(), strict=True)):
        pairs = [{"key": k, "value": v} for k, v in entries[ends[i] : ends[i + 1]]]
        key = {"k": name, "n": pairs if maps[i].is_valid else None}
        yield {"key": key, "value": {"v": value}}


def _strings(column: Any) -> list[str | None]:
    found = column.cast(pa.binary()).to_pylist()
    return [None if data is None else data.decode(errors="replace") for data in found]


def renamed(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) == 1
    return data.replace(old, new)


def test_foreign_and_newer_files_are_refused() -> None:
    data = sample()
    version = encode_long(len(FORMAT_KEY)) + FORMAT_KEY.encode() + b"\x021"
    newer = renamed(data, version, version[:-1] + b"2")
    with pytest.raises(UnsupportedState, match="version 2 of canonical state: only 1 is read"):
        read(newer)
    with pytest.raises(UnsupportedState, match="version 2 of Avro's container files"):
        read(b"Obj\x02" + data[4:])
    with pytest.raises(StateFormatError, match="not an Avro object container file"):
        read(b"PAR1" + data[4:])
    with pytest.raises(UnsupportedState, match="unsupported Avro codec bzip2"):
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
    with pytest.raises(StateFormatError, match="the header's schema is not a state schema"):
        read(out.getvalue())
