from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.checkpoint import layout
from tests.support.examples import attempt

HEAD = json.dumps({"batchWatermarkMs": 5, "batchTimestampMs": 9, "conf": {"a.b": "1"}})


def test_offsets_v1() -> None:
    entry = layout.parse_offsets(f'v1\n{HEAD}\n{{"logOffset":4}}\n-\n17'.encode())
    assert (entry.version, entry.watermark_ms, entry.timestamp_ms) == (1, 5, 9)
    assert entry.pins == {"a.b": "1"}
    assert entry.sources == ("0", "1", "2")
    assert entry.offsets == ('{"logOffset":4}', "-", "17")


def test_offsets_v2_are_ordered_by_source_and_keep_colons() -> None:
    entry = layout.parse_offsets(f'v2\n{HEAD}\n10:-\n2:{{"a":1}}\nnamed:7'.encode())
    assert entry.version == 2
    assert dict(zip(entry.sources, entry.offsets, strict=True)) == {
        "2": '{"a":1}',
        "10": "-",
        "named": "7",
    }
    assert entry.sources == ("2", "10", "named")


def test_offsets_keep_separators_inside_json() -> None:
    # U+2028 splits lines for str.splitlines, not for Spark.
    entry = layout.parse_offsets('v1\n{}\n{"topic\u2028x":{"0":1}}'.encode())
    assert entry.offsets == ('{"topic\u2028x":{"0":1}}',)


def test_offsets_without_metadata() -> None:
    entry = layout.parse_offsets(b"v1\n\n{}")
    assert entry.pins == {}
    assert entry.offsets == ("{}",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"v1",
        b"v",
        b"vx\n{}",
        b"v0\n{}",
        b"\xff\xfe",
        b"v1\nnot json\n-",
        b"v1\n[]\n-",
        b'v1\n{"conf":[]}',
        b'v1\n{"batchWatermarkMs":"x"}',
        b"v2\n{}\nno source id",
    ],
)
def test_damaged_offsets(data: bytes) -> None:
    with pytest.raises(layout.LogFormatError):
        layout.parse_offsets(data)


def test_newer_log_version_is_named() -> None:
    with pytest.raises(layout.LogFormatError, match="v3 is newer than v2"):
        layout.parse_offsets(b"v3\n{}\n-")


def test_commits() -> None:
    assert layout.parse_commit(b'v1\n{"nextBatchWatermarkMs":7}') == layout.CommitEntry(1, 7)
    assert layout.parse_commit(b"v1\n{}").next_watermark_ms == 0
    entry = layout.parse_commit(
        b'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a","b"],["c","d"]]}}'
    )
    assert entry.version == 2
    assert entry.state_ids == {0: (("a", "b"), ("c", "d"))}


@pytest.mark.parametrize("ids", ["[1]", '{"0":1}', '{"x":[["a"]]}', '{"0":[1]}'])
def test_damaged_commit(ids: str) -> None:
    with pytest.raises(layout.LogFormatError):
        layout.parse_commit(f'v2\n{{"stateUniqueIds":{ids}}}'.encode())


def test_query_id() -> None:
    assert layout.parse_query_id(b'{"id":"abc"}') == "abc"
    for bad in (b"", b"{}", b'{"id":3}', b"\xff"):
        with pytest.raises(layout.LogFormatError):
            layout.parse_query_id(bad)


def test_operator_metadata_v1_and_v2() -> None:
    v1 = layout.parse_operator_metadata(
        b'v1\n{"operatorInfo":{"operatorId":1,"operatorName":"dedupe"},"stateStoreInfo":'
        b'[{"storeName":"default","numColsPrefixKey":0,"numPartitions":4}]}'
    )
    assert (v1.operator_id, v1.name, v1.stores) == (1, "dedupe", ("default",))
    v2 = layout.parse_operator_metadata(
        b'v2\n{"operatorInfo":{"operatorId":0,"operatorName":"tws"},"stateStoreInfo":'
        b'[{"storeName":"default","stateSchemaFilePaths":["file:/x/state/0/_stateSchema/d/0_u"]}],'
        b'"operatorPropertiesJson":"{}"}'
    )
    assert v2.schema_files == {"default": ("file:/x/state/0/_stateSchema/d/0_u",)}
    for bad in (b"v1\n{}", b"v1\n[]", b'v1\n{"operatorInfo":1,"stateStoreInfo":[]}', b"v9\n{}"):
        with pytest.raises(layout.LogFormatError):
            layout.parse_operator_metadata(bad)


def test_batch_numbers_ignore_everything_else() -> None:
    names = ["10", "2", ".2.crc", "3.compact", "x", "٣", "7.tmp"]
    assert layout.batch_numbers(names) == [2, 10]


@pytest.mark.parametrize(
    ("names", "limit", "present", "absent"),
    [
        (["0", "1", "2", "3"], 1, ["0", "1"], []),
        (["0", "1", "2.compact", "3", "4"], 3, ["2.compact", "3"], []),
        (["0", "1", "2.compact", "3"], 2, ["2.compact"], []),
        (["0", "1", "2.compact", "3"], 1, ["0", "1"], []),
        (["2.compact", "3", "4", "5.compact"], 4, ["2.compact", "3", "4"], []),
        (["2.compact", "4"], 4, ["2.compact", "4"], ["3"]),
        (["0"], -1, [], []),
        ([], 0, [], ["0"]),
    ],
)
def test_source_log_entries(
    names: list[str], limit: int, present: list[str], absent: list[str]
) -> None:
    assert layout.source_log_entries(names, limit) == (present, absent)


def test_log_offset_is_the_file_sources() -> None:
    assert layout.log_offset('{"logOffset":12}') == 12
    for other in ("-", "12", '{"topic":{"0":1}}', '{"logOffset":true}', '{"logOffset":"1"}'):
        assert layout.log_offset(other) is None


def test_is_file_source_log() -> None:
    assert layout.is_file_source_log(b'v1\n{"path":"file:///x","timestamp":1,"batchId":0}')
    assert not layout.is_file_source_log(b"v1\n1700000000000")
    assert not layout.is_file_source_log(b'0{"t":{"0":1}}')


def test_pins() -> None:
    rocks = {"spark.sql.streaming.stateStore.providerClass": "a.RocksDBStateStoreProvider"}
    assert layout.backend_of(rocks) == "rocksdb"
    assert layout.backend_of({}) is None
    assert layout.pinned_partitions({"spark.sql.shuffle.partitions": "8"}) == 8
    both = {
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.streaming.internal.stateStore.partitions": "3",
    }
    assert layout.pinned_partitions(both) == 3
    assert layout.pinned_partitions({}) is None


#: One of each log file, as Spark writes it, and what reads it.
LOGS: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "offsets": (
        layout.parse_offsets,
        b'v1\n{"batchWatermarkMs":5,"batchTimestampMs":6,"conf":{"a":"1"}}\n{"logOffset":2}\n-',
    ),
    "commit": (layout.parse_commit, b'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{}}'),
    "query id": (layout.parse_query_id, b'{"id":"6d2b7c1e-0000-4000-8000-000000000001"}'),
    "operator": (
        layout.parse_operator_metadata,
        b'v1\n{"operatorInfo":{"operatorId":1,"operatorName":"dedupe"},'
        b'"stateStoreInfo":[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}',
    ),
}


def _lines(data: bytes) -> list[str]:
    """The lines of a file of a known version; an error where it has none."""
    version, *lines = data.decode("utf-8").split("\n")
    assert version.strip() in {"v1", "v2"} or version.strip().lstrip("v0") in {"1", "2"}
    return lines


def _matches(found: Any, data: bytes) -> None:
    """What was read stands in the file, where it belongs."""
    if isinstance(found, str):
        assert json.loads(data)["id"] == found != ""
        return
    lines = _lines(data)
    if isinstance(found, layout.OperatorMetadata):
        head = json.loads("\n".join(lines))
        assert str(head["operatorInfo"]["operatorName"]) == found.name
        assert found.stores == tuple(str(s["storeName"]) for s in head["stateStoreInfo"])
        return
    head = json.loads(lines[0]) if lines and lines[0].strip() else {}
    if isinstance(found, layout.CommitEntry):
        assert found.next_watermark_ms == head.get("nextBatchWatermarkMs", 0)
        return
    assert isinstance(found, layout.OffsetEntry)
    assert found.watermark_ms == head.get("batchWatermarkMs", 0)
    assert sorted(found.pins) == sorted(head.get("conf", {}))
    texts = [line for line in lines[1:] if line]
    if found.version == 2:
        texts = [line.partition(":")[2] for line in texts]
    assert sorted(found.offsets) == sorted(texts)


@pytest.mark.parametrize("kind", LOGS)
@given(
    st.binary(max_size=80),
    st.integers(0, 200),
    st.integers(0, 200),
    st.sampled_from([b"", b"v1\n", b"v2\n{}\n"]),
)
def test_any_bytes_are_read_as_they_stand_or_refused(
    kind: str, data: bytes, start: int, length: int, head: bytes
) -> None:
    parse, whole = LOGS[kind]
    for candidate in (data, head + data, whole[:start] + data + whole[start + length :]):
        found = attempt(partial(parse, candidate), layout.LogFormatError)
        if isinstance(found, layout.LogFormatError):
            assert str(found), "it says what is wrong"
            assert candidate != whole
        else:
            _matches(found, candidate)


@pytest.mark.parametrize("kind", ["query id", "operator"])
def test_every_cut_of_one_document_is_refused(kind: str) -> None:
    parse, whole = LOGS[kind]
    _matches(parse(whole), whole)
    for length in range(len(whole)):
        with pytest.raises(
            layout.LogFormatError,
            match=r"not JSON|the first line is|newer than|lacks|ends too early",
        ):
            parse(whole[:length])
