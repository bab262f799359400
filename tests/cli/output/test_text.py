"""The width of a terminal, and sentences that fit into it."""

from __future__ import annotations

import fcntl
import io
import json
import os
import struct
import termios
from collections.abc import Iterator

import pytest

from flinkish.cli.output.printer import Output
from flinkish.cli.output.progress import OutputReporter, driver_output
from flinkish.cli.output.text import (
    folded,
    iso_time,
    table_time,
    terminal_height,
    terminal_width,
    without_commands,
)
from flinkish.errors import FlinkishError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.TextIOWrapper]:
    """A terminal of 12 lines and 70 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("LINES", raising=False)
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 70, 0, 0))
    with open(slave, "w", encoding="utf-8") as stream:
        yield stream
    os.close(master)


def test_only_a_terminal_has_a_width(
    terminal: io.TextIOWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (terminal_width(terminal), terminal_height(terminal)) == (70, 12)
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("LINES", "7")
    assert (terminal_width(terminal), terminal_height(terminal)) == (50, 7)
    assert (terminal_width(io.StringIO()), terminal_height(io.StringIO())) == (None, None)
    for nonsense in ("0", "", "wide", "-3", "²"):
        monkeypatch.setenv("COLUMNS", nonsense)
        assert terminal_width(terminal) == 70
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
    assert terminal_width(terminal) is None, "its size is unknown"


def test_sentences_go_on_below() -> None:
    text = "  it was started again and again, by somebody"
    assert folded(text, None) == [text]
    assert folded(text, 45) == [text]
    lines = folded(text, 25, "    ")
    assert lines == ["  it was started again", "    and again, by", "    somebody"]
    assert folded("x" * 50, 20) == ["x" * 50], "an id can be copied"
    assert folded("a\x1b[31mb", 80) == ["a\\x1b[31mb"]
    assert folded("one  two   three " * 2, 20) == ["one  two   three one", "two   three"]


def test_wide_characters_take_two_columns_of_a_line() -> None:
    assert folded("日本 " * 6, 20, " ") == ["日本 日本 日本 日本", " 日本 日本"]


def test_a_time_keeps_its_milliseconds() -> None:
    assert iso_time(1_700_000_000.001) == "2023-11-14T22:13:20.001Z"
    assert iso_time(1_700_000_000.9999) == "2023-11-14T22:13:21.000Z"
    assert iso_time(-0.5) == "1969-12-31T23:59:59.500Z"


def test_times_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    assert table_time(1_700_000_000.0, None) == table_time(1_700_000_000.0, 100)
    assert table_time(1_700_000_000.0, 80) == "11-14 22:13"
    assert table_time(None, 80) == "-"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::x", "\\x3a:error::x"),
        (
            "one\n \t::add-mask::x\r::stop-commands::y",
            "one\n \t\\x3a:add-mask::x\r\\x3a:stop-commands::y",
        ),
        ("a ##[error]b", "a ##\\x5berror]b"),
        ("std::vector, # [x] and ## x", "std::vector, # [x] and ## x"),
    ],
)
def test_lines_on_stderr_are_no_commands_of_githubs_runner(text: str, shown: str) -> None:
    assert without_commands(text) == shown


@pytest.mark.parametrize("as_json", [False, True])
def test_errors_and_notices_give_no_commands(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    out, hostile = Output(json=as_json), "##[add-mask]a"
    out.error(FlinkishError(hostile, hint=hostile))
    out.complain("  ::error::b")
    text = capsys.readouterr().err
    assert "##[" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    if as_json:  # the same text, otherwise written
        assert json.loads(text.splitlines()[0])["error"]["message"] == hostile


def test_an_error_has_the_warnings_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output(json=True)
    out.warning("unknown key s3://user:secret@bucket")
    out.error(FlinkishError("no such job"))
    line = json.loads(capsys.readouterr().err)
    assert line["warnings"] == ["unknown key s3://user:******@bucket"]
    assert line["error"]["message"] == "no such job"
    Output(json=True).error(FlinkishError("no such job"))
    assert "warnings" not in json.loads(capsys.readouterr().err)


def test_a_failed_drivers_last_lines_give_no_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FlinkishError), driver_output(Output()):
        raise FlinkishError("failed", tail=["::error::x", "##[error]y"])
    assert capsys.readouterr().err == "  \\x3a:error::x\n  ##\\x5berror]y\n"


def test_a_log_that_debug_shows_gives_no_commands(capsys: pytest.CaptureFixture[str]) -> None:
    OutputReporter(Output(debug=True)).log("one\n::error::x\n")
    assert capsys.readouterr().err == "one\n\\x3a:error::x\n"
