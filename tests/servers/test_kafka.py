"""The broker of the tests holds what a client writes."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import TopicPartition

from tests.support.servers.kafka import KafkaServer

pytestmark = pytest.mark.servers


def test_a_topic_of_two_partitions(kafka: KafkaServer) -> None:
    kafka.make_topic("round", 2)
    kafka.write("round", 0, [(1_000, b"a"), (2_000, b"b"), (3_000, b"c")])
    kafka.write("round", 1, [(1_000, b"d")])
    first, second = TopicPartition("round", 0), TopicPartition("round", 1)
    with kafka.admin() as admin:
        ends = admin.list_partition_offsets({first: OffsetSpec.LATEST, second: OffsetSpec.LATEST})
        assert {tp.partition: found.offset for tp, found in ends.items()} == {0: 3, 1: 1}
        at = admin.list_partition_offsets({first: 1_500})
        assert at[first].offset == 1
    kafka.forget_rows("round", 0, before=2)
    kafka.grow_topic("round", 3)
    with kafka.admin() as admin:
        starts = admin.list_partition_offsets({first: OffsetSpec.EARLIEST})
        assert starts[first].offset == 2
        (topic,) = admin.describe_topics(["round"])
        assert len(topic["partitions"]) == 3
    kafka.drop_topic("round")
    with kafka.admin() as admin:
        assert "round" not in admin.list_topics()
