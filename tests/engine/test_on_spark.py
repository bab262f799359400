"""Live queries go on with what flinkish saved, rewrote and evolved: few cases, all in one JVM.

Every case of each program runs in the deep tier: ``checkpoint/test_roundtrip``, ``test_resuming``
and ``test_evolving`` beside this, which also say what must hold.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine import test_evolving, test_resuming
from tests.support.engine import evolution_oracle, resuming_program
from tests.support.engine.case_programs import run_programs

#: Rescaled and moved to the other backend.
REWRITTEN = ("hdfs-agg@rocksdb",)
#: Most types, and the other backend.
EVOLVED = ("hdfs-agg",)
Results = dict[str, dict[str, Any]]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What came of all cases, by program."""
    chosen = {
        resuming_program.__name__: REWRITTEN,
        evolution_oracle.__name__: EVOLVED,
    }
    return run_programs(chosen, tmp_path_factory.mktemp("programs"), timeout=850)


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_query_goes_on_with_rewritten_state(results: Results, name: str) -> None:
    test_resuming.check(results[resuming_program.__name__], name)


@pytest.mark.parametrize("name", EVOLVED)
def test_evolved_state_is_that_of_sql(results: Results, name: str) -> None:
    test_evolving.check(results[evolution_oracle.__name__][name], name)
