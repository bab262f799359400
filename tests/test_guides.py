"""The commands of README.md and docs/ parse, and each block is run or compared by a test.

``tests/e2e/test_guides.py`` runs them.
"""

from __future__ import annotations

import re
import tempfile

import click
import pytest

from flinkish.cli.app import common_options_behind, root
from tests.support.guides import scenarios
from tests.support.guides.blocks import (
    PAGES,
    WITH_COMMANDS,
    Block,
    Step,
    blocks,
    calls,
    commands,
    is_script,
    joined,
    steps,
    text_of,
)
from tests.support.guides.desk import elsewhere
from tests.support.guides.transcripts import Comparison
from tests.support.servers.jars import spark_jars

#: Blocks that other tests read: programs, and configuration without commands.
OTHERS = ("python", "json", "toml", "text")
BLOCKS = [block for page in PAGES for block in blocks(page) if block.language in WITH_COMMANDS]
A, B = "a" * 32, "b" * 32


def parse(words: list[str]) -> None:
    """Parse a command line as the command does, and go no further.

    Raises
    ------
    click.UsageError
        There is no such command, option or word.
    """
    group: click.Group = root
    context = click.Context(root, info_name="flinkish")
    rest = common_options_behind(words)
    with tempfile.NamedTemporaryFile() as secrets:  # what is looked at when it is parsed
        there = {"--secret-args": secrets.name, "--spark-home": str(spark_jars().parent)}
        pairs = zip(["", *rest], rest, strict=False)
        rest = [there.get(before, word) for before, word in pairs]
        while True:
            name, command, rest = group.resolve_command(context, rest)
            assert command is not None
            if not isinstance(command, click.Group):
                command.make_context(name, rest, parent=context)
                return
            group, context = command, click.Context(command, info_name=name, parent=context)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_the_commands_parse(block: Block) -> None:
    for words in calls(block):
        try:
            parse(words)
        except click.UsageError as error:
            pytest.fail(f"{block}: flinkish {' '.join(words)}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES)
def test_the_options_in_the_text_exist(page: str) -> None:
    """In a sentence a command need not have all its words, nor real ones."""
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`([^`]+)`", text):
        for words in calls(Block(page, "bash", 0, span.replace("\n", " ").replace("|", "-"))):
            rest = words
            command: click.Command | None = root
            while isinstance(command, click.Group) and rest and rest[0][:1] not in "-.A":
                where = click.Context(command, info_name="flinkish")
                _, command, rest = command.resolve_command(where, rest)
            assert command is not None
            known = {name for each in command.params for name in each.opts}
            given = {word.partition("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)}
            assert given <= known, f"{page}: {span}"


@pytest.mark.parametrize(
    "line",
    [
        "flinkish stopp rides",
        "flinkish savepoint show",
        "flinkish savepoint sp1 show sp2 sp3",
        "flinkish state list sp",
        "flinkish list --runing",
        "flinkish savepoint rides -typo native",
        "flinkish wait rides --for",
        "*/5 * * * * FLINKISH_REGISTRY=x /opt/bin/flinkish savepoint --al",
        'old=$(flinkish list --no "$name")',
        "true && flinkish run --secret-arg <(pass show it) app.py",
        "flinkish status \\\n --json",
    ],
)
def test_what_does_not_parse_is_found(line: str) -> None:
    (words,) = calls(Block("page", "bash", 1, line))
    with pytest.raises(click.UsageError):
        parse(words)


def test_calls_are_found_in_every_language() -> None:
    def found(language: str, text: str) -> list[list[str]]:
        return list(calls(Block("page", language, 1, text)))

    assert found("ini", "ExecStart=/opt/flinkish restart %i\nUser=flinkish\n") == [
        ["restart", "%i"]
    ]
    assert found("yaml", "  args:\n    - flinkish\n    - list\n    - -a\n  env:\n") == [
        ["list", "-a"]
    ]
    assert found("console", "$ flinkish list\nflinkish status\n$ ls\n") == [["list"]]
    assert found("bash", "flinkish list | grep x  # flinkish status\n") == [["list"]]


def test_no_block_is_left_out() -> None:
    """Its language says who reads it, and the page's scenario types it."""
    languages = {block.language for page in PAGES for block in blocks(page)}
    assert languages <= {*WITH_COMMANDS, *OTHERS}
    assert {page for page in PAGES if scenarios.typed(page)} == scenarios.SCENARIOS.keys()
    assert {page for page in PAGES if blocks(page, "console")} == scenarios.RUNS.keys()
    for page in PAGES:
        for block in blocks(page, "console"):
            assert all(step.output for step in steps(block.text)), f"{block}: shows no output"
            assert joined(steps(block.text)) == block.text, str(block)


def test_a_script_is_run_by_its_own_test() -> None:
    assert [str(b) for p in PAGES for b in blocks(p, "bash") if is_script(b)] == [
        next(str(b) for b in blocks("README.md", "bash") if "# upgrade.sh " in b.text)
    ]


def test_the_commands_of_a_block_are_its_lines() -> None:
    block = Block("page", "bash", 1, "# one\nls \\\n  -l   # long\n\npwd\n")
    assert commands(block) == ["ls    -l   # long", "pwd"]


def test_a_table_fits_the_place_that_a_page_names() -> None:
    place = "/tmp/a/long/place"
    shown = (
        f"one {place}\n"
        "WHAT                   KIND    WHY\n"
        f"{place}/out  sink    -\n"
        "rows                   source\n"
        f"verdict: {place}\n"
        "OTHER  TABLE\n"
        "a      b\n"
    )
    assert elsewhere(shown, place, "/srv") == (
        "one /srv\n"
        "WHAT      KIND    WHY\n"
        "/srv/out  sink    -\n"
        "rows      source\n"
        "verdict: /srv\n"
        "OTHER  TABLE\n"
        "a      b\n"
    )


def step(head: str, *output: str) -> Step:
    return Step(f"$ {head}", output)


def differences(shown: Step, real: Step, *, moment: bool = False) -> int:
    return len(list(Comparison(moment).differences([shown], [real])))


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        (f"job {A}", f"job {B}"),
        ("2026-11-21 08:33:33  x", "2027-01-01 00:00:00  x"),
        ("  94.0 KiB  default", " 1,102 bytes  default"),
        ("took 1.5 s", "took 12 s"),
        ("file:/srv/savepoint-79c0a5-7dff2938dae9", "file:/srv/savepoint-aaaaaa-aaaaaaaaaaaa"),
        ("missing: ...", "missing: this and that"),
    ],
)
def test_what_differs_from_run_to_run_is_no_difference(shown: str, real: str) -> None:
    assert differences(step("x", shown), step("x", real)) == 0


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        ("job", "jobs"),
        ("a  b", "a   b"),
        ("3 rows", "4 rows"),
        (f"{A} and {A}", f"{A} and {B}"),
        ("took 1.5 s", "took 1.5 B"),
        ("missing: ...", "lacking: this"),
    ],
)
def test_anything_else_is_one(shown: str, real: str) -> None:
    assert differences(step("x", shown), step("x", real)) == 1


def test_numbers_of_the_moment_may_differ() -> None:
    assert differences(step("x", "10 rows   7"), step("x", "9 rows  1,234"), moment=True) == 0
    assert differences(step("x", "10 rows"), step("x", "9 files"), moment=True) == 1


def test_lines_may_be_left_out_where_the_page_says_so() -> None:
    real = step("x", "1", "2", "3", "4")
    assert differences(step("x", "1", "...", "4"), real) == 0
    assert differences(step("x", "1", "...", "3", "4"), real) == 0
    assert differences(step("x", "1", "...", "3"), real) == 1
    assert differences(step("x", "1", "2", "3"), real) == 1
    assert differences(step("x", "1", "2", "3", "4", "5"), real) == 1


def test_a_command_must_be_in_the_run_in_its_place() -> None:
    run = [step("a"), step("b"), step("c")]
    assert list(Comparison().differences([step("a"), step("c")], run)) == []
    assert len(list(Comparison().differences([step("c"), step("a")], run))) == 1
    with pytest.raises(ValueError, match="not in the run"):
        Comparison().renewed([step("d")], run)


def test_a_page_is_renewed_from_a_run_and_keeps_what_it_left_out() -> None:
    shown = [step(f"show {A}", "old", f"{A} lacks ...", "...", "end")]
    real = [
        step("other"),
        step(
            f"show {B}",
            "new",
            f"{B} lacks all",
            "x",
            "y",
            "end",
        ),
    ]
    assert Comparison().renewed(shown, real) == [
        step(f"show {B}", "new", f"{B} lacks ...", "...", "end")
    ]


def test_a_stale_page_is_found_and_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "text\n\n```console\n$ flinkish list\nOLD  1\n```\n\nmore\n"
    monkeypatch.setattr(scenarios, "text_of", lambda _: page)
    block = Block("page", "console", 3, "$ flinkish list\nOLD  1\n")
    same = scenarios.compare("page", [block], [step("flinkish list", "OLD  1")], moment=False)
    assert (same.differences, same.text) == ([], page)
    other = scenarios.compare("page", [block], [step("flinkish list", "NEW  1")], moment=False)
    assert other.differences == ["- OLD  1\n+ NEW  1"]
    assert other.text == page.replace("OLD", "NEW")
