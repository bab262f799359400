"""Jars for the servers and for ``s3a://`` in Spark: got once with Maven, kept in ``.cache/``."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

POM = Path(__file__).with_name("pom.xml")
KEPT = Path(__file__).resolve().parents[3] / ".cache" / "servers"
PATIENCE = 240.0
"""Seconds for a download, less than a test may take; all sets together are 190 MB."""
#: Maven waits half an hour for a server that has fallen silent. Wagon (3.8) and the resolver (3.9)
#: have names of their own for that, in milliseconds; both ask again after it.
_SOON_SILENT = (
    "-Dmaven.wagon.rto=20000",
    "-Dmaven.wagon.http.retryHandler.requestSentEnabled=true",
    "-Daether.connector.requestTimeout=20000",
    "-Daether.connector.http.retryHandler.count=3",
)
_MAVEN = "{http://maven.apache.org/POM/4.0.0}"
#: The profile with Spark's connector for Kafka, by the line of Spark.
_CONNECTORS = {"3.5": "kafka-connector-3.5", "4.1": "kafka-connector-4.1"}
#: The profile with Delta Lake, by the line of Spark.
_DELTA = {"3.5": "delta-3.5", "4.0": "delta-4.0"}
#: The profile with Iceberg, by the line of Spark.
_ICEBERG = {line: f"iceberg-{line}" for line in ("3.5", "4.0", "4.1")}


class Unavailable(Exception):
    """Something that a server needs cannot be had here; the message names it, and says why."""


def java() -> str:
    """Return the ``java`` to run, in Spark's own order: that of JAVA_HOME, then the path's.

    Raises:
        Unavailable: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        raise Unavailable("Java (Debian: apt-get install openjdk-17-jre-headless)")
    return found


@cache
def spark_jars() -> Path:
    """Return the directory of the installed Spark's jars.

    Raises:
        Unavailable: There is no PySpark.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable("PySpark")
    return Path(spec.submodule_search_locations[0], "jars")


def hadoop_version() -> str:
    """Return the version of Hadoop that the installed Spark brings along.

    Raises:
        Unavailable: It brings none.
    """
    found = sorted(spark_jars().glob("hadoop-client-api-*.jar"))
    if not found:
        raise Unavailable(f"hadoop-client-api in {spark_jars()}")
    return found[-1].stem.removeprefix("hadoop-client-api-")


@cache
def jars(profile: str) -> tuple[Path, ...]:
    """Return the jars of a profile of pom.xml: ``hdfs``, ``kafka``, ``s3proxy``, ``s3a`` ...

    They are downloaded the first time. The directory's name tells what is in it, so that another
    Spark or a changed profile gets a directory of its own.

    Raises:
        Unavailable: Maven is not there, or cannot get them.
    """
    version = hadoop_version()
    directory = KEPT / f"{profile}-{version}-{_digest(profile)}"
    if not directory.is_dir():
        _download(profile, version, directory)
    return tuple(sorted(directory.glob("*.jar")))


def kafka_connector(spark: str) -> list[Path]:
    """Return Spark's connector for Kafka and its client, for ``spark.jars`` of this Spark.

    Raises:
        Unavailable: There is none for this version, or it cannot be had.
    """
    return _for_spark("the Kafka connector", _CONNECTORS, spark)


def delta(spark: str) -> list[Path]:
    """Return Delta Lake, for ``spark.jars`` of this Spark.

    Raises:
        Unavailable: There is none for this version, or it cannot be had.
    """
    return _for_spark("Delta Lake", _DELTA, spark)


def iceberg(spark: str) -> list[Path]:
    """Return Iceberg, for ``spark.jars`` of this Spark.

    Raises:
        Unavailable: There is none for this version, or it cannot be had.
    """
    return _for_spark("Iceberg", _ICEBERG, spark)


def _for_spark(product: str, profiles: Mapping[str, str], spark: str) -> list[Path]:
    line = spark.rpartition(".")[0]
    if line not in profiles:
        raise Unavailable(f"{product} for Spark {spark}, which pom.xml does not have")
    return list(jars(profiles[line]))


def _digest(profile: str) -> str:
    """Return what tells a profile from any other text that it has had or will have."""
    root = ElementTree.parse(POM).getroot()
    given = root.find(f"{_MAVEN}properties")
    assert given is not None
    values = {each.tag.removeprefix(_MAVEN): each.text or "" for each in given}
    (found,) = (p for p in root.iter(f"{_MAVEN}profile") if p.findtext(f"{_MAVEN}id") == profile)
    text = ElementTree.canonicalize(ElementTree.tostring(found, "unicode"), strip_text=True)
    text = re.sub(r"\$\{([^}]+)\}", lambda name: values[name[1]], text)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _download(profile: str, version: str, directory: Path) -> None:
    download(POM, [f"-P{profile}", f"-Dhadoop.version={version}"], profile, directory)


def download(pom: Path, options: Sequence[str], what: str, directory: Path) -> None:
    """Make a directory of the jars that a pom names, at once and whole.

    Another process may be doing the same; ``what`` names the jars in an error.

    Raises:
        Unavailable: Maven is not there, or cannot get them.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven, for jars of servers (Debian: apt-get install maven)")
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=KEPT) as making:
        target = Path(making, "jars")
        # A pom of its own place: Maven leaves a directory `target` beside the one that it reads.
        copied = Path(shutil.copy(pom, making))
        command = [maven, "-q", "-B", *_SOON_SILENT, "-f", str(copied), *options]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
        command += ["-DincludeScope=runtime"]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{what} by Maven, which took over {PATIENCE:.0f} s") from error
        if done.returncode != 0:
            raise Unavailable(f"{what} by Maven, which failed:\n{done.stdout[-2000:]}")
        try:
            target.rename(directory)
        except OSError:
            if not directory.is_dir():  # else the other process was first
                raise


def spark_s3_jars() -> list[Path]:
    """Return what Spark needs on its class path for ``s3a://`` (``spark.jars``).

    That is hadoop-aws of the version of Spark's Hadoop, and of the AWS SDK what it loads.

    Raises:
        Unavailable: They cannot be had.
    """
    return list(jars("s3a"))


def unpack(jar: Path, prefix: str, directory: Path) -> None:
    """Unpack what has this prefix in a jar."""
    with zipfile.ZipFile(jar) as archive:
        archive.extractall(
            directory, [name for name in archive.namelist() if name.startswith(prefix)]
        )
