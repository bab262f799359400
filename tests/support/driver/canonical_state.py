"""Canonical savepoints of what has run: their state is in Avro, of no backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinkish.driver.migration.savepoint_migration import write_rewritten
from flinkish.driver.spark.jvm import configured
from flinkish.messages.migration import Migration
from flinkish.restore.origin.restore_origin import open_path
from flinkish.savepoint.format.contents import FORMAT_CANONICAL, SavepointJob
from flinkish.savepoint.format.reader import open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from tests.support.driver.pair_runner import Bench, Pair, Saved


def canonical_of(spark: Any, savepoint: str, directory: Path) -> str:
    """Write a savepoint anew as a canonical one, below a directory; return its path."""
    info, _ = write_rewritten(
        spark.sparkContext,
        open_savepoint(savepoint),
        Migration(savepoint, str(directory / "canonical"), type=FORMAT_CANONICAL),
        scratch=str(directory / "scratch"),
        job=SavepointJob("f" * 32, "job", spark_version=spark.version),
        trigger="migrate",
        reporter=SilentSavepointReporter(),
        progress=lambda rows, size: None,
    )
    return info.path


class CanonicalBench(Bench):
    """Restores from canonical savepoints of the old programs.

    ``written`` are the settings under which the old programs run; a restore is of its pair's, so
    that the state may go to another backend.
    """

    def __init__(self, spark: Any, root: Path, written: Mapping[str, str]) -> None:
        super().__init__(spark, root)
        self._written = written
        self._canonical: dict[Any, Saved] = {}

    def saved(self, pair: Pair) -> Saved:
        run = self.run_of(pair)
        if run not in self._canonical:
            with configured(self.spark, self._written):
                native = super().saved(pair)
            (offer,) = native.savepoint.by_key.values()
            path = canonical_of(self.spark, str(Path(offer.origin.root).parent), native.root)
            self._canonical[run] = replace(native, savepoint=open_path(path))
        return self._canonical[run]
