"""Where a job's driver runs: on this host (client mode), or on a node of the cluster. Pure.

Spark's own setting ``spark.submit.deployMode`` decides. In cluster mode ``spark-submit`` runs
until the application has ended; the supervisor watches it in place of the driver's process.

Sources: ``SparkSubmit.prepareSubmitEnvironment``; "Submitting Applications" of Spark's
documentation; ``deploy.Client`` (standalone), ``deploy.yarn.Client``,
``deploy.k8s.submit.LoggingPodStatusWatcher`` for what they log.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from enum import Enum

from flinkish.config import MASK, mask_secrets
from flinkish.errors import UsageError
from flinkish.messages.launch import Launch, is_pipeline

#: Spark's key for the deploy mode.
DEPLOY_MODE = "spark.submit.deployMode"


class ClusterManager(str, Enum):
    """What starts the executors and, in cluster mode, the driver."""

    LOCAL = "local"
    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True)
class Target:
    """Spark's counterpart of a deployment target of Flink.

    ``master`` is the beginning of Spark's master URL. If ``is_whole`` is set, no address follows.
    """

    master: str
    example: str
    mode: str = "client"
    is_whole: bool = False
    is_supported: bool = True


#: Flink's deployment targets (``DeploymentOptions.TARGET``). In Flink's per-job mode the program
#: runs on the client, in its application mode on the cluster.
TARGETS = {
    "local": Target("local", "local[*]", is_whole=True),
    "remote": Target("spark://", "spark://HOST:PORT"),
    "yarn-application": Target("yarn", "yarn", mode="cluster", is_whole=True),
    "yarn-per-job": Target("yarn", "yarn", is_whole=True),
    "yarn-session": Target("yarn", "yarn", is_supported=False),
    "kubernetes-application": Target("k8s://", "k8s://URL", mode="cluster"),
    "kubernetes-session": Target("k8s://", "k8s://URL", is_supported=False),
}


def of_target(name: str, master: str | None, mode: str | None) -> tuple[str, str]:
    """Return Spark's master and deploy mode for one of Flink's deployment targets.

    ``master`` and ``mode`` are given in addition, or None. Raises UsageError if they contradict the
    target, its address is missing, Spark has no counterpart, or there is no such target.
    """
    target = TARGETS.get(name.lower())
    if target is None:
        near = ", ".join(each for each in TARGETS if TARGETS[each].is_supported)
        raise UsageError(f"unknown target {name!r}", hint=f"-t takes {near}; or use -m URL")
    if not target.is_supported:
        raise UsageError(
            f"target {name}: Spark has no session clusters; each job is an application of its own",
            hint=f"use -m {target.example}, with --deploy-mode cluster for a driver on the cluster",
        )
    if master is None and not target.is_whole:
        raise UsageError(
            f"target {name} needs the address of the cluster", hint=f"name it: -m {target.example}"
        )
    if master is not None and not master.startswith(target.master):
        raise UsageError(
            f"target {name} and the master {master} contradict each other",
            hint=f"omit -t, or use -m {target.example}",
        )
    if mode is not None and mode.lower() != target.mode:
        raise UsageError(
            f"target {name} and the deploy mode {mode} contradict each other",
            hint=f"omit -t; its driver runs in {target.mode} mode",
        )
    return master or target.example, target.mode


@dataclass(frozen=True)
class Submission:
    """What ``spark-submit`` reports about an application in cluster mode.

    ``application`` is the cluster manager's id: ``driver-...``, ``application_...``,
    ``NAMESPACE:POD``. ``has_ended`` is set when the cluster manager has reported the
    application's end.
    """

    application: str
    has_ended: bool


def master_of(launch: Launch) -> str | None:
    """Return Spark's master of a launch, if it has one."""
    return launch.master or launch.conf.get("spark.master") or None


def manager_of(launch: Launch) -> ClusterManager:
    """Return the cluster manager of a launch, according to its master."""
    master = master_of(launch) or ""
    if master.startswith("spark://"):
        return ClusterManager.STANDALONE
    if master.startswith("yarn"):
        return ClusterManager.YARN
    if master.startswith("k8s://"):
        return ClusterManager.KUBERNETES
    return ClusterManager.LOCAL


def is_cluster_mode(launch: Launch) -> bool:
    """Return whether the driver runs on a node of the cluster."""
    return launch.conf.get(DEPLOY_MODE, "client").lower() == "cluster"


def in_client_mode(launch: Launch) -> Launch:
    """Return the launch for a driver on this host, regardless of the job's deploy mode."""
    if not is_cluster_mode(launch):
        return launch
    return replace(launch, conf={**launch.conf, DEPLOY_MODE: "client"}, client_python=None)


def check_deploy_mode(launch: Launch, registry_url: str) -> None:
    """Check that a driver in the deploy mode can be started and reached (UsageError if not).

    In any case the mode must be one of Spark's. In cluster mode the program must not be a pipeline,
    the master must have a cluster mode, and the registry must not be a file, which a driver on
    another host does not see.
    """
    mode = launch.conf.get(DEPLOY_MODE, "client")
    if mode.lower() not in ("client", "cluster"):
        raise UsageError(f"{DEPLOY_MODE}={mode} is not a deploy mode", hint="use client or cluster")
    if not is_cluster_mode(launch):
        return
    if is_pipeline(launch.application):
        raise UsageError(
            "a pipeline runs in client mode only: its definitions are files beside its "
            "specification, which would stay on this host",
            hint="leave out --deploy-mode cluster",
        )
    if manager_of(launch) is ClusterManager.LOCAL:
        raise UsageError(
            f"{DEPLOY_MODE}=cluster needs a cluster, and the master is "
            f"{master_of(launch) or 'not named'}",
            hint="name it with -m: spark://HOST:PORT, yarn or k8s://URL",
        )
    if not registry_url.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            "the driver of a job in cluster mode does not see the registry "
            f"{mask_secrets(registry_url)}, a file of this host",
            hint="set registry.url to a PostgreSQL database that the cluster reaches "
            "(postgresql://USER@HOST/DATABASE)",
        )


_SUBMITTED = re.compile(
    r"Driver successfully submitted as (?P<driver>driver-[\w-]+)"
    r"|Submitted application (?P<application>application_\w+)"
    r"|Application report for (?P<report>application_\w+) \(state: (?P<state>\w+)\)"
    r"|State of (?:driver )?(?P<ended>driver-[\w-]+) is (?P<end>\w+)"
    r"|Deployed Spark application .* with application ID \S+"
    r" and submission ID (?P<pod>[\w.-]+:[\w.-]+) into Kubernetes"
    r"|Waiting for application .* with application ID \S+"
    r" and submission ID (?P<awaited>[\w.-]+:[\w.-]+) to finish"
    r"|Application .* with application ID \S+ and submission ID (?P<gone>[\w.-]+:[\w.-]+) finished"
)
#: The groups of the pattern that name an application.
_NAMES = ("driver", "application", "report", "ended", "pod", "awaited", "gone")
_FINAL = frozenset({"FINISHED", "FAILED", "KILLED", "ERROR"})


def submission_of(text: str) -> Submission | None:
    """Return the newest application in what ``spark-submit`` has logged; None without one."""
    submission: Submission | None = None
    for match in _SUBMITTED.finditer(text):
        name = next((match[key] for key in _NAMES if match[key]), None)
        if name is None:
            continue
        state = match["state"] or match["end"] or ""
        submission = Submission(name, state in _FINAL or match["gone"] is not None)
    return submission


def kill_command(launch: Launch, spark_home: str, application: str) -> list[str]:
    """Return the command that makes the cluster manager end an application in cluster mode.

    ``spark-submit --kill`` works for Kubernetes, but for a standalone cluster only if its REST
    server is on. A standalone cluster therefore gets ``deploy.Client``, which uses the port of the
    master's URL.
    """
    master = master_of(launch) or ""
    spark_class = os.path.join(spark_home, "bin", "spark-class")
    manager = manager_of(launch)
    if manager is ClusterManager.STANDALONE:
        return [spark_class, "org.apache.spark.deploy.Client", "kill", master, application]
    if manager is ClusterManager.YARN:
        cli = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
        return [spark_class, cli, "application", "-kill", application]
    return [
        os.path.join(spark_home, "bin", "spark-submit"),
        "--kill",
        application,
        "--master",
        master,
        *(word for setting in _access_settings(launch) for word in ("--conf", setting)),
    ]


def _access_settings(launch: Launch) -> list[str]:
    """Return the settings with which ``spark-submit`` reaches Kubernetes, without masked ones."""
    keys = ("spark.kubernetes.context", "spark.kubernetes.authenticate.submission.")
    return [f"{k}={v}" for k, v in launch.conf.items() if k.startswith(keys) and v != MASK]
