"""``run`` and ``info`` launch a program in the same way: the same options make the same words."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import click
import pytest

from flinkish.cli.commands.info import info
from flinkish.cli.commands.run import run
from flinkish.client.program import asked_partitions, launch_of
from flinkish.config import Config
from flinkish.messages.launch import Program
from tests.cli.conftest import Command
from tests.support.launcher_fakes import make_spark

#: Every spelling of ``-p`` and of the options of ``program_options``, in two lists of words.
SHORT = """-p 3 -m local[2] -pyfs a.py,b.zip -pyfs s3://b/c.py -pyarch env.tar.gz#env
    -pyexec {python} -pyclientexec {python} -C x.jar -C https://h/y.jar --packages g:a:1,g:b:2
    --spark-home {spark} --conf spark.x=a=b --conf spark.y="""
LONG = """--parallelism 3 --master local[2] --pyFiles a.py,b.zip,s3://b/c.py
    --pyArchives env.tar.gz#env --pyExecutable {python} --pyClientExecutable {python}
    --classpath x.jar,https://h/y.jar --packages g:a:1 --packages g:b:2 --spark-home {spark}
    --conf spark.x=a=b --conf spark.y="""
PROGRAMS = [
    ["{app}", "-x", "--json"],
    ["-py", "{app}", "x"],
    ["--python", "{app}", "--", "-x"],
    ["-pym", "jobs.main", "x"],
    ["--pyModule", "jobs.main"],
]


@pytest.fixture
def submitted(cli: Command, tmp_path: Path) -> Path:
    """Where the driver of ``info`` writes the words it was started with."""
    script = tmp_path / "driver.py"
    script.write_text(
        "import json, os, sys\n"
        f"open({str(tmp_path / 'words.json')!r}, 'w').write(json.dumps(sys.argv[1:]))\n"
        "path = os.environ['FLINKISH_CALL'] + '.answer'\n"
        "open(path + '.new', 'w').write('{\"version\": 1, \"queries\": [], \"error\": null}')\n"
        "os.replace(path + '.new', path)\n"
    )
    cli.spark_home = make_spark(
        tmp_path / "describing", f'exec "{sys.executable}" "{script}" "$@"\n'
    )
    for name in ("a.py", "env.tar.gz", "x.jar"):
        (tmp_path / name).touch()
    return tmp_path / "words.json"


@pytest.mark.parametrize(("flags", "partitions"), [({}, 8), ({"parallelism.default": "2"}, 2)])
def test_a_setting_of_the_program_beats_the_parallelism_of_a_file_only(
    private: Path, flags: dict[str, str | None], partitions: int
) -> None:
    (private / "flinkish.toml").write_text('"parallelism.default" = 4')
    (private / "app.py").touch()
    config = Config.load(flags=flags)
    program = Program("app.py", conf={"spark.sql.shuffle.partitions": "8"})
    assert asked_partitions(launch_of(program, config, str(private))) == partitions
    assert asked_partitions(launch_of(Program("app.py"), Config.load(), str(private))) == 4


@pytest.mark.parametrize("options", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda words: words[0])
def test_both_give_spark_submit_the_same_words(
    cli: Command, submitted: Path, options: str, program: list[str]
) -> None:
    values = {"python": sys.executable, "spark": cli.spark_home, "app": cli.program}
    words = [word.format(**values) for word in [*options.split(), *program]]
    command = shlex.split(cli.ok("run", "--dry-run", *words).out)
    cli.ok("info", *words)
    assert json.loads(submitted.read_text()) == command[1:]
    assert command[0] == str(cli.spark_home / "bin" / "spark-submit")
    here = os.getcwd()
    for expected in (
        ["--master", "local[2]"],
        ["--py-files", f"{here}/a.py,b.zip,s3://b/c.py"],
        ["--archives", f"{here}/env.tar.gz#env"],
        ["--jars", f"{here}/x.jar,https://h/y.jar"],
        ["--packages", "g:a:1,g:b:2"],
        ["--conf", "spark.x=a=b"],
        ["--conf", "spark.y="],
        ["--conf", "spark.sql.shuffle.partitions=3"],
    ):
        assert expected in [command[i : i + 2] for i in range(len(command))]


def test_both_explain_their_common_options_alike() -> None:
    def options(command: click.Command) -> dict[str, dict[str, object]]:
        with click.Context(command) as ctx:
            return {str(p.name): p.to_info_dict() for p in command.get_params(ctx)}

    mine, its = options(run), options(info)
    common = set(mine) & set(its)
    assert set(its) - common == {"as_dot", "as_svg", "require_uids"}
    assert {name: mine[name] for name in common} == {name: its[name] for name in common}


def test_info_has_no_use_for_a_savepoint_in_the_configuration(
    cli: Command, submitted: Path
) -> None:
    named = "execution.state-recovery.path=s3://bucket/savepoint"
    cli.ok("info", "--spark-home", str(cli.spark_home), "-D", named, str(cli.program))
    assert json.loads(submitted.read_text())[-1] == str(cli.program)


def test_the_older_hasher_is_said_once(cli: Command) -> None:
    words = ["run", "--dry-run", "--spark-home", str(cli.spark_home)]
    for version, times in (("V2", 1), ("v3", 0)):
        key = f"execution.stream-graph-hasher.version={version}"
        result = cli.ok(*words, "-D", key, str(cli.program))
        assert result.err.count("has the ids of both hashers") == times
