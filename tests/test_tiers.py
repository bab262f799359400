"""The tiers of the suite: what is due, the records, how files are run, and what is skipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tiers import due, records, rooms, sources
from tests.support.tiers.due import Judge, Standing
from tests.support.tiers.graph import COMMAND_INDEX, Graph, module_of
from tests.support.tiers.parts import HADOOPS_OWN, PARTS, outcomes
from tests.support.tiers.plugin import unit
from tests.support.tiers.records import Failure, FileRecord, Records
from tests.support.tiers.repository import ROOT, Repository
from tests.support.tiers.runner import Runner

DEEP, MATRIX, SPARK35 = PARTS
RECORD = FileRecord(
    part="deep",
    file="tests/test_a.py",
    commit="c0ffee",
    date="2026-11-22T20:00:00+00:00",
    spark="4.3.0",
    passed=3,
    failed=0,
    skipped=1,
    seconds=90.0,
)
RED = replace(RECORD, failed=1, failures=(Failure("tests/test_a.py::test_b"),))


def test_a_record_is_a_line_and_is_kept_whole(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    assert list(records.load(path)) == []
    kept = Records([replace(RECORD, part="matrix"), RED, replace(RECORD, file="tests/a.py")])
    records.save(kept, path)
    assert list(records.load(path)) == list(kept)
    lines = path.read_text().splitlines()
    assert len(lines) == len(list(kept)) + 3
    assert all(line.endswith(",") for line in lines[1:-2]), "a new last line changes no other"
    records.save(kept.with_record(RECORD), path)
    assert records.load(path).of("deep", "tests/test_a.py") == RECORD


def test_a_record_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('[{"schema_version": 3}]')
    with pytest.raises(ValueError, match="schema_version"):
        records.load(path)


def test_a_failure_wants_an_explanation() -> None:
    red = Records([RED])
    errors, _ = due.complaints([Standing(DEEP, RED.file, RED)], 2)
    assert "tests/test_a.py::test_b" in errors[0]
    told = red.explained("tests/test_a.py::test_b", "SPARK-12345").of("deep", RED.file)
    assert due.complaints([Standing(DEEP, RED.file, told)], 2) == ([], [])
    with pytest.raises(KeyError):
        red.explained("tests/other.py::test_b", "?")


@pytest.mark.parametrize(
    ("commits", "errors", "warnings"), [(99, 0, 0), (100, 0, 1), (150, 0, 1), (151, 1, 0)]
)
def test_what_is_due_for_long(commits: int, errors: int, warnings: int) -> None:
    late = Standing(DEEP, RECORD.file, RECORD, "flinkish/a.py", commits)
    found = due.complaints([late, Standing(DEEP, "tests/test_b.py", RECORD)], 2)
    assert [len(each) for each in found] == [errors, warnings]
    assert all("(1 minutes with 2 workers)" in line for each in found for line in each)


def test_the_most_due_comes_first() -> None:
    def standing(file: str, record: FileRecord | None, why: str | None, commits: int) -> Standing:
        return Standing(DEEP, file, record, why, commits)

    found = [
        standing("fresh", RED, None, 0),
        standing("due", RECORD, "x", 3),
        standing("long due", RECORD, "x", 30),
        standing("due after a failure", RED, "x", 1),
        standing("new", None, "never recorded", 2),
    ]
    assert [each.file for each in sorted(found, key=due.urgency)] == [
        "new",
        "due after a failure",
        "long due",
        "due",
        "fresh",
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"""A."""\nx = 1', '"""B."""\n\n# c\nx = 1'),
        ('def f():\n    """A."""', 'def f():\n    """B."""'),
        ("f(1)", "f(\n    1\n)"),
    ],
)
def test_prose_does_nothing(one: str, other: str) -> None:
    assert sources.digest(one.encode()) == sources.digest(other.encode())


@pytest.mark.parametrize(
    ("one", "other"), [("x = 1", "x = 2"), ('x = "a"', 'x = "b"'), ("def f(): 1", "def f(): 2")]
)
def test_the_rest_does_something(one: str, other: str) -> None:
    assert sources.digest(one.encode()) != sources.digest(other.encode())


def graph(files: Mapping[str, str]) -> Graph:
    """The graph of files by their text."""

    def source_of(path: str, text: str) -> sources.Source:
        is_package = path.endswith("__init__.py")
        return sources.read(text.encode(), module_of(path), is_package=is_package)

    return Graph(files, source_of)


PACKAGE = {
    "flinkish/__init__.py": "def __getattr__(name):\n    if name == 'uid':\n"
    "        from flinkish import tagging\n        return tagging.uid\n__version__ = '1'",
    "flinkish/tagging.py": "uid = 1",
    "flinkish/__main__.py": "from flinkish.cli.command_index import load",
    "flinkish/cli/__init__.py": "",
    "flinkish/cli/command_index.py": "ALL = ('flinkish.cli.commands.stop',)",
    "flinkish/cli/commands/__init__.py": "",
    "flinkish/cli/commands/stop.py": "",
    "flinkish/cli/commands/stop_all.py": "",
    "flinkish/cli/commands/list.py": "",
    "flinkish/lazy/__init__.py": "_HOMES = {'A': 'of.a', 'B': 'b'}\n__all__ = ['A', 'B', 'c']",
    "flinkish/lazy/of/__init__.py": "",
    "flinkish/lazy/of/a.py": "",
    "flinkish/lazy/b.py": "",
    "flinkish/worker/__init__.py": "",
    "flinkish/worker/__main__.py": "from . import work",
    "flinkish/worker/work.py": "",
    "flinkish/numbers/__init__.py": "",
    "flinkish/numbers/advice.py": "TEXT = 'flinkish.uid()'; NAMES = ('flinkish', '__main__.py')",
    "flinkish/numbers/data/numbers.json": "{}",
    "tests/__init__.py": "",
    "tests/conftest.py": "",
    "tests/data/checkpoints/agg.tar": "",
    "tests/data/golden.gz": "",
    "tests/data/golden-1.gz": "",
    "tests/e2e/programs/counts.py": "from flinkish import uid",
    "tests/support/__init__.py": "",
    "tests/support/tools.py": "GOLDEN = 'golden.gz'",
    "README.md": "",
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import json", ""),
        ("import flinkish", "flinkish/__init__.py"),
        ("from flinkish import __version__", "flinkish/__init__.py"),
        ("import flinkish\nflinkish.uid", "flinkish/__init__.py flinkish/tagging.py"),
        ("import flinkish as f\nf.uid", "flinkish/__init__.py flinkish/tagging.py"),
        ("def f():\n    from flinkish import tagging", "flinkish/__init__.py flinkish/tagging.py"),
        ("x = 'from flinkish import uid'", "flinkish/__init__.py flinkish/tagging.py"),
        ("TYPE_CHECKING = 0\nif TYPE_CHECKING:\n    import flinkish.tagging", ""),
        ("from tests.support import tools", "SUPPORT tests/data/golden.gz"),
        ("'tests.support.tools.GOLDEN'", ""),  # a docstring
        ("x = 'tests.support.tools.GOLDEN'", "SUPPORT tests/data/golden.gz"),
        ("from .support.tools import *", "SUPPORT tests/data/golden.gz"),
        ("from flinkish.lazy import A", "LAZY flinkish/lazy/of/__init__.py flinkish/lazy/of/a.py"),
        ("from flinkish.lazy import B", "LAZY flinkish/lazy/b.py"),
        (
            "from flinkish.lazy import c",
            "LAZY flinkish/lazy/of/__init__.py flinkish/lazy/of/a.py flinkish/lazy/b.py",
        ),
        ("run('-m', 'flinkish.worker')", "WORKER"),
        ("join('worker', '__main__.py')", "WORKER"),
        ("run('counts.py')", "COUNTS"),
        ("P = HERE / 'programs'", ""),
        ("P = HERE / 'e2e' / 'programs'", ""),
        ("P = HERE / 'data/checkpoints'", "CHECKPOINTS"),
        ("P = HERE / f'golden-{version}.gz'", "tests/data/golden-1.gz"),
        (
            "P = 'flinkish.numbers'; Q = 'data'",
            "flinkish/__init__.py flinkish/numbers/__init__.py NUMBERS",
        ),
        ("P = f'{HERE}/numbers.json'", "NUMBERS"),
        ("print('see README.md')", ""),
        ("print('README.md')", "README.md"),
        ("run('flinkish', 'list')", "CLI flinkish/cli/commands/list.py"),
        ("run('flinkish', 'stop')", "CLI flinkish/cli/commands/stop.py"),
        ("options.get('flinkish', 'stop')", ""),
        ("from flinkish.numbers import advice", "flinkish/__init__.py NUMBER_MODULES"),
        (
            "'x'\nrun('flinkish stop all')",
            "CLI flinkish/cli/commands/stop.py flinkish/cli/commands/stop_all.py",
        ),
    ],
)
def test_what_a_file_depends_on(source: str, expected: str) -> None:
    names = {
        "SUPPORT": "tests/support/__init__.py tests/support/tools.py",
        "LAZY": "flinkish/__init__.py flinkish/lazy/__init__.py",
        "WORKER": "flinkish/__init__.py flinkish/worker/__init__.py flinkish/worker/__main__.py "
        "flinkish/worker/work.py",
        "COUNTS": "tests/e2e/programs/counts.py flinkish/__init__.py flinkish/tagging.py",
        "CHECKPOINTS": "tests/data/checkpoints/agg.tar",
        "NUMBERS": "flinkish/numbers/data/numbers.json",
        "NUMBER_MODULES": "flinkish/numbers/__init__.py flinkish/numbers/advice.py",
        "CLI": "flinkish/__init__.py flinkish/__main__.py flinkish/cli/__init__.py "
        "flinkish/cli/command_index.py COMMANDS",
        "COMMANDS": "flinkish/cli/commands/__init__.py",
    }
    for _ in range(2):
        expected = " ".join(names.get(word, word) for word in expected.split())
    found = graph({**PACKAGE, "tests/test_a.py": source}).dependencies("tests/test_a.py")
    always = {"tests/__init__.py", "tests/conftest.py", "tests/test_a.py"}
    assert found - always == set(expected.split())


def test_the_files_of_a_tier_are_found_by_marks_and_by_what_sets_them() -> None:
    tests = {
        "tests/support/examples.py": "def examples(): return mark.deep\ndef other(): pass",
        "tests/test_a.py": "import pytest\npytestmark = pytest.mark.deep",
        "tests/test_b.py": "from tests.support.examples import examples",
        "tests/test_c.py": "from tests.support.examples import other",
    }
    examples = "import pytest\ndef examples(): return pytest.mark.deep\ndef other(): pass"
    found = graph({**PACKAGE, **tests, "tests/support/examples.py": examples})
    assert found.files_of("deep") == ["tests/test_a.py", "tests/test_b.py"]
    assert found.files_of("matrix") == []


@pytest.fixture
def now() -> Graph:
    """The graph of this checkout."""
    repository = Repository()
    if not repository.is_whole():
        pytest.skip("only a clone of the repository tells its files")
    return Judge(repository, Records(), rooms.KEPT / "sources.pickle").now


def test_somebody_reads_each_file_of_data(now: Graph) -> None:
    read = set[str]().union(*(now.edges(path) for path in now.sources))
    data = {path for path in now.tree.keys() - now.sources.keys() if path[:5] in ("flink", "tests")}
    assert data - read - {"flinkish/py.typed"} == set()


def test_not_every_file_depends_on_the_commands(now: Graph) -> None:
    """If the suite's conftest.py did, each change of the product would make all files due."""
    for file in ("tests/conftest.py", "tests/driver/test_uid.py", "tests/engine/test_resuming.py"):
        assert COMMAND_INDEX not in now.dependencies(file), file
    assert COMMAND_INDEX in now.dependencies("tests/e2e/test_killed.py")


def test_spark_35_runs_the_tests_of_the_driver() -> None:
    assert SPARK35.has("tests/driver/plan/test_a.py")
    assert not any(map(SPARK35.has, ("tests/driver/conftest.py", "tests/e2e/test_a.py")))
    assert not any(map(MATRIX.has, ("tests/driver/test_a.py", "tests/e2e/test_a.py")))


def test_commands_are_in_modules_of_their_names() -> None:
    from flinkish.cli.command_index import COMMANDS, SUB_WORDS

    names = {name: entry.module for name, entry in COMMANDS.items()}
    names |= {f"{a} {b}": e.module for a, sub in SUB_WORDS.items() for b, e in sub.items()}
    assert {m.rpartition(".")[2] for m in names.values()} == {n.replace(" ", "_") for n in names}


SUITE = """
import pytest
from flinkish import a
@pytest.mark.deep
def test_of_a(): assert a.x
"""
CONFTEST = """
from tests.support.tiers import plugin
def pytest_addoption(parser): plugin.add_options(parser)
def pytest_configure(config):
    config.addinivalue_line("markers", "deep: slow")
    config.pluginmanager.register(plugin.TierPlugin(config), "flinkish-tiers")
"""


class World:
    """A repository with a suite of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repository = Repository(root)
        self.path = root / "tests/tier_records.json"
        self.git("init", "-q")
        self.git("config", "user.email", "a@b")
        self.git("config", "user.name", "a")
        for path, text in {
            ".gitignore": "__pycache__\n.pytest_cache\n/kept\n/ran",
            "conftest.py": CONFTEST,
            "flinkish/__init__.py": "",
            "flinkish/a.py": '"""A."""\nx = 1',
            "flinkish/other.py": "",
            "tests/test_a.py": SUITE,
        }.items():
            self.write(path, text)

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        return self.repository.head() or ""

    def standings(self) -> list[Standing]:
        return Judge(self.repository, records.load(self.path)).standings()

    def standing(self) -> Standing:
        (found,) = self.standings()
        return found

    def record(self, commit: str) -> None:
        records.save(Records([replace(RECORD, commit=commit)]), self.path)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_file_is_due_since_the_first_change_after_its_record(world: World) -> None:
    commit = world.commit()
    assert (world.standing().why, world.standing().commits) == ("never recorded", 1)
    world.record(commit)
    assert world.standing().why is None
    world.write("flinkish/other.py", "y = 1")
    world.write("flinkish/a.py", '"""B."""\nx = 1  # c')
    world.commit()
    assert world.standing().why is None, "neither what it does not import nor prose"
    world.write("flinkish/a.py", "x = 2")
    assert (world.standing().why, world.standing().commits) == ("flinkish/a.py", 0)
    world.commit()
    world.write("flinkish/a.py", "x = 3")
    world.commit()
    world.commit()
    assert (world.standing().why, world.standing().commits) == ("flinkish/a.py", 3)
    world.write("flinkish/a.py", "x = 1")
    world.commit()
    assert world.standing().why is None, "what it depends on is again what it was"


def test_a_dependency_that_is_gone_or_moved_is_a_change(world: World) -> None:
    world.record(world.commit())
    (world.root / "flinkish/a.py").rename(world.root / "flinkish/b.py")
    world.commit()
    assert (world.standing().why, world.standing().commits) == ("flinkish/a.py", 1)


def test_a_new_test_in_an_old_file_is_due_since_it_is_there(world: World) -> None:
    world.write("tests/test_a.py", "def test_of_a(): pass")
    world.commit()
    world.commit()
    assert world.standings() == []
    world.write("tests/test_a.py", SUITE)
    world.commit()
    assert (world.standing().why, world.standing().commits) == ("never recorded", 1)


def test_a_record_of_a_commit_that_is_not_here(world: World) -> None:
    world.commit()
    world.record("c0ffee" * 6 + "abcd")
    world.commit()
    world.commit()
    assert world.standing().why == "its commit is not in this history"
    assert world.standing().commits == 2


def test_a_commit_of_a_merged_branch_counts_from_where_the_branch_began(world: World) -> None:
    world.commit()
    world.commit()
    world.git("checkout", "-q", "-b", "branch")
    world.commit()
    tested = world.commit()
    world.record(tested)
    world.write("flinkish/a.py", "x = 2")
    world.commit()
    assert world.standing().commits == 1, "not merged yet"
    world.git("checkout", "-q", "-")
    world.commit()
    world.git("merge", "-q", "--no-ff", "branch")
    world.commit()
    assert (world.standing().why, world.standing().commits) == ("flinkish/a.py", 2)


def test_a_shallow_clone_cannot_tell(world: World, tmp_path: Path) -> None:
    world.commit()
    world.commit()
    shallow = tmp_path / "kept"
    world.git("clone", "-q", "--depth=1", f"file://{world.root}", str(shallow))
    assert world.repository.is_whole()
    assert not Repository(shallow).is_whole()
    (shallow / "x").mkdir()
    assert not Repository(shallow / "x").is_whole()


SLOW = """
import pathlib, pytest, time
pytestmark = pytest.mark.deep
def ran(name):
    with open("ran", "a") as file: file.write(name + " ")
def test_first(): ran("first")
def test_second():
    ran("second")
    try:
        while pathlib.Path("kept/wait").exists(): time.sleep(0.05)
    except KeyboardInterrupt:
        ran("stopped")
        raise
"""
RUN = """
import sys
from pathlib import Path
from tests.test_tiers import run
sys.exit(run(Path(sys.argv[1]), float(sys.argv[2])))
"""


def run(root: Path, minutes: float | None = None) -> int:
    """What ``make test-deep`` does, for a suite below ``root``."""
    repository, path = Repository(root), root / "tests/tier_records.json"
    wanted = [s for s in Judge(repository, records.load(path)).standings() if s.why is not None]
    return Runner(repository, 1, root / "kept", path).run(wanted, minutes)


@pytest.fixture
def slow(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A file that fails, never recorded; and one due whose second test waits for ``kept/wait``."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    world.write("flinkish/a.py", "x = 0")
    world.write("tests/test_slow.py", SLOW)
    old = replace(RECORD, file="tests/test_slow.py", commit=world.commit())
    records.save(Records([old]), world.path)
    world.write("tests/test_slow.py", SLOW + "\n_ = 1")
    world.commit()
    world.write("kept/wait", "")
    return world


def test_a_killed_run_goes_on_behind_what_has_ended(
    slow: World, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = slow.root / "ran"
    process = subprocess.Popen([sys.executable, "-c", RUN, str(slow.root), "9"], cwd=ROOT)
    wait_for(ran, "second")
    process.kill()
    process.wait()
    wait_for(ran, "stopped")  # pytest follows
    ended = records.load(slow.path).of("deep", "tests/test_a.py")
    assert ended is not None
    assert (ended.passed, ended.failed, ended.skipped) == (0, 1, 0)
    assert ended.unexplained == ["tests/test_a.py::test_of_a"]
    (slow.root / "kept/wait").unlink()
    assert run(slow.root) == 0
    assert ran.read_text() == "first second stopped second ", "neither the file nor the test"
    found = records.load(slow.path).of("deep", "tests/test_slow.py")
    assert found is not None
    assert (found.passed, found.failed, found.commit) == (2, 0, slow.repository.head())
    assert slow.repository.is_at(found.commit), "the records are no change of the checkout"
    assert run(slow.root) == 0
    assert ran.read_text() == "first second stopped second ", "nothing is due"
    slow.write("flinkish/a.py", "x = 1")
    assert run(slow.root) == 0
    assert "not recorded: this is no clean checkout" in capsys.readouterr().out
    assert records.load(slow.path).of("deep", "tests/test_a.py") == ended


def wait_for(file: Path, word: str) -> None:
    deadline = time.monotonic() + 60
    while not (file.exists() and word in file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_run_stops_when_its_time_is_over(
    slow: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.tiers.runner._AROUND", 0.0)
    assert run(slow.root, minutes=1.5) == 1
    said = capsys.readouterr().out
    assert "1 files would not end in time: not started" in said, "90 s are recorded for it"
    assert "assert a.x" in said, "what pytest says of a failure is shown"
    slow.record(slow.repository.head() or "")
    assert run(slow.root, minutes=0.05) == 0
    assert "the time is over" in capsys.readouterr().out
    assert records.load(slow.path).of("deep", "tests/test_slow.py") is None


def test_what_is_said_to_be_due() -> None:
    found = [
        Standing(DEEP, "tests/test_a.py", RECORD, "flinkish/a.py", 7),
        Standing(DEEP, "tests/test_b.py", None, "never recorded", 0),
        Standing(DEEP, "tests/test_c.py", RECORD),
        Standing(SPARK35, "tests/driver/test_d.py", RECORD, "flinkish/a.py", 3),
    ]
    assert due.describe(found, 2) == [
        "test-deep: 2 of 3 files are due, the oldest for 7 commits; "
        "1 minutes with 2 workers and 1 files that were never timed",
        "    for 7 commits   1.5 min  tests/test_a.py: flinkish/a.py",
        "    not committed        ?  tests/test_b.py: never recorded",
        "test-matrix: 1 of 1 files are due, the oldest for 3 commits; 1 minutes with 2 workers",
        "    for 3 commits   1.5 min  tests/driver/test_d.py (spark35): flinkish/a.py",
    ]


def test_end_to_end_tests_are_units_and_files_stay_whole() -> None:
    assert unit("tests/e2e/test_a.py::test_b[c]") == "tests/e2e/test_a.py::test_b[c]"
    assert unit("tests/engine/test_a.py::test_b[part2-c]") == "tests/engine/test_a.py::part2"
    assert unit("tests/engine/test_a.py::test_b[c]") == "tests/engine/test_a.py"


def test_a_line_that_was_cut_off_is_no_outcome() -> None:
    assert outcomes('["a", "passed", 1]\n["b", "failed", 2]\n["c", "pas') == {
        "a": ("passed", 1),
        "b": ("failed", 2),
    }


def test_seconds_by_room(tmp_path: Path) -> None:
    path = tmp_path / "rooms.json"
    assert rooms.load(path) == {}
    rooms.save({"lint": 31.4, "plain": 100}, path)
    lines = rooms.table({"plain": 120.2}, rooms.load(path))
    assert [line.split() for line in lines[1:3]] == [
        ["lint", "?", "31", "s"],
        ["plain", "120", "s", "100", "s"],
    ]


SKIPPING = """
import pytest
def test_passes(): pass
@pytest.mark.skip(reason="needs a telescope")
def test_of_stars(): pass
@pytest.mark.skip(reason="came with Spark 4")
def test_of_spark(): pass
"""


@pytest.mark.parametrize("ci", ["", "true"])
def test_a_missing_tool_is_named_and_fails_in_ci(tmp_path: Path, ci: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(SKIPPING)
    kept = tmp_path / "rooms.json"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"--rooms={kept}"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "CI": ci,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 tests not run: a tool is missing" in done.stdout
    assert "needs a telescope: 1, such as test_it.py::test_of_stars" in done.stdout
    assert "came with Spark 4: " not in done.stdout
    assert done.returncode == (1 if ci else 0)
    assert ("this run has failed for it" in done.stdout) == bool(ci)
    assert {"plain", "end to end"} < json.loads(kept.read_text()).keys()
    assert "seconds by room" in done.stdout


@pytest.mark.parametrize(
    ("part", "file", "own"),
    [
        ("deep", "tests/e2e/test_lifecycle.py", True),
        ("deep", "tests/e2e/test_upgrade.py", False),
        ("deep", "tests/engine/test_resuming.py", False),
        ("matrix", "tests/e2e/test_kafka.py", False),
        ("spark35", "tests/driver/test_gate.py", False),
    ],
)
def test_which_jobs_have_hadoops_own_local_files(part: str, file: str, own: bool) -> None:
    (of,) = (each for each in PARTS if each.name == part)
    assert all((ROOT / each).exists() for each in HADOOPS_OWN)
    assert ("SPARK_DIST_CLASSPATH" in of.local_files(file)) is own
