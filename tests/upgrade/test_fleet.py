"""Many jobs: which are meant, which are up to date, what follows a failure. No Spark."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.client.context import Context
from flinkish.config import MASK, Config
from flinkish.errors import UsageError
from flinkish.launch import spark_submit
from flinkish.launch.spark_submit import Installation
from flinkish.messages.launch import Launch
from flinkish.messages.upgrades import FleetOutcome, UpgradeState
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef
from flinkish.upgrade.fleet import (
    FleetResult,
    _result,
    carry_out,
    exit_code,
    is_up_to_date,
    run_at_once,
)
from flinkish.upgrade.fleet_file import FleetEntry, parse_fleet
from flinkish.upgrade.target import NewVersion
from flinkish.upgrade.workflows import UpgradeResult
from tests.cli.conftest import Command
from tests.client.conftest import Told
from tests.upgrade.test_takeover import GONE, ID, Killed, Mortal, begun, new
from tests.upgrade.test_workflows import ENDED


@pytest.fixture
def context(cli: Command, told: Told) -> Iterator[Context]:
    with Context(Config.load(), told) as opened:
        yield opened


def entries(cli: Command, *patterns: str, **changes: object) -> tuple[FleetEntry, ...]:
    table = {
        "defaults": {"savepoint-path": "sp", **changes},
        "upgrade": [{"job": pattern} for pattern in patterns],
    }
    return parse_fleet(table, str(cli.directory))


def outcomes(results: list[FleetResult]) -> dict[str, FleetOutcome]:
    return {result.name: result.outcome for result in results}


def test_a_job_that_runs_what_is_asked_is_up_to_date(cli: Command, context: Context) -> None:
    jobs = [cli.start("serve", "--name", name) for name in ("rides-1", "rides-2", "other")]
    found = carry_out(context, entries(cli, "rides-*"), dry_run=True)
    assert outcomes(found) == {
        "rides-1": FleetOutcome.UP_TO_DATE,
        "rides-2": FleetOutcome.UP_TO_DATE,
    }
    assert [each.job_id for each in found] == jobs[:2]
    assert exit_code(found) == 0
    # A program that was written since is another one, and there is no batch to go on from.
    cli.program.write_text("print('newer')\n")
    changed = carry_out(context, entries(cli, "rides-1", to="app.py", args=["serve"]), dry_run=True)
    assert outcomes(changed) == {"rides-1": FleetOutcome.REFUSED}


def test_a_job_with_secrets_is_up_to_date_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry has masks in their places."""
    found = Installation("/spark", "/bin/py", "/bin/py")
    monkeypatch.setattr(spark_submit, "resolve", lambda _launch, _environ: found)
    asked = Launch(
        arguments=("--password=abc", "rides"),
        conf={"spark.hadoop.fs.s3a.secret.key": "abc", "spark.x": "1"},
        secret_arguments=("--token", "abc"),
    )
    recorded = Launch(
        arguments=(f"--password={MASK}", "rides"),
        conf={"spark.hadoop.fs.s3a.secret.key": MASK, "spark.x": "1"},
        secret_arguments=(MASK, MASK),
        spark_home="/spark",
        client_python="/bin/py",
    )
    job = JobRecord("a" * 32, "rides", JobState.RUNNING, 1.0, recorded)
    assert is_up_to_date(job, asked)
    assert not is_up_to_date(job, replace(asked, conf={**asked.conf, "spark.x": "2"}))


@pytest.mark.parametrize("kind", ["py_files", "archives", "jars"])
def test_a_job_whose_libraries_were_written_since_is_not_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    found = Installation("/spark", "/bin/py", "/bin/py")
    monkeypatch.setattr(spark_submit, "resolve", lambda _launch, _environ: found)
    library = tmp_path / "lib.zip"
    library.touch()
    os.utime(library, (100.0, 100.0))
    item = f"{library}#lib" if kind == "archives" else str(library)
    items: dict[str, Any] = {kind: ("s3a://bucket/other.zip", item)}
    asked = Launch(module="rides", **items)
    runs = replace(asked, spark_home="/spark", client_python="/bin/py")
    later, earlier = (
        JobRecord("a" * 32, "rides", JobState.RUNNING, start, runs) for start in (101.0, 99.0)
    )
    assert is_up_to_date(later, asked)
    assert not is_up_to_date(earlier, asked)


def test_the_first_failure_ends_it_unless_told_otherwise(cli: Command, context: Context) -> None:
    for name in ("a", "b"):
        cli.start("serve", "--name", name)
    asked = entries(cli, "a", "b", conf={"spark.x": "1"})
    told: list[FleetResult] = []
    found = carry_out(context, asked, on_result=told.append)
    assert outcomes(found) == {"a": FleetOutcome.REFUSED, "b": FleetOutcome.NOT_BEGUN}
    assert told == found
    assert exit_code(found) == 1
    both = carry_out(context, asked, keep_going=True, at_once=2)
    assert set(outcomes(both).values()) == {FleetOutcome.REFUSED}
    assert all(each.error is not None for each in both)


def test_a_pattern_that_means_no_job_is_a_failure(cli: Command, context: Context) -> None:
    cli.start("serve", "--name", "a")
    found = carry_out(context, entries(cli, "nobody", "a"), keep_going=True)
    assert outcomes(found) == {"nobody": FleetOutcome.FAILED, "a": FleetOutcome.UP_TO_DATE}
    assert exit_code(found) == 3
    later = carry_out(context, entries(cli, "a", "nobody"), keep_going=True)
    assert [each.name for each in later] == ["a", "nobody"], "in the order of the entries"


def test_two_entries_for_one_job_are_a_mistake(cli: Command, context: Context) -> None:
    cli.start("serve", "--name", "rides-1")
    for first, second in (("rides-*", "rides-1"), ("rides-?", "*")):
        with pytest.raises(UsageError) as refused:
            carry_out(context, entries(cli, first, second))
        assert f"{first!r} and {second!r}" in refused.value.message
    (found,) = carry_out(context, entries(cli, "rides-1", "rides-*"), dry_run=True)
    assert found.outcome is FleetOutcome.UP_TO_DATE, "the pattern is for the others"


def test_an_interrupted_upgrade_is_finished(cli: Command, context: Context, told: Told) -> None:
    upgrade = new(cli, context, "serve")
    context.registry.add_upgrade(replace(upgrade, upgrade_id=ID), GONE)
    (found,) = carry_out(context, entries(cli, "rides"))
    assert found.outcome is FleetOutcome.UPGRADED
    assert found.upgrade is not None
    assert found.job_id == found.upgrade.new_job_id
    assert any(note.startswith("rides: stopping job") for note in told.notes)
    (again,) = carry_out(context, entries(cli, upgrade.job_id))
    assert (again.outcome, again.job_id) == (FleetOutcome.UP_TO_DATE, found.job_id), "by the old id"


def test_an_interrupted_upgrade_to_another_version_is_not_the_end(
    cli: Command, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade = new(cli, context, "serve")
    context.registry.add_upgrade(upgrade, GONE)
    asked: list[tuple[str, str | None]] = []

    def refused(_context: Context, job: JobRecord, version: NewVersion, _kind: object) -> None:
        asked.append((job.job_id, version.changes.program.application))
        raise UsageError("no")

    monkeypatch.setattr("flinkish.upgrade.fleet.prepare", refused)
    version = cli.directory / "v3.py"
    version.write_text(cli.program.read_text())
    (found,) = carry_out(context, entries(cli, "rides", to="v3.py"))
    assert found.outcome is FleetOutcome.REFUSED
    assert asked == [(found.job_id, str(version))]
    assert context.registry.job(str(found.job_id)).launch.arguments == ("serve",)


def test_an_interrupted_upgrade_gets_the_secrets_of_its_entry(
    cli: Command, context: Context
) -> None:
    upgrade = new(cli, context, "serve")
    masked = replace(upgrade.launch, conf={"spark.my.password": MASK})
    context.registry.add_upgrade(replace(upgrade, launch=masked), GONE)
    conf = {"spark.my.password": "open"}
    (found,) = carry_out(context, entries(cli, "rides", conf=conf))
    assert (found.outcome, found.error) == (FleetOutcome.UPGRADED, None)


def test_an_upgrade_whose_job_has_stopped_is_finished(cli: Command, context: Context) -> None:
    """It was interrupted when no job of that name ran."""
    upgrade = new(cli, context, "serve")
    mortal = begun(context, replace(upgrade, upgrade_id=ID), Mortal)
    assert isinstance(mortal, Mortal)
    mortal.save, mortal.before = 2, True
    with pytest.raises(Killed):
        mortal.run()
    assert context.registry.job(upgrade.job_id).state is JobState.FINISHED
    (ready,) = carry_out(context, entries(cli, "rides"), dry_run=True)
    assert ready.outcome is FleetOutcome.READY
    (found,) = carry_out(context, entries(cli, "rides"))
    assert found.outcome is FleetOutcome.UPGRADED
    (again,) = carry_out(context, entries(cli, "rides"))
    assert again.job_id == found.job_id


@pytest.mark.parametrize("has_ended", [False, True])
def test_an_old_program_that_has_ended_again_is_told(has_ended: bool) -> None:
    upgrade = replace(ENDED, state=UpgradeState.ROLLED_BACK, old_again_id="again")
    told = _result(UpgradeResult(upgrade, has_ended=has_ended))
    assert (told.outcome, told.job_id) == (FleetOutcome.ROLLED_BACK, "again")
    assert ("the old program does not run" in str(told.error)) is has_ended


def test_an_interrupt_does_not_wait_for_upgrades_in_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()

    def interrupted(_future: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_at_once(lambda _: ended.wait(), ["a", "b"], 2)
    assert not ended.is_set()
    upgrades = [each for each in threading.enumerate() if each.name == "flinkish-fleet"]
    assert [each.daemon for each in upgrades] == [True, True], "or the process would wait for them"
    ended.set()


def test_one_that_another_process_carries_out_is_left_to_it(cli: Command, context: Context) -> None:
    upgrade = new(cli, context, "serve")
    context.registry.add_upgrade(upgrade, ProcessRef("another-host", 1, 1))
    (found,) = carry_out(context, entries(cli, "rides"))
    assert found.outcome is FleetOutcome.REFUSED
    assert found.error is not None
    assert found.error.code == 12
