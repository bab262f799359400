"""A second savepoint takes only what is new, and either can be disposed of."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.checkpoint.cut import read_cut
from flinkish.errors import UnsupportedFormat
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.origin.restore_origin import open_path
from flinkish.restore.recipe import Recipe
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.format import metadata as metadata_module
from flinkish.savepoint.format.contents import QuerySource
from flinkish.savepoint.format.reader import FULL, OpenSavepoint, check_files, open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write import query_files, writer
from flinkish.savepoint.write.ledger import Ledger, in_directory, newest_of_job, remember
from flinkish.savepoint.write.writer import write_savepoint
from tests.savepoint.conftest import JOB
from tests.savepoint.test_everywhere import save
from tests.savepoint.write.test_writer import Told
from tests.support.checkpoints.recorded import unpack
from tests.support.savepoint.places import place, put_tree, tree
from tests.support.savepoint.small_savepoints import JOB_ID, make_savepoint

SERVERS = ("moto_s3", "second_s3", "hdfs")
SLOW = (pytest.mark.servers, pytest.mark.deep)
#: In the memory of this process, where there are no links as on S3; the servers are slower.
EVERYWHERE = ["memory", *(pytest.param(kind, marks=SLOW) for kind in SERVERS)]
#: As those, but that S3 is a telling one, too.
ON_S3_TOO = ["memory", pytest.param("moto_s3", marks=pytest.mark.servers), *EVERYWHERE[2:]]


@pytest.fixture(params=EVERYWHERE)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "memory":
        yield f"memory://{tmp_path.name}/root"
        storage.remove_tree(f"memory://{tmp_path.name}", "root")
        return
    with place(request.param, request, tmp_path) as location:
        yield location


@pytest.fixture
def checkpoint(root: str, tmp_path: Path) -> str:
    return put_tree(unpack("spark43-rocksdb-dedup", tmp_path), f"{root}/c")


def whole(path: str) -> dict[str, bytes]:
    """What a restore of the savepoint makes of it."""
    savepoint = open_savepoint(path)
    check_files(savepoint, FULL)
    return {r.path: storage.read_bytes(savepoint.locate_file(r)) for r in savepoint.iter_files()}


@pytest.mark.parametrize("root", ON_S3_TOO, indirect=True)
def test_an_unchanged_checkpoint_moves_nothing(root: str, checkpoint: str, tmp_path: Path) -> None:
    first = save(checkpoint, f"{root}/s")
    assert (first.shared_files, first.moved_bytes) == (0, first.bytes)
    second = save(checkpoint, f"{root}/s")
    assert (second.shared_files, second.moved_bytes) == (second.files, 0)
    opened = open_savepoint(second.path)
    assert not opened.is_relocatable
    assert opened.holders == (storage.base_name(first.path),)
    assert set(tree(second.path)) == {"_metadata"}
    assert whole(first.path) == whole(second.path)
    third = save(checkpoint, f"{root}/s")
    # Whose files are used is said directly, not by way of the second.
    assert open_savepoint(third.path).holders == (storage.base_name(first.path),)
    [offer] = open_path(third.path, verify="logs").by_key.values()
    make_checkpoint(Recipe((offer.origin,)), str(tmp_path / "new"))
    assert read_cut(str(tmp_path / "new")).files == read_cut(checkpoint).files


def test_a_restored_job_shares_with_what_it_was_restored_from(root: str, checkpoint: str) -> None:
    first = save(checkpoint, f"{root}/s")
    [offer] = open_path(first.path).by_key.values()
    make_checkpoint(Recipe((offer.origin,)), f"{root}/new")
    job = replace(JOB, job_id="f" * 32, restored_from=first.path)
    second = write_savepoint(
        f"{root}/s",
        job,
        [QuerySource("counts", f"{root}/new")],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )
    # RocksDB's files are known by their names wherever they are; others by their stamps, which a
    # copy within S3 keeps.
    ssts = [p for p in read_cut(checkpoint).files if p.endswith(".sst")]
    assert second.shared_files is not None
    assert second.shared_files >= len(ssts) > 0
    assert whole(second.path).keys() == whole(first.path).keys()


def test_full_shares_nothing(root: str, checkpoint: str) -> None:
    save(checkpoint, f"{root}/s")
    second = save(checkpoint, f"{root}/s", full=True)
    assert (second.shared_files, second.moved_bytes) == (0, second.bytes)
    assert open_savepoint(second.path).is_relocatable


@pytest.mark.parametrize(
    ("root", "order"),
    [
        *(("memory", order) for order in itertools.permutations(range(3))),
        *(
            pytest.param(kind, order, marks=SLOW)
            for kind in SERVERS
            for order in ((0, 1, 2), (2, 0, 1))
        ),
    ],
    indirect=["root"],
)
def test_either_can_be_disposed_of(root: str, checkpoint: str, order: tuple[int, ...]) -> None:
    paths = [save(checkpoint, f"{root}/s").path for _ in range(3)]
    content = whole(paths[0])
    left = set(range(3))
    for number in order:
        plan = dispose(paths[number], dry_run=True)
        done = dispose(paths[number])
        assert (plan.removed, plan.kept, plan.kept_bytes) == (
            done.removed,
            done.kept,
            done.kept_bytes,
        )
        left.discard(number)
        for other in left:
            assert whole(paths[other]) == content
        assert done.foreign == ()
        # The first holds the files as long as anybody uses them.
        assert bool(done.kept) == (number == 0 and bool(left))
    assert storage.list_names(f"{root}/s") == []


@pytest.mark.parametrize("root", ["memory"], indirect=True)
def test_a_missing_file_does_not_stay_for_its_users(root: str, checkpoint: str) -> None:
    first = save(checkpoint, f"{root}/s")
    save(checkpoint, f"{root}/s")
    plan = dispose(first.path, dry_run=True)
    path = next(name for name in sorted(tree(first.path)) if name.endswith(".sst"))
    storage.remove_files(first.path, [path])
    done = dispose(first.path)
    assert (done.missing, done.kept) == (1, plan.kept - 1)
    assert done.kept_bytes < plan.kept_bytes


def test_what_has_changed_is_taken(root: str, checkpoint: str) -> None:
    first = save(checkpoint, f"{root}/s")
    cut = read_cut(checkpoint)
    path = next(p for p in cut.files if p.endswith(".zip"))
    data = storage.read_bytes(storage.join(checkpoint, path))
    # Same name, same size, other bytes: an executor that repeats a task may write such a file.
    replaced = bytearray(data)
    replaced[10:14] = b"\0\1\2\3"  # the time in the first member's header
    storage.remove_file(checkpoint, path)
    storage.write_bytes(storage.join(checkpoint, path), bytes(replaced))
    second = save(checkpoint, f"{root}/s")
    assert second.moved_bytes == len(data)
    assert whole(second.path)[path] == bytes(replaced)
    assert whole(first.path)[path] == data


def test_a_holder_that_goes_in_the_meantime(
    root: str, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = save(checkpoint, f"{root}/s")
    write = sharing.write_references

    def dispose_first(holder: str, user: str, paths: list[str]) -> None:
        dispose(first.path)  # the other host was faster
        write(holder, user, paths)

    monkeypatch.setattr(sharing, "write_references", dispose_first)
    second = save(checkpoint, f"{root}/s")
    assert (second.shared_files, second.moved_bytes) == (0, second.bytes)
    check_files(open_savepoint(second.path), FULL)
    assert [n for n in storage.list_names(f"{root}/s") if n.startswith("savepoint-")] == [
        storage.base_name(second.path)
    ]


@pytest.mark.parametrize("damage", ["lost", "cut short"])
def test_a_holder_that_has_lost_a_file_is_not_shared_with(
    root: str, checkpoint: str, damage: str
) -> None:
    first = save(checkpoint, f"{root}/s")
    path = next(name for name in sorted(tree(first.path)) if name.endswith(".zip"))
    storage.remove_files(first.path, [path])
    if damage == "cut short":
        storage.write_bytes(storage.join(first.path, path), b"PK")
    reporter = Told()
    second = save(checkpoint, f"{root}/s", reporter=reporter)
    assert (second.shared_files, second.moved_bytes) == (0, second.bytes)
    check_files(open_savepoint(second.path), FULL)
    assert not storage.list_names(storage.join(first.path, sharing.DIRECTORY))
    [warning] = reporter.warnings
    assert storage.join(first.path, path) in warning
    third = save(checkpoint, f"{root}/s")  # the newest is whole again
    assert (third.shared_files, third.moved_bytes) == (third.files, 0)


@pytest.mark.parametrize("root", ["memory"], indirect=True)
def test_one_that_cannot_be_read_any_more_is_not_shared_with(
    root: str, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host disposes of the newest savepoint between its opening and its reading."""
    first = save(checkpoint, f"{root}/s")

    def too_late(savepoint: OpenSavepoint, ledger: Ledger) -> None:
        dispose(first.path)
        remember(savepoint, ledger)

    monkeypatch.setattr(query_files, "remember", too_late)
    second = save(checkpoint, f"{root}/s")
    assert (second.shared_files, second.moved_bytes) == (0, second.bytes)
    check_files(open_savepoint(second.path), FULL)


def test_a_link_is_no_earlier_savepoint(tmp_path: Path) -> None:
    """Users of what it leads to are looked for in the directory where that is."""
    path = make_savepoint(str(tmp_path / "elsewhere"), 1.0)
    here = tmp_path / "here"
    here.mkdir()
    link = here / os.path.basename(path)
    link.symlink_to(path)
    assert newest_of_job(str(here), JOB_ID) is None
    assert in_directory(str(here), str(link)) is None
    assert newest_of_job(str(tmp_path / "elsewhere"), JOB_ID) == open_savepoint(path)


def test_a_failure_takes_back_what_was_said(
    root: str, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = save(checkpoint, f"{root}/s")

    def refuse(*_: object) -> int:
        raise RuntimeError("now")

    monkeypatch.setattr(writer, "_seal", refuse)
    with pytest.raises(RuntimeError):
        save(checkpoint, f"{root}/s")
    assert sharing.users_of(first.path) == {}
    assert storage.list_names(f"{root}/s") == [storage.base_name(first.path)]


def test_an_older_flinkish_refuses_a_sharing_one(
    root: str, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(checkpoint, f"{root}/s")
    second = save(checkpoint, f"{root}/s")
    monkeypatch.setattr(metadata_module, "FEATURES", frozenset())
    with pytest.raises(UnsupportedFormat, match="shared-files"):
        open_savepoint(second.path)


def test_links_are_made_where_they_can_be(tmp_path: Path) -> None:
    checkpoint = unpack("spark43-rocksdb-dedup", tmp_path)
    for _ in range(2):
        info = save(str(checkpoint), str(tmp_path / "s"))
        assert (info.shared_files, info.moved_bytes) == (0, 0)
        assert open_savepoint(info.path).is_relocatable


def test_another_disk_is_given_what_is_new_only(tmp_path: Path, other_disk: Path) -> None:
    checkpoint = unpack("spark43-rocksdb-dedup", tmp_path)
    save(str(checkpoint), str(other_disk))
    second = save(str(checkpoint), str(other_disk))
    assert second.moved_bytes == 0
    assert whole(second.path) == {
        path: (checkpoint / path).read_bytes() for path in read_cut(str(checkpoint)).files
    }
    assert os.listdir(second.path) == ["_metadata"]


def test_what_a_disposed_savepoint_holds_is_shared_again(root: str, checkpoint: str) -> None:
    first, second = save(checkpoint, f"{root}/s"), save(checkpoint, f"{root}/s")
    content = whole(first.path)
    dispose(first.path)
    third = save(checkpoint, f"{root}/s")
    assert (third.shared_files, third.moved_bytes) == (third.files, 0)
    dispose(second.path)
    assert whole(third.path) == content
    dispose(third.path)
    assert storage.list_names(f"{root}/s") == []


@pytest.mark.parametrize("faster", ["before the list", "after the list"])
def test_what_a_disposed_savepoint_holds_goes_with_its_last_user(
    root: str, checkpoint: str, monkeypatch: pytest.MonkeyPatch, faster: str
) -> None:
    """The other host disposes of the savepoint by which the files are known."""
    first, second = save(checkpoint, f"{root}/s"), save(checkpoint, f"{root}/s")
    dispose(first.path)
    write = sharing.write_references

    def beside(holder: str, user: str, paths: list[str]) -> None:
        if faster == "before the list":
            dispose(second.path)
        write(holder, user, paths)
        if faster == "after the list":
            dispose(second.path)

    monkeypatch.setattr(sharing, "write_references", beside)
    third = save(checkpoint, f"{root}/s")
    assert (third.shared_files, third.moved_bytes) == (0, third.bytes)
    check_files(open_savepoint(third.path), FULL)
    assert [n for n in storage.list_names(f"{root}/s") if n.startswith("savepoint-")] == [
        storage.base_name(third.path)
    ]
