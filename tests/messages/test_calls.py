"""What drivers without a job are asked and answer, through JSON and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flinkish.driver.script import ProgramOutcome
from flinkish.driver.tasks.answering import answer_with, take_call, write_answer
from flinkish.driver.tasks.migration_task import _Progress
from flinkish.errors import Corrupt, FlinkishError, StorageError, UsageError, from_record
from flinkish.messages.calls import (
    Described,
    DescribeTask,
    DriverCall,
    Exported,
    ExportTask,
    JobOrigin,
    KnownRun,
    KnownWriter,
    Question,
    RehearsalTask,
    RestoreQuestion,
    StateAnswer,
    StateTask,
    answer_path,
)
from flinkish.messages.codec import decode, encode
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.migration import MigratedOperator, Migration, MigrationResult, NewSchema
from flinkish.messages.plan import RestorePlan
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.messages.rehearsals import RehearsalLimits
from flinkish.messages.requests import LeftOut, SavedQuery, SavepointSummary

SAVED = SavepointSummary(
    *("/sp", "j", 1.5, "native"), 1, 2, 0.5, queries=(SavedQuery("q", 3, "i"),), shared_files=1
)
DOCUMENTS = [
    RestoreQuestion(RestoreSpec("/sp"), {"id": (KnownRun("j", "RUNNING", 4), KnownRun("k", "X"))}),
    RestoreQuestion(RestoreSpec("/sp"), writers=(KnownWriter("j", "a", "RUNNING", "q", "/out"),)),
    RestoreQuestion(
        RestoreSpec("/cp"),
        job=JobOrigin(
            *("j", True, (QueryStatus("q", "id", "run", "/cp/q"),)),
            facts={"q": QueryFacts("run", ({"uid": "lines"},))},
            spark_version="4.3.0",
            left_out=(LeftOut("p", "it ended"),),
            began_with="/sp",
            taken=("q", None),
        ),
    ),
    Described(({"name": "q", "operators": [{"uid": None}]},), RestorePlan()),
    Exported({"q": "q"}, ("its log ends",), RestorePlan()),
    StateTask("/sp", "dedup", "key.k > 1", 5, 0, "/out", "json"),
    StateAnswer(({"key": {"k": 1}, "value": None},), more=True),
    Migration("/sp", "/t", 64, schemas=(NewSchema("q", 0, "", {"type": "record"}, "u"),)),
    MigrationResult(
        SAVED,
        (MigratedOperator("q", None, 0, 1, 2, "0a", "0b"),),
    ),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: type(each).__name__)
def test_it_comes_back_as_it_was(document: object) -> None:
    assert decode(type(document), json.loads(json.dumps(encode(document)))) == document


QUESTIONS: list[Question] = [
    DescribeTask(),
    DescribeTask(RestoreQuestion(RestoreSpec("/sp"))),
    RehearsalTask(RestoreQuestion(RestoreSpec("/sp")), "/d", RehearsalLimits(1)),
    ExportTask(RestoreQuestion(RestoreSpec("/sp")), "/b", "/ck", "q", is_single=True),
    StateTask("/sp", "dedup"),
    Migration("/sp", "/t", 64),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: type(each).__name__)
def test_a_call_is_read_once(question: Question, tmp_path: Path) -> None:
    path = tmp_path / "call.json"
    path.write_text(json.dumps(encode(DriverCall.of(question, {"client.timeout": "1 min"}))))
    call = take_call(str(path))
    assert (call.asked(), call.options) == (question, {"client.timeout": "1 min"})
    assert not path.exists(), "the configuration may have passwords in it"


def test_a_question_that_nobody_asks_is_refused() -> None:
    with pytest.raises(Corrupt, match="question of the kind 'KnownRun'"):
        DriverCall("KnownRun", {}).asked()


def test_an_answer_is_the_document_or_the_error(tmp_path: Path) -> None:
    path = Path(answer_path(str(tmp_path / "call.json")))
    write_answer(str(tmp_path / "call.json"), StateAnswer(exported=3), None)
    assert json.loads(path.read_text()) == {
        "version": 1,
        "rows": [],
        "more": False,
        "exported": 3,
        "error": None,
    }
    write_answer(str(tmp_path / "call.json"), None, UsageError("no such state", hint="look"))
    (failure,) = json.loads(path.read_text()).values()
    assert isinstance(from_record(failure), UsageError)


class _Rehearsal:
    """A run of a program whose temporary files cannot be removed."""

    def __init__(self, error: FlinkishError | None) -> None:
        self._error = error
        self.is_stopped = False

    def run(self, program: Callable[[], ProgramOutcome]) -> ProgramOutcome:
        return ProgramOutcome(0)

    def failure(self, outcome: ProgramOutcome) -> FlinkishError | None:
        return self._error

    def answer(self) -> StateAnswer:
        return StateAnswer(exported=3)

    def close(self) -> None:
        raise StorageError("s3://bucket/copies: access denied")

    def stop_session(self) -> None:
        self.is_stopped = True


@pytest.mark.parametrize("refusal", [None, UsageError("no such query")])
def test_files_that_cannot_be_removed_do_not_replace_the_answer(
    refusal: UsageError | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call, program = str(tmp_path / "call.json"), _Rehearsal(refusal)
    assert answer_with(lambda: program, call, []) == (0 if refusal is None else 1)
    answer = json.loads(Path(answer_path(call)).read_text())
    if refusal is None:
        assert (answer["exported"], answer["error"]) == (3, None)
    else:
        assert answer["error"]["message"] == "no such query"
    assert "may be left: s3://bucket/copies: access denied" in capsys.readouterr().err
    assert program.is_stopped


def test_progress_that_cannot_be_written_fails_no_migration(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    _Progress(str(path))(7, 100)
    assert json.loads(path.read_text()) == [7, 100]
    _Progress(str(tmp_path / "removed" / "progress.json"))(8, 110)
