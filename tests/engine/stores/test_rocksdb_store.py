"""What changelogs do to a RocksDB store: put, remove, append, in their order."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from flinkish.checkpoint.format.names import ROCKSDB
from flinkish.engine.stores.records import MERGE, PUT, REMOVE, Change
from flinkish.engine.stores.rocksdb_store import open_rocksdb_store
from tests.support.engine.handwritten_state import END, lz4, store, utf


def changelog(changes: Sequence[Change]) -> bytes:
    """A changelog of v2: a byte says what to do, 0 is the end."""
    data = utf("v2")
    for kind, key, value in changes:
        data += bytes([kind]) + struct.pack(">i", len(key)) + key
        data += END if kind == REMOVE else struct.pack(">i", len(value)) + value
    return lz4(data + b"\x00")


def rows(*changelogs: Sequence[Change]) -> dict[bytes, bytes]:
    contents = {f"{n}.changelog": changelog(c) for n, c in enumerate(changelogs, start=1)}
    with open_rocksdb_store(store(contents, len(contents), ROCKSDB)) as opened:
        return dict(opened.rows())


@pytest.mark.parametrize(
    ("changelogs", "expected"),
    [
        ([[(PUT, b"k", b"a")], [(PUT, b"k", b"b")]], {b"k": b"b"}),
        ([[(PUT, b"k", b"a")], [(REMOVE, b"k", b"")]], {}),
        ([[(PUT, b"k", b"a"), (REMOVE, b"k", b"")], [(PUT, b"k", b"b")]], {b"k": b"b"}),
        ([[(PUT, b"k", b"a"), (MERGE, b"k", b"b")]], {b"k": b"ab"}),
        # What is appended later stands behind what was there.
        ([[(PUT, b"k", b"a")], [(MERGE, b"k", b"b")], [(MERGE, b"k", b"c")]], {b"k": b"abc"}),
        ([[(MERGE, b"k", b"a")], [(MERGE, b"k", b"b"), (MERGE, b"k", b"c")]], {b"k": b"abc"}),
        ([[(PUT, b"k", b"a")], [(REMOVE, b"k", b""), (MERGE, b"k", b"b")]], {b"k": b"b"}),
        ([[(MERGE, b"k", b"a")], [(PUT, b"k", b"b"), (MERGE, b"k", b"c")]], {b"k": b"bc"}),
    ],
)
def test_changes_count_in_their_order(
    changelogs: list[list[Change]], expected: dict[bytes, bytes]
) -> None:
    assert rows(*changelogs) == expected
