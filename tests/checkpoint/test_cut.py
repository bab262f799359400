"""Cuts of recorded checkpoints of real Spark, and of checkpoints damaged on purpose."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from flinkish.checkpoint.cut import FilesVanished, newest_committed_batch, read_cut
from flinkish.checkpoint.fileset import FileSet
from flinkish.checkpoint.format.logs import MAX_WATERMARK_MS, drained_entry
from flinkish.errors import (
    Corrupt,
    NoCommittedBatch,
    NotSavepointable,
    UnsupportedFormat,
)
from tests.support.checkpoints.handwritten import QUERY_ID, CheckpointLikeness
from tests.support.checkpoints.recorded import unpack


def copy_cut(root: Path, target: Path, batch: int | None = None) -> FileSet:
    """Copy exactly the files of a cut; they."""
    cut = read_cut(str(root), batch)
    for name in cut.files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target / name)
    return cut.files


def test_a_cut_is_complete_in_itself(recorded: Path, tmp_path: Path) -> None:
    for batch in (None, newest_committed_batch(str(recorded)), 4):
        target = tmp_path / f"copy-{batch}"
        files = copy_cut(recorded, target, batch)
        again = read_cut(str(target))
        assert again.files == files
        assert again.batch_id == (batch or newest_committed_batch(str(recorded)))


def test_every_file_of_a_cut_is_needed(recorded: Path, tmp_path: Path) -> None:
    """Without any one of them the cut is refused, or (optional files) differs."""
    files = copy_cut(recorded, tmp_path / "copy")
    optional = 0
    for name in files:
        path = tmp_path / "copy" / name
        content = path.read_bytes()
        path.unlink()
        try:
            assert name not in read_cut(str(tmp_path / "copy")).files
            optional += 1
        except NoCommittedBatch:
            assert name.startswith("commits/")
        except Corrupt:
            pass
        path.write_bytes(content)
    needed = len(files) - optional
    assert needed >= 4 + 2 * (("state/0/1") in "".join(files))


def test_no_hidden_files_and_no_later_versions(recorded: Path) -> None:
    cut = read_cut(str(recorded), 4)
    assert not [name for name in cut.files if os.path.basename(name).startswith(".")]
    states = [name for name in cut.files if name.startswith("state/")]
    numbers = {
        int(os.path.basename(name).partition(".")[0].partition("_")[0])
        for name in states
        if os.path.basename(name)[0].isdigit()
        and "SSTs" not in name
        and "_stateSchema" not in name
        and "_metadata" not in name
    }
    assert max(numbers) == 5
    assert "offsets/3" in cut.files
    assert "offsets/5" in cut.files
    assert "offsets/6" not in cut.files
    assert cut.planned_batch == 5


@pytest.mark.parametrize(
    ("name", "backend", "format_", "kinds", "partitions", "stores"),
    [
        ("spark43-hdfs-agg", "hdfs", 1, ["stateStoreSave"], [2], ["default"]),
        ("spark43-hdfs-limit", "hdfs", 1, ["globalLimit"], [1], ["default"]),
        ("spark43-rocksdb-dedup", "rocksdb", 1, ["dedupe"], [2], ["default"]),
        (
            "spark43-rocksdb-tws",
            "rocksdb",
            1,
            ["transformWithStateInPandasExec"],
            [2],
            ["$rowCounter_values", "count", "values"],
        ),
        (
            "spark43-ids-join",
            "rocksdb",
            2,
            ["symmetricHashJoin"],
            [2],
            [
                "left-keyToNumValues",
                "left-keyWithIndexToValue",
                "right-keyToNumValues",
                "right-keyWithIndexToValue",
            ],
        ),
        ("spark35-rocksdb-agg", "rocksdb", 1, [None], [2], ["default"]),
    ],
)
def test_what_a_cut_says(
    tmp_path: Path,
    name: str,
    backend: str,
    format_: int,
    kinds: list[str | None],
    partitions: list[int],
    stores: list[str],
) -> None:
    root = unpack(name, tmp_path)
    cut = read_cut(f"file://{root}")
    assert cut.root == str(root)
    assert (cut.backend, cut.checkpoint_format) == (backend, format_)
    assert [o.kind for o in cut.operators] == kinds
    assert [o.partitions for o in cut.operators] == partitions
    assert [s.name for s in cut.operators[0].stores] == stores
    for store in cut.operators[0].stores:
        assert store.key_schema is not None
        assert store.key_schema["type"] == "struct"
        assert store.value_schema is not None
    assert cut.pins["spark.sql.shuffle.partitions"] == "2"
    assert cut.query_id == json.loads((root / "metadata").read_text())["id"]
    assert all(json.loads(offset)["logOffset"] == 5 for offset in cut.offsets)
    assert cut.operators[0].bytes == sum(
        (root / f).stat().st_size
        for f in cut.files
        if f.startswith("state/") and "_metadata" not in f and "_stateSchema" not in f
    )


def test_exact_files(tmp_path: Path) -> None:
    cut = read_cut(str(unpack("spark43-hdfs-agg", tmp_path)), 5)
    assert sorted(cut.files) == [
        "commits/4",
        "commits/5",
        "metadata",
        "offsets/4",
        "offsets/5",
        "offsets/6",
        "sources/0/2.compact",  # for the distance of compactions
        "sources/0/5.compact",
        "state/0/0/6.snapshot",
        "state/0/0/_metadata/schema",
        "state/0/1/6.snapshot",
        "state/0/_metadata/metadata",
    ]


def test_nothing_committed(tmp_path: Path) -> None:
    assert newest_committed_batch(str(tmp_path / "no")) is None
    with pytest.raises(NoCommittedBatch):
        read_cut(str(tmp_path / "no"))
    likeness = CheckpointLikeness(tmp_path / "c")
    likeness.plan(0)
    likeness.store(1)
    with pytest.raises(NoCommittedBatch) as caught:
        read_cut(str(likeness.root))
    assert caught.value.code == 13


def test_first_batch_has_none_before(tmp_path: Path) -> None:
    cut = read_cut(str(CheckpointLikeness(tmp_path / "c").run_to(0).root))
    assert [f for f in cut.files if f.startswith("offsets/")] == ["offsets/0"]
    assert cut.query_id == QUERY_ID
    assert cut.watermark_ms == 1000
    assert cut.planned_batch is None


@pytest.mark.parametrize("batch", [0, 99])
def test_a_batch_that_is_not_there(tmp_path: Path, batch: int) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(9)
    with pytest.raises(NoCommittedBatch, match=f"batch {batch} of"):
        read_cut(str(likeness.root), batch)


@pytest.mark.parametrize("backend", ["hdfs", "rocksdb"])
def test_a_planned_batch_is_carried_with_its_source_entries(tmp_path: Path, backend: str) -> None:
    likeness = CheckpointLikeness(tmp_path / "c", backend=backend).run_to(4)
    likeness.plan(5)
    likeness.store(6)  # torn: some of it may be there without a commit
    cut = read_cut(str(likeness.root))
    assert (cut.batch_id, cut.planned_batch) == (4, 5)
    assert "offsets/5" in cut.files
    assert "sources/0/5" in cut.files
    assert not [f for f in cut.files if f.startswith("state/0/0/6.")]


def test_a_planned_batch_that_drains_is_known_by_its_watermark(tmp_path: Path) -> None:
    """Else a restore would not warn that all rows after this batch are late."""
    root = CheckpointLikeness(tmp_path / "c").run_to(4).root
    drained = drained_entry((root / "offsets/4").read_bytes(), "offsets/4")
    (root / "offsets/5").write_bytes(drained)
    cut = read_cut(str(root))
    assert (cut.planned_batch, cut.watermark_ms) == (5, MAX_WATERMARK_MS)


def test_source_entries_beyond_the_offsets_stay_out(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(4)
    likeness.write("sources/0/5", b'v1\n{"path":"file:///in/5.json"}')
    assert "sources/0/5" not in read_cut(str(likeness.root)).files


def test_a_source_without_an_offset(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(1)
    for batch in (0, 1):
        offsets = likeness.root / f"offsets/{batch}"
        likeness.write(f"offsets/{batch}", offsets.read_bytes() + b"\n-\n-")
    likeness.write("sources/1/0", b'v1\n{"path":"file:///other/0.json"}')  # ahead: leave out
    likeness.write("sources/2/0", b'v1\n{"topic":{"0":7}}')  # its own notes: keep
    cut = read_cut(str(likeness.root))
    assert cut.offsets[1:] == ("-", "-")
    assert "sources/1/0" not in cut.files
    assert "sources/2/0" in cut.files


@pytest.mark.parametrize("names", [["shard-commit/0"], ["0/0"]])
def test_a_source_without_an_offset_may_have_directories(tmp_path: Path, names: list[str]) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(0)
    offsets = (likeness.root / "offsets/0").read_bytes()
    likeness.write("offsets/0", offsets + b"\n-")
    for name in names:
        likeness.write(f"sources/1/{name}", b"its own notes")
    files = read_cut(str(likeness.root)).files
    assert [name for name in files if name.startswith("sources/1/")] == [
        f"sources/1/{name}" for name in names
    ]


def test_a_link_in_a_checkpoint_stands_for_its_file(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    for directory, _, names in os.walk(root):
        copy = tmp_path / "links" / os.path.relpath(directory, root)
        copy.mkdir(parents=True)
        for name in names:
            (copy / name).symlink_to(os.path.join(directory, name))
    linked = list(read_cut(str(tmp_path / "links")).files.entries())
    assert linked == list(read_cut(str(root)).files.entries())


def test_each_file_is_in_a_cut_once_while_a_batch_is_planned(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(1)
    likeness.plan(2)
    files = read_cut(str(likeness.root)).files
    sources = [name for name in files if name.startswith("sources/")]
    assert sources == ["sources/0/0", "sources/0/1", "sources/0/2"]
    assert len(files) == len(set(files))


def test_a_large_number_among_operators_is_no_count(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(0)
    (likeness.root / f"state/{10**16}").mkdir()
    with pytest.raises(Corrupt, match=r"lacks .*/state/1,"):
        read_cut(str(likeness.root))


@pytest.mark.parametrize("backend", ["hdfs", "rocksdb"])
def test_missing_state_is_corrupt_and_named(tmp_path: Path, backend: str) -> None:
    likeness = CheckpointLikeness(tmp_path / "c", backend=backend, sidecars=False).run_to(4)
    suffix = "delta" if backend == "hdfs" else "zip"
    lost = likeness.root / f"state/0/1/5.{suffix}"
    lost.unlink()
    with pytest.raises(Corrupt) as caught:
        read_cut(str(likeness.root))
    assert f"state/0/1/5.{suffix}" in caught.value.message
    assert "state version 5" in caught.value.message
    assert caught.value.code == 15


def test_trimmed_state_is_vanished_while_the_query_goes_on(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c", backend="rocksdb").run_to(5)
    (likeness.root / "state/0/1/5.zip").unlink()
    with pytest.raises(FilesVanished):
        read_cut(str(likeness.root), 4)
    assert read_cut(str(likeness.root)).batch_id == 5


def test_missing_partition_and_missing_store(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c", partitions=3).run_to(2)
    shutil.rmtree(likeness.root / "state/0/2")
    with pytest.raises(Corrupt, match="state/0/2"):
        read_cut(str(likeness.root))
    root = unpack("spark35-hdfs-join", tmp_path)
    shutil.rmtree(root / "state/0/1/left-keyToNumValues")
    with pytest.raises(Corrupt, match="state/0/1/left-keyToNumValues"):
        read_cut(str(root))


def test_missing_shared_file(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c", backend="rocksdb").run_to(2)
    sst = sorted((likeness.root / "state/0/0/SSTs").glob("*.sst"))[0]
    sst.unlink()
    with pytest.raises(Corrupt, match=sst.name):
        read_cut(str(likeness.root))


def test_missing_logs(tmp_path: Path) -> None:
    for lost in ("offsets/3", "offsets/4", "metadata", "sources/0/4"):
        likeness = CheckpointLikeness(tmp_path / lost.replace("/", "-")).run_to(4)
        (likeness.root / lost).unlink()
        with pytest.raises(Corrupt, match=lost):
            read_cut(str(likeness.root))


def test_dropped_operators_of_spark_35_take_no_part(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c", operators=2).run_to(2)
    likeness.operators = 1
    for batch in range(3, 6):
        likeness.run(batch, trim=False)
    assert [o.ordinal for o in read_cut(str(likeness.root)).operators] == [0]
    # Spark 4.x records its operators and fails on left-overs: there it is damage.
    info = {"operatorInfo": {"operatorId": 1, "operatorName": "dedupe"}, "stateStoreInfo": []}
    likeness.write("state/1/_metadata/metadata", b"v1\n" + json.dumps(info).encode())
    with pytest.raises(Corrupt, match="state/1"):
        read_cut(str(likeness.root))


def test_an_operator_only_planned_takes_no_part(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(2)
    info = {"operatorInfo": {"operatorId": 1, "operatorName": "dedupe"}, "stateStoreInfo": []}
    likeness.write("state/1/_metadata/metadata", b"v1\n" + json.dumps(info).encode())
    likeness.write("state/1/0/_metadata/schema", b"")
    assert [o.ordinal for o in read_cut(str(likeness.root)).operators] == [0]


def test_damaged_files_are_named(tmp_path: Path) -> None:
    for relative in ("offsets/4", "commits/4", "metadata", "state/0/0/5.zip"):
        likeness = CheckpointLikeness(tmp_path / relative.replace("/", "-"), backend="rocksdb")
        likeness.run_to(4)
        (likeness.root / relative).write_bytes(b"\x00garbage")
        with pytest.raises(Corrupt, match=relative):
            read_cut(str(likeness.root))


def test_newer_log_versions_are_unsupported(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(4)
    likeness.write("commits/4", b"v3\n{}")
    with pytest.raises(UnsupportedFormat, match="newer than v2"):
        read_cut(str(likeness.root))


@pytest.mark.parametrize(
    ("relative", "newer"),
    [
        ("state/0/0/_metadata/schema", b"\x00\x02v4"),
        ("state/0/_metadata/metadata", b"v3\n{}"),
        ("state/0/0/6.zip", b"v3\n{}"),
    ],
)
def test_newer_state_files_are_unsupported(tmp_path: Path, relative: str, newer: bytes) -> None:
    """The cut took them for damage, the engine for what they are."""
    likeness = CheckpointLikeness(tmp_path / "c", backend="rocksdb").run_to(5)
    data = newer
    if relative.endswith(".zip"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("metadata", newer)
        data = buffer.getvalue()
    likeness.write(relative, data)
    with pytest.raises(UnsupportedFormat, match=f"{relative} cannot be read: at byte 0: .*'?v[34]"):
        read_cut(str(likeness.root))


@pytest.mark.parametrize("provider", ["AcmeProvider", "TunedRocksDBStateStoreProviderV2"])
def test_unknown_state_store_providers_are_refused(tmp_path: Path, provider: str) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(1)
    for batch in (0, 1):
        text = (likeness.root / f"offsets/{batch}").read_text()
        changed = text.replace("HDFSBackedStateStoreProvider", provider)
        likeness.write(f"offsets/{batch}", changed.encode())
    with pytest.raises(NotSavepointable, match=f"{provider} is unknown"):
        read_cut(str(likeness.root))


def test_ids_with_trimmed_commits(tmp_path: Path) -> None:
    """Without the commits that name older ids, all files of those versions are kept."""
    root = unpack("spark43-ids-join", tmp_path)
    exact = set(read_cut(str(root)).files)
    for number in range(6):
        (root / f"commits/{number}").unlink(missing_ok=True)
    wider = set(read_cut(str(root)).files)
    assert exact - {"commits/5"} <= wider


def test_truncated_logs_are_noticed(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "c").run_to(2)
    for relative in ("metadata", "commits/2", "offsets/2"):
        path = likeness.root / relative
        whole = path.read_bytes()
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            with pytest.raises(
                Corrupt, match=r"is not a log that Spark wrote: at byte \d+: "
            ) as caught:
                read_cut(str(likeness.root))
            assert str(path) in caught.value.message
        path.write_bytes(whole)
    assert read_cut(str(likeness.root)).batch_id == 2
