"""The list of mutants fits the source, and the runner tells what became of each."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tools.mutants import __main__ as program
from tools.mutants.catalog import MUTANTS
from tools.mutants.model import Fate, Mutant, Outcome, OutOfDate, check_list
from tools.mutants.operators import (
    Argument,
    Assign,
    Both,
    Choose,
    Compare,
    Drop,
    DropCall,
    Entry,
    Insert,
    Operator,
    Replace,
    Return,
    Swap,
    Text,
)
from tools.mutants.runner import Copy, Reach, stages
from tools.mutants.source import Source, Unfit, mutated

ROOT = Path(__file__).parents[2]
MODULE = "fake/sums.py"
TESTS = "tests/test_sums.py"
FILES = ("fake/__init__.py", MODULE, TESTS, "pytest.ini")


#: Something of all that operators change.
PROGRAM = """
class Sums:
    def work(self, n, limit, seen, other, known):
        found = known.get(n)  # of the last call
        if n < limit and n not in seen:
            return n
        if found is None:
            return pair(
                self.a, other, key=1
            )
        rows = f"{limit + 1} rows " f"of {n}", [m for m in seen if m > 1]
        options = {"a": 1, **known}
        tell("UPDATE rows SET state = 'X', kind = 'Y'")
        self.sync(n)
        return found if rows else other
"""


@pytest.fixture(scope="module")
def package() -> Source:
    return Source(ROOT)


def test_the_list_fits_the_source(package: Source) -> None:
    """Each fault finds its one place, and what it makes is Python, and another program."""
    check_list(package, MUTANTS)
    assert len(MUTANTS) >= 40


def test_faults_are_in_every_room(package: Source) -> None:
    rooms = {package.find(mutant.place).file.split("/")[1] for mutant in MUTANTS}
    assert rooms >= {
        *("checkpoint", "cli", "compat", "driver", "engine"),
        *("launch", "operators", "registry", "restore", "savepoint", "storage"),
    }


@pytest.mark.parametrize(
    ("operator", "was", "now"),
    [
        (Replace("known.get(n)", "None"), "known.get(n)", "None"),
        (Replace("limit + 1", "limit"), "{limit + 1}", "{limit}"),
        (Compare("n", "<", "<="), "n < limit", "n <= limit"),
        (Swap("self.a", "other"), "pair(self.a, other", "pair(other, self.a"),
        (Argument("key", "2"), "key=1", "key=2"),
        (Assign("found", "n"), "found = known.get(n)", "found = n"),
        (Return("found", was="n"), "return n", "return found"),
        (Return("[]", when="found is None"), "return pair(self.a, other, key=1)", "return []"),
        (Choose("rows", always=False), "found if rows else other", "other"),
        (Drop("n not in seen"), "if n < limit and n not in seen", "if n < limit"),
        (Drop("key"), "(self.a, other, key=1)", "(self.a, other)"),
        (Drop("m > 1"), " if m > 1", ""),
        (Drop("known"), "{'a': 1, **known}", "{'a': 1}"),
        (Entry("'a'", "2"), "'a': 1", "'a': 2"),
        (Text("state = '.', ", ""), "state = 'X', ", ""),
        (DropCall("self.sync"), "self.sync(n)", "pass"),
        (
            Insert("tell()\ntell(n)", before="self.sync"),
            "self.sync(n)",
            "tell()\n@tell(n)\n@self.sync(n)",
        ),
        (Insert("tell()", after="self.sync(n)"), "self.sync(n)", "self.sync(n)\n@tell()"),
        (
            Both(Replace("found is None", "n"), DropCall("self.sync")),
            *("if found is None:\n@@return pair(self.a", "if n:\n@@return pair(self.a"),
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Operator) else "",
)
def test_what_an_operator_makes(operator: Operator, was: str, now: str, tmp_path: Path) -> None:
    (tmp_path / "fake").mkdir()
    (tmp_path / MODULE).write_text(PROGRAM)
    found = mutated(Source(tmp_path, "fake").find("Sums.work"), operator)
    # A comment beside the fault stays.
    assert "# of the last call" in found
    was, now = (text.replace("@@", " " * 12).replace("@", " " * 8) for text in (was, now))
    plain = ast.unparse(ast.parse(PROGRAM))
    assert was in plain
    expected = plain.replace(was, now)
    if isinstance(operator, Both):
        expected = expected.replace("self.sync(n)", "pass")
    assert ast.unparse(ast.parse(found)) == expected


def test_a_fault_follows_its_function_to_another_file(tmp_path: Path) -> None:
    for file in ("a/one.py", "a/two.py", "b/three.py"):
        (tmp_path / "fake" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fake" / file).write_text("def same():\n    return 1\n")
    (tmp_path / "fake/a/one.py").write_text("LIMIT: int = 1\n")
    source = Source(tmp_path, "fake")
    assert source.find("LIMIT").file == "fake/a/one.py"
    assert source.find("a:same").file == "fake/a/two.py"
    assert source.find("b.three:same").file == "fake/b/three.py"
    with pytest.raises(Unfit, match=r"defined in fake/a/two.py, fake/b/three.py: name its room"):
        source.find("same")


def fault(id: str, operator: Operator, place: str = "add", near: str = TESTS) -> Mutant:
    return Mutant(id, f"the fault {id}", place, operator, (near,))


MINUS = fault("minus", Return("a - b"))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two functions, of which the tests look at one only."""
    # What pytest's other plugins cost is more than these tests.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    root = tmp_path / "source"
    for name, text in {
        "fake/__init__.py": "",
        MODULE: "ONE = 1\n\n\ndef add(a, b):\n    return a + b\n\n\n"
        "def unseen(a):\n    return a\n\n\ndef twice(a):\n    return a + a\n",
        TESTS: "from fake.sums import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
        "pytest.ini": "[pytest]\naddopts = -ra\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_what_becomes_of_mutants(checkout: Path, tmp_path: Path) -> None:
    copy = Copy(Source(checkout, "fake"), tmp_path, FILES)
    caught, survived, invalid = (
        copy.try_mutant(mutant, Reach.NEAR)
        for mutant in (
            MINUS,
            fault("unseen", Return("0"), place="unseen"),
            fault("broken", Replace("1", "int('x')"), place="ONE"),
        )
    )
    assert (caught.fate, caught.stage) == (Fate.CAUGHT, "near")
    assert caught.test == "tests/test_sums.py::test_add"
    assert survived.fate is Fate.SURVIVED
    assert invalid.fate is Fate.INVALID
    assert "ValueError" in invalid.note
    # The faults were made in the copy, and taken back.
    text = (checkout / MODULE).read_text()
    assert (copy.path / MODULE).read_text() == text
    assert "a + b" in text


def test_a_run_that_hangs_is_caught(checkout: Path, tmp_path: Path) -> None:
    copy = Copy(Source(checkout, "fake"), tmp_path, FILES, limits={"near": 1.0})
    outcome = copy.try_mutant(fault("hang", Return("__import__('time').sleep(60)")), Reach.NEAR)
    assert outcome.fate is Fate.CAUGHT
    assert "were stopped" in outcome.note


def test_a_test_that_fails_anyway_proves_nothing(checkout: Path, tmp_path: Path) -> None:
    (checkout / TESTS).write_text("def test_red():\n    assert False\n")
    outcome = Copy(Source(checkout, "fake"), tmp_path, FILES).try_mutant(MINUS, Reach.NEAR)
    assert (outcome.fate, outcome.test) == (Fate.BROKEN, "tests/test_sums.py::test_red")


@pytest.mark.parametrize(
    ("mutant", "said"),
    [
        (fault("a", Replace("a * b", "a")), "fits 0 places of fake/sums.py"),
        (fault("a", Replace("a", "b"), place="twice"), "fits 2 places of fake/sums.py"),
        (fault("a", Replace("a + b", "a+b")), "changes nothing"),
        (fault("a", Replace("a + b", "a + c")), "does not know c"),
        (fault("a", Return("a"), place="gone"), "nothing in the package is called gone"),
        (fault("a", Return("a"), near="tests/test_gone.py"), "no tests/test_gone.py"),
        (fault("a", Return("a"), near=f"{TESTS}::test_gone"), "no tests/test_sums.py::test_gone"),
        (fault("same", Return("a")), "another mutant of this id"),
    ],
    ids=lambda value: value.id if isinstance(value, Mutant) else value.split()[0],
)
def test_a_list_that_is_out_of_date(checkout: Path, mutant: Mutant, said: str) -> None:
    with pytest.raises(OutOfDate, match=said):
        check_list(Source(checkout, "fake"), [fault("same", Return("b")), mutant])


def test_stages_go_further_and_leave_out_what_has_run() -> None:
    near, plain, spark = stages(MINUS, Reach.SPARK)
    assert near.paths == (TESTS,)
    assert TESTS in plain.left_out
    assert "tests/tools/test_mutants.py" in plain.left_out
    assert "not spark" in plain.markers
    assert spark.markers.endswith("and spark")
    assert len(stages(MINUS, Reach.PLAIN)) == 2


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
