"""How a restore plan is shown: plain where it is read by programs, drawn on a terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from flinkish.cli.output.plan_table import show_plan
from flinkish.messages.plan import RestorePlan
from flinkish.units import width_of
from tests.restore.plan.test_restore_planner import planner_of
from tests.support.restore.query_builders import AGG, new, old, saved_query, starting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def plan() -> RestorePlan:
    """An operator of another kind, and one that nobody takes."""
    planner = planner_of(saved_query(old("kept"), old("gone", 1)))
    planner.plan(starting(new("kept", kind=AGG)), {})
    return planner.restore_plan(complete=True)


def test_plain_text(plan: RestorePlan) -> None:
    out = io.StringIO()
    show_plan(plan, out)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("QUERY  WHAT  KIND")
    assert lines[1].split()[:4] == ["q", "kept", "stateStoreSave", "incompatible"]
    assert lines[2].split()[:4] == ["q", "gone", "dedupe", "dropped"]
    assert lines[3].startswith("kept [other-kind]: give the new operator another uid")
    assert "\x1b" not in out.getvalue()


def test_a_terminal_gets_colours_and_the_same_words(
    plan: RestorePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    show_plan(plan, out)
    text = out.getvalue()
    assert "\x1b[31mincompatible" in text
    assert "\x1b[33mdropped" in text
    assert text.count("kept [other-kind]: ") == 1
    assert "QUERY" in text
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    show_plan(plan, plain)
    assert "\x1b" not in plain.getvalue()


@pytest.mark.parametrize("no_color", ["", "1"])
def test_nothing_wraps(plan: RestorePlan, monkeypatch: pytest.MonkeyPatch, no_color: str) -> None:
    path = "/data/of/this/cluster/below/many/directories/with/the/output"
    sentence = "is a sentence with words that need more than a line " * 2
    row = replace(plan.operators[0], uid=path, kind="flatMapGroupsWithState", text=sentence)
    plan = replace(plan, operators=(row, *plan.operators[1:]))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", no_color)
    out = Terminal()
    show_plan(plan, out)
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert max(map(width_of, text.splitlines())) <= 80
    assert "…" in text.splitlines()[1]
    assert "the/output" in text.splitlines()[1]
    assert "incompatible" in text
    piped = io.StringIO()
    show_plan(plan, piped)
    assert path in piped.getvalue()
    assert "…" not in piped.getvalue()


def test_passwords_are_hidden(plan: RestorePlan) -> None:
    row = replace(plan.operators[0], text="reads s3://user:secret@host/x")
    plan = replace(plan, operators=(row,))
    out = io.StringIO()
    show_plan(plan, out)
    assert "secret" not in out.getvalue()
    assert "s3://" in out.getvalue()
