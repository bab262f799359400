"""Which table a source reads, and how its saved position is asked for."""

from __future__ import annotations

import threading
import time

import pytest

from flinkish.connectors.kafka.connector import KafkaAnswer
from flinkish.connectors.sources import NewSource, SavedSource
from flinkish.driver.connectors.iceberg import table_of
from flinkish.driver.connectors.question import SourceQuestion, within
from flinkish.driver.connectors.sources import ask
from flinkish.restore.origin.restore_inputs import SavedQueryFacts
from flinkish.restore.origin.restore_origin import RestorableQuery
from flinkish.restore.recipe import OriginCheckpoint
from tests.support.restore.query_builders import reads, source


@pytest.mark.parametrize(
    ("signature", "table"),
    [
        ("table[ice.db.t]", "ice.db.t"),
        ("iceberg[ice.db.t, ice.db.t]", "ice.db.t"),
        ("iceberg[s3a://bucket/t]", "s3a://bucket/t"),
        ("iceberg[]", None),
        ("iceberg", None),
        ("kafka[subscribe=a]", None),
    ],
)
def test_the_table_of_a_source(signature: str, table: str | None) -> None:
    assert table_of(signature) == table


def question(read: NewSource, saved: SavedSource) -> SourceQuestion:
    origin = OriginCheckpoint("/c", (), 0)
    offer = RestorableQuery(SavedQueryFacts("q", 0), origin, "id")
    return SourceQuestion(None, read, saved, offer, lambda: None)


def test_a_position_of_another_kind_asks_nobody() -> None:
    saved = source("rate[]", offset='{"logOffset":3}')
    assert ask(question(reads("rate[]"), saved)) is None
    assert ask(question(reads("iceberg[t]"), saved)) is None


def test_a_table_without_a_name_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    offset = '{"version":1,"snapshot_id":7,"position":1,"scan_all_files":false}'
    asked = question(reads("iceberg[]"), source("iceberg[]", offset=offset))
    assert ask(asked) is None
    assert "the name of its table is not known" in "".join(capsys.readouterr())


def test_a_broker_is_asked_unless_that_is_switched_off() -> None:
    program = reads("kafka[subscribe=a]", uid="in")
    saved = source("kafka[subscribe=a]", offset='{"a":{"0":5}}')

    def why(saved: SavedSource, *, offline: bool = False) -> str:
        answer = ask(question(program, saved), offline=offline)
        assert isinstance(answer, KafkaAnswer)
        assert answer.broker.topics is None
        return answer.broker.why

    assert why(saved, offline=True) == "--offline"
    assert "bootstrap servers" in why(saved)
    assert "not one of Kafka" in why(source("file[/a]"))


def test_a_call_that_hangs_is_left_in_time() -> None:
    """As a client that resolves the name of a broker, or logs in, without a limit of its own."""
    answered, dropped = threading.Event(), threading.Event()
    late: list[str] = []

    def drop(result: str) -> None:
        late.append(result)
        dropped.set()

    def hang() -> str:
        answered.wait(60)
        return "late"

    started = time.monotonic()
    with pytest.raises(TimeoutError):
        within(0.05, hang, drop)
    assert time.monotonic() - started < 30
    answered.set()
    assert dropped.wait(60)
    assert late == ["late"]
    assert within(60, lambda: "in time", drop) == "in time"
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: str(1 // 0), drop)
    assert late == ["late"]
