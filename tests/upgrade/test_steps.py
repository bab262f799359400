"""The steps of an upgrade, their undo, and when a program is well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.errors import WrongState
from flinkish.registry.jobs import QueryStatus
from flinkish.spec.codec import decode, encode
from flinkish.spec.launch import Launch, RestoreSpec
from flinkish.spec.upgrades import Health, Upgrade, UpgradeState
from flinkish.upgrade.steps import after, after_failure, describe, lacking, undo

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
        assert len(seen) <= 4
        if not state.is_final:
            failed = after_failure(state)
            assert failed in (None, S.ENDING, S.ABANDONED)


@pytest.mark.parametrize(
    ("state", "back"),
    [
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
    text = "\n".join(describe(Health(0, 30.0), "/srv/sp"))
    assert "/srv/sp" in text
    assert "until its queries have started, for 30 s" in text


def test_the_record_survives_the_registry() -> None:
    assert decode(Upgrade, encode(UPGRADE)) == UPGRADE
