"""The wheel carries the types: a user's program is checked against it with ``mypy --strict``."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = '''
from collections.abc import Sequence

from typing_extensions import assert_type

from flinkish import Client, Program, RestoreOptions, Savepoint, uid
from flinkish.client import Changes, Job, OperatorPlan, Plan, Progress, prune
from flinkish.engine import TargetState
from flinkish.errors import FlinkishError


class Shown:
    """A reporter of the user's own."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def note(self, text: str) -> None:
        self.seen.append(text)

    def warning(self, text: str) -> None:
        self.seen.append(text)

    def progress(self, progress: Progress) -> None:
        self.seen.append(f"{progress.phase} {progress.files or 0}")

    def log(self, text: str) -> None:
        self.seen.append(text)


def upgrade(client: Client, app: str, arguments: Sequence[str]) -> Job:
    job = client.job("counts")
    assert_type(job, Job)
    savepoint = job.savepoint("savepoints")
    assert_type(savepoint, Savepoint)
    assert_type(savepoint.verify().ok, bool)
    program = Program(app, tuple(arguments))
    plan = client.check(savepoint, program, restore=RestoreOptions(uid_map=(("old", "new"),)))
    assert_type(plan, Plan)
    assert_type(plan.operators, tuple[OperatorPlan, ...])
    if not plan.ok:
        raise SystemExit(plan.exit_code)
    return client.run(program, from_savepoint=job.stop("savepoints"), parallelism=4)


with Client("sqlite:////srv/registry.db", reporter=Shown()) as opened:
    try:
        upgrade(opened, "app.py", ["in"]).wait(timeout=60)
    except FlinkishError as error:
        print(error.id, error.hint)
    for record in opened.prune("savepoints", keep_last=3).removed:
        assert_type(record, str)
    assert_type(opened.migrate("savepoints/one", "new", Changes(partitions=8)), Savepoint)
    print(prune("savepoints", keep_last=2, dry_run=True).errors, TargetState(partitions=3))
    print(Savepoint.open("savepoints/one").queries[0].batch_id + 1, uid("counts"))
'''
#: A mistake a line: each is found, so the types are not Any.
MISTAKES = """
from flinkish import Client, Savepoint, cliant  # E
from flinkish.client import Plam  # E
from flinkish.engine import migrate_checkpoimt  # E

client = Client(registri="x")  # E
client.run(1)  # E
client.job("a").stop(3)  # E
client.job("a").savepoint().okay  # E
Client(reporter=print)  # E
Savepoint.open("a").verify(7)  # E
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with nothing but the wheel; returns it."""
    base = tmp_path_factory.mktemp("typing")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # Else pip fetches what pyproject.toml names as the build's requirements.
    there = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    words: list[str | Path] = [*pip, "wheel", "--no-deps", *there, "-w", base / "dist", ROOT]
    subprocess.run(words, check=True, cwd=base)
    (wheel,) = (base / "dist").glob("flinkish-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "flinkish/py.typed" in names
    shared = {name.partition("/data/share/")[2] for name in names if "/data/share/" in name}
    pages = {f"man/man1/{page.name}" for page in (ROOT / "man").iterdir()}
    assert shared >= {*pages, "bash-completion/completions/flinkish"}
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", base / "venv"], check=True)
    python = base / "venv" / "bin" / "python"
    (packages,) = (base / "venv" / "lib").glob("python*/site-packages")
    subprocess.run([*pip, "install", "--no-deps", "--target", packages, wheel], check=True)
    return python


def check(installed: Path, directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    (directory / "program.py").write_text(program)
    words = ["--strict", "--no-incremental", "--python-executable", str(installed), "program.py"]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *words], cwd=directory, capture_output=True, text=True
    )


def test_a_users_program_is_typed(installed: Path, tmp_path: Path) -> None:
    found = check(installed, tmp_path, PROGRAM)
    assert found.returncode == 0, found.stdout + found.stderr


def test_mistakes_are_found(installed: Path, tmp_path: Path) -> None:
    found = check(installed, tmp_path, MISTAKES)
    lines = {int(number) for number in re.findall(r"^program\.py:(\d+): error", found.stdout, re.M)}
    expected = {n for n, line in enumerate(MISTAKES.splitlines(), 1) if line.endswith("# E")}
    assert lines == expected, found.stdout + found.stderr
