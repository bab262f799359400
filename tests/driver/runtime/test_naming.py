"""Queries that the program does not name, and checkpoints that it names by a relative path."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.runtime.naming import Names
from flinkish.driver.script import run_callable
from flinkish.driver.tasks.describe import PlanningRuntime
from flinkish.registry.jobs import JobState, RequestKind
from tests.driver.test_gate import rate
from tests.support.driver.in_process_job import InProcessJob

NewJob = Callable[..., InProcessJob]


@pytest.mark.parametrize("pair", [("orders/eu", "orders eu"), ("a:b", "a_b"), (".q", "q")])
def test_two_queries_never_share_a_checkpoint(pair: tuple[str, str]) -> None:
    names = Names("/root")
    first, second = (names.directory(name, fresh=True) for name in pair)
    assert first != second
    assert [names.directory(name, fresh=False) for name in pair] == [first, second]


def test_a_query_that_is_started_anew_leaves_the_checkpoint_of_another_alone() -> None:
    names = Names("/root")
    assert names.directory("a", fresh=True) == "/root/a"
    assert names.directory("a-2", fresh=True) == "/root/a-2"
    assert names.directory("a", fresh=True) == "/root/a-3"
    assert names.directory("a", fresh=False) == "/root/a-3"
    assert names.directory("a-3", fresh=True) == "/root/a-3-2"


def test_a_resumed_query_keeps_its_checkpoint_from_others() -> None:
    names = Names("/root")
    names.resume("a b", "/root/a_b-2")
    names.resume("own", "/elsewhere/a")
    assert names.directory("a_b-2", fresh=True) == "/root/a_b-2-2"
    assert names.directory("a b", fresh=False) == "/root/a_b-2"
    assert names.directory("a", fresh=True) == "/root/a", "another directory"


@pytest.mark.spark
def test_unnamed_queries_started_in_threads_get_names_of_their_own(
    spark: Any, new_job: NewJob
) -> None:
    def start(_: int) -> Any:
        return rate(spark).writeStream.format("noop").start()

    def program() -> None:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(start, range(3)))
        spark.streams.awaitAnyTermination()

    job = new_job().start(program)
    job.wait_until(lambda: len(job.runtime.queries()) == 3 and job.batch() >= 0)
    queries = job.runtime.queries()
    assert {q.name for q in queries} == {"query-1", "query-2", "query-3"}
    assert len({q.checkpoint for q in queries}) == 3
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED


@pytest.mark.spark
def test_an_unnamed_query_that_is_retried_is_the_same_query(spark: Any, new_job: NewJob) -> None:
    seen: list[int] = []

    def once_broken(frame: Any, batch: int) -> None:
        seen.append(batch)
        if len(seen) == 2:
            raise ValueError("the first time")

    def program() -> None:
        for _ in range(2):
            query = rate(spark).writeStream.foreachBatch(once_broken).start()
            try:
                while len(seen) < 4:
                    query.awaitTermination(1)
            except Exception:  # noqa: BLE001 - what a retrying program does
                continue
            query.stop()

    job = new_job().start(program)
    final = job.wait()
    assert final.state is JobState.FINISHED, final.failure
    assert [q.name for q in job.runtime.queries()] == ["query-1"]
    assert seen[:3] == [0, 1, 1], "it went on where it was"


@pytest.mark.spark
def test_a_relative_checkpoint_location_is_sparks_to_resolve(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    name = f"relative-{tmp_path.name}"

    def program() -> None:
        writer = rate(spark).writeStream.queryName("q").format("noop")
        writer.option("checkpointLocation", name).start().awaitTermination()

    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= 0)
    checkpoint = Path(job.runtime.queries()[0].checkpoint)
    assert checkpoint.name == name
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED
    shutil.rmtree(checkpoint)


@pytest.mark.spark
def test_a_plan_names_unnamed_queries_as_the_job_does(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    seen: list[str] = []

    def program() -> None:
        for place in (own, f"file:{own}", tmp_path / "other", tmp_path / "." / "own"):
            writer = rate(spark).writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", str(place)).start()
            query.awaitTermination()
            seen.append(query.name)

    planning = PlanningRuntime({})
    assert planning.run(lambda: run_callable(program)).error is None
    names = ["query-1", "query-1", "query-2", "query-1"]
    assert seen == [name for name, _ in planning.queries] == names
    assert not own.exists()

    job = new_job().start(program)
    assert job.wait().state is JobState.FINISHED
    assert [Path(query.checkpoint).name for query in job.runtime.queries()] == ["own", "other"]
    assert [query.name for query in job.runtime.queries()] == ["query-1", "query-2"]
