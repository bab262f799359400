"""The scripts of the README, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_restarts import check_counted
from tests.support.cli.command import LIGHT, PATIENCE, PROGRAMS, Flinkish, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(600)]

README = Path(__file__).parents[2] / "README.md"
DIES = """
seen = []


def write(frame, batch, before=write):
    before(frame, batch)
    seen.append(batch)
    if len(seen) == 2:
        raise RuntimeError("the new version is broken")


query ="""


def recipe(name: str, directory: Path) -> Path:
    """Write the script ``name`` of the README into a directory, its paths below that."""
    blocks: list[str] = re.findall(r"```bash\n(#!.*?)```", README.read_text(), flags=re.DOTALL)
    (text,) = (block for block in blocks if f"# {name} " in block)
    script = directory / name
    script.write_text(text.replace("/srv/savepoints", str(directory / "savepoints")))
    return script


def versions(directory: Path) -> tuple[Path, Path]:
    """Write a version that says that it ran, and one that dies in its second batch."""
    text = (PROGRAMS / "counted.py").read_text()
    good, bad = directory / "good.py", directory / "bad.py"
    good.write_text(text.replace("query =", 'Path(sys.argv[1], "good").touch()\nquery =', 1))
    bad.write_text(text.replace("query =", DIES, 1))
    return good, bad


def test_an_upgrade_and_one_that_rolls_back(flinkish: Flinkish, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    script = recipe("upgrade.sh", tmp_path)
    good, bad = versions(tmp_path)

    def upgrade(program: Path) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", str(script), "rides", "-m", "local[2]", *LIGHT, str(program), str(out)],
            env={**flinkish.environ, "PATH": path},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    old = flinkish.run("counted.py", str(out), options=("--name", "rides"))
    flinkish.wait_for_batch(old, 1)
    done = upgrade(good)
    assert done.returncode == 0, done.stdout + done.stderr
    new = flinkish.ok("list", "-q", "--name", "rides").out.strip()
    assert new != old
    assert (out / "good").exists()
    assert flinkish.job(old)["state"] == "FINISHED"

    rolled_back = upgrade(bad)
    assert rolled_back.returncode == 1, rolled_back.stdout + rolled_back.stderr
    assert "the new version is broken" in rolled_back.stderr
    back = flinkish.ok("list", "-q", "--name", "rides").out.strip()
    assert back not in (old, new)
    assert flinkish.job(back)["state"] == "RUNNING"
    newest = check_counted(out)
    wait_until(lambda: (out / f"{newest + 2}.json").exists(), PATIENCE)
    check_counted(out)

    # What check refuses never stops the job.
    untouched = upgrade(tmp_path / "missing.py")
    assert untouched.returncode == 2
    assert flinkish.job(back)["state"] == "RUNNING"
    flinkish.ok("cancel", back)
