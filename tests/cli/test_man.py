"""The manual pages: every command has one, which is up to date, and which groff understands."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flinkish.cli import command_index, man
from flinkish.cli.docs import MEANINGS

DIRECTORY = Path(__file__).resolve().parents[2] / "man"
PAGES = man.pages()


def test_the_pages_are_up_to_date() -> None:
    written = {path.name: path.read_text("utf-8") for path in DIRECTORY.iterdir()}
    assert written == PAGES, "run: make man"


def test_the_overview_has_every_command_and_exit_code() -> None:
    overview = PAGES["flinkish.1"]
    for name, _ in command_index.every_command():
        assert f"flinkish-{name.replace(' ', '-')}\\fR(1)" in overview
    assert re.findall(r"^\\fB(\d+)\\fR$", overview, flags=re.MULTILINE) == list(map(str, MEANINGS))


def test_no_line_of_text_is_a_macro() -> None:
    macros = {"TH", "SH", "TP", "TQ", "PP", "B", "BR", "I", "nf", "fi"}
    for name, page in PAGES.items():
        used = set(re.findall(r"^[.'](\w*)", page, flags=re.MULTILINE))
        assert used <= macros, name


@pytest.mark.parametrize("name", ["flinkish.1", "flinkish-run.1", "flinkish-completion.1"])
def test_groff_shows_a_page_without_a_complaint(name: str) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("needs groff")
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", "-P-c", str(DIRECTORY / name)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stderr == ""
    text = re.sub(r".\x08", "", done.stdout)
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS"):
        assert f"\n{heading}\n" in text
    assert "bash:  flinkish completion bash >" in text or "completion" not in name
    assert "--detached" in text or "run" not in name
