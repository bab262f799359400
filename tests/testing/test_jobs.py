"""The jobs of a test, without Spark: drivers are real up to the program, or stand-ins."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from flinkish.client.client import Client
from flinkish.errors import FlinkishError, Locked, NoCommittedBatch, SavepointNotFound
from flinkish.messages.launch import Program
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobState, RequestKind, arguments_for
from flinkish.testing import Jobs
from flinkish.testing.jobs import RunningJob
from tests.cli.commands.test_check import SUBMIT
from tests.cli.conftest import Command
from tests.cli.conftest import cli as cli
from tests.cli.conftest import private as private
from tests.support.checkpoints.saved import save
from tests.support.launcher_fakes import kill_processes, make_spark

#: A program that remembers its arguments and starts no query.
PROGRAM = "import sys\nprint(*sys.argv[1:], file=open('arguments', 'w'))\n"


@pytest.fixture
def planning(cli: Command, tmp_path: Path) -> str:
    """A Spark that runs the driver's own script only, which plans."""
    (tmp_path / "submit.py").write_text(SUBMIT)
    cli.program.write_text(PROGRAM)
    script = f'exec "{sys.executable}" "{tmp_path}/submit.py" "$@"\n'
    return str(make_spark(tmp_path / "planning", script))


def test_a_program_that_cannot_go_on_fails_with_the_plan(planning: str, tmp_path: Path) -> None:
    savepoint = save(tmp_path, "hdfs-agg")
    with Jobs(tmp_path / "jobs", root=tmp_path) as jobs:
        program = Program("app.py", ("one",), spark_home=planning)
        with pytest.raises(AssertionError) as failed:
            jobs.restores(program, savepoint, tmp_path, 2)
        assert str(failed.value).startswith(f"app.py cannot go on from {savepoint}:\nQUERY")
        assert "hdfs-agg [no-operator]: use -n to drop it" in str(failed.value)
        assert str(failed.value).endswith("can be restored with your consent")
        assert (tmp_path / "arguments").read_text() == f"one {tmp_path} 2\n"
        agreed = jobs.restores(
            program, jobs.client.savepoint(savepoint), restore=RestoreOptions(True)
        )
        assert agreed.ok
        with pytest.raises(SavepointNotFound):
            jobs.restores(program, tmp_path / "nothing")
        assert jobs.client.jobs(include_final=True) == []


def test_programs_are_found_below_the_root_too(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "jobs").mkdir(parents=True)
    (root / "jobs" / "app.py").touch()
    with Jobs(tmp_path / "jobs", root=root) as jobs:
        assert jobs._program("jobs/app.py", ()).application == str(root / "jobs/app.py")
        assert jobs._program("s3a://b/app.py", ()).application == "s3a://b/app.py"
        assert jobs._program(Program(module="app"), (1,)) == Program(module="app", arguments=("1",))


class _Ended:
    """A job without a driver: it stops at once, and what is run after it is only recorded."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, ...]] = []

    def stop(self) -> str:
        return "/sp"

    def run(self, program: Program, **_: object) -> _Ended:
        self.runs.append(program.arguments)
        return self


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        ((), (), ("old",)),
        (("new",), (), ("new",)),
        ((), (3,), ("3",)),
        (("new",), (3,), ("new", "3")),
    ],
)
def test_the_arguments_of_another_program_replace_the_old_ones(
    tmp_path: Path, own: tuple[str, ...], others: tuple[object, ...], expected: tuple[str, ...]
) -> None:
    ended: Any = _Ended()
    with Jobs(tmp_path / "jobs") as jobs:
        real, jobs.client = jobs.client, ended
        running = RunningJob(jobs, ended, Program("v1.py", arguments=("old",)))
        running.restart(Program("v2.py", arguments=own), *others)
        jobs.client = real
    assert ended.runs == [expected]


def test_rows_of_a_savepoint_and_a_savepoint_of_rows(tmp_path: Path) -> None:
    savepoint = save(tmp_path, "rocksdb-tws")
    with Jobs(tmp_path / "jobs") as jobs:
        before = jobs.rows(savepoint, "rocksdb-tws/count")
        assert before == [{"key": {"k": f"k{n}"}, "value": {"n": 24}} for n in range(5)]
        new = [{"key": {"k": name}, "value": {"n": 2**40}} for name in ("b", "a")]
        made = jobs.with_state(savepoint, {"rocksdb-tws/count": new})
        assert jobs.rows(made, "rocksdb-tws/count") == new[::-1]
        assert Path(made.path).parent == tmp_path / "jobs" / "savepoints"
        assert jobs.rows(savepoint, "rocksdb-tws/count") == before


def test_a_job_stops_restarts_and_ends_with_the_test(cli: Command, tmp_path: Path) -> None:
    """The driver is a stand-in, and its savepoints are real ones without state."""
    with Jobs(tmp_path / "jobs") as jobs:
        program = Program(str(cli.program), spark_home=str(cli.spark_home))
        first = jobs.start(program, "saving")
        first.process_all()
        began = first.job
        between = first.restart()
        assert (first.job.state, first.job.job_id != began.job_id) == (JobState.RUNNING, True)
        assert began.refresh().state is JobState.FINISHED
        assert first.job.record.launch.arguments == ("saving",)
        copied = jobs.start(program, "serve", savepoint=between)
        restore = copied.job.record.launch.restore
        assert restore is not None
        assert Path(restore.path).parent == tmp_path / "jobs" / "copies"
        shutil.rmtree(restore.path)
        assert jobs.client.savepoint(between.path).verify("quick").ok
        assert len(jobs.client.jobs()) == 2
    with Client(f"sqlite:///{tmp_path}/jobs/registry.db") as client:
        states = sorted(job.state.value for job in client.jobs(include_final=True))
    assert states == ["CANCELED", "CANCELED", "FINISHED"]


def test_a_job_that_fails_fails_the_test(
    cli: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Jobs(tmp_path / "jobs") as jobs:
        program = Program(str(cli.program), spark_home=str(cli.spark_home))
        with pytest.raises(FlinkishError, match="ModuleNotFoundError: No module named 'nothing'"):
            jobs.start(program, "die")
    assert capsys.readouterr().err.splitlines()[-2:] == ["  a", "  b"]  # the end of its log


def test_all_jobs_end_though_one_cannot(cli: Command, tmp_path: Path) -> None:
    jobs = Jobs(tmp_path / "jobs")
    program = Program(str(cli.program), spark_home=str(cli.spark_home))
    stubborn, other = (jobs.start(program, mode).job.job_id for mode in ("deaf", "serve"))
    with Registry.open(f"sqlite:///{tmp_path}/jobs/registry.db") as registry:
        cancel = arguments_for(RequestKind.CANCEL, None)
        registry.submit(stubborn, RequestKind.CANCEL, cancel, "another")
        try:
            with pytest.raises(Locked):
                jobs.close()
            states = [registry.job(each).state for each in (stubborn, other)]
        finally:
            kill_processes(registry.job(stubborn))
    assert states == [JobState.RUNNING, JobState.CANCELED]


def test_a_job_may_end_by_itself_while_it_is_stopped(cli: Command, tmp_path: Path) -> None:
    """Its savepoint is then one of what it has left, which is nothing here."""
    with Jobs(tmp_path / "jobs") as jobs:
        program = Program(str(cli.program), spark_home=str(cli.spark_home))
        running = jobs.start(program, "bounded")
        with pytest.raises(NoCommittedBatch):
            running.stop()
