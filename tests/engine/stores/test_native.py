"""The optional native functions do what RocksDB's binding does: rows, digests, files, refusals."""

from __future__ import annotations

import importlib
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import rocksdict

from flinkish.engine.errors import LostRows, StateFormatError
from flinkish.engine.migration.direct_tasks import SortedRun, write_sorted
from flinkish.engine.migration.migration_planner import TargetState, plan_operator
from flinkish.engine.migration.row_blocks import digest_rows
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.stores import native
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.files import LocalDirectory
from flinkish.engine.stores.native import NativeError, Reader
from flinkish.engine.stores.store_rows import open_merged, read_store
from flinkish.errors import StorageError
from tests.engine.migration.test_checkpoint_migration import all_rows, rows_of
from tests.engine.migration.test_direct_tasks import IN_ROCKSDB, rescale
from tests.support.checkpoints.recorded import unpack
from tests.support.engine.local_stores import stores

SOURCE = Path(__file__).parents[3] / "native" / "flinkish_rocksdb.c"
#: Their operators have lists, whose records the native functions do not merge.
WITH_LISTS = {"spark43-rocksdb-tws"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the extension, compiled as its setup does."""
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if shutil.which("cc") is None or not header.exists():
        pytest.skip("needs a C compiler and Python's headers")
    directory = tmp_path_factory.mktemp("native")
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command += ["-DPy_LIMITED_API=0x030A0000", f"-I{header.parent}"]
    command += [f"-I{pa.get_include()}/arrow/vendored/xxhash", str(SOURCE)]
    command += ["-o", str(directory / "flinkish_rocksdb.abi3.so"), "-ldl"]
    subprocess.run(command, check=True)
    return directory


@pytest.fixture
def functions(built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(built))
    importlib.invalidate_caches()
    native.library.cache_clear()
    found = native.library()
    if found is None:
        pytest.skip("needs a jar of RocksDB with a library for this machine")
    yield found
    native.library.cache_clear()


def without(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(native, "_load", lambda: None)
    native.library.cache_clear()


@pytest.mark.deep
@pytest.mark.parametrize("name", IN_ROCKSDB)
def test_it_writes_what_the_binding_writes(
    name: str, functions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = unpack(name, tmp_path / "recorded")
    fast = rescale(recorded, tmp_path / "native", 7)
    merged = rescale(tmp_path / "native", tmp_path / "merged", 3)
    for rewritten in (fast, merged):
        assert {op.native for op in rewritten.operators} == {name not in WITH_LISTS}
    without(monkeypatch)
    slow = rescale(recorded, tmp_path / "binding", 7)
    assert not any(op.native for op in slow.operators)
    assert [op.digests for op in fast.operators] == [op.digests for op in slow.operators]
    assert rows_of(tmp_path / "native") == rows_of(tmp_path / "binding")
    assert all_rows(tmp_path / "merged") == all_rows(recorded)


@pytest.mark.deep
def test_a_key_in_two_partitions_is_refused(functions: Any, tmp_path: Path) -> None:
    recorded = unpack("spark43-rocksdb-dedup", tmp_path / "recorded")
    shutil.rmtree(recorded / "state/0/1")
    shutil.copytree(recorded / "state/0/0", recorded / "state/0/1")
    with pytest.raises(LostRows, match="a key repeats"):
        rescale(recorded, tmp_path / "new", 3)


@pytest.mark.deep
def test_damage_is_noticed(functions: Any, tmp_path: Path) -> None:
    """A flipped bit in a block of rows: no native function returns all rows of such a store."""
    recorded = unpack("spark43-rocksdb-dedup", tmp_path / "recorded")
    chosen, seen = random.Random(3), 0
    [path] = sorted((recorded / "state/0/0/SSTs").glob("*.sst"))[:1]
    whole = path.read_bytes()
    before = all_rows(recorded)
    for number in range(12):
        place = chosen.randrange(len(whole) // 2)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            rescale(recorded, tmp_path / f"new-{number}", 3)
        except StateFormatError:
            seen += 1
        else:  # the bit is in what nobody reads
            assert all_rows(tmp_path / f"new-{number}") == before
    assert seen > 3


def rows_in(directory: Path, rows: dict[bytes, bytes]) -> str:
    database: Any = rocksdict.Rdict(str(directory), options=rocksdict.Options(True))
    for key, value in rows.items():
        database[key] = value
    database.flush()
    database.close()
    return str(directory)


@pytest.mark.deep
def test_blocks_are_merged_and_grow_with_their_rows(functions: Any, tmp_path: Path) -> None:
    chance = random.Random(1)
    small = {b"\x00%08d" % number: chance.randbytes(number % 50) for number in range(70_000)}
    large = {b"\x00%08d-" % number: bytes(9 << 20) for number in (5, 69_000)}
    large[b"\x01" * (5 << 20)] = b""
    directories = [rows_in(tmp_path / "1", small), rows_in(tmp_path / "2", large)]
    directories.append(rows_in(tmp_path / "3", {}))
    found: list[tuple[bytes, bytes]] = []
    with Reader(functions, directories, 0) as reader:
        for keys, values in reader.blocks():
            assert native.digest(functions, keys, values, 9) == (
                (plain := digest_rows(keys.rows(), values.rows(), 9)).keys,
                plain.content,
            )
            found += zip(keys.rows(), values.rows(), strict=True)
    assert found == sorted({**small, **large}.items())
    with Reader(functions, directories[:1], 0) as reader:
        everything = digest_rows(list(small), list(small.values()), 4)
        assert list(reader.digests(lambda _: 4)) == [
            (everything.rows, everything.keys, everything.content)
        ]


@pytest.mark.deep
@pytest.mark.parametrize("name", IN_ROCKSDB)
def test_families_are_read_one_by_one(name: str, functions: Any, tmp_path: Path) -> None:
    for store in stores(unpack(name, tmp_path)):
        ours: dict[str, list[tuple[bytes, bytes]]] = {}
        try:
            with open_merged([store.files], functions) as opened:
                for block in (block for blocks in opened for block in blocks):
                    rows = zip(block.keys, block.values, strict=True)
                    ours.setdefault(block.family, []).extend(rows)
        except NativeError:
            assert name in WITH_LISTS
            continue
        expected: dict[str, list[tuple[bytes, bytes]]] = {}
        for block in read_store(store.files):
            rows = zip(block.keys, block.values, strict=True)
            expected.setdefault(block.family, []).extend(rows)
        assert ours == expected


def test_functions_are_called_with_the_parameters_that_they_have() -> None:
    """ctypes cannot know: one parameter too few writes over memory of others."""
    found = re.findall(r"^(?:[\w ]+\*?)\b(rows_\w+)\(([^)]*)\) \{", SOURCE.read_text(), re.M)
    counts = {name: 0 if text == "void" else len(text.split(",")) for name, text in found}
    expected = {name: len(parameters) for name, (_, parameters) in native._SIGNATURES.items()}
    assert counts == {**expected, "rows_version": 0}


@pytest.mark.deep
def test_rows_of_many_partitions(functions: Any, tmp_path: Path) -> None:
    keys = Binaries.of([b"a", b"b", b"c"])
    files = native.Files(functions, 1_000)
    for partition in (0, 200, 999):
        files.open(partition, str(tmp_path / f"{partition}.sst"))
    files.put(keys, keys, np.array([0, 200, 999]))
    for partition in (0, 200, 999):
        files.finish(partition)
        assert (tmp_path / f"{partition}.sst").stat().st_size > 0
    files.open(999, str(tmp_path / "again.sst"))
    backwards = Binaries.of([b"c", b"b", b"a"])
    with pytest.raises(NativeError, match="ascending order"):
        files.put(backwards, keys, np.full(3, 999))
    files.close()


@pytest.mark.deep
def test_a_missing_directory_is_an_error_not_a_crash(functions: Any, tmp_path: Path) -> None:
    with pytest.raises(NativeError, match=r".+"):
        Reader(functions, [str(tmp_path / "nothing")], 0)
    with pytest.raises(NativeError, match=r".+"):
        native.Files(functions, 3).open(1, str(tmp_path / "no" / "directory.sst"))


@pytest.mark.deep
def test_what_the_binding_had_to_do_again_is_logged_and_leaves_nothing(
    functions: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    recorded = unpack("spark43-rocksdb-dedup", tmp_path / "recorded")
    source, target = LocalDirectory(str(recorded)), LocalDirectory(str(tmp_path / "new"))
    [operator] = read_checkpoint(source).operators
    move = plan_operator(source, operator, TargetState(partitions=4))

    def fail(*_: object) -> None:
        raise NativeError("the reason")

    monkeypatch.setattr(native.Files, "finish", fail)
    runs = list(write_sorted(source, target, "_attempts", 0, move, move.stores[0], [0]))
    files = {file for run in runs if isinstance(run, SortedRun) for file in run.files}
    assert files
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages == ["flinkish_rocksdb is not used, which is slower: the reason"]
    there = {str(p.relative_to(tmp_path / "new")) for p in (tmp_path / "new").rglob("*.sst")}
    assert there == files


@pytest.mark.deep
def test_what_the_machine_refuses_is_not_tried_again(functions: Any, tmp_path: Path) -> None:
    files = native.Files(functions, 1)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        with pytest.raises(StorageError, match="Too many open files"):
            files.open(0, str(tmp_path / "0.sst"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_copy_of_the_library_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    member = "librocksdbjni-linux64.so"
    jar = tmp_path / "rocksdbjni-1.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(member, b"library" * 1000)
    jar.write_bytes(jar.read_bytes().replace(b"librarylibrary", b"librarYlibrary", 1))
    monkeypatch.setattr(native, "_member", lambda: member)
    monkeypatch.setattr(native, "_jars", lambda: [str(jar)])
    with pytest.raises(zipfile.BadZipFile):
        native._rocksdb_library()
    [directory] = tmp_path.glob("flinkish-rocksdb-*")
    assert list(directory.iterdir()) == []


def test_a_package_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "flinkish_rocksdb.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert native._load() is None
    [message] = caplog.messages
    assert message.startswith("flinkish_rocksdb is not used, which is slower: ")


def test_a_directory_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    directory = native._private_directory()
    assert directory == native._private_directory()
    assert directory is not None
    assert os.stat(directory).st_mode & 0o777 == 0o700
    os.chmod(directory, 0o777)
    assert native._private_directory() is None
    os.rmdir(directory)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    os.symlink(tmp_path / "elsewhere", directory)
    assert native._private_directory() is None


def test_the_library_is_that_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for machine, libc, member in (
        ("x86_64", "glibc", "librocksdbjni-linux64.so"),
        ("x86_64", "", "librocksdbjni-linux64-musl.so"),
        ("aarch64", "glibc", "librocksdbjni-linux-aarch64.so"),
        ("riscv128", "glibc", None),
    ):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        monkeypatch.setattr("platform.libc_ver", lambda libc=libc: (libc, "2"))
        assert native._member() == member
    monkeypatch.setattr(sys, "platform", "win32")
    assert native._member() is None
