"""Live queries go on with what flinkish rewrote and evolved: few cases, in the warm session.

Every case of each program runs in the deep tier: ``engine/test_resuming`` and
``engine/test_evolving``, which also say what must hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine import test_evolving, test_resuming
from tests.support.checkpoints.streaming_queries import SESSION
from tests.support.engine import evolution_oracle, resuming_program
from tests.support.engine.case_programs import results_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_a_query_goes_on_with_rewritten_state(spark: Any, tmp_path: Path) -> None:
    """Rescaled and moved to the other backend."""
    name = "hdfs-agg@rocksdb"
    test_resuming.check(_results(resuming_program, name, spark, tmp_path), name)


def test_evolved_state_is_that_of_sql(spark: Any, tmp_path: Path) -> None:
    """Most types, and the other backend."""
    if spark.version < "4":
        pytest.skip("Spark's reader of state came with 4.0")
    name = "hdfs-agg"
    test_evolving.check(_results(evolution_oracle, name, spark, tmp_path)[name], name)


def _results(program: Any, name: str, spark: Any, directory: Path) -> dict[str, Any]:
    """Run a case of a program in a session with settings of its own."""
    session = spark.newSession()
    for key, value in SESSION.items():
        session.conf.set(key, value)
    program.main(str(directory), [name], session)
    return results_of(directory)
