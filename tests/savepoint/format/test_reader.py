from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinkish.errors import Corrupt, SavepointNotFound, UsageError
from flinkish.messages.requests import SavepointSummary
from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.format import reader
from flinkish.savepoint.format.reader import check_files, describe, open_savepoint
from tests.savepoint.conftest import Taking
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.checkpoints.recorded import unpack
from tests.support.savepoint.small_savepoints import make_savepoint


@pytest.fixture
def info(likeness: CheckpointLikeness, take: Taking) -> SavepointSummary:
    return take(likeness.root)


def test_ways_to_name_it(
    info: SavepointSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = Path(info.path).relative_to(tmp_path)
    for path in (
        info.path,
        f"{info.path}/",
        f"{info.path}/_metadata",
        f"file:{info.path}",
        f"file://{info.path}/_metadata",
        str(relative),
        f"./{relative}/_metadata",
    ):
        assert open_savepoint(path).path == info.path


def test_it_can_be_moved(info: SavepointSummary, tmp_path: Path) -> None:
    Path(info.path).rename(tmp_path / "elsewhere")
    savepoint = open_savepoint(str(tmp_path / "elsewhere"))
    check_files(savepoint, "full")
    assert savepoint.query_root(savepoint.queries[0]) == str(tmp_path / "elsewhere/0-query_0")


def test_not_a_savepoint(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("empty", "file", "missing", "missing/_metadata", "empty/_metadata"):
        with pytest.raises(SavepointNotFound):
            open_savepoint(str(tmp_path / name))


def data_file(info: SavepointSummary) -> Path:
    path = next((Path(info.path) / "0-query_0/state").rglob("*.sst"))
    content = path.read_bytes()
    path.unlink()  # it is a link: the checkpoint's own must not change
    path.write_bytes(content)
    return path


def test_missing_data_file(info: SavepointSummary) -> None:
    path = data_file(info)
    path.unlink()
    for level in ("quick", "full"):
        with pytest.raises(Corrupt, match=f"{path.name} is missing") as caught:
            check_files(open_savepoint(info.path), level)
        assert caught.value.code == 15
        assert caught.value.data["bad_files"] == 1


def test_one_that_is_disposed_of_meanwhile_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoint = open_savepoint(make_savepoint(str(tmp_path), 1.0))
    sizes = reader._sizes

    def late(directory: str) -> dict[str, int]:
        dispose(savepoint.path)
        return sizes(directory)

    monkeypatch.setattr(reader, "_sizes", late)
    with pytest.raises(SavepointNotFound, match="was removed meanwhile"):
        check_files(savepoint)


def test_truncated_data_file(info: SavepointSummary) -> None:
    path = data_file(info)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Corrupt, match="has 699 bytes instead of 700"):
        check_files(open_savepoint(info.path))


def test_one_changed_byte(info: SavepointSummary) -> None:
    path = data_file(info)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    check_files(open_savepoint(info.path), "quick")  # sizes cannot tell
    with pytest.raises(Corrupt, match="does not have its recorded digest"):
        check_files(open_savepoint(info.path), "full")


def test_many_bad_files_are_counted(info: SavepointSummary) -> None:
    gone = list((Path(info.path) / "0-query_0").rglob("*.sst"))
    for path in gone:
        path.unlink()
    with pytest.raises(Corrupt, match=f"and {len(gone) - 1} more of"):
        check_files(open_savepoint(info.path))


def test_unknown_level(info: SavepointSummary) -> None:
    with pytest.raises(UsageError):
        check_files(open_savepoint(info.path), "thorough")


def test_describe_follows_the_contract(tmp_path: Path, take: Taking) -> None:
    savepoint = open_savepoint(take(unpack("spark43-ids-join", tmp_path)).path)
    described = json.loads(json.dumps(describe(savepoint)))
    assert set(described) == {"savepoint"}
    top = described["savepoint"]
    assert {
        "path",
        "job_id",
        "created",
        "spark_version",
        "flinkish_version",
        "format",
        "queries",
        "files",
        "bytes",
    } <= set(top)
    assert top["format"] == "native"
    assert top["created"].endswith("Z")
    [query] = top["queries"]
    assert {"name", "batch_id", "offsets", "pins", "operators"} <= set(query)
    assert query["offsets"] == [{"logOffset": 5}, {"logOffset": 5}]
    assert query["checkpoint_format"] == 2
    assert query["watermark"].startswith("2024-01-01T00:")
    assert query["sink"] == {"format": "parquet", "path": "/out"}
    [operator] = query["operators"]
    assert {
        "uid",
        "operator_id",
        "operator_id_v2",
        "operator_id_v3",
        "kind",
        "ordinal",
        "partitions",
        "rows",
        "stores",
    } <= set(operator)
    assert (operator["uid"], operator["rows"], operator["kind"]) == (
        "counts",
        12,
        "symmetricHashJoin",  # what Spark wrote wins over what the driver said
    )
    assert len(operator["stores"]) == 4
    assert operator["stores"][0]["key_schema"]["type"] == "struct"


def test_a_directory_of_savepoints_is_none(info: SavepointSummary) -> None:
    directory = str(Path(info.path).parent)
    with pytest.raises(SavepointNotFound) as caught:
        open_savepoint(directory)
    assert "it holds 1 savepoint: name one" in caught.value.hint
    assert f"flinkish savepoint list {directory}" in caught.value.hint
