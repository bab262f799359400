"""What is measured: the connectors that Maven has, and the Sparks that each could be used with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers import jars
from tools.compatmatrix.cases import line

POM = Path(__file__).parents[1] / "connectors.pom.xml"
KAFKA, DELTA, ICEBERG = "kafka", "delta", "iceberg"
SOURCE, SINK = "source", "sink"
ROLES = (SOURCE, SINK)


@dataclass(frozen=True)
class Artifact:
    """One release of a connector; ``line`` is the line of Spark that it was built for."""

    connector: str
    group: str
    name: str
    version: str
    line: str

    @property
    def coordinates(self) -> str:
        """As ``--packages`` takes it."""
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def scala(self) -> str:
        """The version of Scala; a jar runs on a Spark of the same one only."""
        return self.name.rpartition("_")[2]

    def jars(self) -> list[Path]:
        """Its jars with what they need, without Spark's own; raises jars.Unavailable."""
        digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:8]
        directory = jars.KEPT / f"{self.name}-{self.version}-{digest}"
        if not directory.is_dir():
            options = {"group": self.group, "name": self.name, "version": self.version}
            chosen = [f"-Dconnector.{key}={value}" for key, value in options.items()]
            jars.download(POM, chosen, self.coordinates, directory)
        return sorted(directory.glob("*.jar"))


#: Oldest first. Of Spark's own connector for Kafka the registry has no other releases of these
#: lines whole: 4.0.x lacks spark-token-provider-kafka-0-10, 4.3.0 is not there.
ARTIFACTS = (
    Artifact(KAFKA, "org.apache.spark", "spark-sql-kafka-0-10_2.12", "3.5.7", "3.5"),
    Artifact(KAFKA, "org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.1.1", "4.1"),
    Artifact(KAFKA, "org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", "4.2"),
    Artifact(DELTA, "io.delta", "delta-spark_2.12", "3.3.2", "3.5"),
    Artifact(DELTA, "io.delta", "delta-spark_2.13", "4.0.1", "4.0"),
    Artifact(DELTA, "io.delta", "delta-spark_4.1_2.13", "4.1.0", "4.1"),
    Artifact(ICEBERG, "org.apache.iceberg", "iceberg-spark-runtime-3.5_2.12", "1.10.1", "3.5"),
    Artifact(ICEBERG, "org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", "1.10.1", "4.0"),
    Artifact(ICEBERG, "org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", "1.11.0", "4.0"),
    Artifact(ICEBERG, "org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.11.0", "4.1"),
)


@dataclass(frozen=True)
class Environment:
    """A connector on a Spark."""

    artifact: Artifact
    spark: str

    @property
    def id(self) -> str:
        """For directories and messages."""
        return f"{self.artifact.name}-{self.artifact.version}-on-{self.spark}"

    @property
    def is_own(self) -> bool:
        """Whether the connector was built for this line of Spark."""
        return self.artifact.line == "{}.{}".format(*line(self.spark))


def environments(sparks: Sequence[str], connector: str) -> Iterator[Environment]:
    """All pairs of a connector's releases and these Sparks that have the same Scala."""
    for artifact in ARTIFACTS:
        if artifact.connector == connector:
            for spark in sparks:
                if artifact.scala == ("2.12" if line(spark) < (4, 0) else "2.13"):
                    yield Environment(artifact, spark)


def usual(working: Sequence[Environment]) -> list[Environment]:
    """For each Spark, of those that work there, what was built for it; else the newest one."""
    by_spark: dict[str, list[Environment]] = {}
    for one in working:
        by_spark.setdefault(one.spark, []).append(one)
    return [
        each
        for some in by_spark.values()
        for each in ([one for one in some if one.is_own] or some[-1:])
    ]
