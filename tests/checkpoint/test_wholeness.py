"""Checkpoints damaged in the ways that people report: what is noticed, and which batch is whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.checkpoint import wholeness
from flinkish.checkpoint.cut import Cut, read_cut
from flinkish.checkpoint.discovery import find_checkpoints, query_id_of
from flinkish.checkpoint.wholeness import damaged_files, newest_whole_batch, read_whole_cut
from flinkish.errors import Corrupt
from tests.support.checkpoints.recorded import change_one_digit, unpack


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-13])


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 700)


def newest(root: Path, kind: str) -> Path:
    """The newest file of a kind in a checkpoint's cut."""
    files = [path for path in read_cut(str(root)).files if path.endswith(kind)]
    return root / max(files, key=lambda path: (len(path), path))


def test_recorded_checkpoints_are_whole(recorded: Path) -> None:
    assert read_whole_cut(str(recorded)).files == read_cut(str(recorded)).files
    assert newest_whole_batch(str(recorded)).skipped == ()


@pytest.mark.parametrize("damage", [empty, cut, cut_short])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("spark43-hdfs-agg", ".delta"),
        ("spark43-hdfs-agg", ".snapshot"),
        ("spark43-changelog-agg", ".changelog"),
        ("spark43-rocksdb-dedup", ".zip"),
        ("spark43-rocksdb-dedup", ".sst"),
        ("spark43-ids-join", ".changelog"),
        ("spark43-hdfs-agg", ".compact"),
    ],
)
def test_an_empty_or_cut_file_is_damage(
    name: str, kind: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    root = unpack(name, tmp_path)
    file = newest(root, kind)
    damage(file)
    with pytest.raises(Corrupt) as caught:
        read_whole_cut(str(root))
    assert file.name in caught.value.message
    assert "newest-whole" in (caught.value.hint or "")


def test_a_checksum_file_for_another_size_is_damage(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    file = newest(root, ".delta")
    sidecar = file.with_name(f".{file.name}.crc")
    sidecar.write_bytes(b"crc\0" + (512).to_bytes(4, "big") + bytes(4 * 9))
    with pytest.raises(Corrupt, match=rf"{file.name} has \d+ bytes, but its checksum file"):
        read_whole_cut(str(root))


@pytest.mark.parametrize(
    ("file", "before"),
    [
        ("offsets/6", "batchWatermarkMs"),
        ("offsets/5", "batchWatermarkMs"),
        ("commits/6", "nextBatchWatermarkMs"),
        ("metadata", "id"),
        ("sources/0/5.compact", "timestamp"),
        ("state/0/_metadata/metadata", "numPartitions"),
    ],
)
def test_another_digit_in_a_log_is_damage(file: str, before: str, tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    assert (read_whole_cut(str(root)).batch_id, file in read_cut(str(root)).files) == (6, True)
    change_one_digit(root / file, before)
    with pytest.raises(Corrupt, match="does not match its checksum file") as caught:
        read_whole_cut(str(root))
    assert caught.value.data["path"] == str(root / file)
    (root / file).with_name(f".{(root / file).name}.crc").unlink()
    assert read_whole_cut(str(root)).batch_id == 6, "without it nobody can tell"


def test_another_digit_in_the_offsets_costs_one_batch(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    change_one_digit(root / "offsets/6", "batchWatermarkMs")
    found = newest_whole_batch(str(root))
    assert (found.batch, len(found.skipped)) == (5, 1)


def test_the_lines_of_a_source_log_are_read(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    log = newest(root, ".compact")
    log.write_bytes(log.read_bytes().replace(b'"path":', b'"path"', 1))
    with pytest.raises(Corrupt, match="line 2 is not JSON"):
        read_whole_cut(str(root))


@pytest.mark.parametrize("name", ["spark43-hdfs-agg", "spark35-rocksdb-agg"])
@pytest.mark.parametrize("lost", [0, 1])
def test_one_of_two_partitions_is_not_all(name: str, lost: int, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    shutil.rmtree(root / f"state/0/{lost}")
    with pytest.raises(Corrupt, match=f"state/0/{lost}, needed by"):
        read_cut(str(root))


def test_all_partitions_gone_is_not_a_query_without_state(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    for partition in ("0", "1"):
        shutil.rmtree(root / "state/0" / partition)
    with pytest.raises(Corrupt, match="state/0/0, needed by"):
        read_cut(str(root))


def test_a_global_limit_has_one_partition(tmp_path: Path) -> None:
    [operator] = read_whole_cut(str(unpack("spark43-hdfs-limit", tmp_path))).operators
    assert operator.partitions == 1


@pytest.mark.parametrize("damage", [empty, cut_short])
def test_a_damaged_planned_batch_is_left_out(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    before = read_whole_cut(str(root))
    planned = root / f"offsets/{before.batch_id + 1}"
    shutil.copy(root / f"offsets/{before.batch_id}", planned)
    damage(planned)
    found = read_whole_cut(str(root))
    assert (found.batch_id, found.planned_batch) == (before.batch_id, None)
    assert planned.name in found.planned_fault
    assert "planned again" in found.planned_fault
    assert set(found.files) == set(before.files)


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_the_newest_whole_batch(log: str, tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    batch = read_cut(str(root)).batch_id
    empty(root / log / str(batch))
    with pytest.raises(Corrupt) as caught:
        read_whole_cut(str(root))
    assert f"{log}/{batch}" in caught.value.message
    found = newest_whole_batch(str(root))
    assert found.batch == batch - 1
    assert [error.message for error in found.skipped] == [caught.value.message]


def test_no_batch_is_whole(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    for path in (root / "offsets").iterdir():
        empty(path)
    found = newest_whole_batch(str(root))
    assert found.batch is None
    assert found.skipped


def test_older_batches_may_be_trimmed_while_a_damaged_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    batch = read_cut(str(root)).batch_id
    empty(root / f"offsets/{batch}")

    def read_while_trimmed(location: str, number: int) -> Cut:
        try:
            return read_whole_cut(location, number)
        finally:
            for path in (root / "commits").iterdir():
                if path.name != str(batch):
                    path.unlink()

    monkeypatch.setattr(wholeness, "read_whole_cut", read_while_trimmed)
    newest_whole = newest_whole_batch(str(root))
    assert newest_whole.batch is None
    assert [f"offsets/{batch}" in error.message for error in newest_whole.skipped] == [True]


def test_a_checkpoint_without_metadata(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    (root / "metadata").unlink()
    for path in (root, tmp_path):
        with pytest.raises(Corrupt, match="lacks its file metadata"):
            find_checkpoints(str(path))


ENTRIES = ("metadata", "offsets", "commits", "sources", "state")


@pytest.mark.parametrize(
    "lost", [lost for count in range(1, len(ENTRIES)) for lost in combinations(ENTRIES, count)]
)
def test_a_checkpoint_that_lacks_something_is_never_left_out(
    lost: tuple[str, ...], tmp_path: Path
) -> None:
    """Of several, in silence: a savepoint of the others would seem to be one of all."""
    unpack("spark43-hdfs-limit", tmp_path)
    damaged = unpack("spark43-hdfs-agg", tmp_path)
    for name in lost:
        path = damaged / name
        path.unlink() if name == "metadata" else shutil.rmtree(path)
    left = set(ENTRIES) - {*lost}
    if left == {"metadata"} or {"metadata", "offsets"} <= left:
        # Spark has just begun the one; of the other the logs will tell.
        found = find_checkpoints(str(tmp_path))
        assert (damaged.name in found) == (left != {"metadata"})
        return
    for place in (tmp_path, damaged):
        with pytest.raises(Corrupt) as caught:
            find_checkpoints(str(place))
        assert caught.value.data["path"] == str(damaged / lost[0])


def test_names_alone_make_no_checkpoint(tmp_path: Path) -> None:
    """Queries may have the names of Spark's directories."""
    whole = unpack("spark43-hdfs-agg", tmp_path / "all")
    whole.rename(tmp_path / "all/state")
    (tmp_path / "all/other/sources/photos").mkdir(parents=True)
    assert set(find_checkpoints(str(tmp_path / "all"))) == {"state"}


def test_no_older_batch_is_a_way_out_of_damaged_metadata(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    empty(root / "metadata")
    with pytest.raises(Corrupt, match="metadata is not a log that Spark wrote") as caught:
        query_id_of(str(root))
    assert caught.value.hint is not None
    assert "newest-whole" not in caught.value.hint


def test_where_a_partition_is_gone_no_batch_is_whole(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    shutil.rmtree(root / "state/0/1")
    assert newest_whole_batch(str(root)).batch is None


def test_the_entry_before_the_newest_is_read_too(tmp_path: Path) -> None:
    """Spark reads it at a restart, unless a batch is planned; the commit before is not read."""
    root = unpack("spark43-hdfs-agg", tmp_path)
    batch = read_cut(str(root)).batch_id
    empty(root / f"commits/{batch - 1}")
    assert f"commits/{batch - 1}" not in read_whole_cut(str(root)).files
    empty(root / f"offsets/{batch - 1}")
    with pytest.raises(Corrupt, match=f"offsets/{batch - 1}"):
        read_whole_cut(str(root))
    shutil.copy(root / f"offsets/{batch}", root / f"offsets/{batch + 1}")
    cut = read_whole_cut(str(root))
    assert (cut.batch_id, cut.planned_batch) == (batch, batch + 1)
    assert f"offsets/{batch - 1}" not in cut.files


@pytest.mark.parametrize("original", ["as it was", "trimmed", "written again"])
def test_an_uploaded_file_is_read_where_its_bytes_still_are(original: str, tmp_path: Path) -> None:
    """From the local original, which costs no request; from the copy once that is another file."""
    root, copy = unpack("spark43-hdfs-agg", tmp_path), f"memory://{tmp_path.name}/{original}"
    cut, file = read_cut(str(root)), newest(root, ".delta")
    for path in cut.files:
        storage.write_bytes(f"{copy}/{path}", (root / path).read_bytes())
    name = str(file.relative_to(root))
    storage.write_bytes(f"{copy}/{name}", file.read_bytes()[:-13] + b"not its end..")
    if original == "trimmed":
        file.unlink()
    elif original == "written again":
        new = file.with_name("new")
        new.write_bytes(file.read_bytes())
        new.rename(file)
    entries = cut.files.entries()
    damaged = list(damaged_files(copy, entries, cut.pins, cut.offsets, written=cut.root))
    assert [each.path for each in damaged] == ([] if original == "as it was" else [name])
