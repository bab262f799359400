"""The files of a driver that carries out a single task: its call and its answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from flinkish import storage
from flinkish.config import Config
from flinkish.driver.log import log
from flinkish.driver.script import ProgramOutcome, run_program
from flinkish.errors import FlinkishError
from flinkish.launch import secret_settings
from flinkish.messages.calls import DriverCall, answer_path
from flinkish.messages.codec import decode, encode

_TRANSFERS = "execution.savepoint.transfers"


def take_call(path: str) -> DriverCall:
    """Read a call from its file, and remove the file even if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return decode(DriverCall, json.load(file))
    finally:
        secret_settings.remove(path)


def answer(call_path: str, options: Mapping[str, str], work: Callable[[], object]) -> int:
    """Do some work, and write its result (a dataclass) or its FlinkishError as the answer.

    Returns the driver's exit status.
    """
    error: FlinkishError | None = None
    result: object = None
    try:
        transfers = options.get(_TRANSFERS) or Config.load(environ={}).get(_TRANSFERS)
        storage.set_connections(int(str(transfers)))
        result = work()
    except FlinkishError as refused:
        error = refused
    write_answer(call_path, result, error)
    return 0 if error is None else 1


class AskedProgram(Protocol):
    """A run of the user's program for the sake of an answer about the program."""

    def run(self, program: Callable[[], ProgramOutcome]) -> ProgramOutcome:
        """Run the program."""

    def failure(self, outcome: ProgramOutcome) -> FlinkishError | None:
        """Return the error with which the task ends, or None."""

    def answer(self) -> object:
        """Return the answer, a dataclass."""

    def close(self) -> None:
        """Remove the temporary files of the run."""

    def stop_session(self) -> None:
        """Stop Spark if the program has not."""


def answer_with(make: Callable[[], AskedProgram], call_path: str, argv: Sequence[str]) -> int:
    """Run the program with what ``make`` returns, and write the answer or the FlinkishError.

    Returns the driver's exit status. Spark is stopped after the answer is written.
    """
    error: FlinkishError | None
    status = 0
    answer: object = None
    program: AskedProgram | None = None
    try:
        program = make()
        outcome = program.run(lambda: run_program(argv))
        error, status = program.failure(outcome), outcome.status
        if error is None:
            answer = program.answer()
    except FlinkishError as refused:
        error = refused
    finally:
        if program is not None:
            try:
                program.close()
            except FlinkishError as left:  # the answer or the error of the program says more
                log(f"temporary files of this run may be left: {left.message}")
    write_answer(call_path, answer, error)
    if program is not None:
        program.stop_session()
    return status or (0 if error is None else 1)


def write_answer(call_path: str, answer: object, error: FlinkishError | None) -> None:
    """Write a driver's result (a document of ``messages``, with a null ``error``), or its error.

    :func:`flinkish.launch.driver_call.ask_driver` reads the file.
    """
    path = answer_path(call_path)
    if error is None:
        replace_file(path, {**encode(answer), "error": None})
    else:
        replace_file(path, {"error": error.to_record()})


def replace_file(path: str, content: Any) -> None:
    """Write JSON to a file atomically, so that readers never see an incomplete file."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(content, file, default=str)
    os.replace(path + ".tmp", path)
