"""Which files make up a version: exactly those up to it, and none after."""

from __future__ import annotations

import pytest

from flinkish.checkpoint.format.chains import Chain
from flinkish.checkpoint.format.names import HDFS, ROCKSDB
from flinkish.engine.errors import MissingStateFile
from flinkish.engine.stores.files import find_chain
from tests.support.engine.handwritten_state import store

KINDS = {HDFS: ("snapshot", "delta"), ROCKSDB: ("zip", "changelog")}


def chain(backend: str, snapshots: list[int], changes: list[int], version: int) -> Chain:
    snapshot, change = KINDS[backend]
    names = [f"{v}.{snapshot}" for v in snapshots] + [f"{v}.{change}" for v in changes]
    return find_chain(store(dict.fromkeys(names, b""), version, backend), lambda _: None)


@pytest.mark.parametrize("backend", [HDFS, ROCKSDB])
@pytest.mark.parametrize(
    ("snapshots", "version", "start", "after"),
    [
        ([], 2, None, [1, 2]),
        ([3], 2, None, [1, 2]),  # the snapshot of the next version is no help
        ([3], 3, 3, []),
        ([3], 4, 3, [4]),
        ([3, 5], 4, 3, [4]),
        ([3, 5], 5, 5, []),
        ([3, 5], 6, 5, [6]),
    ],
)
def test_the_newest_snapshot_not_after_the_version(
    backend: str, snapshots: list[int], version: int, start: int | None, after: list[int]
) -> None:
    snapshot, change = KINDS[backend]
    found = chain(backend, snapshots, [1, 2, 3, 4, 5, 6, 7], version)
    assert found.snapshot == (None if start is None else f"{start}.{snapshot}")
    assert found.changes == tuple(f"{v}.{change}" for v in after)


@pytest.mark.parametrize("lost", [4, 5])
def test_a_change_that_is_missing_is_named(lost: int) -> None:
    with pytest.raises(MissingStateFile, match=f"{lost}.delta"):
        chain(HDFS, [3], [v for v in (4, 5) if v != lost], 5)
