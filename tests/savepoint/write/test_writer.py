from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.checkpoint.cut import read_cut
from flinkish.errors import (
    Corrupt,
    FlinkishError,
    NoCommittedBatch,
    StorageError,
    WrongState,
)
from flinkish.messages.requests import SavedQuery, SavepointSummary
from flinkish.operators.identity import OperatorFacts
from flinkish.savepoint.format.contents import (
    FileRecord,
    QuerySource,
)
from flinkish.savepoint.format.reader import check_files, open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write import copied_files, query_files
from flinkish.savepoint.write.query_files import query_directory
from flinkish.savepoint.write.transfer import ThreadedTransferer, TransferOutcome
from flinkish.savepoint.write.writer import write_savepoint
from tests.savepoint.conftest import JOB, Taking
from tests.support.checkpoints.handwritten import LZ4_END, CheckpointLikeness
from tests.support.checkpoints.recorded import change_one_digit, unpack


class Told:
    """A reporter that remembers, and may do something when files are reported."""

    def __init__(self, on_phase: Callable[[str], None] = lambda name: None) -> None:
        self.phases: list[str] = []
        self.warnings: list[str] = []
        self.file_counts: list[tuple[int, int]] = []
        self.byte_counts: list[tuple[int, int]] = []
        self._on_phase = on_phase

    def phase(self, name: str) -> None:
        self.phases.append(name)
        self._on_phase(name)

    def files(self, done: int, total: int) -> None:
        self.file_counts.append((done, total))

    def bytes(self, done: int, total: int) -> None:
        self.byte_counts.append((done, total))

    def warning(self, text: str) -> None:
        self.warnings.append(text)


def save(root: Path, target: Path, **options: Any) -> SavepointSummary:
    query = QuerySource("counts", str(root), batch_id=options.pop("batch_id", None))
    options.setdefault("reporter", SilentSavepointReporter())
    return write_savepoint(str(target), JOB, [query], trigger="savepoint", **options)


def test_what_a_savepoint_is(likeness: CheckpointLikeness, take: Taking, tmp_path: Path) -> None:
    other = CheckpointLikeness(tmp_path / "other", operators=0).run_to(1)
    info = take(likeness.root, other.root)
    path = Path(info.path)
    assert path.parent == tmp_path / "savepoints"
    assert path.name.startswith("savepoint-012345-")
    assert len(path.name) == len("savepoint-012345-") + 12
    assert sorted(p.name for p in path.iterdir()) == ["0-query_0", "1-query_1", "_metadata"]
    cut = read_cut(str(likeness.root))
    assert read_cut(str(path / "0-query_0")).files == cut.files
    assert [(q.name, q.batch_id) for q in info.queries] == [("query 0", 4), ("query 1", 1)]
    assert (info.shared_files, info.moved_bytes) == (0, 0), "all are links"
    data = [p for p in path.rglob("*") if p.is_file() and p.name != "_metadata"]
    assert info.files == len(data)
    assert info.bytes == sum(p.stat().st_size for p in data)
    state = next(name for name in cut.files if name.endswith(".zip"))
    assert os.path.samefile(likeness.root / state, path / "0-query_0" / state)
    assert info.queries[0] == SavedQuery("query 0", 4, cut.query_id)


def test_it_survives_the_checkpoint(likeness: CheckpointLikeness, take: Taking) -> None:
    savepoint = open_savepoint(take(likeness.root).path)
    likeness.run_to(12)
    check_files(savepoint, "full")
    assert read_cut(savepoint.query_root(savepoint.queries[0])).batch_id == 4


def test_a_fixed_batch(likeness: CheckpointLikeness, tmp_path: Path) -> None:
    info = save(likeness.root, tmp_path / "t", batch_id=3)
    assert info.queries[0].batch_id == 3
    with pytest.raises(NoCommittedBatch, match="batch 9"):
        save(likeness.root, tmp_path / "t", batch_id=9)


def test_copies_where_links_are_refused(
    likeness: CheckpointLikeness, take: Taking, other_disk: Path
) -> None:
    info = take(likeness.root, target=other_disk)
    assert (info.shared_files, info.moved_bytes) == (0, info.bytes)
    check_files(open_savepoint(info.path), "full")


def test_files_without_sidecars_are_read(tmp_path: Path, take: Taking) -> None:
    plain = CheckpointLikeness(tmp_path / "c", sidecars=False).run_to(2)
    savepoint = open_savepoint(take(plain.root).path)
    assert {f.digest.partition(":")[0] for f in savepoint.iter_files()} == {"sha256"}
    check_files(savepoint, "full")


def test_progress(likeness: CheckpointLikeness, tmp_path: Path) -> None:
    told = Told()
    info = save(likeness.root, tmp_path / "t", reporter=told)
    assert told.phases == ["files", "metadata"]
    assert told.file_counts[-1] == (info.files, info.files)
    assert all(done <= total for done, total in told.byte_counts)


def test_waits_for_the_first_commit(tmp_path: Path) -> None:
    young = CheckpointLikeness(tmp_path / "c")
    young.plan(0)

    def commit(phase: str) -> None:
        if phase == "waiting":
            young.store(1)
            young.commit(0)

    told = Told(commit)
    info = save(young.root, tmp_path / "t", reporter=told, deadline=time.monotonic() + 120)
    assert info.queries[0].batch_id == 0
    assert told.phases == ["waiting", "files", "metadata"]


def test_waits_no_longer_than_the_deadline(tmp_path: Path) -> None:
    young = CheckpointLikeness(tmp_path / "c")
    started = time.monotonic()
    with pytest.raises(NoCommittedBatch):
        save(young.root, tmp_path / "t", deadline=started + 0.3)
    assert time.monotonic() - started < 60
    assert list((tmp_path / "t").iterdir()) == []


@pytest.mark.parametrize("backend", ["hdfs", "rocksdb"])
def test_a_job_that_goes_on_and_trims(tmp_path: Path, backend: str) -> None:
    """A real thread commits and trims beside it: every savepoint is whole all the same."""
    alive = CheckpointLikeness(tmp_path / "c", backend=backend, partitions=8, noise=64, retain=3)
    alive.run_to(3)
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            alive.run(alive.batch + 1)
            time.sleep(0.01)  # Spark is not faster; on a busy machine it would always win

    thread = threading.Thread(target=go_on)
    thread.start()
    batches = []
    try:
        for _ in range(12):
            info = save(alive.root, tmp_path / "t")
            savepoint = open_savepoint(info.path)
            check_files(savepoint, "full")
            [query] = savepoint.queries
            again = read_cut(savepoint.query_root(query))
            assert again.batch_id == query.batch_id
            assert set(again.files) == {f.path for f in savepoint.iter_files()}
            batches.append(query.batch_id)
    finally:
        stop.set()
        thread.join()
    assert batches == sorted(batches)
    assert batches[-1] > batches[0]


def test_vanished_files_are_taken_again_at_the_newer_batch(
    likeness: CheckpointLikeness, tmp_path: Path
) -> None:
    """Between the cut and the links the job commits two batches and trims what was cut."""
    moved: list[int] = []

    def go_on(phase: str) -> None:
        if phase == "files" and not moved:
            likeness.run_to(9)
            moved.append(9)

    info = save(likeness.root, tmp_path / "t", reporter=Told(go_on))
    assert info.queries[0].batch_id == 9
    savepoint = open_savepoint(info.path)
    check_files(savepoint, "full")
    present = {
        str(p.relative_to(savepoint.query_root(savepoint.queries[0])))
        for p in Path(savepoint.query_root(savepoint.queries[0])).rglob("*")
        if p.is_file()
    }
    assert present == {f.path for f in savepoint.iter_files()}  # nothing of the first attempt


def test_vanishing_for_ever_is_a_clear_error(likeness: CheckpointLikeness, tmp_path: Path) -> None:
    def go_on(phase: str) -> None:
        if phase == "files":
            likeness.run_to(likeness.batch + 5)

    with pytest.raises(WrongState, match="changed during each of 20 attempts") as caught:
        save(likeness.root, tmp_path / "t", reporter=Told(go_on))
    assert "minBatchesToRetain" in caught.value.hint
    assert list((tmp_path / "t").iterdir()) == []


def test_a_lost_file_of_a_standing_job_is_corrupt(
    likeness: CheckpointLikeness, tmp_path: Path
) -> None:
    def lose(phase: str) -> None:
        if phase == "files":
            (likeness.root / "state/0/1/5.zip").unlink()

    with pytest.raises(Corrupt, match=r"state/0/1/5\.zip"):
        save(likeness.root, tmp_path / "t", reporter=Told(lose))
    assert list((tmp_path / "t").iterdir()) == []


def test_damage_that_differs_each_time_is_not_called_trimming(
    likeness: CheckpointLikeness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [likeness.root / f"state/0/{partition}/5.zip" for partition in (0, 1)]
    contents = [file.read_bytes() for file in files]

    def lose_another(phase: str) -> None:
        if phase == "files":
            files.reverse()
            contents.reverse()
            files[0].unlink()
            files[1].write_bytes(contents[1])

    monkeypatch.setattr(query_files, "ATTEMPTS", 2)
    monkeypatch.setattr(query_files, "POLL", 0)
    with pytest.raises(WrongState) as caught:
        save(likeness.root, tmp_path / "t", reporter=Told(lose_another))
    assert "its checkpoint changed during each of 2 attempts" in caught.value.message
    assert "5.zip" in caught.value.message
    assert "trims" not in caught.value.message


@pytest.mark.parametrize(
    ("file", "before"), [("offsets/6", "batchWatermarkMs"), ("sources/0/5.compact", "timestamp")]
)
def test_a_log_that_its_checksum_file_contradicts_is_not_taken(
    file: str, before: str, tmp_path: Path
) -> None:
    """It has its size and its form: only a reader of the savepoint would have noticed."""
    root = unpack("spark43-hdfs-agg", tmp_path)
    change_one_digit(root / file, before)
    with pytest.raises(Corrupt, match=f"{file} does not match its checksum file"):
        save(root, tmp_path / "t")
    assert list((tmp_path / "t").iterdir()) == []


def test_the_reason_of_a_failure_is_told_although_its_directory_stays(
    likeness: CheckpointLikeness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bool:
        raise StorageError("no permission to delete")

    def lose(phase: str) -> None:
        (likeness.root / "state/0/1/5.zip").unlink(missing_ok=True)
        monkeypatch.setattr(storage, "remove_tree", refused)

    with pytest.raises(Corrupt, match=r"state/0/1/5\.zip"):
        save(likeness.root, tmp_path / "t", reporter=Told(lose))


def test_a_snapshot_that_replaces_its_deltas_is_no_damage(tmp_path: Path) -> None:
    """Maintenance may trim deltas for a snapshot without any newer commit."""
    standing = CheckpointLikeness(tmp_path / "c", retain=99).run_to(1)
    moved: list[int] = []

    def compact(phase: str) -> None:
        if phase == "files" and not moved:
            moved.append(1)
            for partition in (0, 1):
                standing.write(f"state/0/{partition}/2.snapshot", LZ4_END)
                for version in (1, 2):
                    (standing.root / f"state/0/{partition}/{version}.delta").unlink()

    savepoint = open_savepoint(save(standing.root, tmp_path / "t", reporter=Told(compact)).path)
    check_files(savepoint, "full")
    assert "state/0/0/2.snapshot" in {f.path for f in savepoint.iter_files()}


def test_an_archive_replaced_meanwhile_is_noticed(
    likeness: CheckpointLikeness, tmp_path: Path
) -> None:
    """A repeated task writes the same version again, with other shared files."""
    archives = [likeness.root / f"state/0/{partition}/5.zip" for partition in (0, 1)]
    before = [archive.read_bytes() for archive in archives]
    replaced: list[int] = []

    def replace(phase: str) -> None:
        if phase == "files" and not replaced:
            replaced.append(1)
            likeness.store(5)

    told = Told(replace)
    savepoint = open_savepoint(save(likeness.root, tmp_path / "t", reporter=told).path)
    check_files(savepoint, "full")
    root = Path(savepoint.query_root(savepoint.queries[0]))
    saved = [(root / archive.relative_to(likeness.root)).read_bytes() for archive in archives]
    assert saved == [archive.read_bytes() for archive in archives]
    assert all(old != new for old, new in zip(before, saved, strict=True))
    # With the files that the new archives name, and without those that only the old ones do.
    assert read_cut(str(root)).files == read_cut(str(likeness.root)).files
    assert {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()} == {
        f.path for f in savepoint.iter_files()
    }
    assert told.phases == ["files", "files", "metadata"]


class Watched(ThreadedTransferer):
    """Remembers when transfers begin and end; the first ones find their files replaced."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def carry(
        self, transfers: Iterable[storage.Placing], *, total_bytes: int
    ) -> Generator[TransferOutcome, None, None]:
        is_first = not self.events
        self.events.append("begin")
        try:
            for outcome in super().carry(transfers, total_bytes=total_bytes):
                yield replace(outcome, lost="replaced") if is_first else outcome
        finally:
            self.events.append("end")


def test_the_transfers_of_an_abandoned_attempt_end_before_the_next_one(
    likeness: CheckpointLikeness, tmp_path: Path
) -> None:
    """An attempt removes unknown files first: none may arrive after that."""
    watched = Watched()
    save(likeness.root, tmp_path / "t", transferer=watched)
    assert watched.events == ["begin", "end", "begin", "end"]


def test_an_operator_without_state_in_the_checkpoint(
    likeness: CheckpointLikeness, tmp_path: Path
) -> None:
    query = QuerySource("q", str(likeness.root), operators=(OperatorFacts(0), OperatorFacts(1)))
    with pytest.raises(Corrupt, match="no state of operator 1"):
        write_savepoint(
            str(tmp_path / "t"), JOB, [query], trigger="stop", reporter=SilentSavepointReporter()
        )


def test_no_query(tmp_path: Path) -> None:
    with pytest.raises(WrongState, match="no streaming query"):
        write_savepoint(
            str(tmp_path / "t"), JOB, [], trigger="stop", reporter=SilentSavepointReporter()
        )
    assert not (tmp_path / "t").exists()


def test_target_below_a_file_is_unwritable(likeness: CheckpointLikeness, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as caught:
        save(likeness.root, tmp_path / "file" / "savepoints")
    assert str(tmp_path / "file" / "savepoints") in caught.value.message
    assert caught.value.code == 16


def test_read_only_target_is_unwritable(likeness: CheckpointLikeness, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StorageError, match="Read-only"):
        save(likeness.root, small_disk / "savepoints")


def test_other_schemes_are_unsupported(likeness: CheckpointLikeness) -> None:
    with pytest.raises(StorageError, match="Protocol not known: adl9"):
        write_savepoint(
            "adl9://store/savepoints",
            JOB,
            [QuerySource("q", str(likeness.root))],
            trigger="stop",
            reporter=SilentSavepointReporter(),
        )


def test_disk_full_while_copying(tmp_path: Path, small_disk: Path) -> None:
    big = CheckpointLikeness(tmp_path / "c", noise=40_000, partitions=4).run_to(4)
    with pytest.raises(StorageError, match="disk full") as caught:
        save(big.root, small_disk)
    assert str(small_disk) in caught.value.message
    assert list(small_disk.iterdir()) == []  # the room is free again


def test_disk_full_at_every_moment(tmp_path: Path, small_disk: Path) -> None:
    """Ever less room is left: either a whole savepoint, or an error and nothing."""
    likeness = CheckpointLikeness(tmp_path / "c", noise=3000).run_to(4)
    outcomes = set()
    for room in range(0, 256, 12):
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"x" * (max(0, 248 - room) * 1024))
        try:
            info = save(likeness.root, small_disk)
        except StorageError as error:
            outcomes.add(error.message.partition(":")[0])
        else:
            check_files(open_savepoint(info.path), "full")
            outcomes.add("whole")
            subprocess.run(["rm", "-r", info.path], check=True)
        assert [p.name for p in small_disk.iterdir()] == ["ballast"]
    assert outcomes == {"disk full", "whole"}


def test_an_interrupt_leaves_nothing(likeness: CheckpointLikeness, tmp_path: Path) -> None:
    def interrupt(phase: str) -> None:
        if phase == "metadata":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save(likeness.root, tmp_path / "t", reporter=Told(interrupt))
    assert list((tmp_path / "t").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("counts", "3-counts"),
        ("a b/c", "3-a_b_c"),
        ("../../etc", "3-etc"),
        ("", "3-query"),
        ("日本", "3-query"),
        ("x" * 300, "3-" + "x" * 60),
    ],
)
def test_query_directory(name: str, directory: str) -> None:
    assert query_directory(3, name) == directory


def test_every_error_is_one_of_ours(tmp_path: Path) -> None:
    with pytest.raises(FlinkishError):
        save(tmp_path / "nothing here", tmp_path / "t", deadline=time.monotonic())
    assert query_files.ATTEMPTS >= 3


def test_a_file_whose_recorded_digest_has_an_unknown_form_is_not_equal(tmp_path: Path) -> None:
    """What is wrong with the record is reported when the file itself is copied."""
    (tmp_path / "a").write_bytes(b"x")
    record = FileRecord(query=0, path="a", size=1, digest="odd:1")
    assert not copied_files._is_equal((0, record, str(tmp_path / "a")))
