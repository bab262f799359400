"""``flinkish check`` and ``run --plan`` with real drivers: a plan, and a run that keeps to it."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish, Result

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PROGRAM = PROGRAMS / "upgraded.py"


class Upgrade:
    """A savepoint of version 1, and the versions that are to go on from it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.flinkish = Flinkish(directory)
        self.savepoint = ""
        self.job = ""
        #: What ``check`` and ``checkpoint`` said while version 1 ran.
        self.live: tuple[Result, Result] | None = None
        shutil.copy(PROGRAM, directory / "app.py")
        (directory / "in").mkdir()
        for number in range(2):
            self.write(number)

    def write(self, number: int) -> None:
        """One more input file, with the same three keys."""
        rows = ({"k": k, "v": number, "w": 1} for k in "abc")
        hidden = self.directory / f"{number}.json"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        hidden.rename(self.directory / "in" / hidden.name)

    def words(self, version: str) -> tuple[str, ...]:
        return ("app.py", "in", "out", version)

    def stop_first(self) -> None:
        job = self.job = self.flinkish.run(self.directory / "app.py", *self.words("v1")[1:])
        self.flinkish.wait_for_batch(job, 1)
        with self.going_on():
            words = ("-m", "local[2]", *LIGHT, "--json", job, *self.words("v1"))
            self.live = self.flinkish("check", *words), self.flinkish("checkpoint", job, "--json")
        self.savepoint = self.flinkish.ok("stop", job, "-p", "savepoints", "-q").out.strip()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Let new input come all the time, so that the job commits batches and its sink grows."""
        done = threading.Event()

        def feed() -> None:
            for number in itertools.count(2):
                if done.wait(0.5):
                    return
                self.write(number)

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            yield
        finally:
            done.set()
            feeder.join()

    def check(self, version: str, *options: str) -> Result:
        return self._call("check", version, *options)

    def run(self, version: str, *options: str) -> Result:
        return self._call("run", version, "-d", *options)

    def _call(self, command: str, version: str, *options: str) -> Result:
        words = ("-s", self.savepoint, "-m", "local[2]", *LIGHT, *options)
        return self.flinkish(command, *words, *self.words(version))

    def jobs(self) -> int:
        return len(self.flinkish.ok("list", "-a", "--json").json()["jobs"])


@pytest.fixture(scope="module")
def upgrade(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgrade]:
    upgrade = Upgrade(tmp_path_factory.mktemp("upgrade"))
    upgrade.stop_first()
    yield upgrade
    upgrade.flinkish.clean_up()


@pytest.mark.deep
def test_a_running_job_is_checked_as_it_is(upgrade: Upgrade) -> None:
    """Its file sink gets batches all the time, and nothing but the job itself is ahead."""
    assert upgrade.live is not None
    checked, committed = upgrade.live
    assert checked.code == 0, checked.out + checked.err
    plan = checked.json()
    assert (plan["verdict"], plan["savepoint"], plan["job_id"]) == ("ok", None, upgrade.job)
    assert plan["version"]["from"] == plan["version"]["to"]
    assert {op["uid"]: op["verdict"] for op in plan["operators"]} == {
        "totals": "as-is",
        "first": "as-is",
    }
    assert {source["verdict"] for source in plan["sources"]} == {"as-is"}
    (sink,) = plan["sinks"]
    assert sink["verdict"] == "as-is"
    assert sink["reason"] in ("sink-of-running-job", "sink-not-ahead")
    assert all(query["query_id"]["keep"] for query in plan["queries"])
    batches = {query["name"]: query["batch_id"] for query in plan["queries"]}
    assert min(batches.values()) >= 1
    # The job has gone on, and its next batches were waited for.
    assert committed.code == 0, committed.err
    later = {query["name"]: query["batch_id"] for query in committed.json()["queries"]}
    assert all(later[name] > batches[name] for name in batches)
    assert upgrade.flinkish.job(upgrade.job)["state"] == "FINISHED"  # only by the stop


@pytest.mark.deep
def test_a_changed_logic_can_be_restored(upgrade: Upgrade) -> None:
    jobs = upgrade.jobs()
    result = upgrade.check("logic", "--json")
    assert result.code == 0, result.err
    plan = result.json()
    assert (plan["schema_version"], plan["verdict"], plan["exit_code"]) == (1, "ok", 0)
    assert plan["version"]["from"] == plan["version"]["to"]
    operators = {op["uid"]: op for op in plan["operators"]}
    assert set(operators) == {"totals", "first"}
    for op in operators.values():
        assert (op["verdict"], op["reason"], op["rows"]) == ("as-is", "same-state", 3)
        assert len(op["operator_id"]) == 32
    assert {(s["uid"], s["verdict"]) for s in plan["sources"]} == {("rows", "as-is")}
    (sink,) = plan["sinks"]
    assert (sink["query"], sink["format"], sink["verdict"]) == ("first", "parquet", "as-is")
    assert plan["pins"] == []
    checks = {check["id"]: check["outcome"] for check in plan["checks"]}
    assert checks["savepoint-reachable"] == "ok"
    assert "spark-version" in checks
    assert upgrade.jobs() == jobs  # no job was registered


@pytest.mark.deep
def test_a_state_that_has_changed_is_told_before_and_refused_in_the_same_words(
    upgrade: Upgrade,
) -> None:
    """An aggregate more: it has no value for keys that exist, which needs consent."""
    checked = upgrade.check("more")
    assert checked.code == 5, checked.err
    gained = (
        "the aggregation gained aggregate `max(w)`; `max(w)` starts at the restore for existing "
        "keys"
    )
    row = next(line for line in checked.out.splitlines() if "stateStoreSave" in line)
    assert "migrate" in row
    assert gained in row
    assert checked.out.splitlines()[-1].startswith("verdict: consent-needed")
    assert "[column-added]" in checked.out
    assert "--accept-partial totals" in checked.out
    assert upgrade.check("more", "--accept-partial", "totals").code == 0
    ran = upgrade.run("more")
    assert ran.code == 5
    assert "`max(w)`" in ran.err
    # The plan's table, as far as the program has come.
    assert row.split() in [line.split() for line in ran.err.splitlines()]
    newest = upgrade.flinkish.ok("list", "-a", "-q").out.split()[-1]
    assert upgrade.flinkish.job(newest)["state"] == "FAILED"


@pytest.mark.deep
def test_state_that_nobody_takes_is_told_before_and_refused_in_the_same_words(
    upgrade: Upgrade,
) -> None:
    """The second query is gone: exit 5, until ``-n`` says that its state may be dropped."""
    checked = upgrade.check("less", "--json")
    assert checked.code == 5
    plan = checked.json()
    assert (plan["exit_code"], plan["verdict"]) == (5, "consent-needed")
    verdicts = {op["uid"]: op["verdict"] for op in plan["operators"]}
    assert verdicts == {"totals": "as-is", "first": "dropped"}
    ran = upgrade.run("less", "--json")
    assert ran.code == 5
    error = ran.error()
    assert error["id"] == "non-restored-state"
    (dropped,) = (op for op in plan["operators"] if op["verdict"] == "dropped")
    assert dropped["text"].startswith("no operator of the program takes this state")
    for fact in ("nothing in the program takes this part", "uid 'first'", "3 rows"):
        assert fact in error["message"]
    assert error["plan"]["operators"] == plan["operators"]
    assert error["plan"]["sources"] == plan["sources"]
    assert "-n" in error["hint"]


@pytest.mark.deep
def test_another_number_of_partitions_is_a_rescale(upgrade: Upgrade) -> None:
    result = upgrade.check("v1", "-p", "3", "--json")
    assert result.code == 0
    plan = result.json()
    assert {(op["verdict"], op["executable"]) for op in plan["operators"]} == {("rescale", True)}
    assert plan["pins"][0]["text"] == "shuffle partitions: pinned 2, requested 3: rescale"


@pytest.mark.deep
def test_a_plan_is_saved_and_carried_out(upgrade: Upgrade) -> None:
    refused = upgrade.check("less", "--json")
    assert refused.code == 5
    dropped = {op["uid"]: op["verdict"] for op in refused.json()["operators"]}
    assert dropped == {"totals": "as-is", "first": "dropped"}

    assert upgrade.check("less", "-n", "-q", "-o", "plan.json").out == "ok\n"
    flinkish, jobs = upgrade.flinkish, upgrade.jobs()
    conflict = flinkish("run", "-d", "--plan", "plan.json", "-n")
    assert conflict.code == 2
    # Another program, another savepoint: nothing is launched.
    app = upgrade.directory / "app.py"
    text = app.read_text()
    app.write_text(text + "# changed\n")
    changed = flinkish("run", "-d", "--plan", "plan.json", "-m", "local[2]", *LIGHT)
    app.write_text(text)
    assert (changed.code, upgrade.jobs()) == (4, jobs)
    assert "the program has changed since the plan was made" in changed.err
    plan = json.loads((upgrade.directory / "plan.json").read_text())
    (upgrade.directory / "other.json").write_text(json.dumps({**plan, "savepoint_digest": "0"}))
    changed = flinkish("run", "-d", "--plan", "other.json", "-m", "local[2]", *LIGHT)
    assert (changed.code, upgrade.jobs()) == (4, jobs)
    assert "the savepoint has changed" in changed.err

    done = flinkish("run", "-d", "--json", "--plan", "plan.json", "-m", "local[2]", *LIGHT)
    assert done.code == 0, done.err
    shown = {op["uid"]: op["verdict"] for op in done.json()["plan"]["operators"]}
    assert shown == dropped
    assert flinkish.job(done.json()["job_id"])["state"] == "RUNNING"


def test_what_is_wrong_with_the_words(flinkish: Flinkish) -> None:
    (flinkish.directory / "app.py").touch()
    assert flinkish("check", "app.py").code == 2
    assert flinkish("check", "-s", "nowhere", "app.py").code == 11
    assert flinkish("run", "--plan", "app.py").code == 2
    assert flinkish("run", "--plan", "nowhere.json").code == 2
    assert flinkish("run", "--reset-source", "x", "app.py").code == 2
