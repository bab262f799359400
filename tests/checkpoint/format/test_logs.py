"""Entries of the offset and commit log, and ``metadata``, parsed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.checkpoint.format.errors import CheckpointFormatError, UnsupportedCheckpointFormat
from flinkish.checkpoint.format.logs import (
    MAX_WATERMARK_MS,
    CommitEntry,
    OffsetEntry,
    compacted_number,
    drained_entry,
    is_file_source_log,
    log_offset,
    parse_commit,
    parse_offsets,
    parse_query_id,
    source_log_entries,
)
from flinkish.checkpoint.format.operator_files import OperatorMetadata, parse_operator_metadata
from tests.support.checkpoints.recorded import NAMES, unpack
from tests.support.examples import attempt

HEAD = json.dumps({"batchWatermarkMs": 5, "batchTimestampMs": 9, "conf": {"a.b": "1"}})


def test_offsets_v1() -> None:
    entry = parse_offsets(f'v1\n{HEAD}\n{{"logOffset":4}}\n-\n17'.encode(), "offsets/1")
    assert (entry.version, entry.watermark_ms, entry.timestamp_ms) == (1, 5, 9)
    assert entry.pins == {"a.b": "1"}
    assert entry.sources == ("0", "1", "2")
    assert entry.offsets == ('{"logOffset":4}', "-", "17")


def test_offsets_v2_are_ordered_by_source_and_keep_colons() -> None:
    entry = parse_offsets(f'v2\n{HEAD}\n10:-\n2:{{"a":1}}\nnamed:7'.encode(), "offsets/1")
    assert entry.version == 2
    assert dict(zip(entry.sources, entry.offsets, strict=True)) == {
        "2": '{"a":1}',
        "10": "-",
        "named": "7",
    }
    assert entry.sources == ("2", "10", "named")


def test_offsets_keep_separators_inside_json() -> None:
    # U+2028 splits lines for str.splitlines, not for Spark.
    entry = parse_offsets('v1\n{}\n{"topic\u2028x":{"0":1}}'.encode(), "offsets/1")
    assert entry.offsets == ('{"topic\u2028x":{"0":1}}',)


def test_offsets_without_metadata() -> None:
    entry = parse_offsets(b"v1\n\n{}", "offsets/1")
    assert entry.pins == {}
    assert entry.offsets == ("{}",)
    with pytest.raises(CheckpointFormatError, match="not JSON"):
        parse_offsets(b"v2\n\n0:{}", "offsets/1")


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
        b"v2\n{}\n:7",
        b"v2\n{}\n0:",
        b"v2\n{}\n0:7\n0:8",
        # Source ids that lead out of the checkpoint's directory sources.
        b"v2\n{}\n../../evil:5",
        b"v2\n{}\n/evil:5",
        b"v2\n{}\n..:5",
        b"v2\n{}\na\0b:5",
        b'v2\n{"sourceMetadataInfo":{"a":{}}}',
        # Taken as it was, before: positions that move up, settings that Spark cannot have written.
        b"v1\n",
        b"v1\n{}",
        b"v1\n{}\n",
        b"v1\n{}\n-\n",
        b"v1\n{}\n-\n\n-",
        b'v1\n{}\n{"logOffset":',
        b"v1\n{}\n[1",
        b'v1\n{"conf":{"a":1}}\n-',
        b'v1\n{"batchWatermarkMs":true}\n-',
    ],
)
def test_damaged_offsets(data: bytes) -> None:
    with pytest.raises(CheckpointFormatError, match=r"^offsets/1 at byte \d+: "):
        parse_offsets(data, "offsets/1")


def test_a_setting_that_is_null_is_none() -> None:
    assert parse_offsets(b'v1\n{"conf":{"a":null,"b":"1"}}\n-', "offsets/1").pins == {"b": "1"}


def test_what_sources_say_is_their_own() -> None:
    entry = parse_offsets(b"v1\n{}\nmark 17\n-\n0:3", "offsets/1")
    assert entry.offsets == ("mark 17", "-", "0:3")


def test_a_log_of_version_2_may_have_no_line() -> None:
    assert parse_offsets(b'v2\n{"sourceMetadataInfo":{}}', "offsets/1").sources == ()


def test_newer_log_version_is_named() -> None:
    with pytest.raises(UnsupportedCheckpointFormat, match="v3 is newer than v2"):
        parse_offsets(b"v3\n{}\n-", "offsets/1")


def test_commits() -> None:
    assert parse_commit(b'v1\n{"nextBatchWatermarkMs":7}', "c") == CommitEntry(1, 7)
    assert parse_commit(b"v1\n{}", "c").next_watermark_ms == 0
    entry = parse_commit(
        b'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a","b"],["c","d"]]}}',
        "commits/1",
    )
    assert entry.version == 2
    assert entry.state_ids == {0: (("a", "b"), ("c", "d"))}


@pytest.mark.parametrize("ids", ["[1]", '{"0":1}', '{"x":[["a"]]}', '{"0":[1]}'])
def test_damaged_ids(ids: str) -> None:
    with pytest.raises(CheckpointFormatError):
        parse_commit(f'v2\n{{"stateUniqueIds":{ids}}}'.encode(), "commits/1")


@pytest.mark.parametrize("data", [b"v1", b"v1\n", b"v1\n{", b"v1\n[]", b"v1\n{}\n{}", b"{}"])
def test_damaged_commits(data: bytes) -> None:
    """The first two were taken for a commit without watermark; Spark writes an object (``{}``)."""
    with pytest.raises(CheckpointFormatError, match=r"^commits/1 at byte \d+: "):
        parse_commit(data, "commits/1")


def test_query_id() -> None:
    assert parse_query_id(b'{"id":"abc"}') == "abc"
    for bad in (b"", b"{}", b'{"id":3}', b"\xff"):
        with pytest.raises(CheckpointFormatError):
            parse_query_id(bad)


#: One of each log file, as Spark writes it, and what reads it.
LOGS: dict[str, tuple[Callable[[bytes, str], Any], bytes]] = {
    "offsets": (
        parse_offsets,
        b'v1\n{"batchWatermarkMs":5,"batchTimestampMs":6,"conf":{"a":"1"}}\n{"logOffset":2}\n-',
    ),
    "commit": (parse_commit, b'v2\n{"nextBatchWatermarkMs":5,"stateUniqueIds":{}}'),
    "query id": (parse_query_id, b'{"id":"6d2b7c1e-0000-4000-8000-000000000001"}'),
    "operator": (
        parse_operator_metadata,
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
    if isinstance(found, OperatorMetadata):
        head = json.loads("\n".join(lines))
        assert str(head["operatorInfo"]["operatorName"]) == found.name
        assert found.store_names == tuple(str(s["storeName"]) for s in head["stateStoreInfo"])
        return
    head = json.loads(lines[0]) if lines[0].strip() else {}
    if isinstance(found, CommitEntry):
        assert found.next_watermark_ms == head.get("nextBatchWatermarkMs", 0)
        return
    assert isinstance(found, OffsetEntry)
    assert found.watermark_ms == head.get("batchWatermarkMs", 0)
    assert found.pins == {k: v for k, v in head.get("conf", {}).items() if v is not None}
    texts = lines[1:]
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
        found = attempt(partial(parse, candidate, "a/file"), CheckpointFormatError)
        if isinstance(found, CheckpointFormatError):
            assert str(found).startswith("a/file at byte "), "it says what is wrong, and where"
            assert found.offset in range(len(candidate) + 1)
            assert candidate != whole
        else:
            _matches(found, candidate)


@pytest.mark.parametrize("kind", ["query id", "operator", "commit"])
def test_every_cut_of_one_document_is_refused(kind: str) -> None:
    parse, whole = LOGS[kind]
    _matches(parse(whole, "a/file"), whole)
    for length in range(len(whole)):
        with pytest.raises(
            CheckpointFormatError,
            match=r"not JSON|the first line is|newer than|lacks|ends too early",
        ):
            parse(whole[:length], "a/file")


@pytest.mark.parametrize("name", NAMES)
def test_only_the_watermark_changes(tmp_path: Path, name: str) -> None:
    offsets = unpack(name, tmp_path) / "offsets"
    newest = max(offsets.glob("[0-9]*"), key=lambda path: int(path.name))
    data = newest.read_bytes()
    found = drained_entry(data, "offsets/1")
    before, after = parse_offsets(data, "a"), parse_offsets(found, "b")
    assert after == replace(before, watermark_ms=MAX_WATERMARK_MS)
    heads = [json.loads(text.split(b"\n")[1]) for text in (data, found)]
    assert {**heads[0], "batchWatermarkMs": MAX_WATERMARK_MS} == heads[1]
    assert data.split(b"\n")[2:] == found.split(b"\n")[2:]


def test_a_setting_with_an_unpaired_surrogate_is_drained() -> None:
    """An escape is valid JSON, and UTF-8 has no other form of such a character."""
    data = b'v1\n{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{"a":"\\uD800"}}\n-'
    assert drained_entry(data, "offsets/1") == data.replace(b":5,", b":9223372036854775,")


def test_the_maximum_fits_microseconds() -> None:
    assert MAX_WATERMARK_MS * 1000 < 2**63 <= (MAX_WATERMARK_MS + 1) * 1000


@pytest.mark.parametrize("data", [b"", b"v1\n\n{}", b"v1\n{", b"v9\n{}\n{}"])
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointFormatError):
        drained_entry(data, "offsets/1")


@pytest.mark.parametrize(
    ("names", "limit", "present", "absent"),
    [
        (["0", "1", "2", "3"], 1, ["0", "1"], []),
        (["0", "1", "2.compact", "3", "4"], 3, ["2.compact", "3"], []),
        (["0", "1", "2.compact", "3"], 2, ["2.compact"], []),
        (["0", "1", "2.compact", "3"], 1, ["0", "1"], []),
        (["2.compact", "3", "4", "5.compact"], 4, ["2.compact", "3", "4"], []),
        (["2.compact", "4"], 4, ["2.compact", "4"], ["3"]),
        (["2.compact", "5.compact", "8.compact", "9"], 9, ["5.compact", "8.compact", "9"], []),
        (["0"], -1, [], []),
        ([], 0, [], ["0"]),
    ],
)
def test_source_log_entries(
    names: list[str], limit: int, present: list[str], absent: list[str]
) -> None:
    assert source_log_entries(names, limit) == (present, absent)


def test_log_offset_is_the_file_sources() -> None:
    assert log_offset('{"logOffset":12}') == 12
    for other in ("-", "12", '{"topic":{"0":1}}', '{"logOffset":true}', '{"logOffset":"1"}'):
        assert log_offset(other) is None


def test_is_file_source_log() -> None:
    assert is_file_source_log(b'v1\n{"path":"file:///x","timestamp":1,"batchId":0}')
    assert not is_file_source_log(b"v1\n1700000000000")
    assert not is_file_source_log(b'0{"t":{"0":1}}')


def test_compacted_entries() -> None:
    assert compacted_number("9.compact") == 9
    for other in ("9", ".compact", "09.compact", "x.compact", "9.compact.tmp"):
        assert compacted_number(other) is None
