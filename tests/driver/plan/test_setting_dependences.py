"""The settings that expressions depend on, as Spark's plans show them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.driver.plan.analyzed_settings import (
    ALL,
    ansi_mode,
    may_fail,
    moments_in,
    names_zone,
    needs_zone,
)
from flinkish.driver.plan.plan_extraction import extract_plan
from flinkish.driver.plan.setting_dependences import DependenceReader
from flinkish.operators.state_semantics import (
    ANSI,
    CASE_SENSITIVE,
    IGNORE_NULL_FIELDS,
    PRECISION_LOSS,
    TIME_PARSER,
    TIME_ZONE,
    TIMESTAMP_TYPE,
    Dependence,
)

SCHEMA = "id string, s string, ts timestamp, ntz timestamp_ntz, d date, cents long, n int"


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("yyyy-MM-dd HH:mm:ss", False),
        ("yyyy-MM-dd'T'HH:mm:ss'Z'", False),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", True),
        ("HH:mm VV", True),
    ],
)
def test_patterns_that_name_a_zone(pattern: str, named: bool) -> None:
    assert names_zone(pattern) is named


@pytest.mark.parametrize(
    ("type_", "found"),
    [
        ("struct<date:string,n:int,timestamp:array<bigint>>", set()),
        ("struct<a:date,b:map<string,timestamp>>", {"date", "timestamp"}),
        ("timestamp_ntz", set()),
        ("array<timestamp>", {"timestamp"}),
    ],
)
def test_moments_in_a_type(type_: str, found: set[str]) -> None:
    assert moments_in(type_) == found


def test_casts_that_may_fail() -> None:
    """As Spark 4.3.0 returns null for them, or an error."""
    risky = [
        ("string", "int"),
        ("string", "time(6)"),
        ("string collate UTF8_LCASE", "int"),
        ("bigint", "int"),
        ("double", "bigint"),
        ("double", "timestamp"),
        ("int", "decimal(3,0)"),
        ("timestamp", "decimal(3,0)"),
        ("array<string>", "array<int>"),
        ("map<string,decimal(3,1)>", "map<string,decimal(2,1)>"),
        ("struct<a:int,b:array<string>>", "struct<c:int,b:array<date>>"),
    ]
    safe = [
        ("int", "bigint"),
        ("string", "interval"),
        ("string", "string collate UTF8_LCASE"),
        ("int", "string"),
        ("timestamp", "date"),
        ("timestamp", "bigint"),
        ("array<int>", "array<bigint>"),
        ("struct<string:int,b:decimal(3,1)>", "struct<int:string,b:decimal(3,1)>"),
        ("map<string,int>", "string"),
    ]
    assert all(may_fail(*pair) for pair in risky)
    assert not any(may_fail(*pair) for pair in safe)


@pytest.mark.parametrize(
    ("type_", "divisor", "mode"),
    [
        ("decimal(38,6)", "0.5", "true"),
        ("decimal(21,6)", "0.5", None),
        ("decimal(21,6)", "0.0", "true"),
        ("double", "0.5", None),
    ],
)
def test_a_quotient_of_most_digits_may_overflow(type_: str, divisor: str, mode: str | None) -> None:
    constant = SimpleNamespace(foldable=lambda: True, eval=lambda _: divisor)
    division = SimpleNamespace(
        children=lambda: SimpleNamespace(apply={1: constant}.get),
        dataType=lambda: SimpleNamespace(simpleString=lambda: type_),
        evalMode=lambda: SimpleNamespace(toString=lambda: "ANSI"),
    )
    assert ansi_mode("Divide", division) == mode


@pytest.mark.parametrize(
    ("interval", "needed"),
    [
        (SimpleNamespace(foldable=lambda: True, eval=lambda _: 3_600_000_000), None),
        (SimpleNamespace(foldable=lambda: True, eval=lambda _: 86_400_000_000), True),
        (SimpleNamespace(foldable=lambda: True, eval=lambda _: None), None),
        (SimpleNamespace(foldable=lambda: False), False),  # a column: it may have days
    ],
)
@pytest.mark.parametrize("name", ["TimeAdd", "TimestampAddInterval"])
def test_an_interval_that_may_have_days_may_need_the_zone(
    name: str, interval: Any, needed: bool | None
) -> None:
    sum_ = SimpleNamespace(children=lambda: SimpleNamespace(apply={1: interval}.get))
    assert needs_zone(name, sum_, None, times=ALL) is needed


@pytest.fixture(scope="module")
def frame(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = str(tmp_path_factory.mktemp("in"))
    return spark.readStream.schema(SCHEMA).parquet(directory)


def depends(df: Any, mode: str = "update") -> list[Dependence]:
    """Return what the state of the program's only operator depends on, but for names."""
    (operator,) = extract_plan(df, mode, "q").operators
    listed = operator.node.meaning.settings
    return [each for each in listed if each.setting in (ANSI, TIME_PARSER, TIME_ZONE)]


@pytest.mark.spark
def test_a_zone_is_followed_from_the_key_to_its_expression(spark: Any, frame: Any) -> None:
    from pyspark.sql import functions as F

    below = frame.withColumn("h", F.date_format("ts", "HH")).filter("n > 1").select("h", "n")
    zone, parser = depends(below.groupBy("h").count())
    assert zone == Dependence(TIME_ZONE, "UTC", "key `h`", "date_format(ts, 'HH')")
    assert parser.setting == TIME_PARSER
    # The zone is that of the moment when the program made the frame.
    spark.conf.set(TIME_ZONE, "Asia/Tokyo")
    try:
        later = frame.dropDuplicates(["id"]).select("id")
        in_tokyo = frame.withColumn("day", F.to_date("ts")).dropDuplicates(["day"])
    finally:
        spark.conf.set(TIME_ZONE, "UTC")
    assert depends(later, "append") == []
    (day,) = depends(in_tokyo, "append")
    assert (day.value, day.part) == ("Asia/Tokyo", "key `day`")


@pytest.mark.spark
def test_the_event_time_and_aggregates_count_too(spark: Any, frame: Any) -> None:
    from pyspark.sql import functions as F

    timed = frame.withColumn("t", F.to_timestamp("s")).withWatermark("t", "1 hour")
    zones = {(x.setting, x.part) for x in depends(timed.dropDuplicates(["id"]), "append")}
    assert zones == {(TIME_ZONE, "event time `t`"), (ANSI, "event time `t`")}
    late = F.sum(F.when(F.hour("ts") > 9, F.col("cents")))
    (zone,) = depends(frame.groupBy("id").agg(late))
    assert (zone.expression, zone.certain) == ("hour(ts)", True)
    (ansi,) = depends(frame.groupBy("id").agg(F.max(F.col("s").cast("int"))))
    assert (ansi.setting, ansi.certain) == (ANSI, False)
    (key,) = depends(frame.groupBy(F.col("cents").cast("int")).count())
    assert (key.setting, key.certain) == (ANSI, True)
    # Spark's own name for this expression is not that of its class.
    made = F.make_timestamp(F.lit(2020), F.lit(1), F.col("n"), F.lit(0), F.lit(0), F.lit(0))
    found = depends(frame.groupBy(made.alias("made")).count())
    assert {each.setting for each in found} == {ANSI, TIME_ZONE}


@pytest.mark.spark
def test_what_counts_from_the_epoch_or_names_its_zone_depends_on_nothing(
    spark: Any, frame: Any
) -> None:
    from pyspark.sql import functions as F

    keys = [
        F.window("ts", "1 hour", "10 minutes"),
        F.from_utc_timestamp("ts", "Asia/Tokyo"),
        F.date_format("d", "yyyy-MM"),  # of a date: the zone has no effect
        F.hour("ntz"),
        F.to_timestamp("s", "yyyy-MM-dd HH:mmX").alias("t"),
    ]
    found = depends(frame.groupBy(*keys).count())
    assert [each for each in found if each.setting == TIME_ZONE] == []
    # A field of text in JSON depends on the zone of the times beside it as little.
    parsed = frame.select(F.from_json("s", "t timestamp, user string").alias("j")).select("j.*")
    assert depends(parsed.groupBy("user").count()) == []
    texts = depends(parsed.groupBy(F.window("t", "1 hour")).count())
    assert {(x.setting, x.certain) for x in texts} == {(TIME_ZONE, False), (TIME_PARSER, False)}


@pytest.mark.spark
def test_settings_that_expressions_look_up(spark: Any, frame: Any) -> None:
    """Also where the optimizer has put a call in the place of the expression."""
    from pyspark.sql import functions as F

    def settings(key: Any) -> dict[str, tuple[str, bool]]:
        (operator,) = extract_plan(frame.groupBy(key).count(), "update", "q").operators
        listed = operator.node.meaning.settings
        return {x.setting: (x.value, x.certain) for x in listed if x.setting != CASE_SENSITIVE}

    session = spark.conf.get
    wide = F.col("cents").cast("decimal(38,18)")
    fitting = F.col("cents").cast("decimal(10,2)")
    json = settings(F.to_json(F.struct("id", "ts")))
    assert json[IGNORE_NULL_FIELDS] == ("true", True)
    assert json[TIME_ZONE] == ("UTC", True)
    assert settings(F.to_json(F.struct("id")))[IGNORE_NULL_FIELDS] == ("true", True)
    csv = settings(F.to_csv(F.struct("ts", F.col("s").cast("binary")), {"timeZone": "UTC"}))
    assert csv["spark.sql.binaryOutputStyle"] == ("HEX_DISCRETE", True)
    assert csv[TIME_PARSER] == (session(TIME_PARSER), False)
    assert TIME_ZONE not in csv
    if hasattr(F, "to_xml"):  # Spark 4
        xml = settings(F.to_xml(F.struct("ts"))), settings(F.from_xml("s", "x timestamp")["x"])
        assert [each[TIME_PARSER] for each in xml] == [(session(TIME_PARSER), False)] * 2
        assert [each[TIME_ZONE] for each in xml] == [("UTC", True), ("UTC", False)]
    cut = "spark.sql.legacy.truncateForEmptyRegexSplit"
    cuts = "false" if hasattr(F, "to_xml") else "true"
    assert settings(F.split("s", "", 2)) == {cut: (cuts, True)}
    assert settings(F.split("s", "")) == settings(F.split("s", ",", 2)) == {}
    assert settings((wide * wide).cast("string"))[PRECISION_LOSS] == ("true", True)
    assert PRECISION_LOSS not in settings((fitting * fitting).cast("string"))
    assert settings(F.hour(F.to_timestamp("s")))[TIMESTAMP_TYPE] == ("TIMESTAMP_LTZ", False)
    parsed = F.from_json("s", "d date, user string", {"dateFormat": "yyyy/MM/dd"})
    assert settings(parsed["d"])[TIME_PARSER] == (session(TIME_PARSER), True)
    assert TIME_PARSER not in settings(parsed["user"])
    exists = F.exists(F.split("s", ","), lambda each: each > "a")
    three_valued = "spark.sql.legacy.followThreeValuedLogicInArrayExists"
    assert settings(exists)[three_valued] == ("true", True)
    chunked = "spark.sql.chunkBase64String.enabled"
    assert settings(F.base64(F.col("s").cast("binary")))[chunked] == ("true", True)
    assert settings(F.col("n") + 1).keys() == {ANSI}


@pytest.mark.spark
def test_what_cannot_be_read_may_depend_on_any_setting(spark: Any) -> None:
    values = {TIME_ZONE: "UTC", ANSI: "TRUE"}
    reader = DependenceReader(spark._jvm, {}, {}, values.get, str)
    unknown = spark._jvm.java.lang.Object()
    assert list(reader.of("key `k`", unknown, finds=True)) == [
        Dependence(TIME_ZONE, "UTC", "key `k`"),
        Dependence(ANSI, "true", "key `k`"),
    ]
