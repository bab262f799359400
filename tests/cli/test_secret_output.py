"""No command shows a secret that it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.config.secrets import MASK
from tests.cli.conftest import Command

SECRET = "hush-0815"


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    path = tmp_path / "arguments"
    path.write_text(f"--key\n{SECRET}\n")
    path.chmod(0o600)
    return str(path)


def everything(directory: Path) -> bytes:
    """All that the registry and the logs have of it."""
    state = directory / "state"
    return b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())


def test_a_job_with_secrets(cli: Command, secret_file: str) -> None:
    conf = ["--conf", f"spark.my.credential={SECRET}", "--secret-args", secret_file]
    words = [*cli.run_words("silent", "-d", "--no-wait", "-q", *conf), "--password", SECRET]
    job = cli.ok(*words).out.strip()
    shown = ["silent", "--password", MASK, MASK, MASK]
    assert cli.status(job)["arguments"] == shown
    assert SECRET not in cli.ok("status", job).out
    assert SECRET.encode() not in everything(cli.directory)


def test_a_dry_run(cli: Command, secret_file: str) -> None:
    conf = ["--conf", f"spark.my.credential={SECRET}", "--secret-args", secret_file]
    words = [*cli.run_words("silent", "--dry-run", *conf), "--password", SECRET]
    command = cli.ok(*words).out
    assert f"spark.my.credential={MASK}" in command.replace("'", "")
    assert command.count(MASK) == 4
    assert SECRET not in command


def test_secret_arguments_that_others_can_read(cli: Command, secret_file: str) -> None:
    Path(secret_file).chmod(0o644)
    refused = cli(*cli.run_words("silent", "--secret-args", secret_file))
    assert refused.code == 2
    assert "can be read by others" in refused.err
    assert f"chmod 600 {secret_file}" in refused.err
    assert SECRET not in refused.out + refused.err


def test_the_registry_in_the_configuration(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"postgresql://u:{SECRET} {SECRET}@h/db"
    shown = cli.ok("config", "show", "-D", f"registry.url={url}").out
    assert f"registry.url=postgresql://u:{MASK}@h/db\n" in shown
    for words in (["list"], ["config", "show"], ["status", "x", "--json"]):
        monkeypatch.setenv("FLINKISH_REGISTRY", f"host=h password={SECRET}")
        refused = cli(*words)
        assert refused.code == 2, words
        assert "postgresql://USER@HOST" in refused.err
        assert SECRET not in refused.out + refused.err
    assert not list(cli.directory.glob("host=*"))
