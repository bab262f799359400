"""Runs every pair of connector and Spark, and keeps what came of it in a work directory.

``<work>/<environment>/<role>/`` has ``begun/`` (all that a query left behind: input, table,
checkpoint, output), ``begun.json``, and for each environment that went on from it
``to-<environment>.json``. Tables of Iceberg and checkpoints have absolute paths in them: a query
always runs in ``live/`` beside, where ``begun/`` is copied to before another goes on.

Kafka's rows are in the broker: its results are kept when all of them are there, else measured
again from the start.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from tests.support import venvs
from tests.support.servers.kafka import KafkaServer, kafka
from tools.compatmatrix.connectors.artifacts import (
    DELTA,
    KAFKA,
    ROLES,
    SINK,
    SOURCE,
    Environment,
    environments,
    usual,
)
from tools.compatmatrix.connectors.rows import FILES, half, ids, write_files, wrong_rows
from tools.compatmatrix.measure import BadMeasurement, read_result, run_worker

#: Seconds that one query may take.
TIMEOUT = 120
_SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_EXTENSIONS = {
    KAFKA: {},
    DELTA: {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Else a table's log has its first checkpoint, which other code writes and reads, after ten
        # commits: more than are made here.
        "spark.databricks.delta.properties.defaults.checkpointInterval": "2",
    },
    "iceberg": {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
    },
}


@dataclass(frozen=True)
class Begun:
    """A query with a connector that an environment has begun."""

    environment: Environment
    role: str
    directory: Path

    @property
    def live(self) -> Path:
        """Where it runs, always."""
        return self.directory / "live"

    @property
    def is_there(self) -> bool:
        """Whether it has been begun, and others can go on from it."""
        return self.result().is_file() and (self.directory / "begun").is_dir()

    def result(self, target: Environment | None = None) -> Path:
        """The file with the result: of beginning it, or of going on with it on a target."""
        return self.directory / ("begun.json" if target is None else f"to-{target.id}.json")


@dataclass
class ConnectorMeasurement:
    """One connector on some Sparks, in a work directory.

    Parameters
    ----------
    say: called with a line of progress.
    """

    connector: str
    sparks: Sequence[str]
    work: Path
    say: Callable[[str], None]
    environments: list[Environment] = field(init=False)

    def __post_init__(self) -> None:
        """List what there is to measure."""
        self.environments = list(environments(self.sparks, self.connector))

    def begun(self, environment: Environment) -> list[Begun]:
        """Its two queries, whether measured already or not."""
        return [Begun(environment, role, self.work / environment.id / role) for role in ROLES]

    def usual(self) -> list[Environment]:
        """Those that others go on from, and with: the best for each Spark."""
        return usual(
            [
                one
                for one in self.environments
                if all(verdict(begun) is None for begun in self.begun(one))
            ]
        )

    def pairs(self) -> list[tuple[Begun, Environment]]:
        """What is gone on with, and by whom: everything by itself, the usual ones by each other."""
        chosen = self.usual()
        return [
            (begun, target)
            for target in self.environments
            for origin in self.environments
            if target == origin or (target in chosen and origin in chosen)
            for begun in self.begun(origin)
            if verdict(begun) is None
        ]

    def run(self, *, again: bool) -> None:
        """Measure what has no result yet, with ``again`` everything.

        Raises venvs.Unavailable and jars.Unavailable when something cannot be had.
        """
        if not again and not self._missing():
            return
        if again or self.connector == KAFKA:
            shutil.rmtree(self.work, ignore_errors=True)
        for one in self.environments:
            one.artifact.jars()
            venvs.interpreter(one.spark)
        self.work.mkdir(parents=True, exist_ok=True)
        broker: AbstractContextManager[KafkaServer | None] = nullcontext()
        if self.connector == KAFKA:
            broker = kafka(self.work / "broker")
        with broker as server:
            for one in self.environments:
                new = [begun for begun in self.begun(one) if not begun.is_there]
                self._begin(one, new, server)
            for target in self.environments:
                pairs = [begun for begun, to in self.pairs() if to == target]
                new = [begun for begun in pairs if read_result(begun.result(target)) is None]
                self._resume(target, new, server)

    def _missing(self) -> bool:
        begun = [one for each in self.environments for one in self.begun(each)]
        return any(not one.is_there for one in begun) or any(
            read_result(one.result(target)) is None for one, target in self.pairs()
        )

    def _begin(
        self, environment: Environment, new: Sequence[Begun], server: KafkaServer | None
    ) -> None:
        runs = []
        for one in new:
            shutil.rmtree(one.directory, ignore_errors=True)
            one.live.mkdir(parents=True)
            topic = f"{environment.id}-{one.role}"
            if one.role == SINK:
                write_files(one.live / "in", 0)
            if server is not None:
                server.make_topic(topic)
                if one.role == SOURCE:
                    _feed(server, topic, 0)
            runs.append(self._run(one, "begin", topic, one.result(), server))
        self._process(environment, runs, "begin")
        for one, run in zip(new, runs, strict=True):
            if server is not None and one.role == SOURCE:
                _feed(server, run["topic"], 1)
            elif server is not None:
                _put_rows(one.result(), server, run["topic"])
            if one.role == SINK:
                write_files(one.live / "in", 1)
            one.live.rename(one.directory / "begun")
            self.say(f"{environment.id} {one.role}: {verdict(one) or 'begun'}")

    def _resume(
        self, target: Environment, pairs: Sequence[Begun], server: KafkaServer | None
    ) -> None:
        runs = []
        for one in pairs:
            shutil.rmtree(one.live, ignore_errors=True)
            shutil.copytree(one.directory / "begun", one.live, copy_function=shutil.copy2)
            topic = f"{one.environment.id}-{one.role}"
            if server is not None and one.role == SINK:
                topic += f"-to-{target.id}"
                server.make_topic(topic)
            runs.append(self._run(one, "resume", topic, one.result(target), server))
        self._process(target, runs, "resume")
        for one, run in zip(pairs, runs, strict=True):
            if server is not None and one.role == SINK:
                _put_rows(one.result(target), server, run["topic"])
            shutil.rmtree(one.live)
            said = verdict(one, target) or "ok"
            self.say(f"{one.environment.id} -> {target.id} {one.role}: {said}")

    def _run(
        self, one: Begun, phase: str, topic: str, result: Path, server: KafkaServer | None
    ) -> dict[str, Any]:
        return {
            "connector": self.connector,
            "role": one.role,
            "phase": phase,
            "directory": str(one.live),
            "bootstrap": None if server is None else server.bootstrap,
            "topic": topic,
            "result": str(result),
        }

    def _process(self, environment: Environment, runs: list[dict[str, Any]], name: str) -> None:
        """Run them in one Spark; what has no result then: that Spark died of it."""
        if not runs:
            return
        file = self.work / environment.id / f"{name}-runs.json"
        jars = ",".join(str(path) for path in environment.artifact.jars())
        session = {**_SESSION, **_EXTENSIONS[self.connector], "spark.jars": jars}
        session["spark.sql.warehouse.dir"] = str(file.with_name("spark-warehouse"))
        file.write_text(json.dumps({"session": session, "timeout": TIMEOUT, "runs": runs}))
        python = venvs.interpreter(environment.spark)
        # A process that does not end in time is told below.
        run_worker(python, "tools.compatmatrix.connectors.worker", file, TIMEOUT * (1 + len(runs)))
        for run in runs:
            path = Path(run["result"])
            if not path.is_file():
                path.write_text(json.dumps({"errors": ["the process of Spark died"]}))


def verdict(begun: Begun, target: Environment | None = None) -> str | None:
    """What is wrong with a result, or None; raises BadMeasurement when there is none.

    The rows of both halves are expected in the sink of a query that went on, each once. Of Kafka's
    sink the result has only the second half: each that goes on has a topic of its own.
    """
    result = read_result(begun.result(target))
    if result is None:
        raise BadMeasurement(f"{begun.result(target)} is missing")
    if result["errors"]:
        return str(result["errors"][-1])
    wanted = half(0)
    if target is not None:
        alone = begun.environment.artifact.connector == KAFKA and begun.role == SINK
        wanted = half(1) if alone else half(0) + half(1)
    problem = wrong_rows(result["rows"], wanted)
    # Iceberg's source takes all that is there into one batch.
    in_half = FILES if begun.role == SINK else 1
    batches = in_half * (1 if target is None else 2)
    if problem is None and result["batches"] < batches:
        raise BadMeasurement(f"{begun.result(target)}: {result['batches']} batches, not {batches}")
    return problem


def errors(begun: Begun, target: Environment | None = None) -> list[str]:
    """All errors of a result, or that its rows are wrong; empty when all is well."""
    result = read_result(begun.result(target)) or {"errors": []}
    problem = verdict(begun, target)
    return [str(error) for error in result["errors"]] or ([problem] if problem else [])


def _feed(server: KafkaServer, topic: str, number: int) -> None:
    for file in range(number * FILES, (number + 1) * FILES):
        # With the time of now: the broker deletes what is older than a week.
        rows = [(int(time.time() * 1000), str(one).encode()) for one in ids(file)]
        server.write(topic, 0, rows)


def _put_rows(path: Path, server: KafkaServer, topic: str) -> None:
    """Add to a result what is in the topic of a sink."""
    result = read_result(path)
    if result is None or result["errors"]:
        return
    consumer = KafkaConsumer(bootstrap_servers=server.bootstrap, auto_offset_reset="earliest")
    try:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        rows: list[int] = []
        while consumer.position(place) < end:
            for records in consumer.poll(timeout_ms=200).values():
                rows += [int(record.value) for record in records]
    finally:
        consumer.close()
    path.write_text(json.dumps({**result, "rows": sorted(rows)}))
