"""Directories of savepoints in which somebody else has put lists and links: nothing outside goes,
and a dry run says to the last name what the real run removes."""

from __future__ import annotations

import json
import os
import time
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.cli.entry import main
from flinkish.errors import Corrupt, UnsafePath
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.directory.dispose import dispose, release_holder
from flinkish.savepoint.format.reader import FULL, check_files, open_savepoint
from flinkish.savepoint.manage.prune import GARBAGE_AGE, collect_garbage, prune
from flinkish.savepoint.manage.retention import Policy
from flinkish.savepoint.state.state_directories import scratch_directory
from flinkish.storage import deletion
from flinkish.storage.directory import StorageDirectory
from flinkish.storage.stores import store_of
from tests.support.savepoint.bait import PRECIOUS, put_bait, snapshot, untouched
from tests.support.savepoint.killed_processes import all_objects
from tests.support.savepoint.small_savepoints import JOB_ID, make_savepoint
from tests.support.servers.s3 import S3Server

UNFINISHED = "savepoint-012345-0123456789ab"
LAST = Policy(keep_last=1)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command has a registry and a configuration of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "a/savepoints"
    path.mkdir(parents=True)
    return path


def later() -> float:
    return time.time() + 2 * GARBAGE_AGE


def make_old(place: Path) -> None:
    """Everything below was last changed two hours ago."""
    for directory, directories, files in os.walk(place):
        for name in [".", *directories, *files]:
            path = os.path.join(directory, name)
            os.utime(path, (time.time() - 2 * GARBAGE_AGE,) * 2, follow_symlinks=False)


def share(place: str, created: float, *, data: bytes = b"0123456789") -> tuple[str, str]:
    """Two savepoints, of which the second uses the file of the first."""
    holder = make_savepoint(place, created, data=data)
    return holder, add_user(place, holder, created + 1)


def add_user(place: str, holder: str, created: float, data: bytes = b"0123456789") -> str:
    held = f"{storage.base_name(holder)}/0-counts/metadata"
    user = make_savepoint(place, created, held=held, data=data)
    sharing.write_references(holder, storage.base_name(user), ["0-counts/metadata"])
    return user


def packed(*paths: str) -> bytes:
    return zlib.compress("\n".join(paths).encode())


#: What a list may not have in it, beside what it has of right.
LISTS: dict[str, Callable[[Path], bytes]] = {
    "outside": lambda _: packed("0-counts/metadata", "../../outside/victim"),
    "outside by a query": lambda _: packed("0-counts/../../../outside/victim"),
    "absolute": lambda outside: packed(str(outside / "victim")),
    "another savepoint": lambda _: packed("../savepoint-012345-0123456789ab/_metadata"),
    "backslashes": lambda _: packed("0-counts\\..\\..\\..\\outside\\victim"),
    "empty": lambda _: packed(""),
    "empty part": lambda _: packed("0-counts//metadata"),
    "NUL": lambda _: packed("0-counts/a\0b"),
    "dots": lambda _: packed("."),
    "metadata": lambda _: packed("_metadata"),
    "a list": lambda _: packed("_refs/x"),
    "a lease": lambda _: packed("_locks/x"),
    "a directory": lambda _: packed("0-counts"),
    "not compressed": lambda _: b"../../outside/victim",
    "cut off": lambda _: packed("0-counts/metadata")[:-3],
    "not UTF-8": lambda _: zlib.compress(b"0-counts/\xff"),
}


@pytest.mark.parametrize("what", LISTS)
def test_a_list_names_only_files_of_its_holder(
    place: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user of a husk, a holder, and the two commands: refused before anything is touched."""
    outside = put_bait(place.parent)
    holder, user = share(str(place), 1.0)
    husk, orphan = share(str(place), 3.0)
    dispose(husk)
    for directory, name in ((holder, user), (husk, orphan)):
        file = Path(directory, "_refs", os.path.basename(name))
        file.write_bytes(LISTS[what](outside))
    with untouched(place, outside):
        for path in (user, orphan, holder):
            for dry_run in (True, False):
                with pytest.raises(Corrupt, match="_refs") as caught:
                    dispose(path, dry_run=dry_run)
                assert caught.value.code == 15
        with pytest.raises(Corrupt):
            release_holder(husk, os.path.basename(orphan))
        assert main(["savepoint", "-d", orphan, "--yes"]) == 15
        assert "_refs" in capsys.readouterr().err
    done = prune(str(place), LAST, {})
    assert [type(error) for error in done.errors] != []
    with untouched(outside):
        collect_garbage(str(place), (), now=later())
    check_files(open_savepoint(user), FULL)
    check_files(open_savepoint(orphan), FULL)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("what", ["pipe", "/dev/zero", "../../../outside/victim", "directory"])
def test_a_list_that_is_no_regular_file(place: Path, what: str) -> None:
    outside = put_bait(place.parent)
    holder, user = share(str(place), 1.0)
    path = Path(holder, "_refs", os.path.basename(user))
    path.unlink()
    os.mkfifo(path) if what == "pipe" else os.symlink(what, path)
    if what == "directory":
        path.unlink()
        path.parent.rmdir()
        os.symlink(outside, path.parent)
        (outside / path.name).write_bytes(packed("0-counts/metadata"))
    with untouched(place, outside):
        for each in (user, holder):
            with pytest.raises(UnsafePath):
                dispose(each)


def test_a_holder_that_is_a_link(place: Path) -> None:
    """What is behind it may be another's savepoint, with lists that look right."""
    outside = place.parent / "elsewhere"
    outside.mkdir()
    holder, user = share(str(place), 1.0)
    os.rename(holder, outside / "holder")
    os.symlink(outside / "holder", holder)
    (outside / "holder/_metadata").unlink()
    with untouched(place, outside), pytest.raises(UnsafePath, match="is a link"):
        dispose(user)


def test_a_name_in_a_list_is_no_directory_to_remove(place: Path) -> None:
    """Whoever has a list in a savepoint and is none himself: his list goes, nothing else."""
    kept = make_savepoint(str(place), 1.0)
    (place / "photos/best").mkdir(parents=True)
    (place / "photos/best/one").write_bytes(PRECIOUS)
    (place / "empty").mkdir()
    for user in ("photos", "empty", "never", "_locks"):
        sharing.write_references(kept, user, ["0-counts/metadata"])
    make_old(place)
    before = snapshot(place)
    planned = collect_garbage(str(place), (), dry_run=True, names=True)
    assert snapshot(place) == before
    done = collect_garbage(str(place), (), names=True)
    gone = before.keys() - snapshot(place).keys()
    refs = f"{os.path.basename(kept)}/_refs"
    assert gone == {f"{refs}/", *(f"{refs}/{u}" for u in ("photos", "empty", "never", "_locks"))}
    assert names_of(place, planned) == names_of(place, done) == gone
    check_files(open_savepoint(kept), FULL)


def names_of(place: Path, outcomes: Any) -> set[str]:
    """Relative to the place, what outcomes say to have removed."""
    said = [name for outcome in outcomes for name in outcome.gone]
    assert len(said) == len({*said})
    return {name.removeprefix(f"{place}/") for name in said}


def test_garbage_behind_links(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = put_bait(place.parent)
    kept = make_savepoint(str(place), 1.0)
    garbage = place / UNFINISHED
    (garbage / "0-q/state/0").mkdir(parents=True)
    (garbage / "0-q/state/0/1.delta").write_bytes(b"x")
    (garbage / ".hidden").write_bytes(b"x")
    (garbage / os.fsdecode(b"\xff\n\x1b[31m")).write_bytes(b"x")
    os.symlink(outside, garbage / "0-q/to a directory")
    os.symlink(outside / "victim", garbage / "0-q/to a file")
    os.symlink(kept, garbage / "0-q/to a savepoint")
    os.symlink(".", garbage / "0-q/circle")
    os.mkfifo(garbage / "pipe")
    os.symlink(outside, place / "savepoint-012345-00000000000a")
    os.symlink(outside, place / "photos")
    make_old(place)
    before = snapshot(place)
    words = ["savepoint", "prune", "--garbage", str(place)]
    with untouched(outside, kept):
        with untouched(place):
            assert main([*words, "--dry-run", "--json"]) == 0
            said = json.loads(capsys.readouterr().out)
            planned = {name for each in said["garbage"] for name in each["gone"]}
            assert main([*words, "--dry-run"]) == 0
            shown = capsys.readouterr().out
            assert "\x1b" not in shown
            assert f"  {garbage}/0-q/to a directory\n" in shown
            assert len([line for line in shown.splitlines() if line[:2] == "  "]) >= len(planned)
        assert main([*words, "--yes", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
    assert {name for each in said["garbage"] for name in each["gone"]} == planned
    assert [each["removed"] for each in said["garbage"]] == [True, True]
    gone = before.keys() - snapshot(place).keys()
    assert {name.removeprefix(f"{place}/") for name in planned} == gone
    assert {*os.listdir(place)} == {os.path.basename(kept), "photos"}


def test_garbage_exchanged_for_a_link(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was judged, and before it goes."""
    outside = put_bait(place.parent)
    garbage = place / UNFINISHED
    (garbage / "0-q").mkdir(parents=True)
    (garbage / "0-q/victim").write_bytes(b"x")
    real = deletion._visit

    def exchanging(*args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        os.rename(garbage, place / "moved")
        os.symlink(outside, garbage)
        return real(*args, **more)

    monkeypatch.setattr(deletion, "_visit", exchanging)
    with untouched(outside):
        (outcome,) = collect_garbage(str(place), (), now=later())
    assert outcome.removed
    assert os.listdir(place) == ["moved"]


def test_links_in_a_husk(place: Path) -> None:
    """What a disposed savepoint holds for others stays; a link beside it goes itself."""
    outside = put_bait(place.parent)
    holder, user = share(str(place), 1.0)
    dispose(holder)
    os.symlink(outside, f"{holder}/link")
    os.symlink(outside, f"{holder}/0-counts/link")
    make_old(place)
    before = snapshot(place)
    planned = collect_garbage(str(place), (), dry_run=True, names=True)
    assert snapshot(place) == before
    with untouched(outside):
        done = collect_garbage(str(place), (), names=True)
    gone = before.keys() - snapshot(place).keys()
    assert names_of(place, planned) == names_of(place, done) == gone
    assert {name.rpartition("/")[2] for name in gone} == {"link"}
    check_files(open_savepoint(user), FULL)


def test_a_husk_exchanged_for_a_link(place: Path) -> None:
    outside = put_bait(place.parent)
    holder, user = share(str(place), 1.0)
    dispose(holder)
    os.rename(f"{holder}/0-counts", place / "moved")
    os.symlink(outside, f"{holder}/0-counts")
    (outside / "metadata").write_bytes(PRECIOUS)
    with untouched(outside), pytest.raises(UnsafePath, match="is a link"):
        dispose(user)


def test_savepoints_behind_links_are_another_directory_s(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = place.parent / "elsewhere"
    elsewhere.mkdir()
    theirs = make_savepoint(str(elsewhere), 1.0)
    ours, newest = make_savepoint(str(place), 2.0), make_savepoint(str(place), 3.0)
    link = place / os.path.basename(theirs)
    os.symlink(theirs, link)
    with untouched(elsewhere):
        done = prune(str(place), LAST, {})
        assert {o.savepoint.path: bool(o.removed) for o in done.savepoints} == {
            newest: False,
            ours: True,
            str(link): False,
        }
        assert "it is a link" in done.savepoints[-1].reasons[0]
        with pytest.raises(UnsafePath, match="is a link"):
            dispose(str(link), follow=False)
    # Named by the user it is meant.
    assert main(["savepoint", "-d", str(link), "--yes"]) == 0
    assert os.listdir(elsewhere) == []
    assert link.is_symlink()


def test_disposing_follows_no_link(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = put_bait(place.parent)
    path = make_savepoint(str(place), 1.0)
    os.rename(f"{path}/0-counts", place / "moved")
    os.symlink(outside, f"{path}/0-counts")
    (outside / "metadata").write_bytes(PRECIOUS)
    Path(path, os.fsdecode(b"not utf-8 \xff")).write_bytes(b"")
    with untouched(outside, place / "moved"):
        done = dispose(path)
    assert (done.removed, done.missing, len(done.foreign)) == (1, 1, 2)
    assert os.readlink(f"{path}/0-counts") == str(outside)


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_dry_run_says_what_goes(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of savepoints that share, when several go together: what the later ones free, too."""
    root = f"{tmp_path}/s" if kind == "local" else f"memory://{uuid.uuid4().hex}/s"
    holder, user = share(root, 1.0)
    add_user(root, holder, 3.0)
    other, _ = share(root, 4.0)
    newest = add_user(root, other, 6.0)
    if kind == "local":
        Path(user, "foreign").write_bytes(b"")
    before = everything(root)
    planned = prune(root, LAST, {}, dry_run=True, names=True)
    assert everything(root) == before
    done = prune(root, LAST, {}, names=True)
    assert done.errors == ()
    said = [name for outcome in reversed(planned.savepoints) for name in outcome.gone]
    assert said == [name for outcome in reversed(done.savepoints) for name in outcome.gone]
    assert {*said} == before - everything(root)
    assert f"{holder}/" in said
    check_files(open_savepoint(newest), FULL)
    assert main(["savepoint", "-d", newest, "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    before = everything(root)
    assert main(["savepoint", "-d", newest, "--yes", "--json"]) == 0
    gone = json.loads(capsys.readouterr().out)["gone"]
    assert [line[2:] for line in lines[1:]] == gone
    assert {*gone} == before - everything(root)
    assert not storage.exists(other)


def everything(root: str) -> set[str]:
    """Locations of all there is, directories with a slash at their end."""
    if storage.is_local(root):
        return {f"{root}/{name}" for name in snapshot(root)}
    files = {f"{root}/{name}" for name in all_objects(root)}
    fs = store_of(root)._fs
    found = fs.find(fs._strip_protocol(root), withdirs=True, detail=True)
    scheme = storage.scheme_of(root)
    directories = {f"{scheme}:/{p}/" for p, info in found.items() if info["type"] == "directory"}
    return files | (directories - {f"{root}/"})


def test_a_scratch_directory_exchanged_for_a_link(place: Path) -> None:
    outside = put_bait(place.parent)
    with untouched(outside):
        with scratch_directory(str(place), JOB_ID, "me@h") as scratch:
            Path(scratch, "state").mkdir()
            os.rename(scratch, place / "moved")
            os.symlink(outside, scratch)
        assert sorted(os.listdir(place)) == ["moved"]


@pytest.mark.parametrize("path", ["../outside", "/outside", "", ".", "state/../../outside", "a\0"])
def test_a_target_of_rewritten_state_stays_below_its_root(place: Path, path: str) -> None:
    from flinkish.engine.stores.files import LocalDirectory

    put_bait(place.parent)
    os.symlink(place.parent / "outside", place / "link")
    with untouched(place.parent):
        for target in (StorageDirectory(str(place)), LocalDirectory(str(place))):
            for refused in (path, "link/victim"):
                with pytest.raises(UnsafePath):
                    target.remove(refused)
            if path:
                with pytest.raises(UnsafePath):
                    target.create(path)
    (place / "state/0").mkdir(parents=True)
    os.symlink(place.parent / "outside", place / "state/0/link")
    with untouched(place.parent / "outside"):
        LocalDirectory(str(place)).remove("state")
        LocalDirectory(str(place)).remove("link")
        LocalDirectory(str(place)).remove("never/there")
        LocalDirectory(str(place / "never")).remove("there")
    assert os.listdir(place) == []


@pytest.mark.servers
def test_keys_outside_of_the_prefix(moto_s3: S3Server) -> None:
    with moto_s3.configured():
        bucket = moto_s3.create_bucket("hostile")
        root = f"{bucket}/{uuid.uuid4().hex}"
        place = f"{root}/savepoints"
        bait = [f"{root}/outside/victim", f"{place}/photos/one", f"{place}/{UNFINISHED}.old/x"]
        for location in bait:
            storage.write_bytes(location, PRECIOUS)
        holder, user = share(place, 1.0)
        husk, orphan = share(place, 3.0)
        dispose(husk)
        for directory, name in ((holder, user), (husk, orphan)):
            location = sharing.list_of(directory, storage.base_name(name))
            storage.write_bytes(location, packed("0-counts/metadata", "../../outside/victim"))
        before = all_objects(root)
        for path in (user, orphan, holder):
            with pytest.raises(Corrupt):
                dispose(path)
        assert all_objects(root) == before
        sharing.write_references(holder, "photos", ["0-counts/metadata"])
        storage.write_bytes(f"{place}/{UNFINISHED}/0-q/metadata", b"x")
        fs = store_of(bucket)._fs
        odd = f"{place}/{UNFINISHED}/../../outside/victim".removeprefix("s3://").partition("/")
        fs.call_s3("put_object", Bucket=odd[0], Key=odd[2], Body=b"named so")
        before = all_objects(root)
        planned = collect_garbage(place, (), dry_run=True, names=True, now=later())
        assert all_objects(root) == before
        collect_garbage(place, (), now=later())
        gone = {f"{root}/{each}" for each in before - all_objects(root)}
        assert gone == {name for outcome in planned for name in outcome.gone}
        assert f"{place}/{UNFINISHED}/0-q/metadata" in gone
        assert [storage.read_bytes(each) for each in bait] == [PRECIOUS] * len(bait)
        for path in (user, orphan):
            check_files(open_savepoint(path), FULL)
