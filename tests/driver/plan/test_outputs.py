"""The place that a query writes to is one for all who write there, whatever they call it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.driver.plan.planned_queries import new_sink
from flinkish.driver.plan.writer_settings import Output, WriterFacts, output_of
from flinkish.restore.origin.restore_inputs import NewSink


def place(spark: Any, table: str, format_name: str | None = None) -> Output | None:
    return output_of(new_sink(WriterFacts(format=format_name, table=table), spark), spark)


@pytest.mark.spark
def test_a_table_has_its_place_before_it_is_made(spark: Any) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS places")
    try:
        for name, other in (
            ("made", "spark_catalog.default.Made"),
            ("places.made", "`places`.made"),
        ):
            before = place(spark, name)
            assert before is not None
            assert not before.is_table
            assert place(spark, other) == before
            spark.sql(f"CREATE TABLE {name} (value BIGINT) USING parquet")
            assert place(spark, name) == before, "and Spark has made it there"
        assert place(spark, "elsewhere.made") is None, "no such database"
        assert place(spark, "a.b.made") is None, "another catalog"
        assert place(spark, "made2", "rate") is None, "no files"
    finally:
        spark.sql("DROP TABLE IF EXISTS made")
        spark.sql("DROP DATABASE places CASCADE")


def test_a_directory_has_one_place_in_every_spelling() -> None:
    one, other = (
        output_of(NewSink("json", f"hdfs://{host}/out"), None) for host in ("nn:8020", "NN")
    )
    assert one is not None
    assert one == other
    assert one.location == "hdfs://nn:8020/out", "hdfs-native needs the port"


@pytest.mark.parametrize("directory", ["/", "/tmp"])
@pytest.mark.parametrize(
    ("table", "full"),
    [
        ("ice.db.T", "ice.db.t"),
        ("ice.`t`", "ice.t"),
        ("spark_catalog.db.t", "spark_catalog.db.t"),
        ("a.b", "now.a.b"),
        ("t", "now.here.t"),
    ],
)
def test_a_table_of_several_writers_goes_by_its_name(
    monkeypatch: pytest.MonkeyPatch, directory: str, table: str, full: str
) -> None:
    """In whatever working directory."""
    monkeypatch.chdir(directory)
    settings = {"spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog"}
    catalog = SimpleNamespace(
        currentCatalog=lambda: "now",
        currentDatabase=lambda: "here",
        getDatabase=lambda name: SimpleNamespace(locationUri=f"/warehouse/{name}"),
    )
    session = SimpleNamespace(conf=settings, catalog=catalog)
    assert output_of(NewSink("iceberg", "/any", table), session) == Output(full, True, table)
    plain = output_of(NewSink("iceberg", None, table), None)
    assert plain == Output(table.replace("`", "").lower(), True, table)
    to_be = output_of(NewSink("delta", None, table), session)
    in_spark = "/warehouse/db/t" if full.startswith("spark_catalog") else None
    assert to_be == Output(in_spark or full, True, in_spark or table)
