"""How an upgrade ended: what failed, which job runs, what is warned of. Upgrades: test_in_place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.client.context import Context
from flinkish.client.reporter import SilentReporter
from flinkish.config import Config
from flinkish.errors import FlinkishError, Locked, RolledBack, StorageError, WaitTimeout, WrongState
from flinkish.messages.plan import Check, RestoreOutcome, SinkRow
from flinkish.messages.upgrades import UpgradeKind, UpgradeState
from flinkish.upgrade.workflows import UpgradeResult, _finished
from tests.upgrade.test_steps import UPGRADE

S = UpgradeState
FAILED = WrongState("job n was canceled").to_record()
ENDED = replace(UPGRADE, job_id="old", new_job_id="new", failure=FAILED)


@pytest.mark.parametrize(
    ("kind", "state", "failed", "undoing", "error", "job"),
    [
        (UpgradeKind.IN_PLACE, S.UPGRADED, False, False, None, "new"),
        (UpgradeKind.IN_PLACE, S.ROLLED_BACK, True, False, RolledBack, "again"),
        (UpgradeKind.IN_PLACE, S.ROLLED_BACK, True, True, None, "again"),
        (UpgradeKind.IN_PLACE, S.ABANDONED, True, False, WrongState, "again"),
        (UpgradeKind.HANDOVER, S.ABANDONED, True, False, RolledBack, "again"),
        (UpgradeKind.SHADOW, S.ABANDONED, True, False, RolledBack, "again"),
        (UpgradeKind.SHADOW, S.ABANDONED, True, True, None, "again"),
        (UpgradeKind.SHADOW, S.SHADOWING, False, False, None, "new"),
        (UpgradeKind.SHADOW, S.SHADOWING, True, False, WrongState, "new"),  # not promoted
    ],
)
def test_what_it_failed_with(
    kind: UpgradeKind,
    state: UpgradeState,
    failed: bool,
    undoing: bool,
    error: type[FlinkishError] | None,
    job: str,
) -> None:
    failure = FAILED if failed else None
    ended = replace(ENDED, kind=kind, state=state, old_again_id="again", failure=failure)
    result = UpgradeResult(ended, is_undoing=undoing)
    assert (result.job_id, None if result.failure is None else type(result.failure)) == (job, error)
    written = (
        "query 'q' of the new program committed the batches 3 to 4: their output is not rolled back"
    )
    assert result.warnings == ([written] if error is RolledBack or undoing else [])
    if error is RolledBack:
        assert "continues as job again: job n was canceled" in str(result.failure)


@pytest.mark.parametrize("kind", [UpgradeKind.SHADOW, UpgradeKind.HANDOVER])
def test_without_a_job_of_the_new_program_the_error_itself_is_told(kind: UpgradeKind) -> None:
    error = StorageError("no space left on device", hint="make some").to_record()
    ended = replace(ENDED, kind=kind, state=S.ABANDONED, new_job_id=None, failure=error)
    failure = UpgradeResult(ended).failure
    assert type(failure) is StorageError
    assert (failure.message, failure.hint) == ("no space left on device", "make some")
    back = replace(ended, kind=UpgradeKind.IN_PLACE, state=S.ROLLED_BACK)
    failure = UpgradeResult(back).failure
    assert type(failure) is RolledBack
    assert failure.hint == "make some", "there is no log"


@pytest.mark.parametrize("undoing", [False, True])
def test_an_old_program_that_has_ended_again_does_not_go_on(undoing: bool) -> None:
    ended = replace(ENDED, state=S.ROLLED_BACK, old_again_id="again")
    result = UpgradeResult(ended, undoing, has_ended=True)
    assert result.job_id is None
    assert type(result.failure) is WrongState
    assert result.failure.hint == "resume it with: flinkish restart again"
    assert len(result.warnings) == 1


def test_the_job_that_was_never_stopped_runs() -> None:
    assert UpgradeResult(replace(ENDED, state=S.ABANDONED)).job_id == "old"


def test_a_table_that_went_back_is_told() -> None:
    sinks = (SinkRow("q", rollback_to=7, text="the table goes back to version 7"),)
    lost = (Check("files-cleaned", RestoreOutcome.WARNING, "2 files are gone", query="q"),)
    result = UpgradeResult(replace(ENDED, state=S.ROLLED_BACK), sinks=sinks, checks=lost)
    first, second, third = result.warnings
    assert third == "query 'q' of the old program: 2 files are gone"
    assert first.endswith("is rolled back in its table")
    assert second == "query 'q' of the old program: the table goes back to version 7"


class TakenOver:
    """The rest of an upgrade that another process continues; or one that waited for too long."""

    upgrade = UPGRADE

    def __init__(self, error: FlinkishError) -> None:
        self._error = error

    def run(self) -> None:
        raise self._error


@pytest.mark.parametrize("error", [Locked("taken over", hint=""), WaitTimeout("late", hint="")])
def test_only_an_upgrade_that_no_process_continues_can_be_resumed(error: FlinkishError) -> None:
    context = Context(Config.load(), SilentReporter())
    with pytest.raises(type(error)) as raised:
        _finished(context, TakenOver(error))  # type: ignore[arg-type]
    assert ("flinkish upgrade resume" in raised.value.hint) is isinstance(error, WaitTimeout)
    assert raised.value.data["upgrade_id"] == UPGRADE.upgrade_id
