"""``_metadata`` as somebody might write it who means harm: nothing in it is believed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from flinkish.avro.container import encode_long
from flinkish.errors import Corrupt
from flinkish.savepoint.directory.catalog import read_catalog
from flinkish.savepoint.format import limits
from flinkish.savepoint.format.contents import FileRecord
from flinkish.savepoint.format.metadata import (
    KEY_FEATURES,
    KEY_VERSION,
    Metadata,
    MetadataWriter,
)
from flinkish.savepoint.format.reader import describe, iso_time, open_savepoint
from flinkish.savepoint.format.records import SCHEMA
from tests.support.savepoint.small_savepoints import header, make_savepoint, operator, query

OURS = {KEY_VERSION: "1", KEY_FEATURES: "[]"}


def container(
    schema: Any,
    blocks: list[tuple[int, bytes]],
    codec: str = "null",
    more: dict[str, bytes] | None = None,
) -> bytes:
    """An Avro file of a header and blocks that nothing has looked at."""
    entries = {
        "avro.schema": json.dumps(schema).encode(),
        "avro.codec": codec.encode(),
        **{name: text.encode() for name, text in OURS.items()},
        **(more or {}),
    }
    out = b"Obj\x01" + encode_long(len(entries))
    for name, value in entries.items():
        out += encode_long(len(name)) + name.encode() + encode_long(len(value)) + value
    out += b"\0" + b"s" * 16
    for count, data in blocks:
        out += encode_long(count) + encode_long(len(data)) + data + b"s" * 16
    return out


def sealed(*records: tuple[str, dict[str, Any]], schema: Any = SCHEMA, **footer: int) -> bytes:
    """A file of these records whose seal holds, as fastavro writes it."""
    buffer = io.BytesIO()
    names = [(f"flinkish.savepoint.{kind}", record) for kind, record in records]
    writer = fastavro.write.Writer(buffer, schema, codec="deflate", metadata=OURS)
    for name in names:
        if name[0].endswith(".File"):
            writer.flush()
        writer.write(name)  # type: ignore[arg-type]
    writer.flush()
    found = {"queries": 1, "files": 1, "bytes": 10, **footer}
    found["sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()  # type: ignore[assignment]
    writer.write(("flinkish.savepoint.Footer", found))  # type: ignore[arg-type]
    writer.flush()
    return buffer.getvalue()


def plain_records(tmp_path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The records of a small savepoint, as fastavro reads them."""
    path = Path(make_savepoint(str(tmp_path / "plain"), 1.7e9)) / "_metadata"
    with path.open("rb") as file:
        found: Any = list(fastavro.reader(file, return_record_name=True))
    return [(name.rpartition(".")[2], record) for name, record in found][:-1]


def bomb(fill: bytes, times: int) -> bytes:
    """So many times 16 MiB, deflated."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    part = packer.compress(fill * (16 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return part * times + b"\x03\x00"


def put(directory: Path, data: bytes) -> str:
    directory.mkdir(parents=True)
    (directory / "_metadata").write_bytes(data)
    return str(directory / "_metadata")


RECURSIVE = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "r", "type": "R"}],
}
NULLS = {"type": "array", "items": "null"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (container(RECURSIVE, [(1, b"\0")]), "schema is not"),
        (container([RECURSIVE, *SCHEMA], [(1, b"\0")]), "schema is not"),
        (container(NULLS, [(1, encode_long(1 << 40) + b"\0")]), "schema is not"),
        (container("null", [(1 << 62, b"")]), "schema is not"),
        (container(SCHEMA, [(1 << 62, b"\0")]), "records in"),
        (container(SCHEMA, [(1, b"\0")], codec="xz"), "compression"),
        (container(SCHEMA, [(1, b"\0")], codec="bzip2"), "compression"),
        (container(SCHEMA, [(1, b"\0")], codec="snappy"), "compression"),
        (container(SCHEMA, [(1, b"\x02" + encode_long(1 << 50))]), "a text of"),
        (container(SCHEMA, [(1, b"\x0c")]), "unknown kind"),
        (container("[" * 50_000, []), "a part of|no schema|schema is not"),
        (container(SCHEMA, [], more={"x" * 70_000: b""}), "a part of"),
        (container(SCHEMA, [], more={"avro.schema": b"[" * 60_000}), "no schema"),
        (container(SCHEMA, [], more={KEY_VERSION: "²".encode()}), "no format version"),
        (container(SCHEMA, [], more={KEY_FEATURES: b"7"}), "features"),
        (b"Obj\x01" + encode_long(1 << 60), "ends too early"),
        (b"Obj\x01\x01" + b"\xff" * 20, "64 bits|a part of"),
    ],
)
def test_what_flinkish_never_writes_is_damage(data: bytes, reason: str, tmp_path: Path) -> None:
    path = put(tmp_path / "s", data)
    for read in (Metadata, Metadata.peek):
        with pytest.raises(Corrupt, match=reason) as caught:
            read(path)
        assert caught.value.code == 15


def test_a_recursive_schema_does_not_end_the_list(tmp_path: Path) -> None:
    """In a process of its own: fastavro's recursion in C ended it with SIGSEGV."""
    put(tmp_path / "savepoint-012345-0123456789ab", container(RECURSIVE, [(1, b"\0")]))
    good = make_savepoint(str(tmp_path), 1.7e9)
    command = [sys.executable, "-m", "flinkish", "savepoint", "list", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode >= 0, done.returncode
    assert good in done.stdout
    assert "savepoint-012345-0123456789ab" in done.stdout + done.stderr


@pytest.mark.parametrize("fill", [b"\0", b"\x06"])
def test_a_compressed_block_is_not_made_larger_than_any(fill: bytes, tmp_path: Path) -> None:
    path = put(tmp_path / "s", container(SCHEMA, [(1, bomb(fill, 3))], codec="deflate"))
    with pytest.raises(Corrupt, match="too large"):
        Metadata(path)


def test_arrays_share_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty stores are three bytes each in the file and some hundred in memory."""
    monkeypatch.setattr(limits, "MAX_ITEMS", 1000)
    records = plain_records(tmp_path)
    many = [{"name": "", "key_schema": None, "value_schema": None}] * 1000
    records[1][1]["operators"][0]["stores"] = many
    with pytest.raises(Corrupt, match="1000 elements cannot follow"):
        Metadata(put(tmp_path / "s", sealed(*records)))


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        *[("Header", {"created": value}) for value in (float("nan"), float("inf"), 1e18, -1.0)],
        ("Query", {"batch_id": 1 << 62}),
        ("Query", {"batch_id": -1}),
        ("Query", {"planned_batch": 1 << 62}),
        ("Query", {"bytes": -5}),
        ("Query", {"files": -1}),
        ("Query", {"source": "{"}),
        ("Query", {"sink": "[" * 200_000}),
        ("Query", {"source": "9" * 5000}),
        ("File", {"size": -1}),
        *[("File", {"digest": value}) for value in ("x\0y", "sha256: 1", "a\nb", "")],
        ("Operator", {"partitions": 1 << 30}),
        ("Operator", {"ordinal": -1}),
        ("Operator", {"meaning": '{"keys": 5}'}),
        (
            "Operator",
            {"meaning": '{"keys": {"": [{"name": 5, "origin": ""}]}, "values": {}, "traits": {}}'},
        ),
        (
            "Operator",
            {"meaning": '{"keys": {}, "values": {}, "traits": {}, "settings": [{"setting": "a", '
             '"value": "b", "certain": []}]}'},
        ),
        ("Operator", {"meaning": "7"}),
        ("Store", {"key_schema": "5"}),
        ("Store", {"key_schema": '{"type": "struct", "fields": [5]}'}),
        ("Store", {"key_schema": '{"type": "struct", "fields": [{"type": "long"}]}'}),
        ("Store", {"value_schema": '{"fields": [{"name": "a", "type": {"type": "map"}}]}'}),
        (
            "Store",
            {"value_schema": '{"fields":[{"name":"a","type":' + '{"type":"array","elementType":'
             * 200 + '"long"' + "}" * 200 + "}]}"},
        ),
    ],
)  # fmt: skip
def test_values_out_of_range_are_damage(kind: str, change: dict[str, Any], tmp_path: Path) -> None:
    records = plain_records(tmp_path)
    places = dict(records)
    places["Operator"] = places["Query"]["operators"][0]
    places["Store"] = places["Operator"]["stores"][0]
    Metadata(put(tmp_path / "whole", sealed(*records)))  # it opens without the change
    places[kind].update(change)
    size = places["Query"]["bytes"]
    path = put(tmp_path / "changed", sealed(*records, bytes=size))
    with pytest.raises(Corrupt) as caught:
        list(Metadata(path).iter_files())
    assert path in caught.value.message


def test_a_version_has_one_schema(tmp_path: Path) -> None:
    schema = json.loads(json.dumps(SCHEMA))
    schema[0]["fields"].append({"name": "colour", "type": ["null", "string"]})
    with pytest.raises(Corrupt, match="its schema is not a savepoint's"):
        Metadata(put(tmp_path / "s", sealed(*plain_records(tmp_path), schema=schema)))


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "device", "directory", "huge"])
def test_only_regular_files_of_a_size(kind: str, tmp_path: Path) -> None:
    good = make_savepoint(str(tmp_path), 1.7e9)
    bad = tmp_path / "savepoint-012345-0123456789ab"
    bad.mkdir()
    path = bad / "_metadata"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to a pipe":
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(limits.MAX_FILE + 1)
    for whole in (False, True):
        found = read_catalog(str(tmp_path), whole=whole)
        assert [entry.path for entry in found.savepoints] == [good]
        if kind != "directory":
            assert [each.path for each in found.unreadable] == [str(bad)]


def test_one_damaged_savepoint_is_a_line_of_a_list(tmp_path: Path) -> None:
    good = make_savepoint(str(tmp_path), 1.7e9)
    records = plain_records(tmp_path / "other")
    for number, created in enumerate((float("nan"), 1e18)):
        records[0][1]["created"] = created
        put(tmp_path / f"savepoint-012345-{number:012}", sealed(*records))
    found = read_catalog(str(tmp_path))
    assert [entry.path for entry in found.savepoints] == [good]
    assert len(found.unreadable) == 2
    assert all(each.error.code == 15 for each in found.unreadable)
    reasons = {each.error.message.partition(" is damaged: ")[2] for each in found.unreadable}
    assert reasons == {f"its creation time is out of range: {value}" for value in ("nan", "1e+18")}


def test_a_number_out_of_range_is_named(tmp_path: Path) -> None:
    records = plain_records(tmp_path)
    records[-1][1]["size"] = -3
    path = put(tmp_path / "s", sealed(*records))
    with pytest.raises(Corrupt, match="its value of 'size' is out of range: -3"):
        list(Metadata(path).iter_files())


@pytest.mark.parametrize("trouble", [MemoryError, RecursionError])
def test_memory_that_ends_is_an_answer(
    trouble: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_savepoint(str(tmp_path), 1.7e9)

    def fails(*_: object) -> None:
        raise trouble

    monkeypatch.setattr("flinkish.savepoint.format.metadata.query_from_avro", fails)
    [unreadable] = read_catalog(str(tmp_path)).unreadable
    assert unreadable.error.code == 15


def test_a_watermark_may_be_anything(tmp_path: Path) -> None:
    far = replace(query(), watermark_ms=(1 << 63) - 1, files=0, bytes=0)
    directory = tmp_path / "s"
    directory.mkdir()
    with MetadataWriter(str(directory), header(1.7e9), [far]) as writer:
        writer.commit()
    shown = describe(open_savepoint(str(directory)))["savepoint"]["queries"][0]
    assert shown["watermark"] == "9223372036854776.000 s"
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"


def test_a_savepoint_of_a_large_job_opens(tmp_path: Path) -> None:
    """20,000 files, 20 queries of 20 operators and offsets of 200 KiB each."""
    offsets = ("{" + ", ".join(f'"{n}": 1' for n in range(15_000)) + "}",)
    operators = [operator(number, f"uid {number}") for number in range(20)]
    queries = [
        replace(query(f"q{n}", *operators), offsets=offsets, files=0, bytes=0) for n in range(20)
    ]
    directory = tmp_path / "s"
    directory.mkdir()
    with MetadataWriter(str(directory), header(1.7e9), queries) as writer:
        for number in range(20_000):
            writer.add(
                FileRecord(number % 20, f"state/0/{number}/1.delta", 0, "sha256:" + "0" * 64)
            )
        writer.commit()
    found = Metadata(str(directory / "_metadata"))
    assert found.files == sum(1 for _ in found.iter_files()) == 20_000
    assert len(Metadata.peek(str(directory / "_metadata"))[1]) == 20


def test_hostile_files_take_little_memory(tmp_path: Path) -> None:
    """In a process that may take 400 MB more than it has: none of the files is answered by it."""
    files = [
        container(SCHEMA, [(1, bomb(b"\0", 128))], codec="deflate"),
        container(NULLS, [(1, encode_long(1 << 40) + b"\0")]),
        container(SCHEMA, [(1, b"\x02\x02" + b"\xff" * 8 + b"\x01")]),
    ]
    paths = [put(tmp_path / f"s{number}", data) for number, data in enumerate(files)]
    script = (
        "import resource, sys\n"
        "from flinkish.errors import Corrupt\n"
        "from flinkish.savepoint.format.metadata import Metadata\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + (400 << 20),) * 2)\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        Metadata(path)\n"
        "    except Corrupt as error:\n"
        "        print('memory' in error.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *paths], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False"] * 3
