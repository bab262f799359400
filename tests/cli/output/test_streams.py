"""Streams that are closed, full or narrow: no traceback, nothing undone, and never a silent 0."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys

import pytest

from flinkish.cli.app import _what_is_lost
from flinkish.cli.entry import main
from flinkish.cli.output.streams import Stream, StreamLost, _guarded, flush, lost
from tests.cli.conftest import ROOT, Command
from tests.support.checkpoints.handwritten import CheckpointLikeness


def test_a_full_stream_is_remembered_and_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        stream = Stream(full)
        monkeypatch.setattr(sys, "stdout", stream)
        assert lost(stream) is None, "nothing was written"
        stream.write("the path\n")
        stream.write("and more\n")
        failure = lost(stream)
        assert failure is not None
        assert failure.errno == errno.ENOSPC
        assert stream.said == "the path\nand more\n"
        with pytest.raises(StreamLost):  # who only copies stops
            flush(sys.stdout)
    # closing it, as Python does at its end, has not failed


def test_stderr_may_be_lost_but_for_a_reader_that_has_gone() -> None:
    with open("/dev/full", "w") as full:
        stream = Stream(full)
        stream.write("a notice\n")
        flush(stream)  # type: ignore[arg-type]
    gone = Stream(io.StringIO(), BrokenPipeError(errno.EPIPE, "gone"))
    gone.write("a notice\n")
    with pytest.raises(StreamLost):
        flush(gone)  # type: ignore[arg-type]


def test_a_narrow_encoding_costs_no_path() -> None:
    raw = io.BytesIO()
    stream = _guarded(io.TextIOWrapper(raw, encoding="ascii"), 1, False)
    stream.write("/srv/café\n")
    assert lost(stream) is None
    assert raw.getvalue() == "/srv/café\n".encode()
    raw = io.BytesIO()
    stream = _guarded(io.TextIOWrapper(raw, encoding="latin-1"), 1, False)
    stream.write("é → \udce9")
    assert lost(stream) is None
    assert raw.getvalue() == b"\xe9 \\u2192 \\udce9"


def test_a_terminal_of_a_narrow_encoding_gets_escapes() -> None:
    master, slave = os.openpty()
    with (
        open(master, "rb", buffering=0) as shown,
        open(slave, "w", encoding="ascii", errors="surrogateescape") as terminal,
    ):
        stream = _guarded(terminal, 1, False)
        stream.write("caf\u00e9")
        stream.flush()
        assert shown.read(100) == b"caf\\xe9"


@pytest.mark.parametrize(
    ("redirection", "code"),
    [
        (">&-", 16),
        (">/dev/full", 16),
        ("2>&-", 0),
        ("2>/dev/full", 0),
        ("<&- >&- 2>&-", 16),
        ("| head -0; exit ${PIPESTATUS[0]}", 141),
    ],
)
def test_the_command_on_such_streams(redirection: str, code: int) -> None:
    """Real descriptors: the next file that is opened must not become stdout."""
    command = f"{sys.executable} -m flinkish compat 3.5.9 4.0.0 --json {redirection}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if code == 0:
        assert json.loads(done.stdout)["to"] == "4.0.0"
    elif code == 16 and "2>" not in redirection:
        error = json.loads(done.stderr)["error"]
        assert error["id"] == "result-not-written"
        assert '"to": "4.0.0"' in error["result"]
        assert error["hint"].startswith("the command succeeded")


def test_a_lost_result_is_told_in_the_form_that_the_command_was_asked_for(
    cli: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here ``--json`` stands behind the words of ``export``, where only the command reads it."""
    saved = CheckpointLikeness(cli.directory / "saved").run_to(2)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["export", str(saved.root), str(cli.directory / "plain"), "--json"]) == 16
    assert json.loads(capsys.readouterr().err)["error"]["id"] == "result-not-written"


@pytest.mark.parametrize("lines", [["x"], ["x", "y"]], ids=len)
def test_only_a_command_that_succeeded_is_said_to_have(lines: list[str]) -> None:
    assert _what_is_lost(lines, 0).startswith("the command succeeded")
    assert _what_is_lost(lines, 3) == ("its result is: x" if len(lines) == 1 else "")


def test_a_savepoint_that_was_taken_is_told_all_the_same(cli: Command) -> None:
    job = cli.start()
    flinkish = f"{sys.executable} -m flinkish savepoint {job}"
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    for redirection, code in ((">/dev/full", 16), (">&-", 16), ("2>&-", 0)):
        done = subprocess.run(
            ["bash", "-c", f"{flinkish} -q caf\u00e9 {redirection}"],
            env=environ,
            cwd=cli.directory,
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, done.stderr
        newest = max(cli.status(job)["savepoints"], key=lambda each: each["created"])
        assert newest["path"].encode() in (done.stderr if code else done.stdout)
