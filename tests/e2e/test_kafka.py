"""From Kafka to Kafka with Spark's own connector: what a restore reads, skips and writes again.

The rows that a test writes into the input are known, and what must be in the output is worked out
in Python. Kafka's sink is at-least-once, so some rows may be there twice: never more than the plan
said.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_killed import processes_of
from tests.support import venvs
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish, Result, wait_until
from tests.support.servers.jars import Unavailable, kafka_connector
from tests.support.servers.kafka import PASSWORD, USER, KafkaServer

pytestmark = [
    *(pytest.mark.spark, pytest.mark.servers, pytest.mark.matrix),
    pytest.mark.timeout(1800),
]

PROGRAM = "kafka_job.py"
#: A time of the rows, in milliseconds: that of id 0; each id is a second later.
BEGIN = 1_700_000_000_000
#: The connector of Spark 4.1.1 fails after a replayed batch (SPARK-55271).
AGAIN = (
    *("--restart-strategy", "fixed-delay"),
    *("-D", "restart-strategy.fixed-delay.attempts=9"),
)


@dataclass
class Stage:
    """A topic, the jobs that read it, and what they have put out."""

    flinkish: Flinkish
    broker: KafkaServer
    spark: str
    topic: str
    partitions: int = 2
    written: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broker.make_topic(self.topic, self.partitions)
        for query in ("new", "counts"):
            self.broker.make_topic(f"{self.topic}-{query}")

    def write(self, ids: Iterable[int]) -> None:
        """Write a row for each id: to the partitions in turn, ``k`` is the id modulo 3."""
        rows: dict[int, list[tuple[int, bytes]]] = {}
        for i in ids:
            value = json.dumps({"id": i, "k": i % 3}).encode()
            rows.setdefault(i % self.partitions, []).append((BEGIN + i * 1000, value))
            self.written.append(i)
        for partition, found in rows.items():
            self.broker.write(self.topic, partition, found)

    def words(self, *more: str) -> tuple[str, ...]:
        """The program's arguments."""
        return (self.broker.bootstrap, self.topic, self.topic, *more)

    @property
    def options(self) -> tuple[str, ...]:
        """Spark's options."""
        try:
            jars = kafka_connector(self.spark)
            python = venvs.interpreter(self.spark)
        except (Unavailable, venvs.Unavailable) as why:
            pytest.skip(f"needs {why}")
        return ("-pyexec", python, f"--conf=spark.jars={','.join(map(str, jars))}")

    def run(self, *words: str, options: tuple[str, ...] = ()) -> str:
        """Start a job."""
        given = (*self.options, *options)
        return self.flinkish.run(PROGRAM, *self.words(*words), options=given)

    def refused(self, *words: str, options: tuple[str, ...] = ()) -> Result:
        """Start a job that does not come up."""
        given = ("-d", "-m", "local[2]", *LIGHT, *self.options, *options)
        path = str(PROGRAMS / PROGRAM)
        return self.flinkish("run", "--json", *given, path, *self.words(*words))

    def check(self, path: str, *words: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
        """The plan of a restore."""
        given = ("-m", "local[2]", *LIGHT, *self.options, *options, "-s", path)
        program = (str(PROGRAMS / PROGRAM), *self.words(*words))
        result = self.flinkish("check", "--json", *given, *program)
        assert result.code in (0, 4, 5), result
        plan: dict[str, Any] = result.json()
        assert plan["exit_code"] == result.code
        return plan

    def plan_of(self, job: str, query: str) -> dict[str, Any]:
        """The plan of a query's restore in the job's record."""
        (found,) = (q for q in self.flinkish.job(job)["queries"] if q["name"] == query)
        return dict(found["plan"])

    def stop(self, job: str) -> str:
        """Stop a job with a savepoint."""
        target = str(self.flinkish.directory / "sp")
        return self.flinkish.ok("stop", "-q", "-p", target, job).out.strip()

    def output(self, query: str) -> list[dict[str, Any]]:
        """All rows that a query has put out."""
        return [json.loads(value) for value in self.broker.read(f"{self.topic}-{query}")]

    def new(self) -> Counter[int]:
        """How often each id was put out as one that was not seen before."""
        return Counter(row["id"] for row in self.output("new"))

    def counts(self) -> dict[int, tuple[int, int]]:
        """The newest number of rows, and the sum of their ids, by ``k``."""
        return {row["k"]: (row["n"], row["ids"]) for row in self.output("counts")}

    def wait_for(self, job: str, ids: Iterable[int], *, seen: Iterable[int] | None = None) -> None:
        """Wait until the job has counted these ids, and put out those of ``seen`` as new."""
        rows, new = list(ids), set(ids if seen is None else seen)

        def there() -> bool:
            assert self.flinkish.job(job)["state"] != "FAILED", self.flinkish.job(job)
            return self.counts() == counted(rows) and set(self.new()) == new

        try:
            wait_until(there, poll=2)
        except AssertionError as late:
            missing = sorted(new - set(self.new()))
            raise AssertionError((self.counts(), counted(rows), missing[:20])) from late


def counted(ids: Iterable[int]) -> dict[int, tuple[int, int]]:
    """What the program has to count."""
    found: dict[int, tuple[int, int]] = {}
    for i in ids:
        n, total = found.get(i % 3, (0, 0))
        found[i % 3] = n + 1, total + i
    return found


def source_of(plan: dict[str, Any], query: str) -> dict[str, Any]:
    (found,) = (row for row in plan["sources"] if row["query"] == query)
    return dict(found)


def checks_of(plan: dict[str, Any], query: str, check: str) -> list[dict[str, Any]]:
    return [c for c in plan["checks"] if (c.get("query"), c["id"]) == (query, check)]


OLDEST, NEWEST = "3.5.9", "4.1.4"


def on_spark(version: str) -> pytest.MarkDecorator:
    """What a test asks of the broker, not of the connector, is the same on each Spark."""
    return pytest.mark.parametrize("stage", [version], indirect=True)


@pytest.fixture(params=[NEWEST, OLDEST])
def stage(
    request: pytest.FixtureRequest, flinkish: Flinkish, kafka: KafkaServer, tmp_path: Path
) -> Stage:
    name = request.node.originalname.removeprefix("test_")[:40]
    return Stage(flinkish, kafka, request.param, f"{name}-{request.param}-{time.time_ns()}")


def test_stopped_at_any_moment_and_gone_on_as_another_program(stage: Stage) -> None:
    stage.write(range(100))
    job = stage.run("--rate", "20")
    stage.flinkish.wait_for_batch(job, 1)
    target = str(stage.flinkish.directory / "sp")
    older = stage.flinkish.ok("savepoint", "-q", job, target).out.strip()
    stage.write(range(100, 200))
    time.sleep(random.uniform(0, 3))
    path = stage.stop(job)
    read = len(stage.new())
    stage.write(range(200, 250))

    plan = stage.check(path, "--v2")
    assert plan["exit_code"] == 0, plan
    source = source_of(plan, "new")
    assert (source["uid"], source["verdict"]) == ("input", "as-is"), plan
    assert source["signature"] == f"kafka[subscribe={stage.topic}]"
    (lag,) = checks_of(plan, "new", "kafka-lag")
    assert f"{250 - read:,} in topic {stage.topic}" in lag["text"], (lag, read)
    (again,) = checks_of(plan, "new", "kafka-sink")
    assert (again["outcome"], again["batches"]) == ("note", 0), again
    resumed = stage.run("--v2", "--rate", "60", options=("-s", path))
    stage.wait_for(resumed, range(250))
    assert set(stage.new().values()) == {1}  # it was stopped between two batches
    assert {row.get("two") for row in stage.output("new")} == {None, 2}
    stage.stop(resumed)

    plan = stage.check(older, "--v2")
    assert plan["exit_code"] == 0, plan
    most = {}
    for query in ("new", "counts"):
        (again,) = checks_of(plan, query, "kafka-sink")
        assert again["outcome"] == "warning", again
        (batch,) = (row["from_batch"] for row in plan["queries"] if row["name"] == query)
        job_queries = stage.flinkish.job(resumed)["queries"]
        (newest,) = (q["batch_id"] for q in job_queries if q["name"] == query)
        assert again["batches"] == newest - batch, (again, newest)
        most[query] = again["batches"]
    once_more = stage.run("--v2", "--rate", "60", options=("-s", older, *AGAIN))
    log = stage.flinkish.ok("logs", once_more).out
    assert f"at-least-once: what it already has of {most['new']} batches" in log, log
    stage.write(range(250, 260))
    stage.wait_for(once_more, range(260))
    twice = [i for i, n in stage.new().items() if n == 2]
    assert set(stage.new().values()) <= {1, 2}
    assert 0 < len(twice) <= 60 * most["new"]


def saved_at(stage: Stage, ids: Iterable[int], *words: str) -> str:
    """A savepoint of a job that was stopped when it had read these ids."""
    stage.write(ids)
    job = stage.run("--rate", "200", *words)
    stage.wait_for(job, stage.written)
    return stage.stop(job)


def gone_on(stage: Stage, options: tuple[str, ...], counted: Iterable[int], *words: str) -> str:
    """The job that went on with these options until it had counted these ids."""
    job = stage.run("--v2", "--rate", "200", *words, options=options)
    stage.wait_for(job, counted, seen=stage.written)
    return job


@on_spark(OLDEST)
def test_partitions_that_are_new_are_read_from_their_beginning(stage: Stage) -> None:
    path = saved_at(stage, range(40))
    stage.broker.grow_topic(stage.topic, 4)
    stage.partitions = 4
    stage.write(range(40, 80))
    job = gone_on(stage, ("-s", path), range(80))
    assert set(stage.new().values()) == {1}
    (found,) = checks_of(stage.plan_of(job, "counts"), "counts", "partitions-new")
    assert "partitions 2, 3 of topic" in found["text"]


@on_spark(NEWEST)
def test_rows_that_retention_deleted(stage: Stage) -> None:
    path = saved_at(stage, range(40))
    stage.write(range(40, 80))
    for partition in range(2):
        stage.broker.forget_rows(stage.topic, partition, before=30)
    # Spark would fail whatever was agreed to.
    plan = stage.check(path, options=("--accept-lost-rows",))
    source = source_of(plan, "counts")
    assert (plan["exit_code"], source["verdict"], source["reason"], source["lost_rows"]) == (
        *(5, "consent-needed", "rows-expired", 20),
    )
    assert "failOnDataLoss is true" in source["text"]
    skips = "failOnDataLoss=false"
    refused = stage.refused(skips, options=("-s", path))
    assert refused.code == 5, refused
    assert "up to 20 rows of topic" in refused.error()["message"]
    for i in range(40, 60):
        stage.written.remove(i)
    gone_on(stage, ("-s", path, "--accept-lost-rows"), stage.written, skips)
    assert set(stage.new()) == {*range(40), *range(60, 80)}


@on_spark(OLDEST)
def test_a_topic_that_was_deleted_and_made_again(stage: Stage) -> None:
    path = saved_at(stage, range(40))
    stage.broker.drop_topic(stage.topic)
    # The broker is asked as the source is read: here by TLS and with a password.
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    secure = {
        "kafka.bootstrap.servers": f"127.0.0.1:{stage.broker.tls_port}",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": f'{login} username="{USER}" password="{PASSWORD}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(stage.broker.certificate),
    }
    plan = stage.check(path, *(f"{name}={value}" for name, value in secure.items()))
    assert PASSWORD not in json.dumps(plan)
    assert (plan["exit_code"], source_of(plan, "new")["reason"]) == (4, "topic-missing")
    stage.broker.make_topic(stage.topic, 2)
    stage.write(range(100, 140))  # as long as it was
    plan = stage.check(path)
    source = source_of(plan, "new")
    assert (plan["exit_code"], source["reason"]) == (5, "topic-recreated")
    assert "its id was" in source["text"]
    assert source["lost_rows"] == 40
    # All that the new topic has is read; what the state knows of the old one stays.
    options = ("-s", path, "--reset-source", "input")
    job = gone_on(stage, options, [*range(40), *range(100, 140)])
    assert set(stage.new().values()) == {1}
    plan = stage.plan_of(job, "counts")
    assert source_of(plan, "counts")["verdict"] == "reset"
    assert [c["outcome"] for c in checks_of(plan, "counts", "kafka-reset")] == ["note"]


@on_spark(NEWEST)
def test_offsets_that_are_set_to_others(stage: Stage) -> None:
    """Back to the earliest, then forward by a file, then back to a time: every row is accounted."""
    path = saved_at(stage, range(40))
    stage.write(range(40, 50))
    option = ("--set-offsets", "input=earliest")
    plan = stage.check(path, options=option)
    source = source_of(plan, "counts")
    assert (plan["exit_code"], source["verdict"]) == (5, "consent-needed")
    assert (source["lost_rows"], source["repeated_rows"]) == (0, 40)
    assert [(m["partition"], m["before"], m["after"], m["repeated"]) for m in source["moves"]] == [
        *((0, 20, 0, 20), (1, 20, 0, 20)),
    ]
    counted = [*range(40), *range(50)]
    job = gone_on(stage, ("-s", path, *option, "--accept-repeated-rows"), counted)
    # What was done is in the job's record.
    row = source_of(stage.plan_of(job, "counts"), "counts")
    assert (row["verdict"], row["repeated_rows"]) == ("set", 40)
    assert json.loads(row["set_to"]) == {stage.topic: {"0": 0, "1": 0}}
    (query,) = (q for q in stage.flinkish.job(job)["queries"] if q["name"] == "counts")
    assert any("is set to earliest" in note for note in query["notes"]), query["notes"]

    path = stage.stop(job)
    stage.write(range(50, 90))
    # Partition 0 has the even ids, of which the next ten are not read; partition 1 is as it was.
    file = stage.flinkish.directory / "offsets.json"
    file.write_text(json.dumps({stage.topic: {"0": 35}}))
    option = ("--set-offsets", f"input={file}")
    refused = stage.refused(options=("-s", path, *option, "--accept-repeated-rows"))
    assert refused.code == 5, refused
    assert f"up to 10 rows never read (10 of {stage.topic}-0" in refused.error()["message"]
    for i in range(50, 70, 2):
        stage.written.remove(i)
    counted += [i for i in range(50, 90) if i in stage.written]
    job = gone_on(stage, ("-s", path, *option, "--accept-lost-rows"), counted)

    path = stage.stop(job)
    stage.write(range(90, 100))
    option = ("--set-offsets", f"input=timestamp:{BEGIN + 80_000}")
    counted += range(80, 100)
    job = gone_on(stage, ("-s", path, *option, "--accept-repeated-rows"), counted)
    assert source_of(stage.plan_of(job, "counts"), "counts")["repeated_rows"] == 10
    assert set(stage.new()) == {*range(100)} - {*range(50, 70, 2)}
    assert set(stage.new().values()) == {1}  # they were counted again, but not new


def test_killed_in_the_middle_of_a_batch(stage: Stage) -> None:
    """Its last batch was begun: it is replayed, but not where other offsets are set."""
    stage.write(range(200))
    job = stage.run("--rate", "10")
    stage.flinkish.wait_for_batch(job, 2)
    time.sleep(random.uniform(0, 2))
    for pid in processes_of(job).values():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes_of(job))
    target = str(stage.flinkish.directory / "sp")
    path = stage.flinkish.ok("savepoint", "-q", job, target).out.strip()
    shown = stage.flinkish.ok("savepoint", "show", "--json", path).json()["savepoint"]
    (saved,) = (query for query in shown["queries"] if query["name"] == "counts")
    read = saved["offsets"][0][stage.topic]

    plan = stage.check(path)
    (check,) = checks_of(plan, "new", "kafka-sink")
    assert (check["outcome"], check["batches"]) == ("warning", 1), check
    if "planned" in check["text"]:
        known = checks_of(plan, "new", "kafka-replay-fails")
        assert bool(known) is stage.spark.startswith("4.1."), plan
    again = gone_on(stage, ("-s", path, *AGAIN), range(200))
    twice = [i for i, n in stage.new().items() if n > 1]
    assert set(stage.new().values()) <= {1, 2}
    assert len(twice) <= 10
    stage.stop(again)

    options = ("-s", path, "--set-offsets", "input=earliest", "--accept-repeated-rows")
    counted = [i for i in range(200) if i // 2 < read[str(i % 2)]]
    gone_on(stage, options, [*counted, *range(200)])
