from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.checkpoint.cut import read_cut
from flinkish.errors import Corrupt, SavepointNotFound, StorageError
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.directory.catalog import read_paths
from flinkish.savepoint.directory.dispose import dispose, release_holder, unknown_users
from flinkish.savepoint.format.reader import FULL, check_files, open_savepoint
from flinkish.savepoint.manage.prune import collect_garbage, prune
from flinkish.savepoint.manage.retention import Policy
from tests.savepoint.conftest import Taking
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.savepoint.small_savepoints import make_savepoint


def test_everything_of_it_goes(likeness: CheckpointLikeness, take: Taking) -> None:
    info = take(likeness.root)
    done = dispose(f"file:{info.path}/_metadata")
    assert done.gone
    assert not Path(info.path).exists()
    assert Path(info.path).parent.exists()
    assert (done.removed, done.missing, done.foreign) == (info.files + 1, 0, ())
    assert read_cut(str(likeness.root)).batch_id == 4  # the checkpoint is untouched
    with pytest.raises(SavepointNotFound):
        dispose(info.path)


def test_foreign_files_stay(likeness: CheckpointLikeness, take: Taking, tmp_path: Path) -> None:
    path = Path(take(likeness.root).path)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/data").write_text("x")
    (path / "notes.txt").write_text("mine")
    (path / "0-query_0/state/0/0/mine").write_text("mine")
    os.symlink(tmp_path / "precious", path / "link")
    done = dispose(str(path))
    assert done.foreign == ("0-query_0/state/0/0/mine", "link", "notes.txt")
    assert not done.gone
    left = sorted(str(p.relative_to(path)) for p in path.rglob("*") if not p.is_dir())
    assert left == ["0-query_0/state/0/0/mine", "notes.txt"]
    assert (path / "link").is_symlink()
    assert not (path / "0-query_0/offsets").exists()
    assert (tmp_path / "precious/data").read_text() == "x"
    with pytest.raises(SavepointNotFound):
        open_savepoint(str(path))


def test_missing_files_do_not_stop_it(likeness: CheckpointLikeness, take: Taking) -> None:
    info = take(likeness.root)
    for sst in list(Path(info.path).rglob("*.sst")):
        sst.unlink()
    done = dispose(info.path)
    assert done.gone
    assert done.missing > 0
    assert done.removed + done.missing == info.files + 1


def test_dry_run_touches_nothing(likeness: CheckpointLikeness, take: Taking) -> None:
    info = take(likeness.root)
    done = dispose(info.path, dry_run=True)
    assert (done.removed, done.missing, done.gone) == (info.files + 1, 0, False)
    assert open_savepoint(info.path).files == info.files


def test_what_is_no_savepoint_is_refused(likeness: CheckpointLikeness, tmp_path: Path) -> None:
    before = sorted(likeness.root.rglob("*"))
    with pytest.raises(SavepointNotFound):
        dispose(str(likeness.root))
    assert sorted(likeness.root.rglob("*")) == before
    with pytest.raises(SavepointNotFound):
        dispose(str(tmp_path / "missing"))


def test_a_damaged_one_is_refused_whole(likeness: CheckpointLikeness, take: Taking) -> None:
    path = Path(take(likeness.root).path)
    metadata = path / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:-5])
    before = sorted(path.rglob("*"))
    with pytest.raises(Corrupt):
        dispose(str(path))
    assert sorted(path.rglob("*")) == before


def share_an_hour_ago(directory: Path) -> tuple[str, str]:
    """A savepoint, and a later one that uses its only file, with a list of more than an hour."""
    first = make_savepoint(str(directory), time.time() - 9000, batch_id=4)
    held = f"{storage.base_name(first)}/0-counts/metadata"
    second = make_savepoint(str(directory), time.time() - 5000, batch_id=9, held=held)
    sharing.write_references(first, storage.base_name(second), ["0-counts/metadata"])
    os.utime(sharing.list_of(first, storage.base_name(second)), (1.0, 1.0))
    return first, second


def renamed(directory: Path) -> tuple[str, str]:
    first, second = share_an_hour_ago(directory)
    os.rename(second, directory / "before-release")
    return first, str(directory / "before-release")


def copied(directory: Path) -> tuple[str, str]:
    first, second = share_an_hour_ago(directory)
    shutil.copytree(second, directory / "nightly")
    dispose(second)
    return first, str(directory / "nightly")


@pytest.mark.parametrize("change", [renamed, copied])
@pytest.mark.parametrize("way", [dispose, lambda _: None], ids=["dispose", "prune"])
def test_one_under_another_name_keeps_the_files_that_it_shares(
    tmp_path: Path, change: Callable[[Path], tuple[str, str]], way: Callable[[str], object]
) -> None:
    first, second = change(tmp_path)
    way(first)
    prune(str(tmp_path), Policy(keep_last=1), {})
    assert not storage.exists(f"{first}/_metadata")
    check_files(open_savepoint(second), FULL)


def unread(path: str) -> None:
    metadata = Path(path, "_metadata")
    metadata.write_bytes(metadata.read_bytes()[:-5])


def test_one_that_cannot_be_read_keeps_what_it_may_use(tmp_path: Path) -> None:
    first, second = renamed(tmp_path)
    make_savepoint(str(tmp_path), time.time() - 4000, batch_id=12)
    unread(second)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Corrupt, match=r"is not removed, as .*/before-release may use its") as no:
        dispose(first)
    assert "put its _metadata back" in no.value.hint
    done = prune(str(tmp_path), Policy(keep_last=1), {})
    assert [each.path for each in done.unknown] == [second]
    assert [each.reasons for each in done.savepoints if each.savepoint.path == first] == [
        ("before-release may use its files, and cannot be read",)
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_what_only_one_that_cannot_be_read_may_use_of_a_husk_stays(tmp_path: Path) -> None:
    first, second = share_an_hour_ago(tmp_path)
    shutil.copytree(second, tmp_path / "nightly")
    dispose(first)
    unread(str(tmp_path / "nightly"))
    release_holder(first, storage.base_name(second))
    assert storage.exists(f"{first}/0-counts/metadata")


@pytest.mark.parametrize("change", [renamed, copied])
def test_garbage_is_not_what_one_that_cannot_be_read_may_use(
    tmp_path: Path, change: Callable[[Path], tuple[str, str]]
) -> None:
    first, second = change(tmp_path)
    whole = Path(second, "_metadata").read_bytes()
    unread(second)
    lists = sharing.users_of(first).keys()
    collect_garbage(str(tmp_path), (), now=time.time() + 7200)
    assert sharing.users_of(first).keys() == lists  # a list under its old name tells that it shares
    Path(second, "_metadata").write_bytes(whole)
    dispose(first)
    unread(second)
    found = collect_garbage(str(tmp_path), (), now=time.time() + 7200)
    why = f"{storage.base_name(second)} may use its files, and cannot be read"
    assert {each.reason for each in found} == {why}
    Path(second, "_metadata").write_bytes(whole)
    check_files(open_savepoint(second), FULL)


def test_only_where_files_are_shared(tmp_path: Path) -> None:
    """On a local disk each savepoint has links of its own."""
    alone, other = (make_savepoint(str(tmp_path), n) for n in (1, 2))
    unread(other)
    siblings = read_paths([other], whole=True)
    opened = open_savepoint(alone)
    assert unknown_users(opened, siblings) == ()
    remote = replace(opened, path="s3://b/sp/savepoint-0")
    assert unknown_users(remote, siblings) == siblings.unreadable
    assert unknown_users(remote, read_paths([alone], whole=True)) == ()


def test_who_uses_files_under_another_name_is_told(tmp_path: Path) -> None:
    first, _ = renamed(tmp_path)
    plan, done = dispose(first, dry_run=True), dispose(first)
    assert plan.users == done.users == ("before-release",)
    assert plan.kept == done.kept == 1


def test_files_of_a_disposed_one_that_only_it_used_are_counted(tmp_path: Path) -> None:
    holder = make_savepoint(str(tmp_path), 1)
    user = make_savepoint(str(tmp_path), 2, held=f"{Path(holder).name}/0-counts/metadata")
    sharing.write_references(holder, Path(user).name, ["0-counts/metadata"])
    first = dispose(holder)
    assert (first.removed, first.bytes, first.kept, first.kept_bytes) == (1, 0, 1, 10)
    for dry_run in (True, False):
        done = dispose(user, dry_run=dry_run)
        assert (done.removed, done.bytes) == (2, 10)
    assert not Path(holder).exists()


def test_a_copy_outlives_its_original_whose_files_another_holds(tmp_path: Path) -> None:
    first, second = share_an_hour_ago(tmp_path)
    shutil.copytree(second, tmp_path / "nightly")
    dispose(first)
    dispose(second)
    check_files(open_savepoint(str(tmp_path / "nightly")), FULL)


@pytest.mark.parametrize("where", ["elsewhere", "savepoints"])
def test_one_disposed_of_by_a_link_keeps_the_files_that_others_use(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    first, second = share_an_hour_ago(tmp_path / "savepoints")
    link = tmp_path / where / "latest"
    link.symlink_to(first)
    for dry_run in (True, False):
        done = dispose(str(link), dry_run=dry_run)
        assert (done.path, done.kept, done.users) == (first, 1, (storage.base_name(second),))
    check_files(open_savepoint(second), FULL)
    assert link.is_symlink()


@pytest.mark.parametrize("where", ["elsewhere", "savepoints"])
def test_one_disposed_of_by_a_link_releases_the_files_that_it_uses(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    first, second = share_an_hour_ago(tmp_path / "savepoints")
    link = tmp_path / where / "latest"
    link.symlink_to(second)
    check_files(open_savepoint(str(link)), FULL)
    dispose(first)
    dispose(str(link))
    assert not Path(first).exists()
    assert not Path(second, "_metadata").exists()


@pytest.mark.parametrize("dry_run", [True, False])
def test_one_whose_files_cannot_be_listed_is_refused_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    path = Path(make_savepoint(str(tmp_path), 1.0))
    scandir = os.scandir

    def of_another_user(directory: str) -> object:
        if directory == str(path / "0-counts"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory)
        return scandir(directory)

    monkeypatch.setattr(os, "scandir", of_another_user)
    with pytest.raises(StorageError, match=r"cannot list .*/0-counts: Permission denied"):
        dispose(str(path), dry_run=dry_run)
    monkeypatch.undo()
    check_files(open_savepoint(str(path)), FULL)
