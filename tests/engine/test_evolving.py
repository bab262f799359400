"""State that the engine evolves is what Spark makes of the old state in SQL."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.engine.case_programs import run_program
from tests.support.engine.evolution_oracle import CASES
from tests.support.engine.evolutions import RULES

#: One row in one partition: no column of a key.
WITHOUT_KEY = {
    f"{backend}-{query}" for backend in ("hdfs", "rocksdb") for query in ("limit", "keyless")
}
pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(3000)]


def check(found: dict[str, Any], name: str) -> None:
    """Each rewrite of a case: the rows and their schema are those of SQL."""
    assert "error" not in found, found["error"]
    assert set(found) == {"refused", *RULES}
    for rule in RULES:
        parts = found[rule]
        assert len(parts) == len(CASES[name].parts)
        for part in parts:
            assert part["expected"], "a state without rows proves nothing"
            assert part["found"] == part["expected"], rule
            assert part["schema"] == part["wanted"], rule
            assert part["types"] == part["sql"] != part["before"], rule
    for key, reason in found["refused"].items():
        _, column, what = key.split(" ")
        if what == "dropped":
            assert f"userKey.{column}: it is removed from a key" in reason, key
        else:
            # Of a struct the column in it that partitions is named.
            assert re.search(rf"the column '{column}(\.key)?' of the key of 0 \(", reason), key
            assert "Spark finds and partitions the state by it" in reason, key
    assert found["refused"] or name in WITHOUT_KEY


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_program("evolution_oracle", tmp_path_factory.mktemp("every"))


@pytest.mark.parametrize("name", CASES)
def test_every_evolved_state_is_that_of_sql(every: dict[str, Any], name: str) -> None:
    check(every[name], name)
