"""Checkpoints with the operators of a recipe, on the recorded ones of real Spark: which files, and
what is in those that are not the origin's. That Spark resumes them is tested in tests/driver."""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.checkpoint.cut import read_cut
from flinkish.checkpoint.format.names import is_state_data
from flinkish.checkpoint.wholeness import read_whole_cut
from flinkish.errors import Corrupt, Incompatible, SavepointNotFound, StorageError
from flinkish.restore.materialize.new_checkpoint import make_checkpoint, remove_unused
from flinkish.restore.materialize.state_files import empty_archive, empty_snapshot
from flinkish.restore.origin.restore_origin import open_path, origin_of
from flinkish.restore.recipe import (
    EmptyState,
    OriginCheckpoint,
    Recipe,
    TakenState,
)
from flinkish.savepoint.format.digests import SHA256, FileTable, compute
from tests.support.checkpoints.handwritten import QUERY_ID, CheckpointLikeness
from tests.support.checkpoints.recorded import NAMES, unpack
from tests.support.checkpoints.saved import save
from tests.support.restore.recipes import content, header, make, rewrite, state_of

# A checkpoint as it is.


@pytest.mark.parametrize("planned", [False, True])
def test_a_checkpoint_that_a_killed_driver_has_made_is_made_anew(
    tmp_path: Path, planned: bool
) -> None:
    """Of a query that it had not recorded, unless Spark has gone on in it."""
    saved = CheckpointLikeness(tmp_path / "saved").run_to(3)
    if planned:
        (saved.root / "commits" / "3").unlink()
    cut = read_cut(str(saved.root))
    recipe = Recipe((OriginCheckpoint(cut.root, tuple(cut.files), cut.batch_id),))
    assert recipe.replays_planned is planned
    target = tmp_path / "job" / "q"
    remove_unused(recipe, str(target))  # there is none
    make_checkpoint(recipe, str(target))
    remove_unused(recipe, str(target))
    make_checkpoint(recipe, str(target))
    for log in ("offsets", "commits"):
        (target / log / "4").write_text("v1\n{}")
    remove_unused(recipe, str(target))
    with pytest.raises(StorageError, match="exists"):
        make_checkpoint(recipe, str(target))


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_of_its_own(name: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    cut = read_cut(str(root), 5)
    target = tmp_path / "deep" / "new"
    files = make(target, cut)
    again = read_cut(str(target))
    assert again.files == cut.files
    assert sorted(cut.files) == sorted(files)
    assert again.query_id == cut.query_id
    assert [o.stores for o in again.operators] == [o.stores for o in cut.operators]
    assert os.listdir(target.parent) == ["new"]
    linked = sum(os.path.samefile(root / f, target / f) for f in cut.files)
    rewritten = len(cut.files) - linked
    assert rewritten == (1 if name.endswith(("tws", "join3")) else 0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("spark43-hdfs-agg", "delta"),
        ("spark43-rocksdb-dedup", "zip"),
        ("spark43-changelog-agg", "changelog"),
    ],
)
def test_the_state_of_a_batch_that_was_killed_before_its_commit(
    name: str, kind: str, tmp_path: Path
) -> None:
    """As Spark finds it in the checkpoint: with that commit the new checkpoint is whole."""
    root = unpack(name, tmp_path)
    whole = read_cut(str(root))
    commit = root / f"commits/{whole.batch_id}"
    content = commit.read_bytes()
    commit.unlink()
    origin = origin_of(read_cut(str(root)))
    assert origin.planned_state
    assert not origin_of(read_cut(str(root)), running=True).planned_state
    recipe = Recipe((origin,), takes_planned_state=True)
    make_checkpoint(recipe, str(tmp_path / "new"))
    (tmp_path / f"new/commits/{whole.batch_id}").write_bytes(content)
    again = read_whole_cut(str(tmp_path / "new"))
    assert again.batch_id == whole.batch_id
    assert again.operators == whole.operators
    last = next(path for path in origin.planned_state if path.endswith(f".{kind}"))
    (root / last).write_bytes(b"")
    assert not origin_of(read_cut(str(root))).planned_state, "not whole"
    assert not Recipe((origin,), rebase_to=99).can_take_planned_state


def test_which_state_an_uncommitted_batch_wrote_is_unknown_where_files_have_ids(
    tmp_path: Path,
) -> None:
    root = unpack("spark43-ids-join", tmp_path)
    (root / f"commits/{read_cut(str(root)).batch_id}").unlink()
    assert not origin_of(read_cut(str(root))).planned_state


@pytest.mark.parametrize("name", ["spark43-rocksdb-tws", "spark43-changelog-join3"])
def test_schema_locations_move_with_it(name: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    target = tmp_path / "new"
    make(target, read_cut(str(root)))
    [metadata] = (target / "state/0/_metadata/v2").iterdir()
    locations = re.findall(r'"(file:/[^"]*)"', metadata.read_text())
    assert locations
    for location in locations:
        assert location.startswith(f"file:{target}/state/0/_stateSchema/default/0_")
        assert Path(location.removeprefix("file:")).is_file()
    before = (root / "state/0/_metadata/v2" / metadata.name).read_text()
    assert str(target) not in before  # the source keeps its own
    assert metadata.read_text() == before.replace("/srv/streams/" + name, str(target))


def test_equal_metadata_of_several_batches_from_remote_storage(tmp_path: Path) -> None:
    """Equal files are linked to the first of them, while others are still on their way."""
    root = unpack("spark43-changelog-join3", tmp_path)
    versions = root / "state/0/_metadata/v2"
    for batch in range(1, 6):
        (versions / str(batch)).write_bytes((versions / "0").read_bytes())
    far = f"memory://restore/{uuid.uuid4().hex}"
    for path in (path for path in root.rglob("*") if path.is_file()):
        place = storage.join(far, str(path.relative_to(root)))
        storage.make_directory(storage.parent(place))
        storage.write_bytes(place, path.read_bytes())
    target = tmp_path / "new"
    make(target, read_cut(far, 5))
    written = [path.read_bytes() for path in (target / "state/0/_metadata/v2").iterdir()]
    assert len(written) == 6
    assert len(set(written)) == 1
    assert str(target).encode() in written[0]


def test_new_query_id(tmp_path: Path) -> None:
    cut = read_cut(str(CheckpointLikeness(tmp_path / "c").run_to(3).root))
    recipe = Recipe(
        (OriginCheckpoint(f"file:{cut.root}", tuple(cut.files), 3),), query_id="another"
    )
    make_checkpoint(recipe, f"file:{tmp_path}/fork")
    assert read_cut(str(tmp_path / "fork")).query_id == "another"
    assert read_cut(cut.root).query_id == QUERY_ID


@pytest.mark.parametrize("states", [None, {0: TakenState(0, 0)}], ids=["as it is", "assembled"])
def test_pins_change_in_every_entry_of_the_offset_log(states: Any, tmp_path: Path) -> None:
    cut = read_cut(str(unpack("spark43-hdfs-agg", tmp_path)))
    before = make(tmp_path / "plain", cut, states=states)
    pins = {"spark.sql.streaming.join.stateFormatVersion": "1", "spark.one.more": "x"}
    files = make(tmp_path / "new", cut, states=states, pins=pins)
    assert files.keys() == before.keys()
    entries = [path for path in files if path.startswith("offsets/")]
    assert len(entries) >= 2
    for path in entries:
        old, new = header(before[path]), header(files[path])
        assert new == {**old, "conf": {**old["conf"], **pins}}
        assert files[path].split(b"\n")[2:] == before[path].split(b"\n")[2:]
    others = files.keys() - entries
    assert {path: files[path] for path in others} == {path: before[path] for path in others}


def test_it_survives_its_source(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c", backend="rocksdb").run_to(3)
    cut = read_cut(str(likeness.root))
    make(tmp_path / "new", cut)
    likeness.run_to(12)
    assert read_cut(str(tmp_path / "new")).files == cut.files


def test_an_empty_target_is_taken(tmp_path: Path) -> None:
    cut = read_cut(str(CheckpointLikeness(tmp_path / "c").run_to(1).root))
    (tmp_path / "new").mkdir()
    make(tmp_path / "new", cut)
    assert read_cut(str(tmp_path / "new")).batch_id == 1


def test_a_taken_target_is_refused(tmp_path: Path) -> None:
    cut = read_cut(str(CheckpointLikeness(tmp_path / "c").run_to(1).root))
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("full", "file"):
        with pytest.raises(StorageError, match="not an empty directory"):
            make(tmp_path / name, cut)
    assert (tmp_path / "full/x").read_text() == "mine"
    with pytest.raises(StorageError):
        make(tmp_path / "file/new", cut)


@pytest.mark.parametrize("states", [None, {4: TakenState(0, 0)}])
def test_a_missing_file_leaves_nothing(tmp_path: Path, states: Any) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(3)
    cut = read_cut(str(likeness.root))
    for lost in (list(cut.files)[-1], "commits/3", "metadata"):
        kept = (likeness.root / lost).read_bytes()
        (likeness.root / lost).unlink()
        with pytest.raises(Corrupt, match=lost):
            make(tmp_path / "new", cut, states=states)
        assert sorted(os.listdir(tmp_path)) == ["c"]
        (likeness.root / lost).write_bytes(kept)


@pytest.mark.parametrize("prefix", ["metadata", "commits/", "state/0/0/"])
def test_a_savepoint_that_is_removed_meanwhile_is_not_called_damaged(
    tmp_path: Path, prefix: str
) -> None:
    path = save(tmp_path, "hdfs-agg")
    (offer,) = open_path(path).by_key.values()
    lost = next(file for file in offer.origin.files if file.startswith(prefix))
    os.remove(offer.origin.at(lost))
    recipe = Recipe((offer.origin,))
    with pytest.raises(Corrupt, match=f"{lost} is missing"):
        make_checkpoint(recipe, str(tmp_path / "new"))
    os.remove(f"{path}/_metadata")
    with pytest.raises(SavepointNotFound, match=f"{path} was removed meanwhile"):
        make_checkpoint(recipe, str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_damaged_files_leave_nothing(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(1)
    cut = read_cut(str(likeness.root))
    (likeness.root / "commits/1").write_bytes(b"v1\n{")
    with pytest.raises(Corrupt, match="commits/1 is damaged"):
        make(tmp_path / "new", cut, states={})
    (likeness.root / "metadata").write_bytes(b"{")
    with pytest.raises(Corrupt, match="metadata is damaged"):
        make(tmp_path / "new", cut, query_id="x")
    assert sorted(os.listdir(tmp_path)) == ["c"]


# Operators: renumbered, dropped, new.


def test_a_renumbered_operator_and_an_empty_one(tmp_path: Path) -> None:
    cut = read_cut(str(unpack("spark43-hdfs-agg", tmp_path)))
    old = content(cut, *cut.files)
    metadata, schema = (old[f"state/0/{p}"] for p in ("_metadata/metadata", "0/_metadata/schema"))
    empty = EmptyState(2, files={"_metadata/metadata": metadata, "0/_metadata/schema": schema})
    files = make(tmp_path / "new", cut, states={1: TakenState(0, 0), 0: empty})

    assert state_of(files, 0) == {
        "_metadata/metadata": metadata,
        "0/_metadata/schema": schema,
        "0/7.snapshot": empty_snapshot("lz4"),
        "1/7.snapshot": empty_snapshot("lz4"),
    }
    renumbered = metadata.replace(b'"operatorId":0', b'"operatorId":1')
    assert state_of(files, 1) == {**state_of(old, 0), "_metadata/metadata": renumbered}
    rest = {path: data for path, data in old.items() if not path.startswith("state/")}
    assert {p: d for p, d in files.items() if not p.startswith("state/")} == rest
    assert os.path.samefile(tmp_path / "new/state/1/0/7.delta", f"{cut.root}/state/0/0/7.delta")
    assert [o.ordinal for o in read_cut(str(tmp_path / "new")).operators] == [0, 1]


def test_checksums_of_rewritten_files_are_left_out(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    paths = "_metadata/metadata.crc", "0/_metadata/schema.crc"
    for path in paths:
        (root / "state/0" / path).write_text("Spark's")
    cut = read_cut(str(root))
    listed = OriginCheckpoint(
        cut.root, tuple(sorted({*cut.files, *(f"state/0/{p}" for p in paths)})), 6
    )
    make_checkpoint(Recipe((listed,), states={1: TakenState(0, 0)}), str(tmp_path / "new"))
    assert not (tmp_path / "new/state/1/_metadata/metadata.crc").exists()
    assert (tmp_path / "new/state/1/0/_metadata/schema.crc").read_text() == "Spark's"


@pytest.mark.parametrize(
    ("name", "partitions", "expected"),
    [
        ("spark35-rocksdb-agg", 1, {"0/7.zip": empty_archive()}),
        ("spark43-changelog-agg", 1, {"0/7.zip": empty_archive()}),
        (
            "spark35-hdfs-join",
            2,
            {
                f"{partition}/{side}-{what}/7.snapshot": empty_snapshot(None)
                for partition in (0, 1)
                for side in ("left", "right")
                for what in ("keyToNumValues", "keyWithIndexToValue")
            },
        ),
    ],
)
def test_empty_state_of_each_backend(
    name: str, partitions: int, expected: dict[str, bytes], tmp_path: Path
) -> None:
    cut = read_cut(str(unpack(name, tmp_path)))
    stores = tuple({path.split("/")[1] for path in expected if path.count("/") > 1}) or ("default",)
    files = make(
        tmp_path / "new", cut, states={0: TakenState(0, 0), 1: EmptyState(partitions, stores)}
    )
    assert state_of(files, 1) == expected
    assert state_of(files, 0) == state_of(content(cut, *cut.files), 0)


@pytest.mark.parametrize("name", ["spark43-rocksdb-tws", "spark43-changelog-join3"])
def test_planned_metadata_says_which_stores_there_are(name: str, tmp_path: Path) -> None:
    """The stores of a join are column families of one since its state format 3."""
    cut = read_cut(str(unpack(name, tmp_path)))
    old = content(cut, *cut.files)
    [path] = (p for p in old if "/_metadata/v2/" in p)
    schema = "_stateSchema/default/0_u"
    metadata = re.sub(rb'"file:[^"]*"', f'"file:/scratch/state/1/{schema}"'.encode(), old[path])
    planned = {"_metadata/v2/9": metadata, schema: b"families"}
    empty = EmptyState(2, ("left-keyToNumValues", "right-keyToNumValues"), planned)
    files = make(tmp_path / "new", cut, states={1: empty})
    location = f"file:{tmp_path}/new/state/1/{schema}"
    found = state_of(files, 1)
    moved = found.pop("_metadata/v2/6")  # not of a batch that is still to come
    assert (json.loads(moved.split(b"\n")[1]))["operatorInfo"]["operatorId"] == 1
    assert re.findall(r'"(file:[^"]*)"', moved.decode()) == [location]
    assert found == {schema: b"families", "0/7.zip": empty_archive(), "1/7.zip": empty_archive()}


@pytest.mark.parametrize("name", ["spark43-ids-join", "spark43-ids-zip-dedup"])
def test_unique_ids_follow_their_operator(name: str, tmp_path: Path) -> None:
    cut = read_cut(str(unpack(name, tmp_path)))
    stores = tuple(store.name for store in cut.operators[0].stores)
    files = make(tmp_path / "new", cut, states={1: TakenState(0, 0), 0: EmptyState(2, stores)})
    old = header(content(cut, "commits/6")["commits/6"])
    new = header(files["commits/6"])
    ids = new["stateUniqueIds"]
    assert ids["1"] == old["stateUniqueIds"]["0"]
    assert new["nextBatchWatermarkMs"] == old["nextBatchWatermarkMs"]
    assert "commits/5" not in files  # it would name ids under the old ordinal
    flat = [one for partition in ids["0"] for one in partition]
    assert len(set(flat)) == len(flat) == 2 * len(stores)
    assert state_of(files, 0) == {
        "/".join(
            [str(p), *([store] if store != "default" else []), f"7_{one}.zip"]
        ): empty_archive()
        for p, partition in enumerate(ids["0"])
        for store, one in zip(sorted(stores), partition, strict=True)
    }
    assert state_of(files, 1).keys() == state_of(dict.fromkeys(cut.files, b""), 0).keys()
    assert [o.ordinal for o in read_cut(str(tmp_path / "new")).operators] == [0, 1]


def test_dropped_and_unknown_operators(tmp_path: Path) -> None:
    cut = read_cut(str(unpack("spark43-ids-zip-dedup", tmp_path)))
    files = make(tmp_path / "none", cut, states={})
    assert not [path for path in files if path.startswith("state/")]
    assert header(files["commits/6"])["stateUniqueIds"] == {}
    assert read_cut(str(tmp_path / "none")).operators == ()
    with pytest.raises(Corrupt, match="state/3 is missing"):
        make(tmp_path / "lost", cut, states={0: TakenState(0, 3)})
    assert not (tmp_path / "lost").exists()


def test_an_unknown_codec_is_refused(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-limit", tmp_path)
    rewrite(str(root), "offsets/5", '"lz4"', '"com.example.Codec"')
    with pytest.raises(Incompatible, match=r"com\.example\.Codec"):
        make(tmp_path / "new", read_cut(str(root)), states={0: EmptyState(1)})


# What a savepoint has recorded.


def _recorded(tmp_path: Path) -> tuple[Path, OriginCheckpoint]:
    """A checkpoint whose files were recorded as they are."""
    root = unpack("spark43-hdfs-agg", tmp_path)
    cut = read_cut(str(root))
    table = FileTable.of(
        (path, (root / path).stat().st_size, compute(str(root / path), SHA256))
        for path in cut.files
    )
    return root, OriginCheckpoint(str(root), tuple(cut.files), cut.batch_id, recorded=table)


@pytest.mark.parametrize(
    "path",
    ["metadata", "offsets/5", "commits/5", "sources/0/5.compact", "state/0/_metadata/metadata"],
)
@pytest.mark.parametrize("limit", [16 << 20, 1], ids=["read", "put in place"])
def test_a_log_with_other_bytes_of_the_same_size_is_refused(
    path: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, origin = _recorded(tmp_path)
    monkeypatch.setattr("flinkish.restore.materialize.new_checkpoint._READ_WHOLE", limit)
    make_checkpoint(Recipe((origin,)), str(tmp_path / "whole"))
    data = (root / path).read_bytes()
    assert path in origin.files
    (root / path).write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
    with pytest.raises(Corrupt, match=f"{path} does not have its recorded digest"):
        make_checkpoint(Recipe((origin,)), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_the_bytes_that_were_compared_are_those_of_the_new_checkpoint(tmp_path: Path) -> None:
    root, origin = _recorded(tmp_path)
    make_checkpoint(Recipe((origin,)), str(tmp_path / "new"))
    for path in origin.files:
        assert os.path.samefile(root / path, tmp_path / "new" / path) == is_state_data(path)


def test_a_state_file_of_another_size_is_refused(tmp_path: Path) -> None:
    root, origin = _recorded(tmp_path)
    path = next(path for path in origin.files if is_state_data(path))
    with open(root / path, "ab") as file:
        file.write(b"x")
    with pytest.raises(Corrupt, match=f"{path} has [0-9]+ bytes instead of [0-9]+"):
        make_checkpoint(Recipe((origin,)), str(tmp_path / "new"))
