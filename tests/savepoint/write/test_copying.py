"""Savepoints copied whole to another place: digests on the way, copies cut off, links refused."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from flinkish import storage
from flinkish.checkpoint.format.file_ends import checksums_of
from flinkish.errors import Corrupt, SavepointNotFound, StorageError, UnsafePath, UsageError
from flinkish.messages.requests import SavepointSummary
from flinkish.messages.results import SavepointCopy
from flinkish.savepoint.directory import leases
from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.format import digests
from flinkish.savepoint.format.contents import FileRecord, QuerySource
from flinkish.savepoint.format.reader import FULL, OpenSavepoint, check_files, open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write import copied_files, copying
from flinkish.savepoint.write.copying import copy_savepoint
from flinkish.savepoint.write.ledger import newest_of_job
from flinkish.savepoint.write.transfer import ThreadedTransferer, TransferOutcome
from flinkish.savepoint.write.writer import write_savepoint
from flinkish.storage import stores
from flinkish.storage.remote import RemoteStore
from tests.savepoint.conftest import JOB, Taking
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.checkpoints.recorded import unpack
from tests.support.savepoint.places import place, put_tree, tree
from tests.support.savepoint.small_savepoints import JOB_ID, make_savepoint

PAIRS = [
    *(("local", each) for each in ("moto_s3", "second_s3", "hdfs", "gcs_server", "azure_server")),
    *(("moto_s3", "hdfs"), ("second_s3", "hdfs"), ("moto_s3", "gcs_server")),
    ("gcs_server", "azure_server"),
]


def copied(path: str, target: str | Path, *, dry_run: bool = False) -> SavepointCopy:
    reporter = SilentSavepointReporter()
    return copy_savepoint(path, str(target), owner="me@here", reporter=reporter, dry_run=dry_run)


def names(savepoint: str) -> list[str]:
    return sorted(path for path, _ in storage.walk_files(savepoint))


@pytest.fixture
def saved(take: Taking, likeness: CheckpointLikeness) -> SavepointSummary:
    return take(likeness.root)


def test_a_copy_is_whole_and_outlives_its_source(saved: SavepointSummary, tmp_path: Path) -> None:
    content = tree(saved.path)
    planned = copied(saved.path, tmp_path / "backup", dry_run=True)
    assert not (tmp_path / "backup").exists()
    copy = copied(saved.path, tmp_path / "backup")
    assert copy.path == f"{tmp_path}/backup/{Path(saved.path).name}"
    assert copy.sent_files == planned.sent_files == saved.files
    assert copy.sent_bytes == saved.bytes
    shutil.rmtree(tmp_path / "savepoints")
    check_files(open_savepoint(copy.path), FULL)
    assert {**tree(copy.path), "_metadata": b""} == {**content, "_metadata": b""}
    assert storage.list_names(f"{tmp_path}/backup") == [Path(saved.path).name]  # no lease


def test_files_that_others_hold_become_its_own(tmp_path: Path) -> None:
    holder = make_savepoint(f"{tmp_path}/s", 1000.0)
    user = make_savepoint(f"{tmp_path}/s", 2000.0, held=f"{Path(holder).name}/0-counts/metadata")
    assert open_savepoint(user).holders == (Path(holder).name,)
    copy = copied(user, tmp_path / "t")
    opened = open_savepoint(copy.path)
    assert opened.is_relocatable
    assert names(copy.path) == ["0-counts/metadata", "_metadata"]
    assert copied(user, tmp_path / "t").present_files == 1  # although its _metadata is another one


def test_a_damaged_file_ends_it_and_the_same_call_goes_on(
    saved: SavepointSummary, tmp_path: Path
) -> None:
    victim = max(Path(saved.path).rglob("*.zip"))
    whole = victim.read_bytes()
    victim.unlink()  # it is a link of the checkpoint's file
    victim.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    target = tmp_path / "t"
    with pytest.raises(Corrupt, match=f"{victim.name} does not have its recorded digest"):
        copied(saved.path, target)
    place = f"{target}/{Path(saved.path).name}"
    with pytest.raises(SavepointNotFound):
        open_savepoint(place)
    assert leases.find_leases(str(target)) == ()
    before = set(names(place))
    assert 0 < len(before) < saved.files
    assert victim.relative_to(saved.path).as_posix() not in before
    victim.unlink()
    with pytest.raises(Corrupt, match=f"{victim.name} is missing"):
        copied(saved.path, target)
    victim.write_bytes(whole)
    copy = copied(saved.path, target)
    assert copy.present_files >= len(before)
    assert copy.sent_files == saved.files - copy.present_files
    check_files(open_savepoint(copy.path), FULL)


def test_a_source_that_is_disposed_of_meanwhile_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_savepoint(f"{tmp_path}/s", 1.0)
    transfer = copied_files.Copier._transfer

    def late(copier: copied_files.Copier, record: FileRecord, location: str) -> storage.Placing:
        dispose(source)
        return transfer(copier, record, location)

    monkeypatch.setattr(copied_files.Copier, "_transfer", late)
    with pytest.raises(SavepointNotFound, match="was removed meanwhile"):
        copied(source, tmp_path / "t")


def test_a_copy_that_is_disposed_of_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_savepoint(f"{tmp_path}/s", 1.0)
    copied(source, tmp_path / "t")

    def late(savepoint: OpenSavepoint, level: str) -> None:
        dispose(savepoint.path)
        check_files(savepoint, level)

    monkeypatch.setattr(copying, "check_files", late)
    assert copied(source, tmp_path / "t").sent_files == 1


def test_other_bytes_in_its_place_are_replaced(saved: SavepointSummary, tmp_path: Path) -> None:
    copy = copied(saved.path, tmp_path / "t")
    victim = max(Path(copy.path).rglob("*.zip"))
    size = victim.stat().st_size
    victim.unlink()
    victim.write_bytes(b"x" * size)
    Path(copy.path, "_metadata").unlink()
    again = copied(saved.path, tmp_path / "t")
    assert (again.sent_files, again.present_files) == (1, saved.files - 1)
    victim.unlink()  # of a complete copy
    assert copied(saved.path, tmp_path / "t").sent_files == 1
    check_files(open_savepoint(copy.path), FULL)


def test_a_complete_copy_whose_state_has_other_bytes_of_the_same_size_is_repaired(
    saved: SavepointSummary, tmp_path: Path
) -> None:
    copy = copied(saved.path, tmp_path / "t")
    victim = max(Path(copy.path).rglob("*.zip"))
    whole = victim.read_bytes()
    victim.unlink()
    victim.write_bytes(b"x" * len(whole))
    again = copied(saved.path, tmp_path / "t")
    assert (again.sent_files, again.present_files) == (1, saved.files - 1)
    assert victim.read_bytes() == whole


def test_a_copy_whose_metadata_is_damaged_is_told_from_its_source(tmp_path: Path) -> None:
    source = make_savepoint(f"{tmp_path}/s", 1.0)
    metadata = Path(copied(source, tmp_path / "t").path, "_metadata")
    metadata.write_bytes(metadata.read_bytes()[:100])
    with pytest.raises(StorageError, match="the copy that is there cannot be read") as caught:
        copied(source, tmp_path / "t")
    assert str(metadata) in caught.value.message
    assert "remove its directory" in caught.value.hint
    shutil.rmtree(metadata.parent)
    check_files(open_savepoint(copied(source, tmp_path / "t").path), FULL)


def test_files_of_an_earlier_copy_are_not_sent(
    likeness: CheckpointLikeness, take: Taking, tmp_path: Path
) -> None:
    first = take(likeness.root)
    likeness.run_to(6)
    second = take(likeness.root)
    copied(first.path, tmp_path / "t")
    copy = copied(second.path, tmp_path / "t")
    assert copy.reused_files > 0
    assert copy.sent_files + copy.reused_files == copy.files == second.files
    opened = open_savepoint(copy.path)
    assert opened.is_relocatable
    check_files(opened, FULL)


def test_an_earlier_copy_that_is_damaged_is_not_taken_from(
    likeness: CheckpointLikeness, take: Taking, tmp_path: Path
) -> None:
    first = copied(take(likeness.root).path, tmp_path / "t")
    for path in Path(first.path).rglob("*"):
        if path.is_file() and path.name != "_metadata":
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(b"!" * len(data))
    copy = copied(take(likeness.root).path, tmp_path / "t")
    assert copy.reused_files == 0
    check_files(open_savepoint(copy.path), FULL)


def test_an_earlier_copy_that_goes_in_the_meantime_is_not_taken_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(make_savepoint(f"{tmp_path}/s", 1.0), tmp_path / "t")

    def disposed_of(directory: str, job_id: str) -> OpenSavepoint | None:
        earlier = newest_of_job(directory, job_id)
        assert earlier is not None
        Path(earlier.path, "_metadata").unlink()
        return earlier

    monkeypatch.setattr(copied_files, "newest_of_job", disposed_of)
    copy = copied(make_savepoint(f"{tmp_path}/s", 2.0), tmp_path / "t")
    assert (copy.sent_files, copy.reused_files) == (1, 0)
    check_files(open_savepoint(copy.path), FULL)


def test_links_at_the_target_are_not_followed(saved: SavepointSummary, tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "t"
    outside.mkdir()
    place = target / Path(saved.path).name
    place.mkdir(parents=True)
    directory = open_savepoint(saved.path).queries[0].directory
    (place / directory).symlink_to(outside)
    with pytest.raises(UnsafePath, match="it is a link"):
        copied(saved.path, target)
    assert list(outside.iterdir()) == []
    (place / directory).unlink()
    (place / directory).mkdir()
    (outside / "precious").write_text("mine")
    (place / directory / "metadata").symlink_to(outside / "precious")
    check_files(open_savepoint(copied(saved.path, target).path), FULL)
    assert (outside / "precious").read_text() == "mine"


def test_no_transfer_goes_on_after_an_error(
    saved: SavepointSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease ends with the error: from then on another process may write there."""
    ended: list[bool] = []

    class Watched(ThreadedTransferer):
        def carry(
            self, transfers: Iterable[storage.Placing], *, total_bytes: int
        ) -> Generator[TransferOutcome, None, None]:
            try:
                for _ in transfers:
                    yield TransferOutcome(lost="gone")
            finally:
                ended.append(bool(leases.read_leases(str(tmp_path / "t"))))

    monkeypatch.setattr(copied_files, "ThreadedTransferer", Watched)
    with pytest.raises(Corrupt, match="is missing"):
        copied(saved.path, tmp_path / "t")
    assert ended[-1:] == [True]


def test_places_that_are_refused(saved: SavepointSummary, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the savepoint is already in"):
        copied(saved.path, tmp_path / "savepoints")
    (tmp_path / "link").symlink_to(tmp_path / "savepoints")
    with pytest.raises(UsageError, match="the savepoint is already in"):
        copied(saved.path, tmp_path / "link")
    with pytest.raises(UsageError, match="is inside the savepoint"):
        copied(saved.path, f"{saved.path}/x")
    other = make_savepoint(str(tmp_path / "t"), 1.0, job_id=JOB_ID)
    os.rename(other, tmp_path / "t" / Path(saved.path).name)
    with pytest.raises(StorageError, match="another savepoint with this name exists"):
        copied(saved.path, tmp_path / "t")


class _Alias(MemoryFileSystem):  # type: ignore[misc]  # it is untyped
    """The memory, where another host's name leads to the same files."""

    cachable = False

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:
        return MemoryFileSystem._strip_protocol(path.replace("memory://alias/", "memory://real/"))


@pytest.mark.parametrize("damaged", [False, True])
def test_a_copy_onto_its_source_under_another_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    monkeypatch.setitem(stores._stores, ("memory", "alias"), RemoteStore(_Alias(), "memory"))
    try:
        path = _saved_at("memory://real/copied", tmp_path)
        if damaged:
            lost = next(name for name in names(path) if name.endswith(".zip"))
            storage.remove_file(path, lost)
        with pytest.raises(UsageError, match="the savepoint is already in"):
            copied(path, "memory://alias/copied/savepoints")
        assert open_savepoint(path).path == path
        assert not storage.exists(f"memory://real/copied/savepoints/{leases.DIRECTORY}")
    finally:
        storage.remove_tree("memory://real", "copied")


def test_digests_do_not_depend_on_the_lengths_of_the_blocks() -> None:
    data = random.Random(36).randbytes(5000)
    for cuts in ((), (1, 512, 513, 4999), (511, 1024)):
        hasher = digests.hasher(digests.CRC32_512)
        for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
            hasher.update(data[start:end])
        assert hasher.hexdigest() == hashlib.sha256(checksums_of(data)).hexdigest()


@pytest.mark.servers
@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(*pair, marks=() if pair == ("local", "moto_s3") else pytest.mark.deep)
        for pair in PAIRS
    ],
)
@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
def test_there_and_back(
    one: str, other: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with place(one, request, tmp_path) as here, place(other, request, tmp_path) as there:
        path = _saved_at(here, tmp_path)
        copy = copied(path, f"{there}/copies")
        assert copy.sent_files == copy.files
        storage.remove_file(*storage.split(storage.join(copy.path, "_metadata")))
        again = copied(path, f"{there}/copies")
        assert (again.sent_files, again.present_files) == (0, copy.files)
        back = copied(copy.path, f"{here}/back")
        for each in (copy, back):
            opened = open_savepoint(each.path)
            assert opened.is_relocatable
            check_files(opened, FULL)


@pytest.fixture
def two_servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    with place("moto_s3", request, tmp_path) as here:
        server = request.getfixturevalue("second_s3")
        with server.configured_for("elsewhere") as there:
            yield here, f"{there}/{tmp_path.name}"


@pytest.mark.servers
@pytest.mark.deep
def test_between_two_servers_of_one_kind(two_servers: tuple[str, str], tmp_path: Path) -> None:
    here, there = two_servers
    path = _saved_at(here, tmp_path)
    copy = copied(path, f"{there}/copies")
    check_files(open_savepoint(copy.path), FULL)
    name = storage.base_name(path)
    assert storage.list_names(f"{there}/copies") == [name]
    assert not storage.exists(there.replace("elsewhere", "savepoints"))


def _saved_at(root: str, tmp_path: Path) -> str:
    checkpoint = put_tree(unpack("spark43-rocksdb-dedup", tmp_path), f"{root}/checkpoint")
    reporter = SilentSavepointReporter()
    sources = [QuerySource("counts", checkpoint)]
    return write_savepoint(
        f"{root}/savepoints", JOB, sources, trigger="savepoint", reporter=reporter
    ).path
