from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from flinkish.checkpoint.cut import read_cut
from flinkish.errors import Corrupt, SavepointNotFound, StorageError
from flinkish.restore.materialise import (
    adopt_cuts,
    materialise,
    moved_location,
    with_query_id,
    with_schema_locations,
)
from tests.checkpoint.likeness import QUERY_ID, CheckpointLikeness
from tests.checkpoint.recorded import NAMES, unpack


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_of_its_own(name: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    cut = read_cut(str(root), 5)
    target = tmp_path / "deep" / "new"
    materialise(cut.root, cut.files, str(target), query_id=None)
    again = read_cut(str(target))
    assert again.files == cut.files
    assert again.query_id == cut.query_id
    assert [o.stores for o in again.operators] == [o.stores for o in cut.operators]
    assert not [p for p in target.rglob("*") if p.name.startswith(".")]
    assert os.listdir(target.parent) == ["new"]
    linked = sum(os.path.samefile(root / f, target / f) for f in cut.files)
    rewritten = len(cut.files) - linked
    assert rewritten == (1 if name.endswith(("tws", "join3")) else 0)


@pytest.mark.parametrize("name", ["spark43-rocksdb-tws", "spark43-changelog-join3"])
def test_schema_locations_move_with_it(name: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    target = tmp_path / "new"
    materialise(str(root), read_cut(str(root)).files, str(target), query_id=None)
    [metadata] = (target / "state/0/_metadata/v2").iterdir()
    locations = re.findall(r'"(file:/[^"]*)"', metadata.read_text())
    assert locations
    for location in locations:
        assert location.startswith(f"file:{target}/state/0/_stateSchema/default/0_")
        assert Path(location.removeprefix("file:")).is_file()
    before = (root / "state/0/_metadata/v2" / metadata.name).read_text()
    assert str(target) not in before  # the source keeps its own
    assert len(metadata.read_text()) - len(before) == len(locations) * (
        len(f"file:{target}") - len(before.partition('Paths":["')[2].partition("/state/0")[0])
    )


def test_new_query_id(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(3)
    cut = read_cut(str(likeness.root))
    materialise(cut.root, cut.files, f"file:{tmp_path}/fork", query_id="another")
    assert read_cut(str(tmp_path / "fork")).query_id == "another"
    assert read_cut(cut.root).query_id == QUERY_ID
    assert with_query_id(b'{"id":"a","more":1}', "b") == b'{"id":"b","more":1}'


def test_it_survives_its_source(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c", backend="rocksdb").run_to(3)
    cut = read_cut(str(likeness.root))
    materialise(cut.root, cut.files, str(tmp_path / "new"), query_id=None)
    likeness.run_to(12)
    assert read_cut(str(tmp_path / "new")).files == cut.files


def test_an_empty_target_is_taken(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(1)
    (tmp_path / "new").mkdir()
    files = read_cut(str(likeness.root)).files
    materialise(str(likeness.root), files, str(tmp_path / "new"), query_id=None)
    assert read_cut(str(tmp_path / "new")).batch_id == 1


def test_a_taken_target_is_refused(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(1)
    files = read_cut(str(likeness.root)).files
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("full", "file"):
        with pytest.raises(StorageError, match="not an empty directory"):
            materialise(str(likeness.root), files, str(tmp_path / name), query_id=None)
    assert (tmp_path / "full/x").read_text() == "mine"
    with pytest.raises(StorageError):
        materialise(str(likeness.root), files, str(tmp_path / "file/new"), query_id=None)


def test_a_missing_file_leaves_nothing(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(3)
    files = read_cut(str(likeness.root)).files
    (likeness.root / files[-1]).unlink()
    with pytest.raises(Corrupt, match=files[-1]):
        materialise(str(likeness.root), files, str(tmp_path / "new"), query_id=None)
    assert sorted(os.listdir(tmp_path)) == ["c"]


def test_damaged_metadata_leaves_nothing(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(1)
    files = read_cut(str(likeness.root)).files
    (likeness.root / "metadata").write_bytes(b"{")
    with pytest.raises(Corrupt, match="metadata is damaged"):
        materialise(str(likeness.root), files, str(tmp_path / "new"), query_id="x")
    assert sorted(os.listdir(tmp_path)) == ["c"]


@pytest.mark.parametrize(
    ("location", "moved"),
    [
        ("file:/old/state/0/_stateSchema/s/0_u", "file:/new/c/state/0/_stateSchema/s/0_u"),
        ("file:///old/state/0/_stateSchema/s/0_u", "file:///new/c/state/0/_stateSchema/s/0_u"),
        ("/old/state/0/_stateSchema/s/0_u", "/new/c/state/0/_stateSchema/s/0_u"),
        ("file:/state/x/state/1/_stateSchema/s/0", "file:/new/c/state/1/_stateSchema/s/0"),
    ],
)
def test_moved_location(location: str, moved: str) -> None:
    assert moved_location(location, "/new/c") == moved


def test_locations_of_an_unknown_form_are_refused() -> None:
    with pytest.raises(ValueError, match="no state directory"):
        moved_location("file:/elsewhere", "/new")
    with pytest.raises(ValueError, match="not JSON"):
        with_schema_locations(b"v2\n{", "/new")


def test_metadata_without_locations_stays() -> None:
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}
    info = {"operatorInfo": {"operatorId": 0, "operatorName": "dedupe"}, "stateStoreInfo": [store]}
    assert with_schema_locations(b"v1\n" + json.dumps(info).encode(), "/new") is None


def test_adopting(tmp_path: Path) -> None:
    one = CheckpointLikeness(tmp_path / "all" / "one").run_to(1)
    CheckpointLikeness(tmp_path / "all" / "two").run_to(2)
    (tmp_path / "all" / "other").mkdir()
    assert {k: c.batch_id for k, c in adopt_cuts(str(one.root)).items()} == {None: 1}
    found = adopt_cuts(f"file://{tmp_path}/all")
    assert {k: c.batch_id for k, c in found.items()} == {"one": 1, "two": 2}
    for path in ("all/other", "missing", "all/one/offsets"):
        with pytest.raises(SavepointNotFound, match="neither a savepoint nor a Spark checkpoint"):
            adopt_cuts(str(tmp_path / path))
