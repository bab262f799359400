"""The wheel alone, in an environment of its own, without a Spark, on another machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import venvs
from tests.support.cli.command import Flinkish

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(900)]
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return venvs.core(tmp_path_factory.mktemp("installed"))
    except venvs.Unavailable as why:
        pytest.skip(f"needs an environment with the wheel alone: {why}")


@pytest.fixture
def core(command: Path, tmp_path: Path) -> Flinkish:
    """The installed core beside the ``flinkish`` of the tests: the same registry, no Spark."""
    core = Flinkish(tmp_path, command=(str(command),))
    for name in ("PYTHONPATH", "SPARK_HOME"):
        core.environ.pop(name, None)
    return core


def test_it_is_small_and_carries_what_shells_need(command: Path, core: Flinkish) -> None:
    prefix = command.parent.parent
    installed = {path.name for path in prefix.glob("lib/python3*/site-packages/*")}
    assert "flinkish" in installed
    assert not {"pyspark", "py4j", "numpy", "pyarrow"} & installed
    size = sum(
        path.stat().st_size
        for path in prefix.glob("lib/python3*/site-packages/**/*")
        if path.is_file() and path.suffix != ".pyc" and "pip" not in path.parts
    )
    assert size < 40 * MEGABYTE
    assert (prefix / "share/man/man1/flinkish.1").is_file()
    for completion in (
        "bash-completion/completions/flinkish",
        "fish/vendor_completions.d/flinkish.fish",
        "zsh/site-functions/_flinkish",
    ):
        assert (prefix / "share" / completion).is_file()
    assert core.ok("schema", "list").json()["$schema"].startswith("https://json-schema.org/")


def test_a_spark_is_asked_for_by_the_command_that_installs_it(core: Flinkish) -> None:
    (core.directory / "program.py").write_text("")
    refused = core("run", "program.py")
    assert refused.code == 1
    assert "pip install 'flinkish[spark]'" in refused.err


def test_it_serves_jobs_that_run_on_another_machine(
    flinkish: Flinkish, core: Flinkish, tmp_path: Path
) -> None:
    target = tmp_path / "savepoints"
    job, other = flinkish.run("rate.py", options=("--name", "first")), flinkish.run("rate.py")
    for each in (job, other):
        flinkish.wait_for_batch(each, 1)
    listed = core.ok("list", "--json").json()["jobs"]
    assert {(each["job_id"], each["state"]) for each in listed} == {
        (job, "RUNNING"),
        (other, "RUNNING"),
    }
    assert "flinkish_" in core.ok("metrics").out
    assert core.ok("wait", job, "--for", "running", "--timeout", "60").code == 0
    paths = [core.ok("savepoint", "-q", job, str(target)).out.strip() for _ in range(2)]
    assert core.ok("savepoint", "verify", paths[0]).code == 0
    saved = core.ok("savepoint", "list", str(target), "--json").json()["savepoints"]
    assert len(saved) == 2
    copied = core.ok("savepoint", "copy", paths[1], str(tmp_path / "copies"), "--json").json()
    assert core.ok("savepoint", "verify", copied["copy"]["path"]).code == 0
    core.ok("savepoint", "prune", str(target), "--keep-last", "1", "--yes")
    assert len(core.ok("savepoint", "list", str(target), "--json").json()["savepoints"]) == 1

    stopped = core.ok("stop", "first", "-p", str(target), "--json").json()
    assert flinkish.job(job)["state"] == "FINISHED"
    assert core.ok("cancel", other).code == 0
    assert core.ok("wait", job, "--for", "ended", "--timeout", "60").code == 0
    assert flinkish.job(other)["state"] == "CANCELED"
    assert core.ok("list", "--json").json()["jobs"] == []
    states = {each["state"] for each in core.ok("list", "-a", "--json").json()["jobs"]}
    assert states == {"FINISHED", "CANCELED"}
    assert core.ok("savepoint", "verify", stopped["savepoint"]["path"]).code == 0
