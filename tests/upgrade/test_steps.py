"""The steps of an upgrade, their undo, and when a program is well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.errors import WrongState
from flinkish.registry.jobs import QueryStatus
from flinkish.spec.codec import decode, encode
from flinkish.spec.launch import Launch, RestoreSpec
from flinkish.spec.upgrades import Health, Upgrade, UpgradeState
from flinkish.upgrade.steps import after, after_failure, describe, lacking, resources, undo

S = UpgradeState
UPGRADE = Upgrade(
    upgrade_id="a" * 32,
    job_id="b" * 32,
    name="rides",
    state=S.WATCHING,
    created=1.5,
    launch=Launch("/app.py", conf={"spark.x": "1"}),
    restore=RestoreSpec("/sp", uid_map=(("a", "b"),)),
    target="/srv",
    timeout=60.0,
    committed={"q": (3, 4)},
)
Q = QueryStatus("q", "id", "run", "/cp", batch_id=9)


def test_every_step_leads_to_an_end() -> None:
    for state in S:
        seen = [state]
        while not seen[-1].is_final:
            seen.append(after(seen[-1]))
        assert len(seen) <= 5
        if not state.is_final:
            for handover in (False, True):
                failed = after_failure(state, handover=handover)
                assert failed in (None, S.ENDING, S.ABANDONED)
    assert after_failure(S.STOPPING, handover=True) is S.ENDING, "its driver is there already"


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


@pytest.mark.parametrize("state", [state for state in S if state.is_final])
def test_a_finished_one_is_not_undone(state: S) -> None:
    with pytest.raises(WrongState, match="is finished"):
        undo(replace(UPGRADE, state=state))


def test_batches_count_from_the_savepoint() -> None:
    restored = replace(Q, plan={"queries": [{"name": "q", "batch_id": 7}]})
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
    assert "until its queries have started, for 30 s" in text
    handover = list(describe(replace(upgrade, handover=True)))
    assert handover[0].startswith("1. start the driver of the new program beside the job")
    assert handover[0].endswith("a driver with 1g of memory more")


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
