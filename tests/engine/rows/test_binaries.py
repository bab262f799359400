"""Byte strings of a block are the same in every form; Python's lists are the oracle."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from flinkish.engine.rows.binaries import Binaries

CHANCE = random.Random(7)
SAMPLES = [
    [],
    [b""],
    [b"", b"a", b""],
    [CHANCE.randbytes(1 + 8 * CHANCE.randrange(5)) for _ in range(50)],
    [CHANCE.randbytes(CHANCE.randrange(40)) for _ in range(50)],
    [b"\x00" + CHANCE.randbytes(24) for _ in range(50)],
]


def forms(rows: list[bytes]) -> list[Binaries]:
    """The same strings from a list, from a buffer, from Arrow, and with gaps between them."""
    offsets = np.cumsum([0, *map(len, rows)])
    arrow = pa.array([b"before", *rows, b"after"], pa.large_binary()).slice(1, len(rows))
    lengths = np.diff(offsets)
    starts = offsets[:-1] + 3 * np.arange(len(rows))
    data = np.frombuffer(b"".join(row + b"gap" for row in rows), np.uint8)
    apart = Binaries(data, starts, lengths, None)
    return [
        Binaries.of(rows),
        Binaries.between(b"".join(rows), offsets),
        Binaries.from_arrow(arrow),
        apart,
    ]


@pytest.mark.parametrize("rows", SAMPLES, ids=range(len(SAMPLES)))
@pytest.mark.parametrize("form", range(4))
def test_every_form_has_the_same_strings(rows: list[bytes], form: int) -> None:
    def fresh() -> Binaries:
        return forms(rows)[form]

    assert len(fresh()) == len(rows)
    assert fresh() == rows
    assert list(fresh()) == rows
    assert fresh().rows() == rows
    assert fresh().lengths.tolist() == list(map(len, rows))
    assert fresh().to_arrow().to_pylist() == rows
    assert fresh()[1:3] == rows[1:3]
    assert [fresh()[place] for place in range(len(rows))] == rows
    backwards = list(reversed(range(len(rows))))
    assert fresh().take(backwards) == rows[::-1]
    assert fresh().all_start_with_zero() == all(row[:1] == b"\x00" for row in rows)


@pytest.mark.parametrize("rows", SAMPLES, ids=range(len(SAMPLES)))
@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize("skip", [0, 1, 3])
def test_words_are_where_rows_begin(rows: list[bytes], form: int, skip: int) -> None:
    rows = [bytes(skip) + row[: len(row) // 8 * 8] for row in rows]
    data, starts, lengths = forms(rows)[form].words(skip)
    assert len(data) % 8 == 0
    assert not (np.asarray(starts) % 8).any()
    whole = bytes(data)
    both = zip(starts.tolist(), lengths.tolist(), strict=True)
    assert [whole[start : start + length] for start, length in both] == [row[skip:] for row in rows]
