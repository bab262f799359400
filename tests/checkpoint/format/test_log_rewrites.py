"""Spark's text files rewritten: pure functions over their bytes."""

from __future__ import annotations

import pytest

from flinkish.checkpoint.format.log_rewrites import (
    LogLine,
    with_commit,
    with_lines,
    with_pins,
    with_query_id,
    with_state_ids,
)
from flinkish.checkpoint.format.logs import StateIds


def test_query_id() -> None:
    assert with_query_id(b'{"id":"a","more":1}', query_id="b") == b'{"id":"b","more":1}'
    with pytest.raises(ValueError, match="has no query id"):
        with_query_id(b'{"name":"a"}', query_id="b")


def test_other_pins() -> None:
    def entry(value: str) -> bytes:
        head = f'{{"batchWatermarkMs":0,"conf":{{"a":"{value}","b":"é"}},"new":1}}'
        return f'v1\n{head}\n{{"logOffset":2}}\n-'.encode()

    assert with_pins(entry("1"), "offsets/1", pins={"a": "2"}) == entry("2")
    assert with_pins(entry("1"), "offsets/1", pins={}) == entry("1")
    without = with_pins(b"v1\n\n-", "offsets/1", pins={"a": "2"})
    assert without == b'v1\n{"conf":{"a":"2"}}\n-'
    with pytest.raises(ValueError, match="v7"):
        with_pins(b"v7\n{}\n", "offsets/1", pins={"a": "2"})


OFFSETS = b'v1\n{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{"a":"\xc3\xa9"}}\n{"x":1}\n-'


def lines_of(data: bytes, watermark_ms: int, lines: list[LogLine]) -> bytes:
    return with_lines(data, "offsets/1", watermark_ms=watermark_ms, lines=lines)


def test_lines_of_an_offset_log() -> None:
    own = [LogLine("0", '{"x":1}'), LogLine("1", "-")]
    assert lines_of(OFFSETS, 5, own) == OFFSETS
    changed = lines_of(
        OFFSETS, 3, [LogLine("0", "-"), LogLine("1", '{"y":"ü"}'), LogLine("2", "-")]
    )
    head = b'v1\n{"batchWatermarkMs":3,"batchTimestampMs":9,"conf":{"a":"\xc3\xa9"}}'
    assert changed == head + '\n-\n{"y":"ü"}\n-'.encode()


def test_lines_of_an_offset_log_with_names() -> None:
    old = (
        b'v2\n{"batchWatermarkMs":0,"conf":{},"sourceMetadataInfo":{"a":{"x":1},"b":{"x":2}}}\n'
        b'b:{"n":1}\na:{"m":1}'
    )
    lines = [LogLine("a", '{"m":1}'), LogLine("new", "-")]
    assert lines_of(old, 0, lines) == (
        b'v2\n{"batchWatermarkMs":0,"conf":{},"sourceMetadataInfo":{"a":{"x":1}}}\na:{"m":1}'
    )


def commit(data: bytes, watermark_ms: int, ids: dict[int, StateIds]) -> bytes:
    return with_commit(data, "commits/1", watermark_ms=watermark_ms, state_ids=ids)


def test_commits() -> None:
    assert commit(b'v1\n{"nextBatchWatermarkMs":5}', 7, {0: (("i",),)}) == (
        b'v1\n{"nextBatchWatermarkMs":7}'
    )
    old = b'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"0":[["i"],["j"]]}}'
    new = commit(old, 5, {10: (("i",), ("j",)), 2: (("k", "l"),)})
    assert new == (
        b'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"2":[["k","l"]],"10":[["i"],["j"]]}}'
    )
    with pytest.raises(ValueError, match="not JSON"):
        commit(b"v1\n{", 1, {})


def test_ids_of_new_state_files() -> None:
    first, second = b'v1\n{"nextBatchWatermarkMs":5}', b'v2\n{"nextBatchWatermarkMs":5}'
    ids = {10: (("i",),), 2: (("k", "l"),)}
    new = b'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"2":[["k","l"]],"10":[["i"]]}}'
    assert with_state_ids(first, "commits/1", ids=ids) == new
    assert with_state_ids(new, "commits/1", ids=ids) == new
    assert with_state_ids(new, "commits/1", ids={}) == second[:-1] + b',"stateUniqueIds":{}}'
    assert with_state_ids(new, "commits/1", ids=None) == first
    assert with_state_ids(first, "commits/1", ids=None) == first
