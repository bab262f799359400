"""Which of the words of ``check`` name the origin, and which the program."""

from __future__ import annotations

import click
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


@pytest.mark.parametrize(
    ("words", "has_program", "message"),
    [
        ((), False, "no savepoint or job, and no program was specified"),
        (("j",), False, "only j was specified, not a savepoint or job and a program"),
        (("app.py",), False, "no savepoint or job was specified"),
        (("app.py", "x"), False, "no savepoint or job was specified"),
        ((), True, "no savepoint or job was specified"),
    ],
)
def test_without_an_origin_the_message_says_what_is_missing(
    cli: Command, words: tuple[str, ...], has_program: bool, message: str
) -> None:
    with pytest.raises(UsageError, match=f"^{message}$"):
        split_words(words, Config.load(), named=False, has_program=has_program)


def test_the_hint_names_the_command_that_was_called() -> None:
    context = click.Context(click.Command("rehearse"), info_name="rehearse")
    with context, pytest.raises(UsageError) as refused:
        split_words((), Config.load(), named=False, has_program=False)
    assert refused.value.hint == "flinkish rehearse JOB APP.py, or flinkish rehearse -s PATH APP.py"
