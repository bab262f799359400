from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flinkish.messages.requests import SavepointSummary
from flinkish.operators.identity import OperatorFacts, OperatorIdentity
from flinkish.savepoint.format.contents import (
    QuerySource,
    SavepointJob,
)
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.handwritten import CheckpointLikeness

JOB = SavepointJob("0123456789abcdef0123456789abcdef", "job", spark_version="4.3.0")

Taking = Callable[..., SavepointSummary]


@pytest.fixture
def likeness(tmp_path: Path) -> CheckpointLikeness:
    """A checkpoint with a few batches."""
    return CheckpointLikeness(tmp_path / "checkpoint", backend="rocksdb").run_to(4)


@pytest.fixture
def take(tmp_path: Path) -> Taking:
    """Take a savepoint of checkpoints, by default below ``tmp_path/savepoints``."""

    def taking(*checkpoints: Path, target: Path | None = None) -> SavepointSummary:
        queries = [
            QuerySource(
                f"query {number}",
                str(path),
                run_id=f"run-{number}",
                source=[{"description": "FileStreamSource[file:/in]"}],
                sink={"format": "parquet", "path": "/out"},
                operators=(OperatorFacts(0, "agg", OperatorIdentity("counts"), rows=12),)
                if (path / "state").exists()
                else (),
            )
            for number, path in enumerate(checkpoints)
        ]
        return write_savepoint(
            str(target or tmp_path / "savepoints"),
            JOB,
            queries,
            trigger="stop",
            reporter=SilentSavepointReporter(),
        )

    return taking


@pytest.fixture
def other_disk() -> Iterator[Path]:
    """A directory on another file system than the temporary one."""
    import tempfile

    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("needs /dev/shm on another file system than the temporary files")
    with tempfile.TemporaryDirectory(dir=shm) as directory:
        yield Path(directory)
