"""State files as somebody might write them who means harm: lengths and counts are checked."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rocksdict
import zstandard

from flinkish.avro.container import SYNC_BYTES, encode_long
from flinkish.checkpoint.format.names import CANONICAL, COUNTS, HDFS, ROCKSDB
from flinkish.checkpoint.format.text import write_utf
from flinkish.engine import bounds
from flinkish.engine.avro.state_avro import FORMAT_KEY, decompress, read_avro, row_schema
from flinkish.engine.errors import MissingStateFile, StateFormatError
from flinkish.engine.rows.types import parse_struct
from flinkish.engine.stores import rocksdb as binding
from flinkish.engine.stores import rocksdb_store, sst_files
from flinkish.engine.stores.canonical_families import read_counts
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.codecs import decompressed
from flinkish.engine.stores.files import (
    LocalDirectory,
    StoreFiles,
    find_chain,
    local_store,
    open_checked,
    read_bytes,
)
from flinkish.engine.stores.records import MERGE, Content, plain_records, read_changelog
from flinkish.engine.stores.rocksdb import merged
from flinkish.engine.stores.rocksdb_writer import write_snapshot
from flinkish.engine.stores.sst_files import sst_options
from flinkish.engine.stores.store_rows import count_rows, open_merged
from flinkish.engine.stores.writers import write_changelog
from tests.support.checkpoints.recorded import unpack
from tests.support.engine.rewrite_checkpoint import creating

SMALL = 1 << 16


@pytest.fixture
def rocksdb(tmp_path: Path) -> Path:
    """A store of a recorded checkpoint: one archive and its tables."""
    found = unpack("spark35-rocksdb-agg", tmp_path) / "state" / "0" / "0"
    assert archive_of(found)
    return found


def archive_of(store: Path) -> Path:
    return sorted(store.glob("*.zip"))[-1]


def files_of(store: Path, backend: str = ROCKSDB) -> StoreFiles:
    version = max(int(p.name.partition(".")[0]) for p in store.iterdir() if p.name[0].isdigit())
    return local_store(str(store), version, backend)


def rewritten(path: Path, change: Callable[[zipfile.ZipFile], object], **replaced: bytes) -> None:
    """The archive with members replaced, and what ``change`` adds."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    path.unlink()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**members, **replaced}.items():
            archive.writestr(name, data)
        change(archive)


def test_a_store_is_read_before_it_is_changed(rocksdb: Path) -> None:
    rewritten(archive_of(rocksdb), lambda _: None)
    assert count_rows(files_of(rocksdb)).total > 0


def test_a_large_member_is_never_written(
    rocksdb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 MB of zeros in 300 KB; nothing of it reaches the temporary directory."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    written: list[str] = []
    monkeypatch.setattr(rocksdb_store, "_write_file", lambda target, *_: written.append(target))

    def bomb(archive: zipfile.ZipFile) -> None:
        with archive.open("000099.log", "w") as member:
            for _ in range(300):
                member.write(b"\0" * (1 << 20))

    rewritten(archive_of(rocksdb), bomb)
    assert archive_of(rocksdb).stat().st_size < 1 << 20
    with pytest.raises(StateFormatError, match="more than any snapshot"):
        count_rows(replace(files_of(rocksdb), scratch=str(scratch)))
    assert written == []
    assert list(scratch.iterdir()) == []


def test_a_member_that_says_less_than_it_has(rocksdb: Path) -> None:
    """Sizes are what the directory says: what is beyond is not unpacked, and noticed."""
    path = archive_of(rocksdb)
    rewritten(path, lambda archive: archive.writestr("000099.log", b"\0" * (8 << 20)))
    data = path.read_bytes()
    size = struct.pack("<I", 8 << 20)
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, struct.pack("<I", 5)))
    with pytest.raises(StateFormatError, match="not a readable snapshot"):
        count_rows(files_of(rocksdb))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_is_refused(rocksdb: Path, method: int) -> None:
    def add(archive: zipfile.ZipFile) -> None:
        archive.writestr("000099.log", b"\0" * 1000, compress_type=method)

    rewritten(archive_of(rocksdb), add)
    with pytest.raises(StateFormatError, match="compression Spark does not use"):
        count_rows(files_of(rocksdb))


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "..", "a\\b", "\x1b", "x" * 300])
def test_members_of_other_names_are_refused(rocksdb: Path, name: str) -> None:
    rewritten(archive_of(rocksdb), lambda archive: archive.writestr(name, b"x"))
    with pytest.raises(StateFormatError, match="outside the store"):
        count_rows(files_of(rocksdb))
    assert not (rocksdb.parent / "x").exists()


def test_a_member_that_comes_twice_is_refused(rocksdb: Path) -> None:
    path = archive_of(rocksdb)
    rewritten(path, lambda archive: archive.writestr("00AA", b"1"))
    rewritten(path, lambda archive: archive.writestr("00AB", b"2"))
    path.write_bytes(path.read_bytes().replace(b"00AB", b"00AA"))
    with pytest.raises(StateFormatError, match="twice"):
        count_rows(files_of(rocksdb))


def shared_entry(store: Path, **changes: object) -> dict[str, Any]:
    """The archive's metadata with its first shared file changed."""
    with zipfile.ZipFile(archive_of(store)) as archive:
        head, _, body = archive.read("metadata").decode().partition("\n")
    parsed: dict[str, Any] = json.loads(body)
    entry: dict[str, Any] = parsed["sstFiles"][0]
    entry.update(changes)
    rewritten(archive_of(store), lambda _: None, metadata=f"{head}\n{json.dumps(parsed)}".encode())
    return entry


@pytest.mark.parametrize("size", [-1, 1 << 70, "x", None, 5])
def test_sizes_of_shared_files(rocksdb: Path, size: object) -> None:
    shared_entry(rocksdb, sizeBytes=size)
    with pytest.raises(StateFormatError):
        count_rows(files_of(rocksdb))


@pytest.mark.parametrize("what", ["pipe", "device", "directory"])
def test_a_shared_file_that_is_none(rocksdb: Path, what: str) -> None:
    path = rocksdb / "SSTs" / shared_entry(rocksdb)["dfsSstFileName"]
    path.unlink()
    make(path, what)
    with pytest.raises(StateFormatError, match="not a regular file"):
        count_rows(files_of(rocksdb))


def make(path: Path, what: str) -> None:
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()


def test_only_tables_are_linked_to(rocksdb: Path) -> None:
    """RocksDB may write into a log it finds; the one in the savepoint stays as it is."""
    entry = shared_entry(rocksdb)
    logs = rocksdb / "logs"
    logs.mkdir()
    log = logs / "a.log"
    log.write_bytes(b"x" * 100)
    with zipfile.ZipFile(archive_of(rocksdb)) as archive:
        head, _, body = archive.read("metadata").decode().partition("\n")
    parsed = json.loads(body)
    parsed["logFiles"] = [
        {"localFileName": "000099.log", "dfsLogFileName": "a.log", "sizeBytes": 100}
    ]
    rewritten(
        archive_of(rocksdb), lambda _: None, metadata=f"{head}\n{json.dumps(parsed)}".encode()
    )
    place = rocksdb.parent / "place"
    place.mkdir()
    rocksdb_store.materialise(files_of(rocksdb), archive_of(rocksdb).name, str(place))
    assert (place / entry["localFileName"]).is_symlink()
    assert not (place / "000099.log").is_symlink()
    assert (place / "000099.log").read_bytes() == log.read_bytes()


@pytest.mark.parametrize("what", ["pipe", "device", "directory"])
@pytest.mark.parametrize("backend", [HDFS, ROCKSDB, CANONICAL])
def test_a_state_file_that_is_none(tmp_path: Path, backend: str, what: str) -> None:
    name = {HDFS: "1.delta", ROCKSDB: "1.changelog", CANONICAL: COUNTS}[backend]
    make(tmp_path / name, what)
    files = local_store(str(tmp_path), 1, backend)
    with pytest.raises(StateFormatError, match="not a regular file"):
        read_counts(files) if backend == CANONICAL else count_rows(files)
    with pytest.raises(StateFormatError, match="not a regular file"):
        read_bytes(LocalDirectory(str(tmp_path)), name)


@pytest.mark.parametrize("version", [10**12, 1 << 62, 10**40])
@pytest.mark.parametrize("unique_id", [None, "abc"])
def test_an_enormous_version_is_missing_at_once(version: int, unique_id: str | None) -> None:
    files = local_store("/nowhere", version, ROCKSDB, unique_id=unique_id)
    files = replace(files, names=("5.zip", "6.changelog", f"{version}_abc.changelog"))
    with pytest.raises(MissingStateFile):
        find_chain(files, lambda _: ((version - 1, "x"),))


@pytest.mark.parametrize("name", ["²", "9" * 40, "-1", "1e5", "٣"])
def test_names_that_are_no_numbers(tmp_path: Path, name: str) -> None:
    checkpoint = unpack("spark43-hdfs-agg", tmp_path)
    before = read_checkpoint(LocalDirectory(str(checkpoint)))
    for directory in ("commits", "offsets", "state", "state/0"):
        (checkpoint / directory / name).mkdir()
    assert read_checkpoint(LocalDirectory(str(checkpoint))) == before


def zstd_bomb(size: int) -> bytes:
    """A frame that does not say how large it is."""
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [packer.compress(b"\0" * (1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, packer.flush()])


def test_streams_end_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SPARE", SMALL)
    monkeypatch.setattr(bounds, "MAX_RATIO", 10)
    data = zstd_bomb(64 << 20)
    sizes: list[int] = []
    pieces = decompressed(io.BytesIO(data), "zstd", "1.delta")
    with pytest.raises(StateFormatError, match="its content has more than"):
        sizes.extend(map(len, pieces))
    assert sum(sizes) <= SMALL + 10 * len(data)


@pytest.mark.parametrize("codec", ["zstandard", "deflate"])
def test_blocks_end_at_a_limit(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SPARE", SMALL)
    monkeypatch.setattr(bounds, "MAX_RATIO", 10)
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    deflated = packer.compress(b"\0" * (32 << 20)) + packer.flush()
    data = zstd_bomb(32 << 20) if codec == "zstandard" else deflated
    with pytest.raises(ValueError, match="more than"):
        decompress(codec, data)


def test_a_record_of_more_than_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinkish.engine.stores.records.MAX_ROW", 1 << 21)
    data = struct.pack(">i", 1 << 30) + b"\0" * (4 << 20)
    pieces = (data[at : at + SMALL] for at in range(0, len(data), SMALL))
    with pytest.raises(StateFormatError, match="a key or value of"):
        list(plain_records(Content(pieces, "1.delta")))


@pytest.mark.parametrize(
    "lineage",
    [b"[" * 60_000, b'[{"version": 1e999, "checkpointUniqueId": "a"}]', b"[5]", b"9" * 5000],
)
def test_lineages(lineage: bytes) -> None:
    data = write_utf("v3") + struct.pack(">H", len(lineage)) + lineage
    with pytest.raises(StateFormatError, match="lineage"):
        read_changelog(Content(iter([data]), "1.changelog"))


@pytest.mark.parametrize("text", [b"[" * 100_000, b"{}", b'{"mainFileSize": 1e999}', b"\xff"])
def test_checksum_files(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "1.delta").write_bytes(b"x")
    (tmp_path / "1.delta.crc").write_bytes(text)
    with pytest.raises(StateFormatError, match="damaged checksum file"):
        open_checked(local_store(str(tmp_path), 1, HDFS), "1.delta")


def avro(*blocks: tuple[int, bytes], **more: str) -> bytes:
    key = parse_struct({"type": "struct", "fields": [column("k", "long")]})
    header = {
        "avro.codec": "null",
        "avro.schema": json.dumps(row_schema(key, None)),
        FORMAT_KEY: "1",
        **more,
    }
    out = b"Obj\x01" + encode_long(len(header))
    for name, text in header.items():
        out += (
            encode_long(len(name)) + name.encode() + encode_long(len(text.encode())) + text.encode()
        )
    out += b"\0" + b"s" * SYNC_BYTES
    for count, data in blocks:
        out += encode_long(count) + encode_long(len(data)) + data + b"s" * SYNC_BYTES
    return out


def column(name: str, kind: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": False, "metadata": {}}


@pytest.mark.parametrize(
    "data",
    [
        avro((1 << 40, b"\0" * 100)),
        avro((2_000_000, b"\0" * 2_000_000)),
        avro(**{"avro.schema": "[" * 50_000}),
        avro(**{"avro.schema": '{"type":"array","items":' * 500 + '"null"' + "}" * 500}),
        avro(**{"avro.codec": "bzip2"}),
        b"Obj\x01" + encode_long(1 << 50),
        b"Obj\x01" + encode_long(1) + encode_long(1 << 26) + b"x",
    ],
)
def test_canonical_files(data: bytes) -> None:
    with pytest.raises(StateFormatError):
        list(read_avro(io.BytesIO(data), "x.avro").blocks)


def test_nulls_take_no_bytes_and_are_counted_all_the_same() -> None:
    """An array of 2^40 nulls is six bytes in a block."""
    nulls = {"type": "array", "elementType": "void", "containsNull": True}
    key = parse_struct({"type": "struct", "fields": [column("k", nulls)]})
    schema = json.dumps(row_schema(key, None))
    few = list(read_avro(io.BytesIO(avro((1, b"\x06\0"), **{"avro.schema": schema})), "x").blocks)
    assert few[0][0].column(0).to_pylist() == [[None] * 3]
    data = avro((1, encode_long(1 << 40) + b"\0"), **{"avro.schema": schema})
    with pytest.raises(StateFormatError, match="elements"):
        list(read_avro(io.BytesIO(data), "x.avro").blocks)


def test_rocksdb_writes_nowhere_else(tmp_path: Path) -> None:
    """Options in an archive may name other directories for logs: RocksDB clears those up."""
    checkpoint = unpack("spark43-changelog-agg", tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("000001.log", "000100.log", "LOG", "LOG.old.1"):
        (outside / name).write_bytes(b"mine")
    for store in sorted((checkpoint / "state" / "0").iterdir()):
        for path in store.glob("*.zip"):
            hostile_options(path, str(outside))
    [operator] = read_checkpoint(LocalDirectory(str(checkpoint))).operators
    read = 0
    for number in range(operator.partitions):
        directory = checkpoint / "state" / "0" / str(number)
        files = local_store(str(directory), operator.version, ROCKSDB, compression="lz4")
        read += count_rows(files).total
    assert read > 0
    names = ("000001.log", "000100.log", "LOG", "LOG.old.1")
    assert {p.name: p.read_bytes() for p in outside.iterdir()} == dict.fromkeys(names, b"mine")


def hostile_options(path: Path, outside: str) -> None:
    with zipfile.ZipFile(path) as archive:
        [name] = [n for n in archive.namelist() if n.startswith("OPTIONS-")]
        lines = archive.read(name).decode().split("\n")
    at = next(n for n, line in enumerate(lines) if line.strip() == "[DBOptions]") + 1
    changed = [*lines[:at], f"  wal_dir={outside}", f"  db_log_dir={outside}", *lines[at:]]
    rewritten(path, lambda _: None, **{name: "\n".join(changed).encode()})


@pytest.mark.deep  # proven fast by test_streams_end_at_a_limit
def test_hostile_state_takes_little_memory(tmp_path: Path) -> None:
    """In a process that may take 1 GB more than it has: 4 GB in 400 KB end at a limit."""
    part = zstd_bomb(256 << 20)
    (tmp_path / "1.delta").write_bytes(part * 16)
    script = (
        "import resource, sys\n"
        "from flinkish.engine.errors import StateFormatError\n"
        "from flinkish.engine.stores.files import local_store\n"
        "from flinkish.engine.stores.store_rows import count_rows\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30),) * 2)\n"
        "try:\n"
        "    count_rows(local_store(sys.argv[1], 1, 'hdfs', compression='zstd'))\n"
        "except StateFormatError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "more than" in done.stdout


def database(directory: Path, rows: dict[bytes, bytes], **changes: bytes) -> StoreFiles:
    """A store with a snapshot whose blocks have no checksums, and bytes of its SST changed."""
    blocks: Any = rocksdict.BlockBasedOptions()
    blocks.set_checksum_type(rocksdict.ChecksumType.no_checksum())
    blocks.set_block_restart_interval(1)  # keys are written whole
    options = sst_options()
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sst_files, "sst_options", lambda: options)
        write_snapshot(rows.items(), creating(directory), "1.zip")
    [path] = (directory / "SSTs").iterdir()
    data = path.read_bytes()
    for old, new in changes.items():
        assert len(old) == len(new)
        data = data.replace(old.encode(), new)
    path.write_bytes(data)
    return local_store(str(directory), 1, ROCKSDB)


@pytest.mark.parametrize("others", [0, 1, 2])
def test_keys_in_no_order_are_refused(tmp_path: Path, others: int) -> None:
    """A merge of such files has no smallest key to go on with."""
    rows = {b"key-%03d" % n: b"v" for n in range(120)}
    hostile = database(tmp_path / "a", rows, **{"key-0": b"zzz-0"})
    stores = [database(tmp_path / f"{n}", {b"zz%d" % n: b"v"}) for n in range(others)]
    refused = pytest.raises(StateFormatError, match="keys of its rows are not in order")
    with open_merged([hostile, *stores]) as [blocks], refused:
        list(blocks)
    with pytest.raises(StateFormatError, match="not in order"):
        count_rows(hostile)


def test_a_merge_of_unsorted_rows_ends() -> None:
    unsorted = [[(key, b"") for key in (b"x", b"y", b"z", b"a")]]
    with pytest.raises(StateFormatError, match="not in order"):
        list(merged([iter(unsorted), iter([[(b"b", b"")]])]))


def test_rows_have_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of SSTs, and those that a changelog puts together, as those of other files."""
    rows = {b"key-%03d" % n: b"v" for n in range(100)}
    monkeypatch.setattr(binding, "MAX_ROW", 1 << 10)
    monkeypatch.setattr(rocksdb_store, "MAX_ROW", 1 << 10)
    fine = database(tmp_path / "fine", {**rows, b"key-050": bytes(1 << 10)})
    assert count_rows(fine).total == 100
    large = database(tmp_path / "large", {**rows, b"key-050": bytes((1 << 10) + 1)})
    with pytest.raises(StateFormatError, match="a key or value of 1025 bytes"):
        count_rows(large)
    with open(tmp_path / "fine" / "2.changelog", "wb") as file:
        write_changelog(file, [(MERGE, b"key-050", b"x")], version=2)
    with pytest.raises(StateFormatError, match=r"2.changelog: a value of 1025 bytes, merged"):
        count_rows(replace(fine, version=2, names=(*fine.names, "2.changelog")))


@pytest.mark.parametrize(
    ("limit", "message"),
    [("RLIMIT_FSIZE, (4096, -1)", "File too large"), ("RLIMIT_NOFILE, (3, 3)", "Too many open")],
)
def test_what_the_machine_refuses_is_no_damage(limit: str, message: str, tmp_path: Path) -> None:
    script = (
        "import resource, sys\n"
        "from flinkish.engine.stores import rocksdb_writer, sst_files\n"
        "from flinkish.errors import StorageError\n"
        f"resource.setrlimit(resource.{limit})\n"
        "rows = sst_files.SortedRows(sys.argv[1] + '/rows')\n"
        "try:\n"
        "    for n in range(1000):\n"
        "        rows.add(None, [b'%09d' % n], [bytes(range(250))])\n"
        "    rows.finish()\n"
        "except StorageError as error:\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\n"
        "    print(error, error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert message in done.stdout
    assert ("ulimit -n" in done.stdout) == ("open" in message)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("IO error: No space left on device: While appending to file: /a: " * 20, True),
        ("IO error: While appending to file: /a: Disk quota exceeded", True),
        ("IO error: No such file or directory: While open a file: /a", None),
        ("Corruption: block checksum mismatch: No space left on device", None),
        ("IO error: While pread: /a: Input/output error", False),
    ],
)
def test_which_status_is_a_refusal(text: str, full: bool | None) -> None:
    error = binding.refusal(text)
    assert (error and error.message.startswith("disk full")) is full
