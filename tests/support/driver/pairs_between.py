"""The pairs between two Sparks: one runs the old programs, another one evolves their state.

``python -m tests.support.driver.pairs_between save|evolve up|down DIRECTORY``: each with the Python
of its Spark; ``evolve`` leaves ``results.json``, what was made of each case.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT, SETTING_CHECKPOINT_FORMAT
from flinkish.driver.spark.jvm import configured
from flinkish.messages.restore_options import RestoreOptions
from flinkish.restore.check.version_check import fit_offers
from flinkish.restore.origin.restore_origin import open_path
from flinkish.restore.plan.judging import FOR_THE_ENGINE
from flinkish.restore.plan.query_restore import PlanningSettings
from tests.support.driver.pair_runner import ROCKSDB, Bench, Pair, Saved
from tests.support.driver.pairs import PAIRS
from tests.support.driver.pairs_other_operators import FUNCTIONS, JOINS, PROCESSORS
from tests.support.driver.recorded_pairs import session

BACKENDS: Final[Mapping[str, Mapping[str, str]]] = {
    "hdfs": {"spark.sql.shuffle.partitions": "2"},
    "rocksdb": {"spark.sql.shuffle.partitions": "2", **ROCKSDB},
}
#: The new number of partitions, so that the same pass rescales; None as saved.
PLACES: Final = {"hdfs": None, "rocksdb": 3, "newest": 3}
#: State whose format differs between the Sparks.
_FORMATS: Final = {PIN_JOIN_FORMAT: "2"}
#: What an older Spark does not read: the same pass makes formats of it that it does.
NEWEST: Final = {PIN_JOIN_FORMAT: "3", SETTING_CHECKPOINT_FORMAT: "2"}
#: The pairs that are saved in these too, a few of each kind of operator, and all joins.
_TELLING: Final = ("exchanged", "session", "window key widened", "dedup column widened")


def cases(direction: str) -> dict[str, Pair]:
    """Return the pairs whose state evolves, by name: on one backend upwards and on the other
    downwards, and downwards also from formats that the older Spark does not read."""
    evolving = [
        pair
        for pair in PAIRS
        if pair.verdict == "migrate" and not pair.plain and pair.since == "3.5"
        if pair not in (*FUNCTIONS, *PROCESSORS)
    ]
    # In turn, so that each kind of operator is on both.
    turns = cycle(sorted(BACKENDS, reverse=direction == "down"))
    found = {
        f"{pair.name}, {backend}": replace(
            pair, conf={**_FORMATS, **BACKENDS[backend], **pair.conf}
        )
        for pair, backend in zip(evolving, turns, strict=False)
    }
    if direction == "down":
        found |= {
            f"{pair.name}, newest": replace(pair, conf={**BACKENDS["rocksdb"], **pair.conf})
            for pair in evolving
            if pair in JOINS or any(word in pair.name for word in _TELLING)
        }
    return found


def save(spark: Any, root: Path, direction: str) -> None:
    """Run the old programs."""
    bench = Bench(spark, root)
    runs: dict[Any, Saved] = {}
    found = {}
    for name, pair in cases(direction).items():
        if name.endswith(", newest"):
            pair = replace(pair, conf={**pair.conf, **NEWEST})
        with configured(spark, pair.conf):
            saved = runs[bench.run_of(pair)] = bench.saved(pair)
        (offer,) = saved.savepoint.by_key.values()
        found[name] = str(saved.root), str(Path(offer.origin.root).parent), saved.rows
    (root / "saved.pickle").write_bytes(pickle.dumps(found))


class ForeignBench(Bench):
    """Goes on with what another Spark has saved."""

    def __init__(self, spark: Any, root: Path, direction: str) -> None:
        super().__init__(spark, root)
        # Written by the test itself.
        self._found = pickle.loads((root / "saved.pickle").read_bytes())
        known = cases(direction).items()
        self._names = {(pair.name, tuple(pair.conf.items())): name for name, pair in known}
        self._number = 1000

    def saved(self, pair: Pair) -> Saved:
        """What the other Spark saved, as this one needs it."""
        root, savepoint, rows = self._found[self._names[pair.name, tuple(pair.conf.items())]]
        offers = fit_offers(open_path(savepoint), self.spark.version)
        return Saved(Path(root), offers, offers, rows)


def evolve(spark: Any, root: Path, direction: str) -> dict[str, list[Any]]:
    """Return what the new programs made of the state, and what they should have, by case."""
    bench = ForeignBench(spark, root, direction)
    found: dict[str, list[Any]] = {}
    for name, pair in cases(direction).items():
        partitions = PLACES[name.rpartition(", ")[2]]
        chosen = replace(
            pair,
            options=RestoreOptions(accept_partial=(pair.operator,)),
            settings=PlanningSettings(partitions, executors=FOR_THE_ENGINE),
        )
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
        step, up_or_down, directory = sys.argv[1:]
        if step == "save":
            save(spark_session, Path(directory), up_or_down)
        else:
            results = evolve(spark_session, Path(directory), up_or_down)
            Path(directory, "results.json").write_text(json.dumps(results))
