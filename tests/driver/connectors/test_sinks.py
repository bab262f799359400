"""Where a query writes to: what the catalog of a real session has of a table."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from flinkish.connectors.table_commits import RollbackTarget, TableCommit, TableReading
from flinkish.driver.connectors import sinks
from flinkish.driver.connectors.sinks import facts_at, open_table, resolve
from flinkish.driver.connectors.table import SinkPlace
from flinkish.driver.restore.restorer import roll_back_sink
from flinkish.errors import TableError
from flinkish.restore.origin.restore_inputs import NewQuery, NewSink
from flinkish.restore.plan.query_restore import QueryRestore
from flinkish.restore.plan.sinks import Continuation, SinkStatus, judge_sink


def test_a_path_and_a_path_as_the_name_of_a_delta_table() -> None:
    assert resolve(SinkPlace("orc", "/out"), None) == SinkPlace("orc", "/out")
    named = SinkPlace(None, None, "delta.`/data/t`")
    assert resolve(named, None) == SinkPlace("delta", "/data/t", named.table)


def test_other_formats_keep_no_versions() -> None:
    assert open_table(SinkPlace(None, "/out"), None) is None
    assert open_table(SinkPlace("delta"), None) is None
    assert facts_at(SinkPlace("parquet", "/out"), None, "q", 3) == ({}, "")


class _Table:
    """A table of query q, at batch 7, whose oldest commit that is still there is of batch 5."""

    def exists(self) -> bool:
        return True

    def read(self, query_id: str) -> TableReading:
        return TableReading("t", 42, 7, skips_after_rollback=False, computes_skipped=False)

    def history(self, version: int | None = None, *, back_to: int | None = None) -> Any:
        return [TableCommit(35 + batch, "append", "q", batch) for batch in (5, 6, 7)]

    def roll_back(self, version: int) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("others", [False, True])
def test_a_rollback_undoes_nothing_that_was_written_since_it_was_planned(
    monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    """The program may have started other queries meanwhile, or state was rewritten."""
    back: list[int] = []

    class Written(_Table):
        def history(self, version: int | None = None, *, back_to: int | None = None) -> Any:
            inserted = [TableCommit(43, "WRITE")] if others else []
            return [*super().history(version, back_to=back_to), *inserted]

        def roll_back(self, version: int) -> None:
            back.append(version)

    monkeypatch.setitem(sinks._OPEN, "delta", lambda place, session: Written())
    status = SinkStatus(
        *("delta", "/out", 7), by_query_id=True, rollback=RollbackTarget(41), version=42
    )
    plan = judge_sink(status, Continuation(6, True, stateful=False), "rollback")
    query = NewQuery("q", sink=NewSink("delta", "/out"))
    if not others:
        roll_back_sink(query, QueryRestore("q", sink=plan))
        assert back == [41]
        return
    with pytest.raises(TableError, match=r"not rolled back to version 41: .* version 43 \(WRITE\)"):
        roll_back_sink(query, QueryRestore("q", sink=plan))
    assert back == []


def test_the_version_at_a_batch_or_why_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sinks._OPEN, "delta", lambda place, session: _Table())
    place = SinkPlace("delta", "/out")
    assert facts_at(place, None, "q", 7) == ({"table_id": "t", "table_version": 42}, "")
    assert facts_at(place, None, "q", 6) == ({"table_id": "t", "table_version": 41}, "")
    lost = "its history no longer reaches back to batch 3"
    assert facts_at(place, None, "q", 3) == ({}, lost)


@pytest.fixture
def table(spark: Any) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex}"
    spark.sql(f"CREATE TABLE {name} (a INT) USING json")
    yield name
    spark.sql(f"DROP TABLE {name}")


@pytest.mark.spark
def test_a_table_has_the_format_and_the_location_of_its_catalog(spark: Any, table: str) -> None:
    place = resolve(SinkPlace(None, None, table), spark)
    assert place.format == "json"
    assert place.path is not None
    assert place.path.endswith("/" + table)
    facts, problem = facts_at(SinkPlace(None, None, table), spark, "q", 3)
    assert (facts, problem) == ({"path": place.path, "provider": "json"}, "")


@pytest.mark.spark
def test_a_table_that_is_not_there_yet_is_what_the_program_says(spark: Any) -> None:
    place = SinkPlace("csv", None, "not_there_yet")
    assert resolve(place, spark) == place


@pytest.mark.spark
def test_a_name_that_no_catalog_takes_is_an_error(spark: Any) -> None:
    with pytest.raises(TableError, match=r"the table not\.a\.catalog\.t: "):
        resolve(SinkPlace(None, None, "not.a.catalog.t"), spark)


@pytest.mark.spark
def test_a_session_without_the_classes_of_delta_says_so(spark: Any) -> None:
    table = open_table(SinkPlace("delta", "/out"), spark)
    assert table is not None
    with pytest.raises(TableError, match="no classes of Delta Lake") as caught:
        table.exists()
    assert "--packages" in caught.value.hint
    facts, problem = facts_at(SinkPlace("delta", "/out"), spark, "q", 3)
    assert (facts, problem) == ({}, caught.value.message)
