"""HDFS: a NameNode and a DataNode, Hadoop's own, as Java processes."""

from __future__ import annotations

import getpass
import json
import os
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from tests.support.jvm import SERVER_OPTIONS
from tests.support.servers import jars
from tests.support.servers.process import LOG4J2, free_port, run_once, running

_PACKAGE = "org.apache.hadoop.hdfs.server"
# Of Spark's jars, what the servers use besides Hadoop's: they log with these.
_FROM_SPARK = ("hadoop-client-api-*", "hadoop-client-runtime-*", "slf4j-api-*", "log4j-*")
_FROM_SPARK_TOO = ("jcl-over-slf4j-*", "jul-to-slf4j-*", "snappy-java-*", "jsr305-*", "jakarta.*")


@dataclass(frozen=True)
class HdfsServer:
    """A running HDFS of one DataNode.

    Attributes:
        port: The NameNode's, of Hadoop's own protocol.
        http_port: The NameNode's, of WebHDFS.
        user: Who owns the root; who else writes needs permissions.
    """

    port: int
    http_port: int
    user: str

    @property
    def url(self) -> str:
        """``hdfs://...``, without a path, for Spark and for hdfs-native (fsspec's ``hdfs``)."""
        return f"hdfs://127.0.0.1:{self.port}"

    @property
    def webhdfs_url(self) -> str:
        """``webhdfs://...``, without a path; with the user, or WebHDFS takes us for dr.who."""
        return f"webhdfs://{self.user}@127.0.0.1:{self.http_port}"

    def environment(self) -> dict[str, str]:
        """Return the variables that make hdfs-native and Hadoop's client the user of the root."""
        return {"HADOOP_USER_NAME": self.user}


def _site(directory: Path, port: int, http_port: int) -> dict[str, str]:
    return {
        "fs.defaultFS": f"hdfs://127.0.0.1:{port}",
        "hadoop.tmp.dir": str(directory / "tmp"),
        "dfs.namenode.name.dir": f"file://{directory}/name",
        "dfs.datanode.data.dir": f"file://{directory}/data",
        "dfs.namenode.http-address": f"127.0.0.1:{http_port}",
        # Port 0: the DataNode takes a free one, and tells the NameNode which.
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.replication": "1",
        "dfs.namenode.safemode.extension": "0",
        "dfs.heartbeat.interval": "1",
        # Else a test that leaves a file open holds others up for a minute.
        "dfs.namenode.lease-recheck-interval-ms": "500",
    }


def write_settings(
    conf: Path,
    settings: Mapping[str, str],
    names: Sequence[str] = ("core-site.xml", "hdfs-site.xml"),
) -> None:
    """Write Hadoop's settings, and those of its log."""
    entries = "".join(
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in settings.items()
    )
    for name in names:
        (conf / name).write_text(f"<configuration>\n{entries}</configuration>\n")
    (conf / "log4j2.properties").write_text(LOG4J2)


def class_path(conf: Path, *more: Path) -> str:
    """Spark's Hadoop client, and behind it the servers, which are built to stand there."""
    (server,) = jars.jars("hdfs")
    # Beside the jar, as in a release of Hadoop: from within, Jetty copies them out at every start.
    jars.unpack(server, "webapps/", conf)
    spark = [
        path
        for pattern in (*_FROM_SPARK, *_FROM_SPARK_TOO)
        for path in sorted(jars.spark_jars().glob(f"{pattern}.jar"))
    ]
    return os.pathsep.join(str(path) for path in (conf, *spark, server, *more))


def _live_datanodes(http_port: int) -> int:
    query = "qry=Hadoop:service=NameNode,name=FSNamesystemState"
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/jmx?{query}", timeout=5) as got:
            beans = json.load(got)["beans"]
    except (OSError, ValueError):
        return 0  # it is still starting
    return int(beans[0].get("NumLiveDataNodes", 0)) if beans else 0


@contextmanager
def hdfs(directory: Path) -> Iterator[HdfsServer]:
    """Run a NameNode and a DataNode that keep all below ``directory``.

    Raises:
        tests.support.servers.jars.Unavailable: Java or the jars cannot be had.
    """
    conf = directory / "conf"
    (directory / "tmp").mkdir(parents=True)
    conf.mkdir()
    java = [
        jars.java(),
        *SERVER_OPTIONS,
        f"-Djava.io.tmpdir={directory}/tmp",
        "-cp",
        class_path(conf),
    ]
    server = HdfsServer(free_port(), free_port(), getpass.getuser())
    write_settings(conf, _site(directory, server.port, server.http_port))
    environment = server.environment()
    namenode = [*java, f"{_PACKAGE}.namenode.NameNode"]
    datanode = [*java, f"{_PACKAGE}.datanode.DataNode"]
    once = [*namenode, "-format", "-force", "-nonInteractive"]
    run_once(once, directory / "format.log", environment)

    def live() -> bool:
        return _live_datanodes(server.http_port) == 1

    # The DataNode waits for the NameNode by itself: they start at the same time.
    with (
        running("hdfs", namenode, directory / "namenode.log", lambda: True, environment),
        running("hdfs#datanode", datanode, directory / "datanode.log", live, environment),
    ):
        yield server
