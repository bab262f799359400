"""Which of the words of ``check`` name the origin, and which the program."""

from __future__ import annotations

import pytest

from flinkish.cli.options.origin import split_words
from flinkish.config import Config
from flinkish.errors import UsageError
from tests.cli.conftest import Command

CONFIGURED = {"execution.state-recovery.path": "/sp"}


@pytest.mark.parametrize(
    ("words", "settings", "named", "has_program", "origin"),
    [
        (("j", "app.py", "x"), {}, False, False, "j"),
        (("j", "other.py"), {}, False, False, "j"),
        (("app.py", "x"), {}, True, False, None),
        (("app.py", "x"), CONFIGURED, False, False, None),
        (("missing.py",), CONFIGURED, False, False, None),
        (("j", "app.py"), CONFIGURED, False, False, "j"),
        (("j",), {}, False, True, "j"),
        (("app.py", "x"), CONFIGURED, False, True, None),
        (("sp/_metadata", "app.py"), {}, False, False, "sp/_metadata"),
    ],
)
def test_the_words(
    cli: Command,
    words: tuple[str, ...],
    settings: dict[str, str],
    named: bool,
    has_program: bool,
    origin: str | None,
) -> None:
    (cli.directory / "sp").mkdir()
    (cli.directory / "sp/_metadata").touch()
    config = Config.load(flags=settings)
    found = split_words(words, config, named=named, has_program=has_program)
    assert found == (origin, words if origin is None else words[1:])


@pytest.mark.parametrize("words", [(), ("j",), ("app.py",), ("app.py", "x")])
def test_without_an_origin(cli: Command, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="no savepoint or job, and no program"):
        split_words(words, Config.load(), named=False, has_program=False)
