"""Lines that are drawn again in place."""

from __future__ import annotations

import io
import re

import pytest

from flinkish.cli.output.live import fitting, redrawn


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in {"COLUMNS": "20", "LINES": "5", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_what_does_not_fit_is_left_out_at_the_end() -> None:
    first, *lines = fitting(["HEAD", "a\x1b[2J" + "b" * 30, *"cdefg"], 20, 5)
    assert first.endswith("to leave)")
    assert lines == ["HEAD", "a\\x1b[…bbbbbbbbbbbbb", "... 5 more lines"]
    assert fitting(["HEAD", "x" * 300], None, None)[1:] == ["HEAD", "x" * 300]


def test_the_next_lines_replace_those_before_and_the_last_ones_stay(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", terminal)  # not by the fixture: pytest has its own by then
    with redrawn(True) as draw:
        assert draw is not None
        draw(["HEAD", "[red]one"])
        before = len(terminal.getvalue())
        draw(["HEAD", "two\x1b[2J"])
    first, second = terminal.getvalue()[:before], terminal.getvalue()[before:]
    assert "[red]one" in first
    # Up and erased: the lines with the time, the head and the row.
    assert re.match(r"\r\x1b\[2K(\x1b\[1A\x1b\[2K){2}", second)
    assert "two\\x1b[2J" in second
    assert "\x1b[2J" not in second
    assert second.endswith("\n\x1b[?25h"), "the cursor is back, below them"


@pytest.mark.parametrize("reason", ["unwanted", "no terminal", "NO_COLOR"])
def test_without_a_terminal_there_is_nothing_to_draw_on(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    stream = io.StringIO() if reason == "no terminal" else terminal
    monkeypatch.setattr("sys.stdout", stream)
    if reason == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    with redrawn(reason != "unwanted") as draw:
        assert draw is None
    assert stream.getvalue() == ""
