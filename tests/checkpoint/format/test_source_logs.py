"""Which entries of a file source's log make up a position."""

from __future__ import annotations

import pytest

from flinkish.checkpoint.format.source_logs import (
    compacted_number,
    is_file_source_log,
    log_offset,
    source_log_entries,
)


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
