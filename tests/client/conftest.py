"""The client in this process; drivers are real processes without Spark (:mod:`tests.cli`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flinkish import Client
from flinkish.client.reporter import Progress
from tests.cli.conftest import Command
from tests.cli.conftest import cli as cli
from tests.cli.conftest import private as private


class Told:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.steps: list[Progress] = []
        self.logs: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def progress(self, progress: Progress) -> None:
        self.steps.append(progress)

    def log(self, text: str) -> None:
        self.logs.append(text)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def client(cli: Command, told: Told) -> Iterator[Client]:
    with Client(reporter=told) as opened:
        yield opened
