"""The pairs between two Sparks: one runs the old programs, another one evolves their state.

``python -m tests.support.driver.pairs_between save|evolve DIRECTORY``: each with the Python of its
Spark; ``evolve`` leaves ``results.json``, what was made of each case.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from flinkish.driver.spark.settings import configured
from flinkish.restore.check.version_check import fit_offers
from flinkish.restore.plan.query_restore import RestoreOptions
from flinkish.restore.plan.verdicts import FOR_THE_ENGINE
from flinkish.restore.source.restore_source import open_restore_source
from tests.support.driver.pair_runner import ROCKSDB, Bench, Pair, Saved
from tests.support.driver.pairs import PAIRS
from tests.support.driver.pairs_other_operators import FUNCTIONS, PROCESSORS
from tests.support.driver.recorded_pairs import session

BACKENDS: Final[Mapping[str, Mapping[str, str]]] = {
    "hdfs": {"spark.sql.shuffle.partitions": "2"},
    "rocksdb": {"spark.sql.shuffle.partitions": "2", **ROCKSDB},
}
#: The new number of partitions, so that the same pass rescales; None as saved.
PLACES: Final = {"hdfs": None, "rocksdb": 3}
#: State whose format differs between the Sparks.
_FORMATS: Final = {"spark.sql.streaming.join.stateFormatVersion": "2"}


def cases() -> dict[str, Pair]:
    """Return the pairs whose state evolves, on both backends, by name."""
    evolving = [
        pair
        for pair in PAIRS
        if pair.verdict == "migrate" and not pair.plain and pair.since == "3.5"
        if pair not in (*FUNCTIONS, *PROCESSORS)
    ]
    return {
        f"{pair.name}, {backend}": replace(pair, conf={**_FORMATS, **conf, **pair.conf})
        for pair in evolving
        for backend, conf in BACKENDS.items()
    }


def save(spark: Any, root: Path) -> None:
    """Run the old programs."""
    bench = Bench(spark, root)
    runs: dict[Any, Saved] = {}
    found = {}
    for name, pair in cases().items():
        with configured(spark, pair.conf):
            saved = runs[bench.run_of(pair)] = bench.saved(pair)
        (offer,) = saved.savepoint.by_key.values()
        found[name] = str(saved.root), str(Path(offer.origin.root).parent), saved.rows
    (root / "saved.pickle").write_bytes(pickle.dumps(found))


class ForeignBench(Bench):
    """Goes on with what another Spark has saved."""

    def __init__(self, spark: Any, root: Path) -> None:
        super().__init__(spark, root)
        # Written by the test itself.
        self._found = pickle.loads((root / "saved.pickle").read_bytes())
        self._names = {(pair.name, tuple(pair.conf.items())): n for n, pair in cases().items()}
        self._number = 1000

    def saved(self, pair: Pair) -> Saved:
        """What the other Spark saved, as this one needs it."""
        root, savepoint, rows = self._found[self._names[pair.name, tuple(pair.conf.items())]]
        offers = fit_offers(open_restore_source(savepoint), self.spark.version)
        return Saved(Path(root), offers, offers, rows)


def evolve(spark: Any, root: Path) -> dict[str, list[Any]]:
    """Return what the new programs made of the state, and what they should have, by case."""
    bench = ForeignBench(spark, root)
    found: dict[str, list[Any]] = {}
    for name, pair in cases().items():
        partitions = PLACES[name.rpartition(", ")[2]]
        options = RestoreOptions(
            parallelism=partitions, executors=FOR_THE_ENGINE, accept_partial=(pair.operator,)
        )
        chosen = replace(pair, options=options)
        with configured(spark, pair.conf):
            restore, _, _ = bench.plan(chosen)
            if restore.refusal is not None:
                found[name] = [False, f"refused: {restore.refusal.message}", ""]
                continue
            result, expected = bench.evolved(chosen, restore)
        found[name] = [result == expected, str(result), str(expected)]
    return found


if __name__ == "__main__":
    with session() as spark_session:
        if sys.argv[1] == "save":
            save(spark_session, Path(sys.argv[2]))
        else:
            results = evolve(spark_session, Path(sys.argv[2]))
            Path(sys.argv[2], "results.json").write_text(json.dumps(results))
