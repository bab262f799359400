"""The steps of an upgrade, their undo, and when a program is well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.errors import WrongState
from flinkish.messages.codec import decode, encode
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import Check, QueryRow, RestoreOutcome, RestorePlan, SinkRow
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import LeftOut, RequestResult
from flinkish.messages.restore_options import RestoreOptions
from flinkish.messages.upgrades import Health, Upgrade, UpgradeKind, UpgradeState
from flinkish.upgrade.steps import (
    after,
    after_failure,
    behind,
    brought_back,
    describe,
    first,
    lacking,
    lacks_queries,
    resources,
    undo,
    until_healthy,
    warned_of,
)

S = UpgradeState
K = UpgradeKind
UPGRADE = Upgrade(
    upgrade_id="a" * 32,
    job_id="b" * 32,
    name="rides",
    state=S.WATCHING,
    created=1.5,
    launch=Launch("/app.py", conf={"spark.x": "1"}),
    restore=RestoreSpec("/sp", RestoreOptions(uid_map=(("a", "b"),))),
    target="/srv",
    timeout=60.0,
    committed={"q": (3, 4)},
)
Q = QueryStatus("q", "id", "run", "/cp", batch_id=9)


@pytest.mark.parametrize("kind", list(K))
def test_every_step_leads_to_an_end(kind: K) -> None:
    seen = [first(kind)]
    while not seen[-1].is_final:
        failed = after_failure(kind, seen[-1])
        assert failed in (S.ENDING, S.ABANDONED, S.SHADOWING)
        assert (failed is S.ABANDONED) == (seen[-1] in (S.STOPPING, S.SAVING) and len(seen) == 1)
        seen.append(after(kind, seen[-1]))
    assert seen[-1] is S.UPGRADED
    back = [S.ENDING]
    while not back[-1].is_final:
        assert after_failure(kind, back[-1]) is None, "rollback tries it again"
        back.append(after(kind, back[-1]))
    assert back[-1] is (S.ABANDONED if kind is K.SHADOW else S.ROLLED_BACK)


@pytest.mark.parametrize(
    ("state", "back"),
    [
        (S.PREPARING, S.ENDING),
        (S.STOPPING, S.STOPPING),
        (S.STARTING, S.ENDING),
        (S.WATCHING, S.ENDING),
        (S.ENDING, S.ENDING),
        (S.RETURNING, S.RETURNING),
    ],
)
def test_what_undoes_it(state: S, back: S) -> None:
    assert undo(replace(UPGRADE, state=state)) is back


@pytest.mark.parametrize(
    ("state", "back"),
    [
        (S.SAVING, S.ABANDONED),
        *((state, S.ENDING) for state in (S.STARTING, S.WATCHING, S.SHADOWING)),
        (S.PROMOTING, S.PROMOTING),
    ],
)
def test_what_undoes_a_shadow(state: S, back: S) -> None:
    assert undo(replace(UPGRADE, kind=K.SHADOW, state=state)) is back


@pytest.mark.parametrize("state", [state for state in S if state.is_final])
def test_a_finished_one_is_not_undone(state: S) -> None:
    with pytest.raises(WrongState, match="is finished"):
        undo(replace(UPGRADE, state=state))


def test_batches_count_from_the_savepoint() -> None:
    restored = replace(Q, plan=RestorePlan(queries=(QueryRow("q", batch_id=7),)))
    assert lacking([restored], 2) is None
    assert lacking([restored], 3) == "query 'q' has committed 2 of 3 batches"
    assert lacking([replace(restored, batch_id=None)], 1) is not None
    assert lacking([replace(restored, batch_id=None)], 0) is None
    fresh = replace(Q, name="new", batch_id=0)
    assert lacking([fresh], 1) is None
    both = lacking([restored, fresh], 3)
    assert both is not None
    assert both.count("query '") == 2
    assert lacking([], 0) == "it has no streaming query"


def test_the_steps_for_people() -> None:
    upgrade = replace(UPGRADE, target="/srv/sp", health=Health(0, 30.0))
    text = "\n".join(describe(upgrade))
    assert "1. stop the job with a savepoint in /srv/sp" in text
    assert (
        "until its queries have started, allowing 30 s for its start and then another 30 s" in text
    )
    handover = list(describe(replace(upgrade, kind=K.HANDOVER)))
    assert handover[0].startswith("1. start the driver of the new program alongside the job")
    assert handover[0].endswith("the new program a driver with 1g of memory")
    shadow = list(describe(replace(upgrade, kind=K.SHADOW)))
    assert shadow[0] == "1. take a savepoint of the job, which continues, in /srv/sp"
    assert shadow[3] == "4. when it is promoted: stop the job with a savepoint"


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        (0, "until its queries have started"),
        (1, "until every query has committed 1 batch"),
        (3, "until every query has committed 3 batches"),
    ],
)
def test_how_long_a_new_program_is_watched(batches: int, words: str) -> None:
    assert until_healthy(Health(batches)) == words
    timeout = 12 * 86_400.0
    text = "\n".join(describe(replace(UPGRADE, health=Health(batches, timeout))))
    assert f"watch it {words}, allowing 1036800 s for its start" in text


def test_the_resources_of_a_second_program() -> None:
    launch = Launch("/app.py", master="local[4]", conf={"spark.driver.memory": "4g"})
    assert resources(launch) == "a driver with 4g of memory (--master local[4])"
    yarn = replace(launch, master="yarn")
    assert resources(yarn).endswith("4g of memory, its executors with 1g each")
    many = {"spark.executor.instances": "8", "spark.executor.memory": "2g", "spark.cores.max": "16"}
    wanted = "a driver with 1g of memory, 8 executors with 2g each, 16 cores at most"
    assert resources(replace(yarn, conf=many)) == wanted
    assert "up to 5 executors" in resources(
        replace(yarn, conf={"spark.dynamicAllocation.maxExecutors": "5"})
    )


def test_the_record_survives_the_registry() -> None:
    assert decode(Upgrade, encode(UPGRADE)) == UPGRADE


def test_a_shadow_that_has_caught_up() -> None:
    assert behind(replace(Q, waits_for_input=True), None) is None
    assert behind(Q, None) == "query 'q' is working through a backlog"
    job = replace(Q, watermark="2026-11-23T10:00:05.000Z")
    early = replace(Q, watermark="2026-11-23T10:00:04.999Z")
    assert behind(early, job) == (
        "query 'q' is at 2026-11-23T10:00:04.999Z, the job at 2026-11-23T10:00:05.000Z"
    )
    assert behind(replace(Q, watermark="2026-11-23T10:00:05Z"), job) is None
    rates = replace(Q, input_rows_per_second=100.0, processed_rows_per_second=130.0)
    assert behind(rates, None) is None
    assert behind(replace(rates, processed_rows_per_second=105.0), None) is not None
    far = "33658-09-27T01:46:40.000Z"  # Spark takes any event time
    assert behind(replace(rates, watermark=far), job) is None
    assert "backlog" in str(behind(early, replace(job, watermark=far)))


def test_what_the_way_back_has_made_of_the_sinks() -> None:
    verdicts = ("as-is", "rollback", "rebase", "unreadable")
    sinks = tuple(SinkRow("q", verdict=verdict) for verdict in verdicts)
    plans = (None, RestorePlan(), RestorePlan(sinks=sinks[:2]), RestorePlan(sinks=sinks[2:]))
    found = brought_back([replace(Q, plan=plan) for plan in plans])
    assert [sink.verdict for sink in found] == ["rollback", "rebase"]
    checks = [Check("files-cleaned", outcome, "a text", query="q") for outcome in RestoreOutcome]
    plan = RestorePlan(checks=tuple(checks))
    assert [check.outcome for check in warned_of([Q, replace(Q, plan=plan)])] == [
        RestoreOutcome.WARNING
    ]


@pytest.mark.parametrize(
    ("stop", "lacks"),
    [
        (None, False),
        (RequestResult(), False),
        (RequestResult(complete=False), True),
        (RequestResult(left_out=(LeftOut("q", "it had ended"),)), False),
        (RequestResult(left_out=(LeftOut("q", "its turn has not come", pending=True),)), True),
    ],
)
def test_queries_that_had_not_begun(stop: RequestResult | None, lacks: bool) -> None:
    assert lacks_queries(stop) is lacks
