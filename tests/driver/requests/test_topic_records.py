"""What a savepoint records of what sources read; brokers are in driver/connectors/test_kafka."""

from __future__ import annotations

from flinkish.driver.plan.plan_extraction import PlannedQuery, PlannedSource
from flinkish.driver.requests.job_savepoint import with_topics
from flinkish.operators.graph import OperatorGraph
from flinkish.operators.hasher import HasherVersion
from flinkish.operators.identity import UNKNOWN


def planned(signature: str) -> PlannedQuery:
    source = PlannedSource(0, "0", 0, UNKNOWN, signature, (), {})
    return PlannedQuery("q", OperatorGraph(()), {}, (), HasherVersion.V3, sources=(source,))


def test_what_has_no_topics_stays_as_it_is() -> None:
    records = [{"signature": "file[/in]"}]
    assert with_topics(records, planned("file[/in]"), None) == records
    assert with_topics([{"description": "x"}], None, None) == [{"description": "x"}]


def test_a_broker_that_is_not_known_is_left_out() -> None:
    records = [{"signature": "kafka[subscribe=a]"}]
    assert with_topics(records, planned("kafka[subscribe=a]"), None) == records
