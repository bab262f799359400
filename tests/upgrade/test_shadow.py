"""Shadows started, promoted, abandoned, interrupted at each step. Drivers are without Spark."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.client.context import Context
from flinkish.errors import FlinkishError, UsageError, WrongState
from flinkish.launch.launcher import restart_job
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.plan import QueryRow, RestorePlan
from flinkish.messages.queries import QueryFacts
from flinkish.messages.restore_options import RestoreOptions
from flinkish.messages.upgrades import Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.claims import file_resource, table_resource
from flinkish.registry.jobs import JobState, RequestKind
from flinkish.registry.waiting import wait_job
from flinkish.upgrade.preparation import Secrets, check_apart, place_of, places_of
from flinkish.upgrade.shadow import ShadowUpgrade, find_shadow
from flinkish.upgrade.takeover import promote, resume, rollback
from flinkish.upgrade.workflows import UpgradeResult
from tests.cli.conftest import Command
from tests.upgrade.test_takeover import GONE, ID, Dying, Killed, alive, begun, new, state
from tests.upgrade.test_takeover import context as context

STOP = RequestKind.STOP


def shadow(cli: Command, context: Context, mode: str = "saving") -> Upgrade:
    upgrade = new(cli, context, mode)
    return replace(
        upgrade,
        state=UpgradeState.SAVING,
        kind=UpgradeKind.SHADOW,
        restore=RestoreSpec("", RestoreOptions(fork=True)),
    )


class Mortal(Dying, ShadowUpgrade):
    """A shadow of which the process dies."""


def shadowing(cli: Command, context: Context) -> Upgrade:
    """A shadow that runs; the process that began it is gone."""
    done = begun(context, shadow(cli, context), ShadowUpgrade).run()
    assert done.state is UpgradeState.SHADOWING
    return done


def test_both_run_until_it_is_promoted(cli: Command, context: Context) -> None:
    done = shadowing(cli, context)
    assert alive(context) == [done.job_id, done.new_job_id]
    found = context.registry.job(str(done.new_job_id))
    assert found.name == "rides-shadow"
    assert found.launch.restore == RestoreSpec(str(done.savepoint), RestoreOptions(fork=True))
    for job_id in (done.job_id, found.job_id):
        assert find_shadow(context, context.registry.job(job_id)).upgrade_id == ID
    assert resume(context, ID).run().state is UpgradeState.SHADOWING, "nobody has decided"
    context.registry.save_upgrade(context.registry.upgrade(ID)[0], GONE)

    after = promote(context, ID).run()
    assert after.state is UpgradeState.UPGRADED
    assert after.old_savepoint not in (None, after.savepoint)
    assert alive(context) == [done.new_job_id]
    assert context.registry.job(str(done.new_job_id)).name == "rides"
    assert state(context, done.job_id) is JobState.FINISHED
    with pytest.raises(WrongState, match="has no shadow"):
        find_shadow(context, found)


def test_a_name_that_no_user_gave_keeps_no_shadow_from_it(cli: Command, context: Context) -> None:
    job, other = (context.writable_registry.job(cli.start("saving")) for _ in range(2))
    assert job.name == other.name
    unnamed = replace(shadow(cli, context), job_id=job.job_id, name=job.name, launch=job.launch)
    done = begun(context, unnamed, ShadowUpgrade).run()
    after = promote(context, ID).run()
    assert after.state is UpgradeState.UPGRADED, after.failure
    assert context.registry.job(str(done.new_job_id)).name == job.name
    assert state(context, other.job_id) is JobState.RUNNING


def test_it_is_abandoned(cli: Command, context: Context) -> None:
    done = shadowing(cli, context)
    after = rollback(context, ID).run()
    assert after.state is UpgradeState.ABANDONED
    assert after.ended is not None
    assert alive(context) == [done.job_id]
    assert state(context, done.new_job_id) is JobState.CANCELED


@pytest.mark.parametrize(("mode", "why"), [("die", "nothing"), ("broken", "ValueError: broken")])
def test_one_that_is_not_well(cli: Command, context: Context, mode: str, why: str) -> None:
    done = begun(context, shadow(cli, context, mode), ShadowUpgrade).run()
    assert done.state is UpgradeState.ABANDONED
    assert why in (done.failure or {})["message"]
    assert alive(context) == [done.job_id]
    assert context.registry.unacknowledged() == []


def test_a_shadow_that_is_gone_is_not_promoted(cli: Command, context: Context) -> None:
    done = shadowing(cli, context)
    cli.ok("cancel", str(done.new_job_id))
    with pytest.raises(FlinkishError, match="CANCELED"):
        promote(context, ID)
    assert context.registry.upgrade(ID)[1] == GONE, "whoever wants to may undo it"
    assert alive(context) == [done.job_id]


def test_a_job_that_cannot_be_stopped_goes_on_with_its_shadow(
    cli: Command, context: Context
) -> None:
    done = shadowing(cli, context)
    cli.ok("cancel", done.job_id)
    job = context.registry.job(cli.start("refuse", "--name", "rides"))
    moved = replace(context.registry.upgrade(ID)[0], job_id=job.job_id)
    context.registry.save_upgrade(moved, GONE)
    after = promote(context, ID).run()
    assert after.state is UpgradeState.SHADOWING
    assert "memory sink" in (after.failure or {})["message"]
    assert sorted(alive(context)) == sorted([job.job_id, str(done.new_job_id)])
    context.registry.save_upgrade(after, GONE)
    assert promote(context, ID).run().state is UpgradeState.SHADOWING
    stops = [each for each in context.registry.requests(job.job_id) if each.kind is STOP]
    assert len(stops) == 2, "it is asked again, not told the old answer"


def test_a_job_that_was_stopped_and_restarted_is_stopped_again_for_its_shadow(
    cli: Command, context: Context
) -> None:
    """With a stop of the promotion's own: the earlier savepoint lacks what the job did since."""
    done = shadowing(cli, context)
    cli.ok("stop", done.job_id, "-p", str(cli.directory / "elsewhere"))
    ended, url = context.registry.job(done.job_id), context.config.registry_url()
    restart_job(context.registry, url, ended, "by the user", os.environ)
    wait_job(context.registry, ended.job_id, lambda job: job.state is JobState.RUNNING, 60.0)
    after = promote(context, ID).run()
    assert after.state is UpgradeState.UPGRADED
    assert str(after.old_savepoint).startswith(f"{done.target}/")
    assert alive(context) == [done.new_job_id]


def promoting(cli: Command, context: Context) -> Mortal:
    """A shadow that runs; the process that promotes it is about to die."""
    done = shadowing(cli, context)
    decided = replace(done, state=UpgradeState.PROMOTING, request_id=None)
    return Mortal(context, context.registry.save_upgrade(decided, GONE), GONE, Secrets())


def test_a_promotion_that_has_not_asked_the_job_to_stop_is_abandoned(
    cli: Command, context: Context
) -> None:
    upgrade = promoting(cli, context).upgrade
    assert rollback(context, ID).run().state is UpgradeState.ABANDONED
    assert alive(context) == [upgrade.job_id]


def test_a_promotion_that_has_stopped_the_job_is_not_abandoned(
    cli: Command, context: Context
) -> None:
    """Neither program would run."""
    left = promoting(cli, context)
    left.save, left.before = 2, True  # the savepoint of the stop
    with pytest.raises(Killed):
        left.run()
    with pytest.raises(WrongState, match="has been asked to stop") as refused:
        rollback(context, ID)
    assert f"flinkish upgrade resume {ID}" in refused.value.hint
    context.registry.save_upgrade(context.registry.upgrade(ID)[0], GONE)
    done = resume(context, ID).run()
    assert (done.state, done.failure) == (UpgradeState.UPGRADED, None)
    assert alive(context) == [done.new_job_id]


def test_a_shadow_that_ends_while_its_job_is_stopped(cli: Command, context: Context) -> None:
    """It is told that neither runs, and how the old program is started again."""
    left = promoting(cli, context)
    left.save = 2  # the savepoint of the stop
    with pytest.raises(Killed):
        left.run()
    cli.ok("cancel", str(left.upgrade.new_job_id))
    done = resume(context, ID).run()
    assert done.state is UpgradeState.ABANDONED
    result = UpgradeResult(done)
    assert result.job_id is None
    assert result.failure is not None
    assert "neither runs" in result.failure.message
    restart = f"flinkish restart {done.job_id} --from "
    assert result.failure.hint.endswith(f"{restart}{done.old_savepoint}")
    cli.ok("restart", done.job_id, "--from", str(done.old_savepoint))
    (again,) = alive(context)
    assert context.registry.job(again).name == "rides"


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("save", range(1, 5))
def test_interrupted_at_each_record(cli: Command, context: Context, save: int, back: bool) -> None:
    left = begun(context, shadow(cli, context), Mortal)
    assert isinstance(left, Mortal)
    left.save = save
    with pytest.raises(Killed):
        left.run()
    done = (rollback if back else resume)(context, ID).run()
    if back:
        assert done.state is UpgradeState.ABANDONED
        assert alive(context) == [done.job_id]
    else:
        assert done.state is UpgradeState.SHADOWING
        assert alive(context) == [done.job_id, done.new_job_id]


def facts(**sink: str) -> dict[str, QueryFacts]:
    return {"q": QueryFacts("run", sink=sink)}


def test_where_sinks_write() -> None:
    assert places_of(facts(path="out", format="parquet"), "/srv") == {"/srv/out"}
    assert places_of(facts(path="/out/", format="parquet"), "/srv") == {"/out"}
    assert places_of(facts(path="file:///out", format="json"), "/srv") == {"/out"}
    assert places_of(facts(path="s3a://b/out", format="json"), "/srv") == {"s3://b/out"}
    assert places_of(facts(table="DB.T"), None) == {"table db.t"}
    assert places_of(facts(format="foreachBatch"), None) == frozenset()
    assert place_of({"path": "nowhere://x"}, None) == "nowhere://x"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"path": "hdfs://nn:8020/t"}, {"path": "hdfs://NN/t"}),
        (
            {"path": "abfs://c@a.dfs.core.windows.net/t"},
            {"path": "abfss://c@a.dfs.core.windows.net/t"},
        ),
        ({"table": "`t`"}, {"table": "T"}),
        ({"path": "cat.db.t", "format": "iceberg"}, {"table": "cat.db.t", "format": "iceberg"}),
    ],
)
def test_one_sink_in_two_spellings(one: dict[str, str], other: dict[str, str]) -> None:
    assert place_of(one, "/srv") == place_of(other, "/somewhere") is not None


def test_a_sink_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    found = {place_of({"path": f"{each}/t"}, str(tmp_path)) for each in ("real", "link")}
    assert found == {f"{tmp_path}/real/t"}


def test_a_shadow_must_not_write_where_its_job_does(cli: Command, context: Context) -> None:
    job = context.writable_registry.job(cli.start("serve", "--name", "rides"))
    registry = context.registry
    for name, sink in facts(path="/srv/out", format="parquet").items():
        registry.record_facts(job.job_id, "counts", _query_id(context, job.job_id), sink)
        assert name == "q"

    def plan(**writes: str | None) -> RestorePlan:
        return RestorePlan(queries=(QueryRow("counts", writes=writes),))

    def check(**writes: str | None) -> list[str]:
        return check_apart(context, job, plan(table=None, **writes), "/srv")

    for path in ("file:/srv/out", "out"):
        with pytest.raises(UsageError, match=r"would write to /srv/out, as job rides \("):
            check(format="parquet", path=path)
    assert check(format="parquet", path="/srv/other") == []
    assert check(format="parquet", path=f"{os.getcwd()}/out") == []
    (warning,) = check(format="foreachBatch", path=None)
    assert "writes with foreachBatch, and flinkish cannot tell where" in warning
    assert check(format="noop", path=None) == []
    # What the drivers call it counts, where the program's words differ.
    claims = [file_resource("hdfs://nn/out"), table_resource("spark_catalog.default.t")]
    context.writable_registry.claim_resources(job.job_id, "counts", claims)
    for place in ("hdfs://nn/out", "spark_catalog.default.t"):
        with pytest.raises(UsageError, match=f"would write to {place}, as job rides"):
            check(format="delta", path="hdfs://nn:8020/out", place=place)
    assert check(format="delta", path="hdfs://nn:8020/a", place="hdfs://nn/a") == []


def _query_id(context: Context, job_id: str) -> str:
    (query,) = context.registry.queries(job_id)
    return query.query_id
