"""Cluster mode: what is refused, what spark-submit says, and the command lines; text alone.

The log lines are those of Spark 4.3 (standalone and YARN: from runs; Kubernetes: from its sources,
``deploy.k8s.submit.Client`` and ``LoggingPodStatusWatcherImpl``).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.config import MASK
from flinkish.errors import UsageError
from flinkish.launch import spark_submit
from flinkish.launch.deploy_mode import (
    ClusterManager,
    Submission,
    check_deploy_mode,
    in_client_mode,
    kill_command,
    manager_of,
    submission_of,
)
from flinkish.messages.launch import Launch

CLUSTER = {"spark.submit.deployMode": "cluster"}
JVM_OPTIONS = "spark.driver.extraJavaOptions"
HUSH = "-Djavax.net.ssl.trustStorePassword=hush"
POSTGRES = "postgresql://me:secret@db/flinkish"
INSTALLATION = spark_submit.Installation("/spark", "/bin/py", "/bin/py")


@pytest.mark.parametrize(
    ("master", "manager"),
    [
        (None, ClusterManager.LOCAL),
        ("local[2]", ClusterManager.LOCAL),
        ("local-cluster[2,1,1024]", ClusterManager.LOCAL),
        ("spark://a:7077,b:7077", ClusterManager.STANDALONE),
        ("yarn", ClusterManager.YARN),
        ("k8s://https://host:6443", ClusterManager.KUBERNETES),
    ],
)
def test_the_master_tells_the_manager(master: str | None, manager: ClusterManager) -> None:
    assert manager_of(Launch("a", master=master)) is manager
    if master is not None:
        assert manager_of(Launch("a", conf={"spark.master": master})) is manager


@pytest.mark.parametrize(
    ("mode", "master", "registry", "words"),
    [
        ("Cluster", None, POSTGRES, "needs a cluster, and the master is not named"),
        ("cluster", "local[2]", POSTGRES, "the master is local"),
        ("cluster", "yarn", "sqlite:////home/me/registry.db", "a file of this host"),
        ("both", "yarn", POSTGRES, "both is not a deploy mode"),
    ],
)
def test_what_cannot_run_in_cluster_mode(
    mode: str, master: str | None, registry: str, words: str
) -> None:
    launch = Launch("a", master=master, conf={"spark.submit.deployMode": mode})
    with pytest.raises(UsageError) as refused:
        check_deploy_mode(launch, registry)
    assert words in refused.value.message
    assert refused.value.hint


def test_a_pipeline_stays_with_its_definitions() -> None:
    launch = Launch("rides/spark-pipeline.yml", master="yarn", conf=CLUSTER)
    with pytest.raises(UsageError, match="client mode only"):
        check_deploy_mode(launch, POSTGRES)


@pytest.mark.parametrize("conf", [CLUSTER, {"spark.submit.deployMode": "client"}, {}])
def test_what_can(conf: dict[str, str]) -> None:
    launch = Launch("a", master="yarn", conf=conf)
    check_deploy_mode(launch, POSTGRES)
    assert in_client_mode(launch).conf.get("spark.submit.deployMode", "client") == "client"


STANDALONE_LOG = """\
26/11/23 21:53:23 INFO ClientEndpoint: ... waiting before polling master for driver state
26/11/23 21:53:24 INFO ClientEndpoint: Driver successfully submitted as driver-20261123215323-0000
26/11/23 21:53:29 INFO ClientEndpoint: State of driver-20261123215323-0000 is RUNNING
26/11/23 21:53:29 INFO ClientEndpoint: Driver running on 127.0.0.1:36425 (worker-2026-127.0.0.1)
"""
STANDALONE_END = """\
26/11/23 21:54:48 INFO ClientEndpoint: State of driver driver-20261123215323-0000 is {}, exiting \
spark-submit JVM.
"""
YARN_LOG = """\
26/11/23 22:10:01 INFO YarnClientImpl: Submitted application application_1795471652324_0001
26/11/23 22:10:02 INFO Client: Application report for application_1795471652324_0001 (state: \
ACCEPTED)
26/11/23 22:10:09 INFO Client: Application report for application_1795471652324_0001 (state: \
RUNNING)
"""
YARN_END = """\
26/11/23 22:12:09 INFO Client: Application report for application_1795471652324_0001 (state: {})
"""
KUBERNETES_LOG = """\
26/11/23 22:10:02 INFO LoggingPodStatusWatcherImpl: Waiting for application my rides with \
application ID spark-ab12 and submission ID jobs:rides-ab12-driver to finish...
"""
#: Without spark.kubernetes.submission.waitAppCompletion, which the user may have set to false.
KUBERNETES_LEFT = """\
26/11/23 22:10:01 INFO KubernetesClientUtils: Deployed Spark application rides with application ID \
spark-ab12 and submission ID jobs:rides-ab12-driver into Kubernetes
"""
KUBERNETES_END = """\
26/11/23 22:12:02 INFO LoggingPodStatusWatcherImpl: Application my rides with application ID \
spark-ab12 and submission ID jobs:rides-ab12-driver finished
"""


@pytest.mark.parametrize(
    ("text", "application", "has_ended"),
    [
        (STANDALONE_LOG, "driver-20261123215323-0000", False),
        (STANDALONE_LOG + STANDALONE_END.format("FINISHED"), "driver-20261123215323-0000", True),
        (STANDALONE_LOG + STANDALONE_END.format("ERROR"), "driver-20261123215323-0000", True),
        (STANDALONE_END.format("KILLED") + STANDALONE_LOG, "driver-20261123215323-0000", False),
        (YARN_LOG, "application_1795471652324_0001", False),
        (YARN_LOG + YARN_END.format("FAILED"), "application_1795471652324_0001", True),
        (KUBERNETES_LOG, "jobs:rides-ab12-driver", False),
        (KUBERNETES_LEFT, "jobs:rides-ab12-driver", False),
        (KUBERNETES_LOG + KUBERNETES_END, "jobs:rides-ab12-driver", True),
    ],
)
def test_what_spark_submit_has_said(text: str, application: str, has_ended: bool) -> None:
    assert submission_of(text) == Submission(application, has_ended)


def test_nothing_was_submitted() -> None:
    assert submission_of("Exception in thread main: Connection refused\n") is None


@pytest.mark.parametrize(
    ("master", "application", "command"),
    [
        (
            "spark://h:7077",
            "driver-1",
            "/spark/bin/spark-class org.apache.spark.deploy.Client kill spark://h:7077 driver-1",
        ),
        (
            "yarn",
            "application_1_1",
            "/spark/bin/spark-class org.apache.hadoop.yarn.client.cli.ApplicationCLI application "
            "-kill application_1_1",
        ),
        (
            "k8s://https://h",
            "jobs:rides-driver",
            "/spark/bin/spark-submit --kill jobs:rides-driver --master k8s://https://h",
        ),
    ],
)
def test_how_an_application_is_ended(master: str, application: str, command: str) -> None:
    launch = Launch("a", master=master, conf=CLUSTER)
    assert kill_command(launch, "/spark", application) == command.split(" ")


def test_kubernetes_is_reached_as_it_was_for_the_submission() -> None:
    conf = {
        "spark.kubernetes.context": "prod",
        "spark.kubernetes.authenticate.submission.caCertFile": "/ca.pem",
        "spark.kubernetes.authenticate.submission.oauthToken": MASK,
        "spark.executor.cores": "2",
    }
    launch = Launch("a", master="k8s://https://h", conf={**CLUSTER, **conf})
    assert kill_command(launch, "/spark", "jobs:rides-driver")[5:] == [
        *("--conf", "spark.kubernetes.context=prod"),
        *("--conf", "spark.kubernetes.authenticate.submission.caCertFile=/ca.pem"),
    ]


SUBMITTED = {
    "spark://h:7077": "--conf spark.standalone.submit.waitAppCompletion=true "
    "--conf spark.pyspark.python=py3 --conf spark.submit.deployMode=cluster --jars /x.jar "
    "--class org.apache.spark.deploy.PythonRunner s3a://b/flinkish-job.jar flinkish-job.jar ",
    "yarn": "--conf spark.yarn.submit.waitAppCompletion=true --conf spark.yarn.maxAppAttempts=1 "
    "--conf spark.pyspark.python=py3 --conf spark.submit.deployMode=cluster --py-files /lib.py "
    "--jars /x.jar s3a://b/flinkish-job.jar",
    "k8s://https://h": "--conf spark.kubernetes.submission.waitAppCompletion=true "
    "--conf spark.kubernetes.report.interval=1d --conf spark.pyspark.python=py3 "
    "--conf spark.submit.deployMode=cluster --py-files /lib.py --jars /x.jar s3a://b/flinkish-job.jar",
}


@pytest.mark.parametrize("master", SUBMITTED)
def test_how_it_is_submitted(master: str) -> None:
    """Neither the program nor its arguments: they are in the file that is brought."""
    launch = Launch(
        "/jobs/app.py",
        master=master,
        arguments=("secret",),
        python="py3",
        py_files=("/lib.py",),
        jars=("/x.jar",),
        conf=CLUSTER,
    )
    carried = "s3a://b/flinkish-job.jar"
    built = spark_submit.build_command(
        launch, INSTALLATION, name="n", driver_main="", carried=carried
    )
    assert built[:5] == ["/spark/bin/spark-submit", "--master", master, "--name", "n"]
    assert " ".join(built[5:]) == SUBMITTED[master]


def on_a_worker(
    home: Path, conf: dict[str, str], *, version: str = "3.5.9", defaults: str = ""
) -> str | None:
    """The options of the driver's JVM on the command line for a standalone cluster."""
    (home / "jars").mkdir()
    (home / "jars" / f"spark-core_2.12-{version}.jar").touch()
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text(defaults)
    built = spark_submit.build_command(
        Launch("/a.py", master="spark://h:7077", conf={**CLUSTER, **conf}),
        spark_submit.Installation(str(home), "/bin/py", "/bin/py"),
        name="n",
        driver_main="",
        carried="/tmp/flinkish-job.jar",
    )
    options = [word for word in built if word.startswith(f"{JVM_OPTIONS}=")]
    return options[0] if options else None


@pytest.fixture
def own_conf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)


@pytest.mark.usefixtures("own_conf")
@pytest.mark.parametrize(
    ("conf", "defaults", "own"),
    [
        ({"spark.redaction.regex": "security|JavaOptions"}, "", ""),
        ({JVM_OPTIONS: "-Dmine=1"}, "", "-Dmine=1"),
        ({JVM_OPTIONS: "-Dmine=1"}, f"{JVM_OPTIONS} -Dx=y", "-Dmine=1"),
        ({}, f"{JVM_OPTIONS} -Dx=y", "-Dx=y"),
        (
            {},
            f"# {JVM_OPTIONS} a\n{JVM_OPTIONS}2 b\n{JVM_OPTIONS} = -Dx=y \\\n  -Dz=\\\\\nspark.a b",
            "-Dx=y -Dz=\\",
        ),
    ],
)
def test_drivers_of_spark_3_on_a_worker_get_the_options_of_modules(
    tmp_path: Path, conf: dict[str, str], defaults: str, own: str
) -> None:
    """Their own options stay, behind them; Spark's default counts where nothing is set."""
    options = on_a_worker(tmp_path, conf, defaults=defaults)
    assert options is not None
    assert options.endswith(f"security.krb5=ALL-UNNAMED {own}".strip())
    assert options.startswith(f"{JVM_OPTIONS}=-XX:+IgnoreUnrecognizedVMOptions --add-opens=")


@pytest.mark.usefixtures("own_conf")
@pytest.mark.parametrize(
    ("conf", "options"),
    [({JVM_OPTIONS: "-Dmine=1"}, f"{JVM_OPTIONS}=-Dmine=1"), ({}, None)],
)
def test_spark_4_gives_them_to_its_drivers_itself(
    tmp_path: Path, conf: dict[str, str], options: str | None
) -> None:
    defaults = f"{JVM_OPTIONS} -Dx=y"
    assert on_a_worker(tmp_path, conf, version="4.3.0", defaults=defaults) == options


@pytest.mark.usefixtures("own_conf")
@pytest.mark.parametrize(
    ("version", "conf", "defaults"),
    [
        ("3.5.9", {JVM_OPTIONS: HUSH}, ""),
        ("4.3.0", {JVM_OPTIONS: HUSH}, ""),
        ("3.5.9", {JVM_OPTIONS: MASK}, ""),
        ("4.3.0", {JVM_OPTIONS: MASK}, ""),
        ("3.5.9", {}, f"{JVM_OPTIONS} {HUSH}"),
    ],
)
def test_options_of_a_workers_jvm_that_hold_a_secret_are_refused(
    tmp_path: Path, version: str, conf: dict[str, str], defaults: str
) -> None:
    """Only a command line takes them; a launch that is shown has the mask instead."""
    with pytest.raises(UsageError, match=JVM_OPTIONS) as refused:
        on_a_worker(tmp_path, conf, version=version, defaults=defaults)
    assert "VMOptionsFile" in str(refused.value.hint)
    assert "hush" not in f"{refused.value}{refused.value.hint}"


def test_a_pod_template_is_passed_on() -> None:
    """Whatever Kubernetes needs is a Spark setting, which flinkish leaves as it is."""
    template = {
        "spark.kubernetes.container.image": "apache/spark:4.3.0-python3",
        "spark.kubernetes.driver.podTemplateFile": "/pods/driver.yaml",
        "spark.kubernetes.file.upload.path": "s3a://bucket/upload",
    }
    launch = Launch("/a.py", master="k8s://https://h", conf={**CLUSTER, **template})
    built = spark_submit.build_command(
        launch, INSTALLATION, name="n", driver_main="", carried="/tmp/job.py"
    )
    for key, value in template.items():
        assert f"{key}={value}" in built
    assert built[-1] == "/tmp/job.py"


def test_settings_that_are_secret_are_on_no_command_line_of_a_worker() -> None:
    conf = {**CLUSTER, "spark.hadoop.fs.s3a.secret.key": "hush"}
    launch = Launch("/a.py", master="spark://h:7077", conf=conf)
    built = spark_submit.build_command(
        launch, INSTALLATION, name="n", driver_main="", carried="file:/x/flinkish-job.jar"
    )
    assert "hush" not in " ".join(built)


def test_the_environment_of_a_submission() -> None:
    given = {"PATH": "/bin", "FLINKISH_REGISTRY": POSTGRES, "HADOOP_CONF_DIR": "/etc/hadoop"}
    built = spark_submit.submission_environment(given, INSTALLATION)
    options = built.pop("SPARK_SUBMIT_OPTS")
    assert built == {"PATH": "/bin", "HADOOP_CONF_DIR": "/etc/hadoop", "SPARK_HOME": "/spark"}
    own = '-Dlog4j2.configurationFile="'
    assert options.startswith(own)
    assert options.endswith('"'), "there may be blanks in it"
    assert Path(options.removeprefix(own)[:-1]).is_file()
    given["SPARK_SUBMIT_OPTS"] = "-Dx=y"
    kept = spark_submit.submission_environment(given, INSTALLATION)
    assert kept["SPARK_SUBMIT_OPTS"] == f"-Dx=y {options}"
