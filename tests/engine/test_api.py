"""The engine's front door: places as paths, URLs and directories; no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

import flinkish.engine
from flinkish.engine import (
    LocalDirectory,
    StorageDirectory,
    TargetState,
    directory,
    migrate_checkpoint,
    read_checkpoint,
)
from flinkish.engine.api import _operator
from flinkish.engine.tables.frames import NoSuchState, read_rows
from flinkish.errors import UnsafePath
from tests.engine.migration.test_checkpoint_migration import all_rows
from tests.support.checkpoints.recorded import unpack
from tests.support.engine.inline_spark import InlineContext

ROOT = Path(__file__).resolve().parents[2]
URL = "memory://engine-api/checkpoint"


@pytest.fixture
def memory() -> Iterator[StorageDirectory]:
    yield StorageDirectory(URL)
    system = fsspec.filesystem("memory")
    for path in system.find("/engine-api"):
        system.rm(path)


def write(target: StorageDirectory, path: str, content: bytes) -> None:
    with target.create(path) as file:
        file.write(content)


def test_a_directory_behind_a_url(memory: StorageDirectory) -> None:
    assert memory.names("") == []
    write(memory, "state/0/1.delta", b"one")
    write(memory, "state/0/2.delta", b"two")
    write(memory, "state/0/2.delta", b"new")
    write(memory, "metadata", b"m")
    assert memory.names("") == ["metadata", "state"]
    assert memory.names("state/0") == ["1.delta", "2.delta"]
    assert memory.names("nowhere") == []
    with memory.open("state/0/2.delta") as file:
        assert file.read() == b"new"
    with pytest.raises(FileNotFoundError):
        memory.open("state/0/3.delta")
    assert memory.local_path("metadata") is None
    memory.move("state", "moved/state")
    assert (memory.names("state"), memory.names("moved/state/0")) == ([], ["1.delta", "2.delta"])
    memory.move("metadata", "moved/metadata")
    assert memory.names("") == ["moved"]
    memory.remove("moved/state/0/1.delta")
    memory.remove("moved/state/0/1.delta")  # it is gone
    assert memory.names("moved/state/0") == ["2.delta"]
    memory.remove("moved")
    assert memory.names("moved") == []
    for path in ("../other", "a//b", "a/./b", "a\0b"):
        with pytest.raises(UnsafePath, match="is refused"):
            memory.remove(path)
        with pytest.raises(UnsafePath, match="is refused"):
            memory.create(path)


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    local = LocalDirectory(str(tmp_path / "ck"))
    assert directory("ck") == directory(tmp_path / "ck") == local
    assert directory(f"file:{tmp_path}/ck") == directory(f"file://{tmp_path}/ck") == local
    assert directory("s3a://bucket/ck/") == StorageDirectory("s3://bucket/ck")
    assert directory(local) is local


@pytest.mark.parametrize("name", ["spark43-hdfs-agg", "spark43-rocksdb-tws"])
def test_a_checkpoint_is_migrated_to_a_url_and_back(
    memory: StorageDirectory, tmp_path: Path, name: str
) -> None:
    root = unpack(name, tmp_path)
    context = InlineContext()
    done = migrate_checkpoint(context, root, URL, TargetState(partitions=3))
    assert [operator.ordinal for operator in done.operators] == [0]
    (operator,) = read_checkpoint(memory).operators
    assert operator.partitions == 3
    store = "count" if name.endswith("tws") else None
    assert sum(batch.num_rows for batch in read_rows(memory, operator, store)) > 0
    migrate_checkpoint(context, URL, tmp_path / "back", TargetState(partitions=2))
    assert all_rows(tmp_path / "back") == all_rows(root)
    with pytest.raises(NoSuchState, match=r"there is no operator 7 \(operators: 0\)"):
        _operator(memory, 7, None)


def test_an_operator_of_another_batch_is_refused(tmp_path: Path) -> None:
    source = directory(unpack("spark43-hdfs-agg", tmp_path))
    (operator,) = read_checkpoint(source, 3).operators
    assert _operator(source, operator, 3) is _operator(source, operator, None) is operator
    assert _operator(source, 0, 3) == operator
    with pytest.raises(NoSuchState, match=r"after batch 3, not after 2: give its id"):
        _operator(source, operator, 2)


def test_names_are_imported_when_they_are_used() -> None:
    script = (
        "import sys; before = set(sys.modules); import flinkish.engine; "
        "new = {m for m in set(sys.modules) - before if m.startswith('flinkish')}; "
        "assert new == {'flinkish', 'flinkish.engine'}, new; assert 'pyarrow' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    for name in flinkish.engine.__all__:
        assert getattr(flinkish.engine, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = flinkish.engine.nothing  # type: ignore[attr-defined]
