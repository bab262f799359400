"""Changes that do not fit into memory go to the disk, and count as they would have."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flinkish.checkpoint.format.names import HDFS
from flinkish.engine.stores import hdfs_store
from flinkish.engine.stores.files import local_store
from flinkish.engine.stores.hdfs_store import LastChanges
from flinkish.engine.stores.store_rows import read_store
from flinkish.engine.stores.writers import write_records


def changes(seed: int, count: int) -> list[tuple[bytes, bytes | None]]:
    """Puts and removals of few keys, so that most repeat; empty keys and values too."""
    chance = random.Random(seed)
    found: list[tuple[bytes, bytes | None]] = []
    for i in range(count):
        key = b"" if chance.random() < 0.01 else b"%d" % chance.randrange(count // 4)
        found.append(
            (key, None if chance.random() < 0.3 else b"v" * chance.randrange(3) + b"%d" % i)
        )
    return [*found, (b"empty", b"")]


@pytest.mark.parametrize("limit", [1 << 30, 20_000, 1])
def test_the_last_change_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(hdfs_store, "MAX_HELD_BYTES", limit)
    given = changes(7, 2_000)
    wanted = dict(given)
    before = {b"%d" % i: b"old" for i in range(3_000)}
    with LastChanges(str(tmp_path)) as last:
        last.add(given[:900])
        last.add(given[900:])
        assert bool(list(tmp_path.iterdir())) == (limit < 1 << 30)
        rows = dict(last.rows())
        kept = dict(last.unchanged(before.items(), most=7))
    assert rows == {key: value for key, value in wanted.items() if value is not None}
    assert kept == {key: value for key, value in before.items() if key not in wanted}
    assert list(tmp_path.iterdir()) == []


def test_a_store_whose_changes_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: dict[bytes, bytes | None] = {}
    for version in range(1, 5):
        name = f"{version}.snapshot" if version == 2 else f"{version}.delta"
        records = changes(version, 1_000)
        if version == 2:
            wanted.update(dict(records))
            records = [(key, value) for key, value in wanted.items() if value is not None]
        with open(tmp_path / name, "wb") as file:
            write_records(file, records)
        wanted.update(dict(records))
    monkeypatch.setattr(hdfs_store, "MAX_HELD_BYTES", 10_000)
    found: dict[bytes, bytes] = {}
    for block in read_store(local_store(str(tmp_path), 4, HDFS)):
        assert not found.keys() & set(block.keys)
        found.update(zip(block.keys, block.values, strict=True))
    assert found == {key: value for key, value in wanted.items() if value is not None}
