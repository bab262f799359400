"""What the measurement of connectors makes of results, and one pair of the table once more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinkish.compat.connectors import load, parse
from flinkish.compat.model import CompatVerdict
from tests.support import venvs
from tests.support.servers.jars import Unavailable
from tools.compatmatrix.connectors.artifacts import (
    ARTIFACTS,
    DELTA,
    Environment,
    environments,
    usual,
)
from tools.compatmatrix.connectors.measure import ConnectorMeasurement, verdict
from tools.compatmatrix.connectors.rows import half, wrong_rows
from tools.compatmatrix.connectors.table import cells, write_table
from tools.compatmatrix.measure import BadMeasurement


def test_rows_are_counted() -> None:
    assert wrong_rows(half(0), half(0)) is None
    assert wrong_rows(half(0)[1:], half(0)) == "wrong result: 19 rows for 20, 1 lost"
    assert wrong_rows([*half(0), 3], half(0)) == "wrong result: 21 rows for 20, 1 too many"


def test_a_jar_is_tried_where_its_scala_is() -> None:
    found = [one.id for one in environments(["3.5.9", "4.0.5", "4.1.4"], DELTA)]
    assert found == [
        "delta-spark_2.12-3.3.2-on-3.5.9",
        "delta-spark_2.13-4.0.1-on-4.0.5",
        "delta-spark_2.13-4.0.1-on-4.1.4",
        "delta-spark_4.1_2.13-4.1.0-on-4.0.5",
        "delta-spark_4.1_2.13-4.1.0-on-4.1.4",
    ]


def test_the_usual_one_is_what_was_built_for_that_spark() -> None:
    old, new = [one for one in ARTIFACTS if one.connector == DELTA][1:]
    every = [Environment(one, spark) for one in (old, new) for spark in ("4.0.5", "4.2.1")]
    assert usual(every) == [Environment(old, "4.0.5"), Environment(new, "4.2.1")]


def put(path: Path, **result: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))


def test_results_become_cells(tmp_path: Path) -> None:
    measurement = ConnectorMeasurement(DELTA, ["3.5.9", "4.0.5"], tmp_path, print)
    before, now, later = measurement.environments
    for one in (before, now):
        for begun in measurement.begun(one):
            put(begun.result(), errors=[], rows=half(0), batches=2)
            for target in (before, now):
                put(begun.result(target), errors=[], rows=half(0) + half(1), batches=4)
    source, sink = measurement.begun(later)
    missing = "x.Wrapped: no\nCaused by: java.lang.NoSuchMethodError: 'void a.B.c()'"
    put(source.result(), errors=[missing])
    put(sink.result(), errors=[], rows=half(0), batches=2)
    put(sink.result(later), errors=[], rows=half(0), batches=4)
    write_table(tmp_path / "table.json", cells(measurement))
    found = parse((tmp_path / "table.json").read_text(), "table.json").cells
    assert len(found) == 8 + 2
    bad = [one for one in found if one.verdict is not CompatVerdict.OK]
    assert [(one.role, one.limitation) for one in bad] == [
        ("source", "NoSuchMethodError: 'void a.B.c()'"),
        ("sink", "wrong result: 20 rows for 40, 20 lost"),
    ]
    put(sink.result(), errors=[], rows=half(0), batches=1)
    with pytest.raises(BadMeasurement, match="1 batches, not 2"):
        verdict(sink)


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_a_pair_of_the_table_measured_again(tmp_path: Path) -> None:
    """Delta on Spark 3.5, to itself: as the shipped table has it."""
    measurement = ConnectorMeasurement(DELTA, ["3.5.9"], tmp_path, print)
    try:
        measurement.run(again=True)
    except (venvs.Unavailable, Unavailable) as error:
        pytest.skip(f"needs {error}")
    known = {
        (one.role, one.created.artifact): one.verdict.value
        for one in load().of(DELTA).alone()
        if one.created.spark == "3.5.9"
    }
    found = cells(measurement)
    assert {(one["role"], one["from"]["artifact"]): one["verdict"] for one in found} == known
