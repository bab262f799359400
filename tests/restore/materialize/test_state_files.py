"""State files under another ordinal and version, source logs at a position, empty snapshots."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable

import pytest

from flinkish.checkpoint.format.archives import read_archive_metadata
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.pins import PIN_CODEC, PIN_PROVIDER
from flinkish.errors import Incompatible
from flinkish.restore.materialize.source_logs import SourceFiles, files_at
from flinkish.restore.materialize.state_files import (
    empty_archive,
    empty_snapshot,
    empty_store,
    move_state,
    new_ids,
    of_operator,
    ordinals,
    short_codec,
    store_directories,
)


def moved(files: list[str], ordinal: int, shift: int) -> tuple[list[str], tuple[str, ...]]:
    result = move_state(files, ordinal, shift)
    assert [old for old, _ in result.moves] == files
    return [new for _, new in result.moves], result.bases


def test_files_of_an_operator() -> None:
    files = ["metadata", "state/1/0/1.delta", "state/11/0/1.delta", "state/x", "offsets/1"]
    assert of_operator(files, 1) == ("state/1/0/1.delta",)
    assert ordinals(files) == (1, 11)


def test_another_ordinal() -> None:
    files = [
        "state/0/_metadata/metadata",
        "state/0/_stateSchema/default/0_u",
        "state/0/0/_metadata/schema",
        "state/0/0/5_u.zip",
        "state/0/0/SSTs/000001-u.sst",
        "state/0/0/left-keyToNumValues/6.changelog",
    ]
    assert moved(files, 12, 0) == ([f"state/12/{f[8:]}" for f in files], ())


@pytest.mark.parametrize(
    ("names", "expected", "bases"),
    [
        (["3.snapshot", "4.delta"], ["10.snapshot", "11.delta"], []),
        (["1.delta", "2.delta"], ["8.delta", "9.delta"], ["7.snapshot"]),
        (["1.changelog", "2.changelog"], ["8.changelog", "9.changelog"], ["7.zip"]),
        (["2.zip", "3.changelog"], ["9.zip", "10.changelog"], []),
        (["3_u-1.zip", "3_u-1.zip.crc"], ["10_u-1.zip", "10_u-1.zip.crc"], []),
        (["SSTs/000003-u.sst", "logs/3.log"], ["SSTs/000003-u.sst", "logs/3.log"], []),
        (["_metadata/schema"], ["_metadata/schema"], []),
    ],
)
def test_another_version(names: list[str], expected: list[str], bases: list[str]) -> None:
    for directory in ("0", "1/right-keyToNumValues"):
        found = moved([f"state/2/{directory}/{n}" for n in names], 0, 7)
        assert found == (
            [f"state/0/{directory}/{n}" for n in expected],
            tuple(f"state/0/{directory}/{n}" for n in bases),
        )


def test_each_store_gets_a_base_of_its_own() -> None:
    files = ["state/0/0/1.delta", "state/0/1/1.snapshot", "state/0/1/2.delta", "state/0/2/1.delta"]
    _, bases = moved(files, 0, 2)
    assert bases == ("state/0/0/2.snapshot", "state/0/2/2.snapshot")


def test_a_lineage_cannot_be_raised() -> None:
    files = ["state/0/0/5_u.zip", "state/0/0/6_v.changelog"]
    assert moved(files, 1, 0)[0] == ["state/1/0/5_u.zip", "state/1/0/6_v.changelog"]
    with pytest.raises(Incompatible, match=r"6_v\.changelog holds a lineage"):
        move_state(files, 1, 1)


def entry(number: int) -> bytes:
    return json.dumps({"path": f"file:///in/{number}", "timestamp": 1, "batchId": number}).encode()


def lines(numbers: Iterable[int]) -> bytes:
    return b"v1\n" + b"\n".join(entry(n) for n in numbers)


LOG = {
    **{str(n): lines([n]) for n in (3, 4, 6)},
    "2.compact": lines(range(3)),
    "5.compact": lines(range(6)),
}
OTHERS = {"5": lines([5]), "1.compact": lines(range(2))}


@pytest.mark.parametrize(
    ("names", "limit", "kept", "written"),
    [
        (LOG, 6, ["2.compact", "5.compact", "6"], {}),
        (LOG, 5, ["2.compact", "5.compact"], {}),
        (LOG, 4, ["2.compact", "3", "4"], {}),
        (["5.compact"], 4, [], {"4.compact": lines(range(5))}),
        (["5.compact"], 0, [], {"0.compact": lines([0])}),
        # Spark would expect a compacted entry where there is none.
        (["2.compact", "3", "4", "5", "6"], 6, [], {"6.compact": lines(range(7))}),
        (["1.compact", "5.compact", "6"], 6, [], {"6.compact": lines(range(7))}),
    ],
)
def test_a_file_source_goes_back_to_its_position(
    names: list[str], limit: int, kept: list[str], written: dict[str, bytes]
) -> None:
    found = files_at(list(names), json.dumps({"logOffset": limit}), (LOG | OTHERS).__getitem__)
    assert found == SourceFiles(tuple(kept), written)


def test_sources_without_position() -> None:
    assert files_at(["5.compact", "6"], "-", LOG.__getitem__) == SourceFiles()
    notes = {"0": b'v1\n{"t":{"0":1}}'}  # where a Kafka source began: kept, it begins there again
    assert files_at(["0"], "-", notes.__getitem__) == SourceFiles(("0",))
    assert files_at(["0"], '{"t":{"0":7}}', notes.__getitem__) == SourceFiles(("0",))
    assert files_at([], "-", notes.__getitem__) == SourceFiles()


def test_a_damaged_source_log() -> None:
    with pytest.raises(FileNotFoundError, match="4"):
        files_at(["2.compact", "3"], '{"logOffset":4}', LOG.__getitem__)
    for content in (b"", b"v1\n{", b"v1\n[]", b'v1\n{"path":"x"}'):
        with pytest.raises(CheckpointFormatError):
            files_at(["5.compact"], '{"logOffset":4}', {"5.compact": content}.__getitem__)


def test_empty_snapshots() -> None:
    assert short_codec(None) == short_codec("org.apache.spark.io.LZ4CompressionCodec") == "lz4"
    assert empty_snapshot(None).startswith(b"LZ4Block")
    assert empty_snapshot("ZSTD").startswith(b"\x28\xb5\x2f\xfd")
    with pytest.raises(Incompatible, match=r"com\.example\.Codec"):
        empty_snapshot("com.example.Codec")
    assert read_archive_metadata(io.BytesIO(empty_archive()), "1.zip").shared == ()
    provider, codec = PIN_PROVIDER, PIN_CODEC
    rocksdb = {provider: "org.example.RocksDBStateStoreProvider", codec: "com.example.Codec"}
    assert empty_store(rocksdb) == ("zip", empty_archive())
    assert empty_store({codec: "lzf"}) == ("snapshot", b"ZV\0\0\4" + 4 * b"\xff")
    with pytest.raises(Incompatible, match=r"provider com\.example\.Store"):
        empty_store({provider: "com.example.Store"})


def test_directories_and_ids_have_one_order() -> None:
    stores = ("right-keyToNumValues", "left-keyToNumValues")
    assert store_directories(3, 2, stores) == [
        f"state/3/{partition}/{side}-keyToNumValues"
        for partition in (0, 1)
        for side in ("left", "right")
    ]
    assert store_directories(0, 1, ("default",)) == ["state/0/0"]
    numbers = iter("abcd")
    assert new_ids(2, stores, lambda: next(numbers)) == (("a", "b"), ("c", "d"))
