"""Streams and records: what is whole is read, whatever is damaged is a StateFormatError."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from flinkish.checkpoint.format.names import ROCKSDB
from flinkish.engine.errors import MissingStateFile, StateFormatError, UnsupportedState
from flinkish.engine.stores.codecs import decompressed
from tests.support.checkpoints.recorded import unpack
from tests.support.engine.handwritten_state import (
    CODECS,
    END,
    delta,
    lineage,
    lz4,
    record,
    rows,
    store,
    utf,
)

ROWS: list[tuple[bytes, bytes | None]] = [
    (b"key-%03d" % i, b"v" * (i % 40) + b"%d" % (i * i)) for i in range(60)
]
WANTED = {key: value for key, value in ROWS if value is not None}


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_of_a_delta_is_noticed(codec: str) -> None:
    whole = CODECS[codec](delta(ROWS))
    assert rows(store({"1.delta": whole}, 1, compression=codec)) == WANTED
    for size in range(len(whole)):
        with pytest.raises(StateFormatError) as caught:
            rows(store({"1.delta": whole[:size]}, 1, compression=codec))
        assert caught.value.file == "1.delta"


@pytest.mark.parametrize("codec", CODECS)
def test_no_flipped_bit_of_a_delta_is_another_error(codec: str) -> None:
    """Of the four only lz4 has checksums: there, a flip is noticed or changes nothing."""
    whole = CODECS[codec](delta(ROWS[:12]))
    noticed = 0
    for at in range(len(whole) * 8):
        data = bytearray(whole)
        data[at // 8] ^= 1 << at % 8
        try:
            found = rows(store({"1.delta": bytes(data)}, 1, compression=codec))
        except StateFormatError:
            noticed += 1
            continue
        if codec == "lz4":
            assert found == dict(ROWS[:12])
    assert noticed > len(whole)


def test_streams_may_follow_one_another() -> None:
    content = delta(ROWS)
    for codec, compress in CODECS.items():
        data = compress(content[:100]) + compress(content[100:])
        assert b"".join(decompressed(io.BytesIO(data), codec, "f")) == content


def test_a_compressed_lzf_block_is_read() -> None:
    # literal "abc", then 9 + 9 bytes from 3 back, overlapping what they make (length 7 + 9 + 2)
    packed = b"\x02abc" + bytes([0b111_00000, 9, 2])
    block = b"ZV\x01" + len(packed).to_bytes(2, "big") + (21).to_bytes(2, "big") + packed
    assert b"".join(decompressed(io.BytesIO(block), "lzf", "f")) == b"abc" * 7
    too_far = b"\x02abc" + bytes([0b111_00000, 9, 3])
    with pytest.raises(StateFormatError, match="damaged LZF block"):
        list(decompressed(io.BytesIO(block[:7] + too_far), "lzf", "f"))


@pytest.mark.parametrize("codec", [*CODECS, "zip", ""])
def test_foreign_files_are_refused(codec: str) -> None:
    for data in (b"", b"PK\x03\x04" + bytes(40), b"v1\n{}" * 30):
        with pytest.raises(StateFormatError):
            rows(store({"1.delta": data}, 1, compression=codec))


def test_a_codec_may_be_given_by_its_class() -> None:
    codec = "org.apache.spark.io.LZ4CompressionCodec"
    assert rows(store({"1.delta": lz4(delta(ROWS))}, 1, compression=codec)) == WANTED


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xff\xff\xfe", "a key has the length -2"),
        (b"\x00\x00\x00\x01k\xff\xff\xff\xfe" + END, "a value has the length -2"),
        (b"\x7f\xff\xff\xffabc", "in the middle of a record"),
        (delta(ROWS) + b"x", "content follows the end"),
        (delta(ROWS)[:-4], "in the middle of a record"),
    ],
)
def test_wrong_records_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(StateFormatError, match=reason):
        rows(store({"1.delta": lz4(content)}, 1))


def test_newer_changes_win_over_the_snapshot() -> None:
    contents = {
        "3.snapshot": lz4(delta([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])),
        "3.delta": lz4(delta([(b"a", b"wrong")])),
        "4.delta": lz4(delta([(b"a", b"2"), (b"b", None), (b"d", b"2"), (b"d", b"3")])),
        "5.delta": lz4(delta([(b"b", b"5"), (b"c", None), (b"e", b"5"), (b"e", None)])),
        "6.delta": lz4(delta([(b"a", b"later")])),
    }
    assert rows(store(contents, 5)) == {b"a": b"2", b"b": b"5", b"d": b"3"}
    assert rows(store(contents, 4)) == {b"a": b"2", b"c": b"1", b"d": b"3"}
    assert rows(store(contents, 0)) == {}
    with pytest.raises(MissingStateFile, match=r"7\.delta"):
        rows(store(contents, 7))
    with pytest.raises(StateFormatError, match="a snapshot removes a row"):
        rows(store({"1.snapshot": lz4(delta([(b"a", None)]))}, 1))


def test_values_larger_than_every_buffer_are_read() -> None:
    big = {b"k": b"x" * 5_000_000, b"l": b"", b"m" * 2_000_000: b"y"}
    whole = CODECS["zstd"](delta(big.items()))
    assert rows(store({"1.delta": whole}, 1, compression="zstd")) == big
    frames = CODECS["zstd"](b"") * 130_000 + whole  # more than are read at once
    assert rows(store({"1.delta": frames}, 1, compression="zstd")) == big


def typed(kind: int, key: bytes, value: bytes | None) -> bytes:
    return bytes([kind]) + record(key, value)


V1 = delta([(b"a", b"1"), (b"b", b"2"), (b"a", None), (b"c", b"3")])
V2 = b"".join(
    [
        typed(0x01, b"a", b"1"),
        typed(0x11, b"a", b"2"),
        typed(0x11, b"m", b"x"),
        typed(0x01, b"b", b"1"),
        typed(0x10, b"b", None),
        typed(0x11, b"b", b"9"),
        typed(0x01, b"c", b"1"),
        typed(0x10, b"c", None),
        b"\x00",
    ]
)
V1_ROWS = {b"b": b"2", b"c": b"3"}
V2_ROWS = {b"a": b"12", b"m": b"x", b"b": b"9"}
CHANGELOGS: dict[str, tuple[bytes, dict[bytes, bytes]]] = {
    "v1": (V1, V1_ROWS),
    "v1 empty": (END, {}),
    "v2": (utf("v2") + V2, V2_ROWS),
    "v2 empty": (utf("v2") + b"\x00", {}),
    "v3": (utf("v3") + lineage() + V1, V1_ROWS),
    "v4": (utf("v4") + lineage() + V2, V2_ROWS),
}


@pytest.mark.parametrize("name", CHANGELOGS)
def test_changelogs_without_a_snapshot(name: str, tmp_path: Path) -> None:
    content, wanted = CHANGELOGS[name]

    def read(data: bytes) -> dict[bytes, bytes]:
        if name in {"v3", "v4"}:
            contents = {"1_ab-1.changelog": data, "1_other.changelog": b"left-over"}
            files = store(contents, 1, ROCKSDB, unique_id="ab-1", scratch=str(tmp_path))
        else:
            files = store({"1.changelog": data}, 1, ROCKSDB, scratch=str(tmp_path))
        return rows(files)

    whole = lz4(content)
    assert read(whole) == wanted
    for size in range(0, len(whole), 3):
        with pytest.raises(StateFormatError):
            read(whole[:size])
    for size in range(len(content)):
        with pytest.raises(StateFormatError):
            read(lz4(content[:size]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "error", "reason"),
    [
        (utf("v5") + V2, UnsupportedState, "changelog of version 5"),
        (utf("v2") + b"\x07" + V2, StateFormatError, "unknown kind of record 0x07"),
        (utf("v2") + typed(0x10, b"k", b"v") + b"\0", StateFormatError, "a value has the length 1"),
        (utf("v2") + typed(0x01, b"k", None) + b"\0", StateFormatError, "the length -1"),
        (utf("v3") + utf("[{}]") + V1, StateFormatError, "damaged lineage"),
        (utf("v3") + utf("nothing") + V1, StateFormatError, "damaged lineage"),
        (utf("v3") + lineage((1, "a"), (3, "b")) + V1, StateFormatError, "skips versions"),
    ],
)
def test_wrong_changelogs_are_refused(
    content: bytes, error: type[StateFormatError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        rows(store({"1.changelog": lz4(content)}, 1, ROCKSDB))


def by_id(*versions: tuple[str, bytes, list[tuple[int, str]]]) -> dict[str, bytes]:
    return {
        name: lz4(utf("v3") + lineage(*items) + delta([(name.encode(), value)]))
        for name, value, items in versions
    }


def test_the_lineage_leads_to_the_files_that_count() -> None:
    """Ids of failed attempts are no part of it; where it starts afresh, format 1 goes before."""
    contents = by_id(
        ("3_c.changelog", b"3", []),
        ("4_d.changelog", b"4", [(3, "c")]),
        ("4_failed.changelog", b"no", [(3, "c")]),
        ("5_e.changelog", b"5", [(3, "c"), (4, "d")]),
    )
    contents["1.changelog"] = lz4(delta([(b"one", b"1")]))
    contents["2.changelog"] = lz4(delta([(b"two", b"2")]))
    wanted = {
        b"one": b"1",
        b"two": b"2",
        b"3_c.changelog": b"3",
        b"4_d.changelog": b"4",
        b"5_e.changelog": b"5",
    }
    assert rows(store(contents, 5, ROCKSDB, unique_id="e")) == wanted
    for lost in ("1.changelog", "3_c.changelog", "4_d.changelog", "5_e.changelog"):
        left = {name: data for name, data in contents.items() if name != lost}
        with pytest.raises(MissingStateFile) as caught:
            rows(store(left, 5, ROCKSDB, unique_id="e"))
        assert caught.value.file == lost


@pytest.mark.parametrize("change", ["sidecar", "file"])
def test_a_file_is_held_against_its_sidecar(change: str, tmp_path: Path) -> None:
    root = unpack("spark43-ids-join", tmp_path) / "state" / "0" / "0" / "left-keyToNumValues"
    contents = {p.name: p.read_bytes() for p in root.iterdir() if p.is_file()}
    contents |= {f"SSTs/{p.name}": p.read_bytes() for p in (root / "SSTs").iterdir()}
    [name] = [name for name in contents if name.startswith("7_") and name.endswith(".changelog")]
    unique = name[2:].removesuffix(".changelog")
    assert len(rows(store(contents, 7, ROCKSDB, unique_id=unique))) == 9
    damaged = f"{name}.crc" if change == "sidecar" else name
    data = contents[damaged]
    contents[damaged] = data.replace(b"CRC32C", b"SHA999") if change == "sidecar" else data[:-1]
    with pytest.raises(StateFormatError) as caught:
        rows(store(contents, 7, ROCKSDB, unique_id=unique))
    assert caught.value.file == damaged
