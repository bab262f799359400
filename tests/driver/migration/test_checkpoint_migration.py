"""A restored checkpoint whose state is rewritten on the way, and what a kill leaves of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.checkpoint.cut import read_cut
from flinkish.driver.migration.checkpoint_migration import make_rewritten
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.files import LocalDirectory
from flinkish.errors import StorageError
from flinkish.restore.plan.query_restore import StateRewrite
from flinkish.restore.recipe import Recipe
from tests.engine.migration.test_checkpoint_migration import all_rows
from tests.support.checkpoints.recorded import unpack
from tests.support.engine.inline_spark import InlineContext
from tests.support.restore.recipes import origin


def restore(root: str, target: str, partitions: int, kill_at: str | None = None) -> None:
    recipe = Recipe((origin(read_cut(root)),))
    make_rewritten(_session(kill_at), recipe, StateRewrite(partitions, {}), target)


def _session(kill_at: str | None) -> Any:
    """A session whose process dies before the engine's jobs, or when their files are written."""

    class Context(InlineContext):
        _flinkish_shipped = True

        def setJobDescription(self, text: str | None) -> None:
            if kill_at == ("start" if text else "end"):
                os.kill(os.getpid(), signal.SIGKILL)

    return SimpleNamespace(sparkContext=Context())


def partitions(checkpoint: Path) -> list[int]:
    found = read_checkpoint(LocalDirectory(str(checkpoint)))
    return [operator.partitions for operator in found.operators]


@pytest.mark.parametrize("kill_at", ["start", "end"])
def test_what_a_killed_restore_left_goes_with_the_next(tmp_path: Path, kill_at: str) -> None:
    root = unpack("spark43-rocksdb-tws", tmp_path / "recorded")
    target = tmp_path / "job" / "counts"
    process = multiprocessing.get_context("spawn").Process(
        target=restore, args=(str(root), str(target), 7, kill_at)
    )
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    assert os.listdir(target.parent), "it has left something"
    (target.parent / "..counts-before-rewriting.0123456789ab.tmp").mkdir()
    (target.parent / ".others-before-rewriting").mkdir()
    restore(str(root), str(target), 3)
    assert sorted(os.listdir(target.parent)) == [".others-before-rewriting", "counts"]
    assert partitions(target) == [3]
    assert sorted(p.name for p in (target / "state/0").iterdir() if p.name.isdigit()) == [
        "0",
        "1",
        "2",
    ]
    assert all_rows(target) == all_rows(root)


def test_a_checkpoint_that_is_there_stays(tmp_path: Path) -> None:
    root = unpack("spark43-rocksdb-tws", tmp_path / "recorded")
    target = tmp_path / "job" / "counts"
    restore(str(root), str(target), 3)
    with pytest.raises(StorageError, match="it exists"):
        restore(str(root), str(target), 5)
    assert partitions(target) == [3]
    assert os.listdir(target.parent) == ["counts"]
