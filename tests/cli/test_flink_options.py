"""Flink's spellings: each works, or is refused with one line that says what to use here."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from flinkish.cli import command_index
from flinkish.cli.base import Command as FlinkishCommand
from flinkish.cli.flink_options import FLINK_OPTIONS
from tests.cli.conftest import Command

POSTGRES = ["-D", "registry.url=postgresql://me:hush@127.0.0.1:1/db"]
#: Command lines as people write them for Flink, and what each is told.
REFUSED = [
    ("run -pyreq requirements.txt -py app.py", "-pyarch env.tar.gz#env -pyexec env/bin/python"),
    ("run --pyRequirements=r.txt app.py", "-pyarch env.tar.gz#env -pyexec env/bin/python"),
    ("run -pypath /opt/lib -py app.py", "--conf spark.executorEnv.PYTHONPATH=PATH"),
    ("run -c org.x.Main app.jar", "jobs are PySpark programs"),
    ("run app.jar", "jobs are PySpark programs"),
    ("run -j app.jar", "no program was specified: --jarfile adds a library"),
    ("run app.py -a x", None),
    ("run -a x -py app.py", "after its name: APP.py ARGS..."),
    ("run -z /ns app.py", "-D registry.url=URL"),
    ("run -p4x app.py", "no such option '-p4x'"),
    ("run -ynm rides app.py", "use --name NAME"),
    ("run -ys 2 app.py", "spark.executor.cores"),
    ("run -yDyarn.tags=a app.py", "-D KEY=VALUE for Flink's keys"),
    ("run -yid application_1_1 app.py", "no session clusters"),
    ("run -t yarn-session app.py", "no session clusters"),
    ("run -t kubernetes-application app.py", "needs the address of the cluster"),
    ("run -t remote app.py", "needs the address of the cluster"),
    ("run -t remote -m yarn app.py", "contradict each other"),
    ("run -t mesos app.py", "unknown target 'mesos'"),
    ("run -t local --deploy-mode cluster app.py", "contradict each other"),
    ("run-application -t remote -m spark://h:1 app.py", "contradict each other"),
    ("checkpoint abcd --full", "flinkish savepoint --full JOB"),
    ("checkpoint -full abcd", "flinkish savepoint --full JOB"),
    ("checkpoint -detached abcd", "--no-wait"),
    ("list -m host:8081", "-D registry.url=URL"),
    ("cancel -t yarn-session abcd", "-D registry.url=URL"),
    ("stop -yid application_1_1 abcd", "-D registry.url=URL"),
    ("savepoint -d /sp/x -j app.jar", "omit it"),
    ("stop -pyreq r abcd", "no such option '-pyreq'"),
]


@pytest.mark.parametrize(("line", "instead"), [row for row in REFUSED if row[1]])
def test_what_flink_has_is_refused_in_one_line(cli: Command, line: str, instead: str) -> None:
    result = cli(*line.split())
    assert (result.code, result.out) == (2, "")
    error, *hint = result.err.splitlines()
    assert instead in " ".join([error, *hint])
    assert len(hint) <= 1


def test_no_refusal_hides_an_option_that_works() -> None:
    for option in FLINK_OPTIONS:
        for name in option.commands:
            command = command_index.load(name)
            assert isinstance(command, FlinkishCommand)
            words = {word for parameter in command.params for word in parameter.opts}
            assert not words & set(option.spellings), name


def words_after(cli: Command, *options: str, action: str = "run") -> list[str]:
    """Return the words of the submission that a dry run shows."""
    words = [action, "--dry-run", "--spark-home", str(cli.spark_home), *options, str(cli.program)]
    return shlex.split(cli.ok(*words, "x").out, comments=True)


@pytest.mark.parametrize(
    ("options", "master", "is_cluster"),
    [
        (["-t", "local"], "local[*]", False),
        (["-t", "local", "-m", "local[2]"], "local[2]", False),
        (["--target", "yarn-per-job"], "yarn", False),
        (["-t", "remote", "-m", "spark://h:7077"], "spark://h:7077", False),
        (["-t", "yarn-application"], "yarn", True),
        (["-t", "kubernetes-application", "-m", "k8s://h:1"], "k8s://h:1", True),
    ],
)
def test_targets_are_masters_and_deploy_modes(
    cli: Command, options: list[str], master: str, is_cluster: bool
) -> None:
    words = words_after(cli, *POSTGRES, *options)
    assert words[words.index("--master") + 1] == master
    assert ("spark.submit.deployMode=cluster" in words) is is_cluster


def test_run_application_is_run_on_the_cluster(cli: Command) -> None:
    words = words_after(cli, *POSTGRES, "-t", "yarn-application", action="run-application")
    assert words[1:3] == ["--master", "yarn"]
    assert "spark.submit.deployMode=cluster" in words


def test_a_jar_beside_a_program_is_for_its_classes(cli: Command) -> None:
    words = words_after(cli, "-j", "https://h/y.jar")
    assert words[words.index("--jars") + 1] == "https://h/y.jar"


def test_a_dry_run_in_cluster_mode_shows_what_is_submitted(cli: Command, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    cluster = [*POSTGRES, "--deploy-mode", "cluster", "--conf", "spark.my.password=hush"]
    words = words_after(cli, *cluster, "-m", "yarn")
    assert words[-1] == f"{tmp_path}/state/flinkish/logs/flinkish-XXXXXXXXXXXXXXXX.py"
    assert str(cli.program) not in words
    words = words_after(cli, *cluster, "-m", "spark://h:7077")
    runner = ["--class", "org.apache.spark.deploy.PythonRunner"]
    jar, name, rest = words[-3:]
    assert (words[-5:-3], name, rest) == (runner, "flinkish-job.jar", "")
    assert jar.endswith("/state/flinkish/checkpoints/.launch-XXXXXXXXXXXXXXXX/flinkish-job.jar")
    assert not [word for word in words if "password" in word], "it is in the file"
    shown = cli.ok("run", "--dry-run", "--json", *cluster, "-m", "spark://h:7077", *own(cli)).out
    assert json.loads(shown)["carried"] == jar
    assert "hush" not in shown
    assert sorted(tmp_path.rglob("*")) == before


def own(cli: Command) -> list[str]:
    return ["--spark-home", str(cli.spark_home), str(cli.program)]
