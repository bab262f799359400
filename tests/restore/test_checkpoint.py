"""Checkpoints made from recipes, on the recorded checkpoints of real Spark: which files, and what
is in those that are not the donor's. That Spark resumes them is tested in tests/driver."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.cut import Cut, read_cut
from flinkish.errors import Corrupt, Incompatible, StorageError
from flinkish.restore.checkpoint import make_checkpoint
from flinkish.restore.emptystate import empty_archive, empty_snapshot
from flinkish.restore.recipe import (
    Donor,
    EmptyState,
    FreshSource,
    Recipe,
    TakenSource,
    TakenState,
)
from tests.checkpoint.likeness import QUERY_ID, CheckpointLikeness
from tests.checkpoint.recorded import NAMES, unpack


def donor(cut: Cut) -> Donor:
    return Donor(cut.root, cut.files, cut.batch_id)


def make(target: Path, *cuts: Cut, **recipe: Any) -> dict[str, bytes]:
    """Make the checkpoint; its files by path."""
    make_checkpoint(Recipe(tuple(donor(cut) for cut in cuts), **recipe), str(target))
    found = {p.relative_to(target).as_posix(): p for p in target.rglob("*") if p.is_file()}
    assert not [name for name in found if "/." in name]
    return {name: path.read_bytes() for name, path in found.items()}


def header(entry: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(entry.split(b"\n")[1])
    return parsed


def lines(entry: bytes) -> list[str]:
    return entry.decode().split("\n")[2:]


def content(cut: Cut, *paths: str) -> dict[str, bytes]:
    return {path: Path(cut.root, path).read_bytes() for path in paths}


def state_of(files: Mapping[str, bytes], ordinal: int) -> dict[str, bytes]:
    prefix = f"state/{ordinal}/"
    return {p.removeprefix(prefix): data for p, data in files.items() if p.startswith(prefix)}


def rewrite(cut_root: str, path: str, old: str, new: str) -> None:
    file = Path(cut_root, path)
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


# A checkpoint as it is.


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_of_its_own(name: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    cut = read_cut(str(root), 5)
    target = tmp_path / "deep" / "new"
    files = make(target, cut)
    again = read_cut(str(target))
    assert again.files == cut.files == tuple(sorted(files))
    assert again.query_id == cut.query_id
    assert [o.stores for o in again.operators] == [o.stores for o in cut.operators]
    assert os.listdir(target.parent) == ["new"]
    linked = sum(os.path.samefile(root / f, target / f) for f in cut.files)
    rewritten = len(cut.files) - linked
    assert rewritten == (1 if name.endswith(("tws", "join3")) else 0)


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


def test_new_query_id(tmp_path: Path) -> None:
    cut = read_cut(str(CheckpointLikeness(tmp_path / "c").run_to(3).root))
    recipe = Recipe((Donor(f"file:{cut.root}", cut.files, 3),), query_id="another")
    make_checkpoint(recipe, f"file:{tmp_path}/fork")
    assert read_cut(str(tmp_path / "fork")).query_id == "another"
    assert read_cut(cut.root).query_id == QUERY_ID


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
    for lost in (cut.files[-1], "commits/3", "metadata"):
        kept = (likeness.root / lost).read_bytes()
        (likeness.root / lost).unlink()
        with pytest.raises(Corrupt, match=lost):
            make(tmp_path / "new", cut, states=states)
        assert sorted(os.listdir(tmp_path)) == ["c"]
        (likeness.root / lost).write_bytes(kept)


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
    files = make(tmp_path / "new", cut, states={2: TakenState(0, 0), 0: empty})

    assert state_of(files, 0) == {
        "_metadata/metadata": metadata,
        "0/_metadata/schema": schema,
        "0/7.snapshot": empty_snapshot("lz4"),
        "1/7.snapshot": empty_snapshot("lz4"),
    }
    renumbered = metadata.replace(b'"operatorId":0', b'"operatorId":2')
    assert state_of(files, 2) == {**state_of(old, 0), "_metadata/metadata": renumbered}
    rest = {path: data for path, data in old.items() if not path.startswith("state/")}
    assert {p: d for p, d in files.items() if not p.startswith("state/")} == rest
    assert os.path.samefile(tmp_path / "new/state/2/0/7.delta", f"{cut.root}/state/0/0/7.delta")
    assert [o.ordinal for o in read_cut(str(tmp_path / "new")).operators] == [0, 2]


def test_checksums_of_rewritten_files_are_left_out(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    paths = "_metadata/metadata.crc", "0/_metadata/schema.crc"
    for path in paths:
        (root / "state/0" / path).write_text("Spark's")
    cut = read_cut(str(root))
    listed = Donor(cut.root, tuple(sorted({*cut.files, *(f"state/0/{p}" for p in paths)})), 6)
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


# Sources and batches.


def both_sources(*places: int) -> tuple[TakenSource, ...]:
    return tuple(TakenSource(0, n, str(n), str(at)) for at, n in enumerate(places))


def test_reordered_sources_and_a_fresh_one(tmp_path: Path) -> None:
    """A planned batch is replayed with the same ranges."""
    root = unpack("spark35-hdfs-join", tmp_path)
    for number, offset in ((4, 3), (5, 4)):
        rewrite(
            str(root),
            f"offsets/{number}",
            f'\n{{"logOffset":{number}}}',
            f'\n{{"logOffset":{offset}}}',
        )
        head, _ = (root / f"offsets/{number}").read_text().rsplit("\n", 1)
        (root / f"offsets/{number}").write_text(f'{head}\n{{"logOffset":{offset + 1}}}')
    cut = read_cut(str(root), 4)
    assert (cut.planned_batch, cut.offsets) == (5, ('{"logOffset":3}', '{"logOffset":4}'))
    swapped = both_sources(1, 0)
    files = make(tmp_path / "new", cut, sources=(*swapped, FreshSource()))
    assert lines(files["offsets/4"]) == ['{"logOffset":4}', '{"logOffset":3}', "-"]
    assert lines(files["offsets/5"]) == ['{"logOffset":5}', '{"logOffset":4}', "-"]
    assert files["offsets/3"] == files["offsets/4"]
    old = content(cut, *cut.files)
    for number in (4, 5):
        assert header(files[f"offsets/{number}"]) == header(old[f"offsets/{number}"])
    assert files["commits/4"] == old["commits/4"]
    logs = {path: data for path, data in files.items() if path.startswith("sources/")}
    assert logs == {
        "sources/0/5.compact": old["sources/1/5.compact"],
        **{f"sources/1/{name}": old[f"sources/0/{name}"] for name in ("2.compact", "3", "4")},
    }
    assert sorted(files) == sorted(
        [*logs, "metadata", "commits/4", "offsets/3", "offsets/4", "offsets/5"]
        + [path for path in cut.files if path.startswith("state/")]
    )


def test_one_of_two_sources(tmp_path: Path) -> None:
    cut = read_cut(str(unpack("spark43-ids-join", tmp_path)))
    files = make(tmp_path / "new", cut, states={}, sources=(TakenSource(0, 1, "1", "0"),))
    assert sorted(p for p in files if not p.startswith(("offsets/", "commits/"))) == [
        "metadata",
        "sources/0/5.compact",
    ]
    assert lines(files["offsets/6"]) == ['{"logOffset":5}']
    assert header(files["commits/6"])["stateUniqueIds"] == {}


def test_a_dataframe_used_twice_has_two_lines_and_one_directory(tmp_path: Path) -> None:
    cut = read_cut(str(unpack("spark43-hdfs-agg", tmp_path)))
    twice = (TakenSource(0, 0, "0", "0"), TakenSource(0, 0, "0", "0"))
    files = make(tmp_path / "new", cut, sources=twice)
    assert lines(files["offsets/6"]) == ['{"logOffset":5}'] * 2
    assert [p for p in files if p.startswith("sources/")] == ["sources/0/5.compact"]
    with pytest.raises(ValueError, match="two sources for sources/0"):
        make(tmp_path / "wrong", cut, cut, sources=(twice[0], TakenSource(1, 0, "0", "0")))
    with pytest.raises(Corrupt, match="has 1 sources, no source 1"):
        make(tmp_path / "wrong", cut, sources=(TakenSource(0, 1, "1", "0"),))


def older(name: str, tmp_path: Path, batch: int, watermark: int | None = None) -> Cut:
    """A copy of a recorded checkpoint at an earlier batch, with another next watermark."""
    (tmp_path / "older").mkdir()
    root = str(unpack(name, tmp_path / "older"))
    if watermark is not None:
        path = Path(root, f"commits/{batch}")
        path.write_text(re.sub(r'Ms":\d+', f'Ms":{watermark}', path.read_text()))
    return read_cut(root, batch)


def test_two_queries_at_different_batches_become_one(tmp_path: Path) -> None:
    """The base is two batches behind; the other's planned batch is forgotten."""
    name = "spark43-hdfs-agg"
    base = older(name, tmp_path, 4, watermark=1704067300000)
    other = read_cut(str(unpack(name, tmp_path)), 5)
    assert (base.planned_batch, other.planned_batch) == (5, 6)
    files = make(
        tmp_path / "new",
        base,
        other,
        states={0: TakenState(1, 0), 1: TakenState(0, 0)},
        sources=(TakenSource(1, 0, "0", "0"), TakenSource(0, 0, "0", "1")),
    )
    assert lines(files["offsets/5"]) == ['{"logOffset":5}', '{"logOffset":4}']
    assert files["offsets/4"] == files["offsets/5"]
    assert lines(files["offsets/6"]) == ['{"logOffset":5}', '{"logOffset":5}']
    assert header(files["offsets/5"])["batchWatermarkMs"] == 1704067339000  # the base's
    assert header(files["offsets/6"])["batchWatermarkMs"] == 1704067300000
    assert header(files["commits/5"]) == {"nextBatchWatermarkMs": 1704067300000}
    assert header(files["offsets/5"])["conf"] == dict(base.pins)
    assert sorted(state_of(files, 1)) == [
        "0/4.snapshot",
        "0/5.delta",
        "0/6.delta",
        "0/_metadata/schema",
        "1/4.snapshot",
        "1/5.delta",
        "1/6.delta",
        "_metadata/metadata",
    ]
    old = content(base, *base.files)
    assert files["state/1/0/6.delta"] == old["state/0/0/5.delta"]
    assert files["state/1/0/4.snapshot"] == old["state/0/0/3.snapshot"]
    assert sorted(state_of(files, 0)) == sorted(state_of(dict.fromkeys(other.files, b""), 0))
    cut = read_cut(str(tmp_path / "new"))
    assert (cut.batch_id, cut.planned_batch, len(cut.operators)) == (5, 6, 2)


@pytest.mark.parametrize(("policy", "expected"), [("min", 1704067300000), ("max", 1704067459000)])
def test_the_policy_decides_between_watermarks(policy: str, expected: int, tmp_path: Path) -> None:
    name = "spark43-hdfs-agg"
    base = older(name, tmp_path, 6, watermark=1704067300000)
    rewrite(base.root, "offsets/6", '"min"', f'"{policy}"')
    other = read_cut(str(unpack(name, tmp_path)))
    both = {"states": {0: TakenState(0, 0), 1: TakenState(1, 0)}}
    files = make(tmp_path / "new", base, other, **both)
    assert header(files["commits/6"])["nextBatchWatermarkMs"] == expected
    assert lines(files["offsets/6"]) == ['{"logOffset":5}']
    # A query that gives nothing has no say, and neither has one without watermark.
    alone = make(tmp_path / "alone", base, other, states={0: TakenState(0, 0)})
    assert header(alone["commits/6"])["nextBatchWatermarkMs"] == 1704067300000
    rewrite(base.root, "commits/6", "1704067300000", "0")
    without = make(tmp_path / "without", base, other, **both)
    assert header(without["commits/6"])["nextBatchWatermarkMs"] == 1704067459000


def test_a_position_of_another_query_forgets_its_planned_batch(tmp_path: Path) -> None:
    """Its log was compacted for the planned batch: the compaction is taken back."""
    name = "spark43-hdfs-agg"
    base = older(name, tmp_path, 4)
    other = read_cut(str(unpack(name, tmp_path)), 4)
    assert "sources/0/5.compact" in other.files
    files = make(
        tmp_path / "new",
        base,
        other,
        sources=(TakenSource(1, 0, "0", "0"), TakenSource(0, 0, "0", "1")),
    )
    assert lines(files["offsets/4"]) == ['{"logOffset":4}'] * 2
    assert lines(files["offsets/5"]) == ['{"logOffset":4}', '{"logOffset":5}']
    assert sorted(p for p in files if p.startswith("sources/")) == [
        "sources/0/4.compact",
        "sources/1/5.compact",
    ]
    names = [json.loads(line)["path"] for line in files["sources/0/4.compact"].split(b"\n")[1:]]
    assert names == [f"file:///srv/streams/in/00{n}.json" for n in range(5)]


def test_state_from_before_the_first_snapshot_gets_a_base(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "young").run_to(0)
    young = read_cut(str(likeness.root))
    assert "state/0/0/1.delta" in young.files
    old = read_cut(str(CheckpointLikeness(tmp_path / "old").run_to(5).root))
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    files = make(tmp_path / "new", young, old, states=states)
    assert files["state/0/0/5.snapshot"] == empty_snapshot(None)
    assert files["state/0/0/6.delta"] == (likeness.root / "state/0/0/1.delta").read_bytes()
    cut = read_cut(str(tmp_path / "new"))
    assert (cut.batch_id, len(cut.operators)) == (5, 2)


def test_a_lineage_is_not_raised(tmp_path: Path) -> None:
    name = "spark43-ids-join"
    base, other = read_cut(str(unpack(name, tmp_path))), older(name, tmp_path, 4)
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    with pytest.raises(Incompatible, match=r"\.changelog holds a lineage"):
        make(tmp_path / "new", other, base, states=states)
    assert not (tmp_path / "new").exists()


# Queries that do not fit.


@pytest.mark.parametrize(
    ("old", "new", "setting", "values"),
    [
        (
            "HDFSBackedStateStoreProvider",
            "RocksDBStateStoreProvider",
            "spark.sql.streaming.stateStore.providerClass",
            None,
        ),
        ('partitions":"2"', 'partitions":"4"', "spark.sql.shuffle.partitions", ["2", "4"]),
        ('"lz4"', '"zstd"', "spark.sql.streaming.stateStore.compression.codec", ["lz4", "zstd"]),
        (
            'join.stateFormatVersion":"2"',
            'join.stateFormatVersion":"3"',
            "spark.sql.streaming.join.stateFormatVersion",
            ["2", "3"],
        ),
    ],
)
def test_states_with_other_settings_are_refused(
    old: str, new: str, setting: str, values: list[str] | None, tmp_path: Path
) -> None:
    name = "spark43-hdfs-agg"
    base, other = read_cut(str(unpack(name, tmp_path))), older(name, tmp_path, 6)
    rewrite(other.root, "offsets/6", old, new)
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    with pytest.raises(Incompatible, match=re.escape(setting)) as caught:
        make(tmp_path / "new", base, other, states=states)
    assert caught.value.data["setting"] == setting
    if values is not None:
        assert caught.value.data["values"] == values
    assert not (tmp_path / "new").exists()
    # Only its position: how its state was kept does not matter.
    sources = (TakenSource(0, 0, "0", "0"), TakenSource(1, 0, "0", "1"))
    assert make(tmp_path / "position", base, other, sources=sources)


def test_settings_that_mean_the_same_fit(tmp_path: Path) -> None:
    """Spark 3.5 does not pin what 4.3 does, and names of codecs have two forms."""
    name = "spark43-hdfs-agg"
    base, other = read_cut(str(unpack(name, tmp_path))), older(name, tmp_path, 6)
    rewrite(other.root, "offsets/6", '"lz4"', '"org.apache.spark.io.LZ4CompressionCodec"')
    rewrite(
        other.root, "offsets/6", '"spark.sql.streaming.stateStore.encodingFormat":"unsaferow",', ""
    )
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    make(tmp_path / "new", base, other, states=states)
    assert len(read_cut(str(tmp_path / "new")).operators) == 2


def test_checkpoint_formats_do_not_mix(tmp_path: Path) -> None:
    base = read_cut(str(unpack("spark43-ids-zip-dedup", tmp_path)))
    other = read_cut(str(unpack("spark43-rocksdb-dedup", tmp_path)))
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    with pytest.raises(Incompatible, match=r"checkpointFormatVersion is 2 in .*, and 1 in"):
        make(tmp_path / "new", base, other, states=states)


# Offset logs with names (version 2).


def with_names(root: Path, *entries: str) -> None:
    """Turn a recorded checkpoint's offset log into one of version 2."""
    for path in (root / "offsets").glob("[0-9]*"):
        _, head, *_ = path.read_text().split("\n")
        path.write_text("\n".join(["v2", head, *entries]))


def test_named_sources_keep_their_names(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    with_names(root, 'beta:{"logOffset":5}', 'alpha:{"logOffset":4}')
    shutil.copytree(root / "sources/0", root / "sources/alpha")
    (root / "sources/0").rename(root / "sources/beta")
    cut = read_cut(str(root))
    beta = TakenSource(0, 1, "beta", "beta")
    files = make(tmp_path / "new", cut, sources=(FreshSource(), beta))
    assert lines(files["offsets/6"]) == ['beta:{"logOffset":5}']
    assert [p for p in files if p.startswith("sources/")] == ["sources/beta/5.compact"]
    with pytest.raises(Incompatible, match=r"source 'beta' .* would become 'gamma'"):
        make(tmp_path / "renamed", cut, sources=(TakenSource(0, 1, "beta", "gamma"),))
    plain = older("spark43-hdfs-agg", tmp_path, 6)
    with pytest.raises(Incompatible, match=r"offset log of version 1, .* one of version 2"):
        make(tmp_path / "mixed", cut, plain, sources=(beta, TakenSource(1, 0, "0", "1")))


def test_numbered_sources_keep_their_numbers(tmp_path: Path) -> None:
    """As Spark 4.3 writes a self-union a, b, a: the first number of a source read twice is lost."""
    root = unpack("spark35-hdfs-join", tmp_path)
    with_names(root, '1:{"logOffset":5}', '2:{"logOffset":5}')
    both = tuple(f"sources/{n}/5.compact" for n in (0, 1))
    cut = read_cut(str(root))
    listed = Donor(cut.root, tuple(sorted({*cut.files, *both})), 6)
    same = tuple(TakenSource(0, n, at, at) for n, at in enumerate(("0", "1", "0")))
    make_checkpoint(Recipe((listed,), sources=same), str(tmp_path / "new"))
    assert lines((tmp_path / "new/offsets/6").read_bytes()) == [
        '1:{"logOffset":5}',
        '2:{"logOffset":5}',
    ]
    assert all((tmp_path / "new" / path).is_file() for path in both)
    with pytest.raises(Incompatible, match=r"source '1' .* would become '0'"):
        make(tmp_path / "moved", cut, sources=(TakenSource(0, 1, "1", "0"),))
