"""Where the job of a name stands, for ``run --resume``."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.client.context import Context
from flinkish.client.resuming import run_to_resume
from flinkish.config import Config
from flinkish.errors import Superseded
from flinkish.launch.job_origin import resumed_origin
from flinkish.launch.other_jobs import came_from, standing
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, Launch, QueryStatus, RestoreSpec
from tests.cli.conftest import Command
from tests.support.checkpoints.handwritten import CheckpointLikeness


class Jobs:
    """Ended jobs of one query, one after the other, with checkpoints of their own."""

    def __init__(self, registry: Registry, directory: Path, *, resumes: bool = False) -> None:
        self.registry = registry
        self._launch = Launch("/a.py", resumes=resumes)
        self._directory = directory

    def ran(
        self,
        digit: str,
        name: str,
        batch: int | None,
        query_id: str = "shared",
        restore: RestoreSpec | None = None,
    ) -> str:
        root = self._directory / digit
        if batch is not None:
            CheckpointLikeness(root).run_to(batch)
        launch = replace(self._launch, restore=restore)
        job = JobRecord(digit * 32, name, JobState.RUNNING, self.registry.now(), launch)
        self.registry.add_job(job)
        query = replace(QueryStatus("q", query_id, "r", str(root)), active=False)
        self.registry.heartbeat(job.job_id, [query])
        self.registry.transition(job.job_id, JobState.FAILED)
        return job.job_id


def test_the_newest_run_that_has_committed(cli: Command, tmp_path: Path) -> None:
    cli.ok("list")
    with cli.registry() as registry, Context(Config.load()) as context:
        jobs = Jobs(registry, tmp_path)
        assert run_to_resume(context, "cron") is None
        jobs.ran("a", "cron", None)
        assert standing(registry, "cron") is None, "it has committed nothing: a first start"
        jobs.ran("b", "cron", 3)
        newest = jobs.ran("c", "cron", 5)
        jobs.ran("d", "cron", None)
        jobs.ran("e", "another", 9, "other")
        found = run_to_resume(context, "cron")
        assert found is not None
        assert found.job_id == newest
        moved = jobs.ran("f", "renamed", 6)
        with pytest.raises(Superseded, match=f"job renamed \\({moved}\\)") as refused:
            run_to_resume(context, "cron")
        assert "--name renamed --resume" in refused.value.hint


def test_queries_that_the_newest_run_had_not_started(cli: Command, tmp_path: Path) -> None:
    """A program of two queries, one after the other, that was killed in the first of them."""
    cli.ok("list")
    with cli.registry() as registry:
        jobs = Jobs(registry, tmp_path)
        first = jobs.ran("a", "cron", 3)
        CheckpointLikeness(tmp_path / "second").run_to(1)
        second = replace(QueryStatus("second", "i", "r", str(tmp_path / "second")), active=False)
        registry.heartbeat(first, [second])
        spec = RestoreSpec(str(tmp_path), job=first)
        killed = jobs.ran("b", "cron", 4, restore=spec)
        origin = resumed_origin(registry, registry.job(killed))
        batches = {q.name: newest_committed_batch(q.checkpoint_dir) for q in origin.queries}
        assert batches == {"q": 4, "second": 1}
        dropped = jobs.ran("c", "cron", 4, restore=replace(spec, allow_non_restored=True))
        origin = resumed_origin(registry, registry.job(dropped))
        assert [query.name for query in origin.queries] == ["q"], "dropped on purpose"
        assert came_from(registry, registry.job(dropped)) == [first]
        assert came_from(registry, registry.job(first)) == []


def test_a_purge_leaves_what_the_next_run_goes_on_from(cli: Command, tmp_path: Path) -> None:
    cli.ok("list")
    with cli.registry() as registry:
        jobs = Jobs(registry, tmp_path, resumes=True)
        old = jobs.ran("a", "cron", 3)
        newest = jobs.ran("b", "cron", 4)
        refused = jobs.ran("c", "cron", None)
    time.sleep(0.01)
    purge = ("purge", "--ended-before", "1ms", "--failed", "--dry-run")
    assert cli.ok(*purge, "-q").out.split() == [old, refused]
    (kept,) = (job for job in cli.ok(*purge, "--json").json()["jobs"] if job["job_id"] == newest)
    assert "flinkish run --resume goes on from it" in str(kept)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--resume",), "no name is given"),
        (("--resume", "--name", "a", "-s", "/sp"), "a savepoint and --resume exclude"),
        (("--resume", "--name", "a", "-cm", "claim"), "a claim mode and --resume exclude"),
    ],
)
def test_options_that_contradict_it(cli: Command, words: tuple[str, ...], says: str) -> None:
    refused = cli("run", *words, str(cli.program))
    assert refused.code == 2
    assert says in refused.err


def test_beside_a_job_that_runs(cli: Command) -> None:
    running = cli.start("serve", "--name", "cron")
    resume = ("run", "--name", "cron", "--resume")
    assert cli(*resume, str(cli.program)).code == 13
    assert running in cli.ok(*resume, "--if-not-running", str(cli.program)).out
