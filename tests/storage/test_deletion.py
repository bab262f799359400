"""Deleting stays below its root, follows no link, and does what its plan says."""

from __future__ import annotations

import ast
import errno
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import flinkish
from flinkish import storage
from flinkish.errors import Corrupt, StorageError, UnsafePath
from flinkish.storage import below, deletion
from flinkish.storage.stores import store_of
from tests.support.savepoint.bait import put_bait, snapshot, untouched
from tests.support.servers.s3 import S3Server

OUTSIDE = [
    "../outside/victim",
    "a/../../outside/victim",
    "/outside/victim",
    "..",
    ".",
    "",
    "a//b",
    "a/",
    "./a",
    "a/.",
    "a\0b",
    "..\\outside\\victim",
    "a\\..\\..\\outside\\victim",
    "\\outside",
]
REMOVE: dict[str, Callable[[str, str], object]] = {
    "remove_file": storage.remove_file,
    "remove_files": lambda root, name: storage.remove_files(root, ["a", name]),
    "remove_tree": storage.remove_tree,
    "remove_empty_directories": lambda r, n: storage.remove_empty_directories(r, ["d", n]),
    "plan_tree": lambda root, name: list(storage.plan_tree(root, name)),
    "plan_empty_directories": lambda root, name: list(
        storage.plan_empty_directories(root, [name], lambda _: True)
    ),
    "read_below": lambda root, name: storage.read_below(root, name, 100),
}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """``root`` with files, empty directories and links that lead out of it, beside bait."""
    outside = put_bait(tmp_path)
    root = tmp_path / "root"
    (root / "tree/sub/deeper").mkdir(parents=True)
    (root / "tree/empty").mkdir()
    for name in ("tree/file", "tree/.hidden", "tree/sub/file", "tree/sub/deeper/file"):
        (root / name).write_text("x")
    os.symlink(outside, root / "tree/link")
    os.symlink(outside / "victim", root / "tree/sub/link to a file")
    os.symlink("nowhere", root / "tree/dangling")
    os.symlink("circle", root / "tree/circle")
    os.symlink("..", root / "tree/sub/up")
    os.mkfifo(root / "tree/pipe")
    os.symlink(outside, root / "link")
    return tmp_path


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("function", REMOVE)
def test_a_name_that_leads_outside_is_refused(world: Path, function: str, name: str) -> None:
    with untouched(world / "outside"), pytest.raises(UnsafePath) as caught:
        REMOVE[function](str(world / "root"), name)
    assert caught.value.code == 15
    assert str(world / "root") in caught.value.message
    assert caught.value.data["name"] == name
    assert (world / "root/tree/file").exists()


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("function", REMOVE)
def test_a_key_outside_of_the_prefix_is_refused(function: str, name: str) -> None:
    root = f"memory://{uuid.uuid4().hex}/a/root"
    victim = storage.join(storage.parent(root), "outside/victim")
    storage.make_directory(storage.parent(victim))
    storage.write_bytes(victim, b"precious")
    with pytest.raises(UnsafePath):
        REMOVE[function](root, name)
    assert storage.read_bytes(victim) == b"precious"


@pytest.mark.parametrize(
    ("root", "name"),
    [("hdfs://h:1/a", "b?c"), ("webhdfs://h:1/a", "b#c"), ("s3://b/a", "x?versionId=1")],
)
def test_what_a_library_reads_otherwise_is_refused(root: str, name: str) -> None:
    with pytest.raises(UnsafePath, match="another meaning"):
        storage.remove_file(root, name)


@pytest.mark.parametrize("function", REMOVE)
def test_no_link_is_gone_through(world: Path, function: str) -> None:
    for name in ("link/victim", "link/below/victim", "tree/sub/up/file"):
        with untouched(world), pytest.raises(UnsafePath, match="is a link"):
            REMOVE[function](str(world / "root"), name)


def test_a_link_goes_itself(world: Path) -> None:
    root = str(world / "root")
    with untouched(world / "outside"):
        assert storage.remove_file(root, "link")
        assert not storage.remove_file(root, "link")
        assert storage.remove_tree(root, "tree/link")
        storage.remove_empty_directories(root, ["tree/dangling"])
    assert not os.path.lexists(f"{root}/link")
    assert not os.path.lexists(f"{root}/tree/link")
    assert os.path.lexists(f"{root}/tree/dangling"), "that is no directory"


@pytest.mark.parametrize("name", ["tree", "tree/sub", "tree/file", "tree/link", "link", "never"])
def test_a_tree_goes_as_planned(world: Path, name: str) -> None:
    root = str(world / "root")
    before = snapshot(root)
    planned = list(storage.plan_tree(root, name))
    assert snapshot(root) == before
    told: list[str] = []
    with untouched(world / "outside"):
        assert storage.remove_tree(root, name, told.append)
    assert told == planned
    assert sorted(planned) == sorted(before.keys() - snapshot(root).keys())
    assert len(planned) == {"tree": 14, "tree/sub": 6, "never": 0}.get(name, 1)


def test_files_and_directories_go_as_planned(world: Path) -> None:
    root = str(world / "root")
    before = snapshot(root)
    files = ["tree/sub/deeper/file", "tree/file", "tree/never", "no/where"]
    names = ["tree", "tree/sub", "tree/sub/deeper", "tree/empty", "never"]
    planned = list(storage.plan_empty_directories(root, names, files.__contains__))
    assert planned == ["tree/sub/deeper/", "tree/empty/"]
    told: list[str] = []
    storage.remove_files(root, files, told.append)
    storage.remove_empty_directories(root, names, told.append)
    assert told == [files[0], files[1], *planned]
    assert before.keys() - snapshot(root).keys() == {*told}


def test_a_directory_exchanged_for_a_link_in_mid_walk(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was listed as a directory, and before it is gone into: the worst moment."""
    real = below.enter

    def exchanging(directory: int, name: str, *, listed: bool) -> int | None:
        if name == "sub":
            os.rename(world / "root/tree/sub", world / "root/moved")
            os.symlink(world / "outside", world / "root/tree/sub")
        return real(directory, name, listed=listed)

    monkeypatch.setattr(deletion, "enter", exchanging)
    with untouched(world / "outside", world / "root/tree/sub"):
        assert storage.remove_tree(str(world / "root"), "tree")
        (world / "root/tree").mkdir()
        os.rename(world / "root/moved", world / "root/tree/sub")


def test_a_directory_exchanged_for_a_link_when_it_was_gone_into(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = below.enter

    def exchanging(directory: int, name: str, *, listed: bool) -> int | None:
        inside = real(directory, name, listed=listed)
        if name == "sub":
            os.rename(world / "root/tree/sub", world / "root/moved")
            os.symlink(world / "outside", world / "root/tree/sub")
            for each in ("file", "victim"):
                (world / "root/moved" / each).write_text("of the tree")
        return inside

    monkeypatch.setattr(deletion, "enter", exchanging)
    with untouched(world / "outside"):
        storage.remove_tree(str(world / "root"), "tree")
    assert list((world / "root/moved").iterdir()) == [], "what was meant, not what has its name now"
    assert os.path.islink(world / "root/tree/sub")


def test_a_path_exchanged_for_a_link_between_two_files(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world / "root/tree/sub/victim").write_text("of the tree")

    def names() -> Iterator[str]:
        yield "tree/sub/file"
        os.rename(world / "root/tree/sub", world / "root/moved")
        os.symlink(world / "outside", world / "root/tree/sub")
        yield "tree/sub/victim"
        yield "tree/file"
        yield "tree/sub/below/victim"

    with untouched(world / "outside"), pytest.raises(UnsafePath, match="'tree/sub'"):
        storage.remove_files(str(world / "root"), names())
    assert not (world / "root/tree/file").exists()


def test_what_is_nested_too_deeply_stays(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(deletion.MAX_DEPTH + 50):
        os.mkdir("d", dir_fd=here)
        inside = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inside
    os.close(here)
    open_before = len(os.listdir("/proc/self/fd"))
    (tmp_path / "d/file").write_text("x")
    planned = list(storage.plan_tree(str(tmp_path), "d"))
    told: list[str] = []
    assert storage.remove_tree(str(tmp_path), "d", told.append) is False
    assert told == planned == ["d/file"]
    assert len(os.listdir("/proc/self/fd")) == open_before
    assert (tmp_path / "d").is_dir()


def test_names_that_are_patterns_mean_themselves() -> None:
    root = f"memory://{uuid.uuid4().hex}/root"
    for name in ("a*", "ab", "a[b]", "a?"):
        storage.make_directory(f"{root}/{name}")
        storage.write_bytes(f"{root}/{name}/x", b"x")
    for name in ("a*", "a[b]", "a?"):
        planned = list(storage.plan_tree(root, name))
        told: list[str] = []
        assert storage.remove_tree(root, name, told.append)
        assert told == planned == [f"{name}/x", f"{name}/"]
    assert storage.list_names(root) == ["ab"]


def test_what_is_read_below_a_root(world: Path) -> None:
    root = str(world / "root")
    assert storage.read_below(root, "tree/file", 1) == b"x"
    (world / "root/large").write_bytes(b"x" * 101)
    with pytest.raises(Corrupt, match="too large"):
        storage.read_below(root, "large", 100)
    os.symlink("/dev/zero", world / "root/zero")
    for name in ("zero", "tree/pipe", "tree/sub", "tree/circle", "tree/sub/link to a file"):
        with pytest.raises(UnsafePath, match="not a regular file"):
            storage.read_below(root, name, 100)
    for name in ("never", "never/never", "tree/file/never"):
        with pytest.raises(FileNotFoundError):
            storage.read_below(root, name, 100)
    with pytest.raises(FileNotFoundError):
        storage.read_below(f"{root}/never", "x", 100)


def test_a_refusal_of_the_system_is_told(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(StorageError, match="cannot remove"):
        storage.remove_file(str(tmp_path), "d")


def test_what_the_system_does_not_answer_counts_as_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree/below").mkdir(parents=True)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, "stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", fail)
        assert not storage.remove_tree(str(tmp_path), "tree")
        patch.setattr(deletion, "enter", fail)
        patch.setattr(os, "stat", fail)
        assert not storage.remove_tree(str(tmp_path), "tree")


def test_walks_do_not_go_into_links(world: Path) -> None:
    walked = {path for path, _ in storage.walk_files(str(world / "root"))}
    assert {"link", "tree/link", "tree/sub/up", "tree/circle"} <= walked
    assert not [path for path in walked if "victim" in path]


@pytest.mark.servers
def test_only_keys_below_the_prefix_go(moto_s3: S3Server) -> None:
    with moto_s3.configured():
        bucket = moto_s3.create_bucket(f"deletion{uuid.uuid4().hex[:8]}")
        name = bucket.removeprefix("s3://")
        files = store_of(bucket)._fs
        stay = ["p/sp2/x", "p/sp", "p/sp.x", "outside/victim", "p/_metadata", "p/s"]
        go = ["p/sp/x", "p/sp/../../outside/victim", "p/sp/a/", "p/sp/b//c", "p/sp/x?versionId=1"]
        for key in [*stay, *go]:
            files.call_s3("put_object", Bucket=name, Key=key, Body=b"precious")

        def keys() -> set[str]:
            found = files.call_s3("list_objects_v2", Bucket=name).get("Contents", [])
            return {each["Key"] for each in found}

        assert keys() == {*stay, *go}
        for bad in ("../outside/victim", "/outside/victim", "sp/../../outside/victim"):
            for remove in REMOVE.values():
                with pytest.raises(UnsafePath):
                    remove(f"{bucket}/p", bad)
        planned = set(storage.plan_tree(f"{bucket}/p", "sp"))
        told: list[str] = []
        storage.remove_tree(f"{bucket}/p", "sp", told.append)
        assert {*told} == planned
        assert keys() == {*stay}
        storage.remove_files(f"{bucket}/p", ["sp2/x", "never"])
        storage.remove_file(f"{bucket}/p", "sp.x")
        assert keys() == {*stay} - {"p/sp2/x", "p/sp.x"}


# Nothing else deletes.

PACKAGE = Path(flinkish.__file__).parent
#: Whatever removes files, by whatever object it is called.
DELETING = {
    *("unlink", "rmdir", "rmtree", "removedirs", "rm", "_rm", "rm_file", "_rm_file", "rmfile"),
    *("delete_file", "delete_files", "delete_tree", "delete_directory", "delete_object"),
    *("delete_objects", "bulk_delete", "delete_keys"),
}
ALLOWED = {
    "driver/carried.py": "the file that Python runs, before flinkish can be imported",
    "storage/deletion.py": "the module through which everything goes",
    "storage/remote.py": "what it calls for a remote root, and renaming where nothing is replaced",
    "storage/s3.py": "the request by which that deletes on S3",
    "launch/secret_settings.py": "a file that the same job has made; launch/ knows no storage",
}


def deletions(source: str) -> list[str]:
    """Calls and imports in a module by which it could delete a file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
            if node.attr in DELETING or (of_os and node.attr == "remove"):
                found.append(f"{node.lineno}: {node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil"):
            names = {name.name for name in node.names}
            if names & {*DELETING, "remove", "*"}:
                found.append(f"{node.lineno}: from {node.module} import")
        elif isinstance(node, ast.Import):
            if any(n.name in ("os", "shutil") and n.asname for n in node.names):
                found.append(f"{node.lineno}: os or shutil under another name")
        elif isinstance(node, ast.Constant) and node.value in DELETING:
            found.append(f"{node.lineno}: {node.value!r}")
    return found


def test_nothing_else_deletes() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): lines
        for path in sorted(PACKAGE.rglob("*.py"))
        if (lines := deletions(path.read_text(encoding="utf-8")))
    }
    assert {name: lines for name, lines in found.items() if name not in ALLOWED} == {}
    assert found.keys() == ALLOWED.keys(), "what needs no leave any more is taken off the list"


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.unlink('x')",
        "import os\nos.remove('x')",
        "from shutil import rmtree",
        "from os import remove as r",
        "import shutil as s\ns.rmtree('x')",
        "from pathlib import Path\nPath('x').unlink()",
        "fs.rm('x', recursive=True)",
        "fs.call_s3('delete_objects')",
        "getattr(os, 'unlink')('x')",
        "list(map(os.rmdir, names))",
    ],
)
def test_a_deletion_is_found(source: str) -> None:
    assert len(deletions(source)) >= 1


def test_what_deletes_nothing_is_not_found() -> None:
    fine: Any = "import os\nsome.remove(1)\nleases.remove(a, b)\nos.rename(a, b)\nbatch.delete(k)"
    assert deletions(fine) == []
