"""Spark's text files rewritten: pure functions over their bytes."""

from __future__ import annotations

import json

import pytest

from flinkish.restore.logs import (
    Line,
    combined_watermark,
    moved_location,
    with_commit,
    with_lines,
    with_operator,
    with_pins,
    with_query_id,
)

STORE = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}


def operator(ordinal: int, **store: object) -> bytes:
    info = {
        "operatorInfo": {"operatorId": ordinal, "operatorName": "dedupe"},
        "stateStoreInfo": [{**STORE, **store}],
        "operatorPropertiesJson": '{"é":"\\"{}"}',
    }
    return b"v1\n" + json.dumps(info, separators=(",", ":"), ensure_ascii=False).encode()


def test_query_id() -> None:
    assert with_query_id(b'{"id":"a","more":1}', "b") == b'{"id":"b","more":1}'
    with pytest.raises(ValueError, match="names no query id"):
        with_query_id(b'{"name":"a"}', "b")


def test_other_pins() -> None:
    def entry(value: str) -> bytes:
        head = f'{{"batchWatermarkMs":0,"conf":{{"a":"{value}","b":"é"}},"new":1}}'
        return f'v1\n{head}\n{{"logOffset":2}}\n-'.encode()

    assert with_pins(entry("1"), {"a": "2"}) == entry("2")
    with pytest.raises(ValueError, match="v7"):
        with_pins(b"v7\n{}\n", {"a": "2"})


@pytest.mark.parametrize(
    ("location", "moved"),
    [
        ("file:/old/state/0/_stateSchema/s/0_u", "file:/new/c/state/7/_stateSchema/s/0_u"),
        ("file:///old/state/0/_stateSchema/s/0_u", "file:///new/c/state/7/_stateSchema/s/0_u"),
        ("/old/state/0/_stateSchema/s/0_u", "/new/c/state/7/_stateSchema/s/0_u"),
        ("file:/state/x/state/11/_stateSchema/s/0", "file:/new/c/state/7/_stateSchema/s/0"),
        ("/a:b/state/1/_stateSchema/s/0", "/new/c/state/7/_stateSchema/s/0"),
    ],
)
def test_moved_location(location: str, moved: str) -> None:
    assert moved_location(location, "/new/c", 7) == moved


def test_locations_of_an_unknown_form_are_refused() -> None:
    for location in ("file:/elsewhere", "file:/c/state/0"):
        with pytest.raises(ValueError, match="no state directory"):
            moved_location(location, "/new", 0)


def test_operator_metadata() -> None:
    assert with_operator(operator(3), "/new", 3) is None
    assert with_operator(operator(3), "/new", 0) == operator(0)
    old = operator(1, stateSchemaFilePaths=["file:/old/state/1/_stateSchema/default/0_u"])
    for ordinal in (1, 2):  # an absolute location is never right in a new place
        moved = f"file:/new/state/{ordinal}/_stateSchema/default/0_u"
        assert with_operator(old, "/new", ordinal) == operator(
            ordinal, stateSchemaFilePaths=[moved]
        )
    with pytest.raises(ValueError, match="not JSON"):
        with_operator(b"v2\n{", "/new", 0)


OFFSETS = b'v1\n{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{"a":"\xc3\xa9"}}\n{"x":1}\n-'


def test_lines_of_an_offset_log() -> None:
    own = [Line("0", '{"x":1}'), Line("1", "-")]
    assert with_lines(OFFSETS, 5, own) == OFFSETS
    changed = with_lines(OFFSETS, 3, [Line("0", "-"), Line("1", '{"y":"ü"}'), Line("2", "-")])
    head = b'v1\n{"batchWatermarkMs":3,"batchTimestampMs":9,"conf":{"a":"\xc3\xa9"}}'
    assert changed == head + '\n-\n{"y":"ü"}\n-'.encode()


def test_lines_of_an_offset_log_with_names() -> None:
    old = (
        b'v2\n{"batchWatermarkMs":0,"conf":{},"sourceMetadataInfo":{"a":{"x":1},"b":{"x":2}}}\n'
        b'b:{"n":1}\na:{"m":1}'
    )
    lines = [Line("a", '{"m":1}'), Line("new", "-")]
    assert with_lines(old, 0, lines) == (
        b'v2\n{"batchWatermarkMs":0,"conf":{},"sourceMetadataInfo":{"a":{"x":1}}}\na:{"m":1}'
    )


def test_commits() -> None:
    assert with_commit(b'v1\n{"nextBatchWatermarkMs":5}', 7, {0: (("i",),)}) == (
        b'v1\n{"nextBatchWatermarkMs":7}'
    )
    old = b'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"0":[["i"],["j"]]}}'
    new = with_commit(old, 5, {10: (("i",), ("j",)), 2: (("k", "l"),)})
    assert new == (
        b'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{"2":[["k","l"]],"10":[["i"],["j"]]}}'
    )
    with pytest.raises(ValueError, match="not JSON"):
        with_commit(b"v1\n{", 1, {})


@pytest.mark.parametrize(
    ("watermarks", "policy", "expected"),
    [
        ([30, 20], "min", 20),
        ([30, 20], None, 20),
        ([30, 20], "max", 30),
        ([7], "max", 7),
        ([], "min", 0),
    ],
)
def test_combined_watermark(watermarks: list[int], policy: str | None, expected: int) -> None:
    assert combined_watermark(watermarks, policy) == expected
