"""The sections and the examples of the help."""

from __future__ import annotations

import shlex

import pytest

from flinkish.cli import command_index, help_sections
from tests.cli.conftest import Command

EVERY = dict(command_index.every_command())


def test_the_overview_has_every_command_once() -> None:
    listed = [name for names in help_sections.COMMANDS.values() for name in names]
    assert sorted(listed) == sorted(command_index.COMMANDS)


def test_every_command_has_two_examples() -> None:
    assert {
        name: len(examples) for name, examples in help_sections.EXAMPLES.items()
    } == dict.fromkeys(EVERY, 2)


@pytest.mark.parametrize("name", EVERY)
def test_an_example_is_a_command_line_of_its_command(name: str) -> None:
    for _, line in help_sections.examples_of(name):
        assert line == f"flinkish {name}" or line.startswith(f"flinkish {name} ")
        words = shlex.split(line)[1 + len(name.split()) :]
        EVERY[name].make_context(name, words)  # raises UsageError


def test_the_examples_of_a_savepoint_lack_only_the_savepoint(cli: Command) -> None:
    for name in ("savepoint show", "savepoint diff", "savepoint verify"):
        for _, line in help_sections.examples_of(name):
            assert cli(*shlex.split(line)[1:]).code == 11
