"""``upgrade resume``, ``rollback`` and ``fleet``: drivers are processes without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.cli.commands.upgrade import _show_dry_run
from flinkish.cli.output.printer import Output
from flinkish.client.checking import Plan
from flinkish.client.context import Context
from flinkish.config import Config
from flinkish.messages.plan import RestorePlan
from flinkish.messages.upgrades import Upgrade
from flinkish.upgrade.preparation import Ready
from tests.cli.conftest import Command
from tests.upgrade.test_steps import UPGRADE
from tests.upgrade.test_takeover import GONE, ID, new


def interrupted(cli: Command, mode: str = "serve") -> Upgrade:
    """An upgrade of which nothing was done when its process died."""
    with Context(Config.load()) as context:
        upgrade = new(cli, context, mode)
        return context.registry.add_upgrade(upgrade, GONE)


def test_an_interrupted_one_is_finished(cli: Command) -> None:
    upgrade = interrupted(cli)
    (shown,) = cli.status(upgrade.job_id)["upgrades"]
    assert (shown["upgrade_id"], shown["state"]) == (ID, "STOPPING")
    done = cli.ok("upgrade", "resume", ID[:31])
    (job,) = cli.ok("list", "-q", "--name", "rides").out.split()
    assert done.out == f"Job rides is upgraded and continues as job {job}.\n"
    assert f"stopping job rides ({upgrade.job_id}) with a savepoint" in done.err
    assert "UPGRADED" in cli.ok("status", job).out
    assert cli("upgrade", "rollback", ID[:31]).code == 13


def test_one_that_fails_is_rolled_back(cli: Command) -> None:
    upgrade = interrupted(cli, "broken")
    back = cli("upgrade", "resume", ID, "--json")
    assert back.code == 1
    error = back.error()
    assert error["id"] == "rolled-back"
    assert "ValueError: broken" in error["message"]
    assert error["job_id"] == upgrade.job_id
    assert cli.status(error["old_again_id"])["state"] == "RUNNING"
    assert "flinkish logs" in error["hint"]


def test_one_is_undone(cli: Command) -> None:
    upgrade = interrupted(cli)
    undone = cli.ok("upgrade", "rollback", ID, "--json").json()
    assert (undone["state"], undone["job_id"]) == ("ABANDONED", upgrade.job_id)
    assert cli.status(upgrade.job_id)["state"] == "RUNNING"


def test_what_it_would_do_begins_with_the_rehearsal(capsys: pytest.CaptureFixture[str]) -> None:
    ready = Ready(UPGRADE, Plan(None, "ok", 0, (), RestorePlan(), None), UPGRADE.launch)
    steps = []
    for rehearsed in (False, True):
        assert _show_dry_run(Output(json=True), ready, rehearsed) == 0
        steps.append(json.loads(capsys.readouterr().out)["steps"])
    (plain, (rehearsal, *others)) = steps
    assert plain == others
    assert "rehearse the new program on a copy" in rehearsal


def test_an_id_that_is_none(cli: Command) -> None:
    cli.start()
    refused = cli("upgrade", "resume", "abcd", "--json")
    assert (refused.code, refused.error()["id"]) == (10, "upgrade-not-found")


def test_an_error_on_the_way_says_how_to_go_on(cli: Command) -> None:
    upgrade = interrupted(cli)
    with Context(Config.load()) as context:
        slow = replace(upgrade, timeout=0.0)
        context.registry.save_upgrade(slow, GONE)
    cli.ok("cancel", upgrade.job_id)
    failed = cli("upgrade", "resume", ID, "--json")
    assert failed.code == 13, "the job was ended by somebody else"
    assert cli.ok("list", "--json").json()["jobs"] == []


def test_a_fleet_that_is_up_to_date(cli: Command) -> None:
    job = cli.start("serve", "--name", "rides")
    file = Path("fleet.toml")
    file.write_text('[[upgrade]]\njob = "rides"\n\n[[upgrade]]\njob = "nobody"\n')
    partly = cli("upgrade", "fleet", str(file), "--keep-going")
    assert partly.code == 3
    assert partly.out.splitlines()[1:] == [
        f"rides   up to date  {job}",
        "nobody  failed      -",
    ]
    assert cli("upgrade", "fleet", str(file), "--keep-going", "--json").err == ""
    file.write_text('[[upgrade]]\njob = "rides"\n')
    assert cli.ok("upgrade", "fleet", str(file), "-q").out == ""
    assert cli("upgrade", "fleet", "nope.toml").code == 2
    file.write_text("[[upgrade]\n")
    assert cli("upgrade", "fleet", str(file)).code == 2


@pytest.mark.parametrize("decision", ["--promote", "--abandon"])
def test_the_end_of_a_shadow_takes_only_secrets(cli: Command, decision: str) -> None:
    """Above all no --dry-run, which must not end a job."""
    for words in (
        ["--dry-run"],
        ["--to", str(cli.program)],
        ["-p", "7"],
        ["--timeout", "1m"],
        ["argument"],
    ):
        refused = cli("upgrade", "shadow", "nobody", decision, *words)
        assert refused.code == 2
        assert "take only --conf and --secret-args" in refused.err
    secret = ("--conf", "spark.my.password=hush")
    assert cli("upgrade", "shadow", "nobody", decision, *secret).code == 10
