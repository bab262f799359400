from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkish.checkpoint.cut import read_cut
from flinkish.errors import Corrupt, SavepointNotFound
from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.format.reader import open_savepoint
from tests.savepoint.conftest import Taking
from tests.support.checkpoints.handwritten import CheckpointLikeness


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
