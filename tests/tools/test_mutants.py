"""The list of mutants fits the source, and the runner tells what became of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.mutants import __main__ as program
from tools.mutants.catalog import MUTANTS
from tools.mutants.model import Fate, Mutant, Outcome, OutOfDate, check_list
from tools.mutants.runner import Copy, Reach, stages

ROOT = Path(__file__).parents[2]
MODULE = "fake/sums.py"
TESTS = "tests/test_sums.py"
FILES = ("fake/__init__.py", MODULE, TESTS, "pytest.ini")


def test_the_list_fits_the_source() -> None:
    check_list(ROOT, MUTANTS)
    assert len(MUTANTS) >= 40


def test_faults_are_in_every_room() -> None:
    rooms = {mutant.file.split("/")[1] for mutant in MUTANTS}
    assert rooms >= {
        *("checkpoint", "cli", "compat", "driver", "engine"),
        *("launch", "operators", "registry", "restore", "savepoint", "storage"),
    }


def test_each_fault_is_still_python() -> None:
    for mutant in MUTANTS:
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        compile(text.replace(mutant.old, mutant.new), mutant.id, "exec")


def fault(id: str, old: str, new: str, near: str = TESTS) -> Mutant:
    return Mutant(id, f"the fault {id}", MODULE, old, new, (near,))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two functions, of which the tests look at one only."""
    # What pytest's other plugins cost is more than these tests.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    root = tmp_path / "source"
    for name, text in {
        "fake/__init__.py": "",
        MODULE: "def add(a, b):\n    return a + b\n\n\ndef unseen(a):\n    return a\n",
        TESTS: "from fake.sums import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
        "pytest.ini": "[pytest]\naddopts = -ra\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_what_becomes_of_mutants(checkout: Path, tmp_path: Path) -> None:
    copy = Copy(checkout, tmp_path, FILES)
    caught, survived, invalid = (
        copy.try_mutant(mutant, Reach.NEAR)
        for mutant in (
            fault("minus", "a + b", "a - b"),
            fault("unseen", "return a\n", "return 0\n"),
            fault("broken", "def add", "import nothing.at.all\n\n\ndef add"),
        )
    )
    assert (caught.fate, caught.stage) == (Fate.CAUGHT, "near")
    assert caught.test == "tests/test_sums.py::test_add"
    assert survived.fate is Fate.SURVIVED
    assert invalid.fate is Fate.INVALID
    assert "nothing" in invalid.note
    # The faults were made in the copy, and taken back.
    text = (checkout / MODULE).read_text()
    assert (copy.path / MODULE).read_text() == text
    assert "a + b" in text


def test_a_run_that_hangs_is_caught(checkout: Path, tmp_path: Path) -> None:
    copy = Copy(checkout, tmp_path, FILES, limits={"near": 1.0})
    outcome = copy.try_mutant(
        fault("hang", "return a + b", "import time; time.sleep(60)"), Reach.NEAR
    )
    assert outcome.fate is Fate.CAUGHT
    assert "were stopped" in outcome.note


def test_a_test_that_fails_anyway_proves_nothing(checkout: Path, tmp_path: Path) -> None:
    (checkout / TESTS).write_text("def test_red():\n    assert False\n")
    outcome = Copy(checkout, tmp_path, FILES).try_mutant(fault("minus", "+", "-"), Reach.NEAR)
    assert (outcome.fate, outcome.test) == (Fate.BROKEN, "tests/test_sums.py::test_red")


@pytest.mark.parametrize(
    ("mutant", "said"),
    [
        (fault("a", "a * b", "a"), "stands in fake/sums.py 0 times"),
        (fault("a", "return a", "a"), "stands in fake/sums.py 2 times"),
        (fault("a", "a + b", "a + b"), "changes nothing"),
        (fault("a", "a + b", "a", near="tests/test_gone.py"), "no tests/test_gone.py"),
        (fault("a", "a + b", "a", near=f"{TESTS}::test_gone"), "no tests/test_sums.py::test_gone"),
        (fault("same", "a + b", "a"), "another mutant of this id"),
    ],
    ids=lambda value: value.id if isinstance(value, Mutant) else value.split()[0],
)
def test_a_list_that_is_out_of_date(checkout: Path, mutant: Mutant, said: str) -> None:
    with pytest.raises(OutOfDate, match=said):
        check_list(checkout, [fault("same", "a + b", "b"), mutant])


def test_stages_go_further_and_leave_out_what_has_run() -> None:
    near, plain, spark = stages(fault("a", "a", "b"), Reach.SPARK)
    assert near.paths == (TESTS,)
    assert TESTS in plain.left_out
    assert "tests/tools/test_mutants.py" in plain.left_out
    assert "not spark" in plain.markers
    assert spark.markers.endswith("and spark")
    assert len(stages(fault("a", "a", "b"), Reach.PLAIN)) == 2


def test_exit_status_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = MUTANTS[:2]
    fates = {one.id: Fate.CAUGHT, two.id: Fate.SURVIVED}
    monkeypatch.setattr(
        program, "run", lambda _, chosen, *__, **___: [Outcome(m, fates[m.id], 1.0) for m in chosen]
    )
    report = tmp_path / "report.json"
    assert program.main(["--only", one.id]) == 0
    assert program.main(["--only", one.id, two.id, "--report", str(report)]) == 1
    assert f"survived: {two.id}" in capsys.readouterr().out
    found = json.loads(report.read_text())
    assert (found["caught"], found["survived"]) == (1, 1)
    assert [each["fate"] for each in found["mutants"]] == ["caught", "survived"]
    assert program.main(["--only", "no-such-mutant"]) == 2
