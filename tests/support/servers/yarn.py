"""YARN: a ResourceManager and a NodeManager, Hadoop's own, as Java processes.

The default file system is the local one: it is one host.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.jvm import SERVER_OPTIONS
from tests.support.servers import jars
from tests.support.servers.hdfs import class_path, write_settings
from tests.support.servers.process import free_port, running

_PACKAGE = "org.apache.hadoop.yarn.server"
#: Guice, in Hadoop's web applications, makes classes at run time (Hadoop's hadoop-functions.sh).
_JVM = (
    *SERVER_OPTIONS,
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)


@dataclass(frozen=True)
class YarnServer:
    """A running YARN of one NodeManager.

    Attributes:
        conf: The directory for ``HADOOP_CONF_DIR``.
        web: The ResourceManager's REST interface.
        logs: Where the containers' logs are.
    """

    conf: Path
    web: str
    logs: Path

    def states(self) -> dict[str, str]:
        """The final status of every application, by its id; UNDEFINED while it runs."""
        with urllib.request.urlopen(f"{self.web}/ws/v1/cluster/apps", timeout=10) as answer:
            apps = (json.load(answer)["apps"] or {}).get("app", [])
        return {app["id"]: app["finalStatus"] for app in apps}


def _site(directory: Path, ports: Mapping[str, int], memory: int) -> dict[str, str]:
    return {
        "fs.defaultFS": "file:///",
        "hadoop.tmp.dir": str(directory / "tmp"),
        "yarn.resourcemanager.hostname": "127.0.0.1",
        "yarn.resourcemanager.address": f"127.0.0.1:{ports['client']}",
        "yarn.resourcemanager.scheduler.address": f"127.0.0.1:{ports['scheduler']}",
        "yarn.resourcemanager.resource-tracker.address": f"127.0.0.1:{ports['tracker']}",
        "yarn.resourcemanager.admin.address": f"127.0.0.1:{ports['admin']}",
        "yarn.resourcemanager.webapp.address": f"127.0.0.1:{ports['web']}",
        "yarn.resourcemanager.scheduler.class": (
            f"{_PACKAGE}.resourcemanager.scheduler.fifo.FifoScheduler"
        ),
        "yarn.nodemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.address": f"127.0.0.1:{ports['node']}",
        "yarn.nodemanager.localizer.address": f"127.0.0.1:{ports['localizer']}",
        "yarn.nodemanager.webapp.address": f"127.0.0.1:{ports['node_web']}",
        "yarn.nodemanager.resource.memory-mb": str(memory),
        "yarn.nodemanager.resource.cpu-vcores": "8",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.local-dirs": str(directory / "local"),
        "yarn.nodemanager.log-dirs": str(directory / "logs"),
        "yarn.nodemanager.delete.debug-delay-sec": "600",
        # Without the checker, one look at the start takes a disk at 90 % for a bad one.
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.scheduler.minimum-allocation-mb": "256",
        "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH",
    }


@contextmanager
def yarn(directory: Path, memory: int = 6144) -> Iterator[YarnServer]:
    """Run a ResourceManager and a NodeManager of ``memory`` MB, with all below ``directory``.

    Raises:
        tests.support.servers.jars.Unavailable: Java or the jars cannot be had.
    """
    conf = directory / "conf"
    (directory / "tmp").mkdir(parents=True)
    conf.mkdir()
    names = ("client", "scheduler", "tracker", "admin", "web", "node", "localizer", "node_web")
    ports = {name: free_port() for name in names}
    write_settings(conf, _site(directory, ports, memory), ("core-site.xml", "yarn-site.xml"))
    path = class_path(conf, *jars.jars("yarn"))
    java = [jars.java(), *_JVM, f"-Djava.io.tmpdir={directory}/tmp", "-cp", path]
    server = YarnServer(conf, f"http://127.0.0.1:{ports['web']}", directory / "logs")
    environment = {"HADOOP_CONF_DIR": str(conf), "PYSPARK_PYTHON": sys.executable}

    def has_node() -> bool:
        try:
            with urllib.request.urlopen(f"{server.web}/ws/v1/cluster/metrics", timeout=5) as got:
                return int(json.load(got)["clusterMetrics"]["activeNodes"]) == 1
        except (OSError, ValueError):
            return False  # it is still starting

    manager = [*java, f"{_PACKAGE}.resourcemanager.ResourceManager"]
    node = [*java, f"{_PACKAGE}.nodemanager.NodeManager"]
    with (
        running("yarn", manager, directory / "manager.log", lambda: True, environment),
        running("yarn#node", node, directory / "node.log", has_node, environment),
    ):
        yield server
