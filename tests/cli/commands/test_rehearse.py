"""How the outcome of ``rehearse`` is shown."""

from __future__ import annotations

import pytest

from flinkish.cli.commands.rehearse import show_rehearsal
from flinkish.cli.output.printer import Output
from flinkish.client.rehearsal import RehearsalResult
from flinkish.messages.rehearsals import RehearsedQuery


def test_quiet_hides_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    show_rehearsal(Output(quiet=True), RehearsalResult((RehearsedQuery("rides", None),)))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("warning: query 'rides' had no input")
