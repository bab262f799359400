"""Signatures of sources, which tell what they read: texts, without Spark."""

from __future__ import annotations

import pytest

from flinkish.connectors.sources import normal_path
from flinkish.driver.plan.plan_sources import _table_name, signature


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("/in/*.json", "/in/*.json"),
        ("file:///in/a/", "/in/a"),
        ("file:/in//a/./b/.", "/in/a/b"),
        ("FILE:/", "/"),
        ("in/./a//", "in/a"),
        ("S3A://bucket//in/", "s3a://bucket/in"),
        ("s3a://KEY:se/cret@bucket/in", "s3a://bucket/in"),
        ("s3a://KEY:/cret@bucket/in", "s3a://bucket/in"),
        ("s3a://KEY:8/cret@bucket/in/x@y", "s3a://bucket/in/x@y"),
        ("s3a://bucket/in:8/x@y", "s3a://bucket/in:8/x@y"),
        ("abfss://container@account.net/in", "abfss://container@account.net/in"),
        ("abfss://container@account.net:443/x@y", "abfss://container@account.net:443/x@y"),
        ("hdfs://host:8020/in/x@y", "hdfs://host:8020/in/x@y"),
        ("hdfs://user:123@host/in", "hdfs://host/in"),
        ("hdfs://user:p@ss@host/in", "hdfs://host/in"),
        ("hdfs://user@corp:pass@host:8020/in", "hdfs://host:8020/in"),
        ("/in/{a,b}/[0-9]:x", "/in/{a,b}/[0-9]:x"),
    ],
)
def test_one_location_has_one_form(given: str, normal: str) -> None:
    assert normal_path(given) == normal
    assert normal_path(normal) == normal


def test_only_what_is_read_is_in_a_signature() -> None:
    options = {
        "SUBSCRIBE": " clicks,  buys",
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.sasl.jaas.config": 'password="hunter2"',
        "maxOffsetsPerTrigger": "5",
    }
    assert signature("kafka", options) == "kafka[subscribe=buys,clicks]"
    assert signature("kafka", {**options, "subscribe": "buys,clicks"}) == signature(
        "kafka", {"subscribe": "buys, clicks"}
    )
    first, second = ('{"b": [0,  1], "a":[2]}', '{"a":[2],"b":[0,1]}')
    assert signature("kafka", {"assign": first}) == signature("kafka", {"assign": second})
    assert signature("kafka", {"assign": "no json"}) == "kafka[assign=no json]"
    assert signature("delta", {"path": "file:/in/"}) == "delta[/in]"
    assert signature("table", {"host": "h"}, table="cat.db.t") == "table[cat.db.t, host=h]"
    assert signature("memory", {}) == "memory[]"


def test_what_all_tables_of_a_format_are_called_is_no_name() -> None:
    assert _table_name("kafka", "KafkaTable") is None
    assert _table_name("rate", "RateStream(rowsPerSecond=1)") is None
    assert _table_name("delta", "delta") is None
    assert _table_name("iceberg", "cat.db.t") == "cat.db.t"
