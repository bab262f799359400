"""A bundle is started by other launchers: real interpreters, no Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from flinkish.client.bundling import bundle_program
from flinkish.errors import StorageError, UsageError
from flinkish.launch.carried_job import PARAMETERS
from flinkish.messages.launch import Program

PROGRAM = """\
import json, os, sys
import flinkish, fsspec
attachment = flinkish.attach()  # as a program that is also started without the bundle
program = attachment._bundled, os.environ.get("FLINKISH_BUNDLE")
print(json.dumps([sys.argv[1:], flinkish.__file__, fsspec.__file__, attachment.job_id, program]))
sys.exit(int(sys.argv[1]))
"""


def run(directory: Path, *words: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """An interpreter that finds flinkish nowhere but in the bundle."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("FLINKISH_", "PYTHONPATH"))}
    environ |= {"PYTHONPATH": path, "TMPDIR": str(directory / "tmp"), "HOME": str(directory)}
    (directory / "tmp").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, *words],
        env=environ,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "app.py"
    path.write_text(PROGRAM)
    return str(path)


def test_it_runs_its_program_with_the_launchers_arguments(program: str, tmp_path: Path) -> None:
    bundle = bundle_program(Program(program, ("0",)), str(tmp_path / "b.py"))
    os.remove(program)
    for _ in range(2):  # it stays where it is, and is started again
        done = run(tmp_path, bundle.path, "more")
        assert done.returncode == 0, done.stderr
        arguments, flinkish_at, _, _, program_at = json.loads(done.stdout)
        assert arguments == ["0", "more"]
        assert program_at == [f"{bundle.path}/app.py", None], "the same at each start"
        assert flinkish_at.startswith(str(tmp_path / "tmp"))
    assert list((tmp_path / "tmp").iterdir()) == [], "what was unpacked is gone"
    with zipfile.ZipFile(bundle.path) as archive:
        parameters = archive.read(PARAMETERS).decode()
    assert "registry" not in parameters.lower()


def test_a_url_as_the_target(tmp_path: Path) -> None:
    bundle = bundle_program(Program(), f"file://{tmp_path}/agent.zip")
    assert bundle.path == str(tmp_path / "agent.zip")
    assert zipfile.is_zipfile(tmp_path / "agent.zip")
    with pytest.raises(UsageError, match="is not a file of this host"):
        bundle_program(Program(), "s3://bucket/agent.zip", dry_run=True)


def test_one_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "agent.py"
    place.mkdir()
    with pytest.raises(StorageError):
        bundle_program(Program(), str(place))
    assert list(tmp_path.iterdir()) == [place]


def test_without_a_program_the_first_argument_is_one(program: str, tmp_path: Path) -> None:
    bundle = bundle_program(Program(), str(tmp_path / "agent.py"))
    done = run(tmp_path, bundle.path, program, "3")
    assert done.returncode == 3, done.stderr
    arguments, *_, program_at = json.loads(done.stdout)
    assert (arguments, program_at) == (["3"], ["", None])
    assert "APP.py" in run(tmp_path, bundle.path).stderr


def test_a_program_imports_flinkish_from_it(program: str, tmp_path: Path) -> None:
    """As ``spark-submit --py-files`` puts it on the path."""
    bundle = bundle_program(Program(), str(tmp_path / "agent.zip"))
    done = run(tmp_path, program, "0", path=bundle.path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[1].startswith(str(tmp_path / "tmp"))


@pytest.mark.parametrize(("name", "storages"), [("b.jar", ()), ("b.py", ("ftp",))])
def test_what_cannot_be_started_is_refused(
    tmp_path: Path, name: str, storages: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError):
        bundle_program(Program(), str(tmp_path / name), storages=storages)
