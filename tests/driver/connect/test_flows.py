"""Where Spark looks for the checkpoint of a pipeline's flow, and where a restored one goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.driver.connect.flows import newest_checkpoint, next_version

TABLE = ("spark_catalog", "default", "rides")
PARENT = "_checkpoints/spark_catalog/default/rides/counts"


@pytest.mark.parametrize(
    ("there", "newest"),
    [
        ([], "0"),
        (["0"], "0"),
        (["2", "10", "9"], "10"),
        (["3", ".4-before-rewriting", "05", "backup", "-7"], "3"),
    ],
)
def test_the_newest_is_the_largest_number(tmp_path: Path, there: list[str], newest: str) -> None:
    """As ``SystemMetadata.getLatestCheckpointDir`` chooses; other names are no numbers to it."""
    for name in there:
        (tmp_path / PARENT / name).mkdir(parents=True)
    for storage in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}/"):
        expected = f"{storage.rstrip('/')}/{PARENT}/{newest}"
        assert newest_checkpoint(storage, TABLE, "counts") == expected


def test_a_restored_one_gets_the_next_number(tmp_path: Path) -> None:
    first = tmp_path / "0"
    assert next_version(str(first)) == str(first), "it has none yet"
    first.mkdir()
    assert next_version(f"{first}/") == str(first), "a full refresh begins with an empty one"
    (first / "metadata").touch()
    (tmp_path / "backup").mkdir()
    assert next_version(str(first)) == str(tmp_path / "1")
