"""What changelogs do to a RocksDB store: put, remove, append, in their order."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.checkpoint.format.names import HDFS, ROCKSDB
from flinkish.engine.errors import StateFormatError
from flinkish.engine.stores.checkpoints import read_checkpoint, store_files
from flinkish.engine.stores.files import LocalDirectory
from flinkish.engine.stores.records import MERGE, PUT, REMOVE, Change
from flinkish.engine.stores.rocksdb_store import (
    _bring,
    closed_database,
    family_of,
    open_rocksdb_store,
)
from flinkish.errors import StorageError
from tests.support.checkpoints.recorded import unpack
from tests.support.engine.handwritten_state import END, lz4, store, utf
from tests.support.engine.handwritten_state import rows as stored


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


class _Broken(io.BytesIO):
    """A remote file whose connection breaks while it is read."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError("Connection reset by peer")


@pytest.mark.parametrize("name", ["1.changelog", "1.delta"])
@pytest.mark.parametrize("sidecar", [False, True])
def test_a_read_that_is_refused_names_the_file_that_was_read(name: str, sidecar: bool) -> None:
    backend = ROCKSDB if name == "1.changelog" else HDFS
    crc = {f"{name}.crc": b'{"algorithm":"CRC32C","value":1,"mainFileSize":1}'} if sidecar else {}
    files = store({name: b"", **crc}, 1, backend)

    def opened(asked: str) -> io.BytesIO:
        return _Broken() if asked == name else io.BytesIO(crc[asked])

    with pytest.raises(StorageError, match=f"^cannot read {name}: Connection reset by peer$"):
        stored(replace(files, open=opened))


def test_a_shared_file_that_is_longer_than_recorded_gets_no_false_size(tmp_path: Path) -> None:
    files = store({"SSTs/a.sst": b"x" * 5000}, 1, ROCKSDB)
    with pytest.raises(StateFormatError, match="has more than 10 bytes where the snapshot says 10"):
        _bring(files, "SSTs/a.sst", str(tmp_path / "a.sst"), 10)


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


def test_a_snapshot_is_not_compacted_while_changes_are_added(tmp_path: Path) -> None:
    source = LocalDirectory(str(unpack("spark43-changelog-agg", tmp_path)))
    [operator] = read_checkpoint(source).operators
    files = store_files(source, operator, 0, operator.stores[0])
    with closed_database(files) as (directory, _):
        newest = max(Path(directory).glob("OPTIONS-*"))
        _, family = newest.read_text().split('[CFOptions "default"]')
    assert "disable_auto_compactions=true" in family


def test_a_key_that_is_shorter_than_a_familys_id_is_damage() -> None:
    with pytest.raises(StateFormatError, match=r"^1.zip: a key is shorter than the id"):
        family_of(b"\x01", {1: "count"}, "1.zip")
    with pytest.raises(StateFormatError, match=r"^1.zip: a key of the unknown column family 2$"):
        family_of(b"\x02\x00", {1: "count"}, "1.zip")
