"""``check`` of jobs. The driver is a real one up to the program, which starts no query of Spark."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.messages.launch import Launch
from flinkish.messages.plan import RestorePlan
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import process_ref
from flinkish.savepoint.format.contents import SavepointJob
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.query_records import query_source
from flinkish.savepoint.write.writer import write_savepoint
from tests.cli import test_offline
from tests.cli.conftest import Command
from tests.support.checkpoints.recorded import unpack
from tests.support.launcher_fakes import make_spark

JOB = "0123456789abcdef" * 2
#: ``spark-submit`` without Spark: it runs the driver's own script.
SUBMIT = """
import runpy, sys
at = next(i for i, word in enumerate(sys.argv) if word.endswith("__main__.py"))
sys.argv = sys.argv[at:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def root(cli: Command, tmp_path: Path) -> Path:
    """The checkpoint of a job's query."""
    (tmp_path / "submit.py").write_text(SUBMIT)
    cli.spark_home = make_spark(
        tmp_path / "describing", f'exec "{sys.executable}" "{tmp_path}/submit.py" "$@"\n'
    )
    return unpack("spark43-rocksdb-dedup", tmp_path)


def facts_for(root: Path) -> QueryFacts:
    """Facts as a driver records them that could read the query's plan."""
    facts = test_offline.facts_for(root)
    (source,) = facts.sources
    return replace(facts, sources=({**source, "directory": "0"},))


def known(cli: Command, root: Path, state: JobState = JobState.RUNNING, job: str = JOB) -> str:
    """Add a job whose query has this checkpoint; its processes are this one."""
    query = QueryStatus("counts", "id", "run-1", str(root), batch_id=1, plan=RestorePlan())
    record = JobRecord(job, "app", JobState.INITIALIZING, time.time(), Launch("/app.py"))
    with cli.registry() as registry:
        registry.add_job(replace(record, spark_version="4.3.0", checkpoint_dir=str(root.parent)))
        registry.update_job(job, supervisor=process_ref(), driver=process_ref())
        for step in (JobState.CREATED, JobState.RUNNING):
            registry.transition(job, step)
        registry.heartbeat(job, [query])
        registry.record_facts(job, query.name, query.query_id, facts_for(root))
        if state is not JobState.RUNNING:
            registry.transition(job, state)
    return job


def check(cli: Command, *words: str) -> list[str]:
    return ["check", "--spark-home", str(cli.spark_home), *words, str(cli.program)]


def files(root: Path) -> set[tuple[Path, int]]:
    return {(path, path.stat().st_mtime_ns) for path in root.rglob("*")}


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.FINISHED])
def test_of_a_job_from_its_newest_committed_batch(
    cli: Command, root: Path, state: JobState
) -> None:
    job = known(cli, root, state)
    before = cli.status(job), files(root)
    result = cli(*check(cli, "--json", job[:6]))
    assert result.code == 5, result.err
    plan = result.json()
    assert (plan["verdict"], plan["savepoint"]) == ("consent-needed", None)
    assert (plan["job_id"], plan["name"], plan["state"]) == (job, "app", state.value)
    assert (plan["version"]["from"], plan["version"]["to"]) == ("4.3.0", "4.3.0")
    assert [(op["uid"], op["verdict"]) for op in plan["operators"]] == [("uid-0", "dropped")]
    agreed = cli.ok(*check(cli, "-D", "execution.stream-graph-hasher.version=v2", "-n", "app"))
    assert agreed.err.count("has the ids of both hashers") == 1
    assert agreed.out.splitlines()[-1] == "verdict: ok: the program can resume from the job"
    assert (cli.status(job), files(root)) == before


def test_options_may_follow_the_job(cli: Command, root: Path) -> None:
    job = known(cli, root)
    words = ("check", "--spark-home", str(cli.spark_home))
    last = "verdict: ok: the program can resume from the job"
    for following in (
        ["-n", "--conf", "spark.x=y"],
        ["-n"],
        ["--allowNonRestoredState", "-p", "2"],
    ):
        done = cli.ok(*words, job, *following, str(cli.program), "-n", "word")
        assert done.out.splitlines()[-1] == last
    # What follows the program is the program's.
    assert cli(*words, "-n", "-s", str(root), str(cli.program), "--conf", "x").code == 0
    assert cli(*words, job, str(cli.program), "-n").code == 5


def test_names_that_nothing_has_are_usage_errors(cli: Command, root: Path) -> None:
    job = known(cli, root)
    for option in ("--reset-source=other", "--uid-map=other=new", "--uid-map=uid-0=new"):
        refused = cli(*check(cli, option, "--json", job))
        assert refused.code == 2, refused
        assert option.partition("=")[0] in refused.error()["hint"]


def test_a_plan_of_a_job_is_not_saved(cli: Command, root: Path, tmp_path: Path) -> None:
    job = known(cli, root)
    refused = cli(*check(cli, "-n", "-o", "plan.json", job))
    assert refused.code == 2
    assert "the job would have moved on" in refused.err
    assert not (tmp_path / "plan.json").exists()


def test_a_savepoint_is_named_without_an_option_too(
    cli: Command, root: Path, tmp_path: Path
) -> None:
    facts = facts_for(root)
    saved = write_savepoint(
        str(tmp_path / "sp"),
        SavepointJob(JOB, "app", spark_version="4.3.0"),
        [query_source(QueryStatus("counts", "id", "r", str(root)), facts)],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )
    plans = [cli(*check(cli, "--json", *w)).json() for w in (["-s", saved.path], [saved.path])]
    assert plans[0] == plans[1]
    assert plans[0]["savepoint"] == saved.path
    assert "job_id" not in plans[0]


def test_a_job_without_state_to_go_on_from(cli: Command, root: Path) -> None:
    batch = cli.ok("run", "--no-wait", "-q", "--spark-home", str(cli.spark_home), "app.py")
    refused = cli(*check(cli, "--json", batch.out.strip()))
    assert refused.code == 13
    assert "streaming query" in refused.error()["message"]
    job = known(cli, root)
    problem = {"id": "not-savepointable", "code": 4, "message": "it writes to memory", "hint": ""}
    with cli.registry() as registry:
        registry.record_facts(job, "counts", "id", QueryFacts("run-1", problem=problem))
    refused = cli(*check(cli, "--json", job))
    assert refused.code == 4
    assert refused.error()["message"] == "query 'counts': it writes to memory"


def test_for_reviewers(
    cli: Command, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = known(cli, root)
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    annotated = cli(*check(cli, "--format", "github", job))
    assert annotated.code == 5
    assert annotated.out.startswith("::error file=app.py,title=flinkish check::verdict: consent")
    assert "::error file=app.py,title=flinkish check%3A no-operator::uid-0: no operator" in (
        annotated.out
    )
    before, _, added = summary.read_text().partition("### ")
    assert before == "# before\n"
    assert added.startswith("⚠️ consent-needed: the program can resume from the job with")
    agreed = cli.ok(*check(cli, "--format", "github", "-n", job))
    assert agreed.out.startswith("::notice file=app.py,title=flinkish check::verdict: ok: ")
    assert cli(*check(cli, "--format", "json", job)).json()["verdict"] == "consent-needed"
    module = cli(
        "check", "--spark-home", str(cli.spark_home), "--format", "github", job, "-pym", "app"
    )
    assert module.out.startswith("::error title=flinkish check::verdict: consent"), module.err


def test_a_failure_is_shown_to_reviewers_too(
    cli: Command, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))  # cannot be written
    refused = cli(*check(cli, "--format", "github", "-s", "/no/savepoint"))
    assert refused.code == 11
    assert refused.out.startswith("::error file=app.py,title=flinkish check%3A savepoint-not-found")
    assert "warning: cannot write GITHUB_STEP_SUMMARY" in refused.err
    assert "error: " in refused.err
    shown = cli(*check(cli, "--format", "markdown", "-s", "/no/savepoint"))
    assert shown.code == 11
    assert shown.out.startswith("### ❌ the restore of <code>")
    for words in (["--json", "--format", "github"], ["-q", "--format", "markdown"]):
        assert cli(*check(cli, *words, "-s", "/no/savepoint")).code == 2
