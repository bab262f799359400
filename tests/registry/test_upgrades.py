"""Which starts an upgrade that is not finished refuses, and which it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flinkish.errors import Locked, UpgradeNotFound, UsageError
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.upgrades import Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef
from flinkish.registry.upgrades import holds_job, holds_name

S, K = UpgradeState, UpgradeKind
OLD, NEW, AGAIN = "a" * 32, "b" * 32, "c" * 32
OWNER = ProcessRef("host", 1, 1)
UPGRADE = Upgrade(
    upgrade_id="f" * 32,
    job_id=OLD,
    name="rides",
    state=S.STOPPING,
    created=1.0,
    launch=Launch("/app.py"),
    restore=RestoreSpec(""),
    target="/srv",
    timeout=60.0,
    new_job_id=NEW,
    old_again_id=AGAIN,
)


@pytest.mark.parametrize(
    ("kind", "state", "saved", "job_id", "ended", "held"),
    [
        # The old job: until it was stopped for the upgrade, whoever starts it again may.
        (K.IN_PLACE, S.STOPPING, None, OLD, JobState.FAILED, False),
        (K.IN_PLACE, S.STOPPING, None, OLD, JobState.FINISHED, True),
        (K.HANDOVER, S.PREPARING, None, OLD, JobState.FAILED, False),
        (K.HANDOVER, S.ENDING, None, OLD, JobState.FAILED, False),
        (K.IN_PLACE, S.STARTING, "/sp", OLD, JobState.FINISHED, True),
        (K.IN_PLACE, S.RETURNING, "/sp", OLD, JobState.FINISHED, True),
        # The new one: after a reboot recover starts what the upgrade waits for.
        (K.IN_PLACE, S.WATCHING, "/sp", NEW, JobState.FAILED, False),
        (K.IN_PLACE, S.ENDING, "/sp", NEW, JobState.FAILED, True),
        (K.IN_PLACE, S.RETURNING, "/sp", NEW, JobState.CANCELED, True),
        (K.IN_PLACE, S.RETURNING, "/sp", AGAIN, JobState.FAILED, False),
        # A shadow's savepoint is a copy: its job goes on.
        (K.SHADOW, S.SHADOWING, "/sp", OLD, JobState.FAILED, False),
        (K.SHADOW, S.SHADOWING, "/sp", OLD, JobState.FINISHED, False),
        (K.SHADOW, S.PROMOTING, "/sp", OLD, JobState.FINISHED, True),
        (K.SHADOW, S.SHADOWING, "/sp", NEW, JobState.FAILED, False),
        (K.SHADOW, S.ENDING, "/sp", NEW, JobState.FAILED, True),
        (K.IN_PLACE, S.STARTING, "/sp", "d" * 32, JobState.FINISHED, False),
    ],
)
def test_which_of_its_jobs_stay_as_they_are(
    kind: UpgradeKind,
    state: UpgradeState,
    saved: str | None,
    job_id: str,
    ended: JobState,
    held: bool,
) -> None:
    upgrade = replace(UPGRADE, kind=kind, state=state, savepoint=saved)
    job = JobRecord(job_id, "rides", ended, 1.0, Launch("/app.py"))
    assert holds_job(upgrade, job) is held


@pytest.mark.parametrize(
    ("kind", "state", "held"),
    [
        (K.IN_PLACE, S.STOPPING, True),
        (K.HANDOVER, S.RETURNING, True),
        (K.SHADOW, S.SHADOWING, False),
        (K.SHADOW, S.PROMOTING, True),
    ],
)
def test_its_name(kind: UpgradeKind, state: UpgradeState, held: bool) -> None:
    upgrade = replace(UPGRADE, kind=kind, state=state)
    assert holds_name(upgrade, "rides") is held
    assert not holds_name(upgrade, "other")


def test_nobody_takes_its_name_between_its_jobs(
    sqlite_registry: Registry, make_job: Callable[..., JobRecord]
) -> None:
    registry = sqlite_registry
    registry.add_upgrade(replace(UPGRADE, state=S.STARTING, savepoint="/sp"), OWNER)
    with pytest.raises(Locked, match=r"rides .* is in upgrade f+, which is not finished") as held:
        registry.add_job(make_job("rides"), unique_name=True)
    assert "flinkish upgrade rollback " + "f" * 32 in held.value.hint
    registry.add_job(make_job("other"), unique_name=True)

    earlier = make_job("rides")
    registry.add_job(earlier)  # a name that need not be unique
    ended = registry.transition(earlier.job_id, JobState.FINISHED)
    with pytest.raises(Locked):
        registry.restart(ended, "again")
    own = replace(make_job("rides"), job_id=NEW)
    registry.add_job(own, unique_name=True)
    registry.transition(NEW, JobState.FINISHED)
    (unfinished,) = registry.unfinished_upgrades()
    registry.save_upgrade(replace(unfinished, state=S.ROLLED_BACK), OWNER)
    assert registry.restart(ended, "again").state is JobState.RESTARTING


def test_an_id_may_be_short_but_not_missing(sqlite_registry: Registry) -> None:
    """One upgrade alone must not be what an unset variable names."""
    sqlite_registry.add_upgrade(UPGRADE, OWNER)
    for reference in (UPGRADE.upgrade_id, "FFFF", " ffff\n"):
        assert sqlite_registry.upgrade(reference) == (UPGRADE, OWNER)
    for reference in ("", " "):
        with pytest.raises(UsageError, match="the upgrade id is missing"):
            sqlite_registry.upgrade(reference)
    for reference in ("f", "fff", "ffff0", "rides"):
        with pytest.raises(UpgradeNotFound, match=f"no upgrade has the id '{reference}'"):
            sqlite_registry.upgrade(reference)
    sqlite_registry.add_upgrade(
        replace(UPGRADE, upgrade_id="ffff" + "0" * 28, name="other", job_id="d" * 32), OWNER
    )
    with pytest.raises(UsageError, match="2 upgrades begin with 'ffff'") as several:
        sqlite_registry.upgrade("ffff")
    assert several.value.hint == "give more digits of the id"
