"""``run --uid-map`` from the command line into the registry, where the driver reads it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from flinkish.messages.launch import RestoreSpec
from flinkish.messages.restore_options import RestoreOptions
from flinkish.operators.uids import uid_to_operator_id
from tests.cli.conftest import Command
from tests.support.checkpoints.handwritten import CheckpointLikeness

OPERATOR_ID = "0123456789ABCDEF" * 2


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    CheckpointLikeness(tmp_path / "checkpoint").run_to(2)
    return str(tmp_path / "checkpoint")


def test_the_driver_finds_it_in_the_registry(cli: Command, checkpoint: str) -> None:
    options = ["--uid-map", "dedup=per flight", f"--uid-map={OPERATOR_ID}=counts=2"]
    job = cli.start("serve", "-s", checkpoint, "-n", *options)
    with cli.registry() as registry:
        restore = registry.job(job).launch.restore
    pairs = (("dedup", "per flight"), (OPERATOR_ID, "counts=2"))
    assert restore == RestoreSpec(
        checkpoint, RestoreOptions(allow_non_restored=True, claim_mode="no_claim", uid_map=pairs)
    )


def test_what_is_agreed_of_kafka_is_there_too(cli: Command, checkpoint: str) -> None:
    job = cli.start("serve", "-s", checkpoint, "--accept-lost-rows", "--offline")
    with cli.registry() as registry:
        restore = registry.job(job).launch.restore
    assert restore == RestoreSpec(
        checkpoint, RestoreOptions(claim_mode="no_claim", accept_lost_rows=True, offline=True)
    )


def test_offsets_are_read_where_the_command_runs(cli: Command, checkpoint: str) -> None:
    file = Path(checkpoint).with_name("offsets.json")
    file.write_text('{"a": {"0": 5}}')
    flags = ("--set-offsets", f"in={file}", "--set-offsets", "kafka[subscribe=a]=earliest")
    job = cli.start("serve", "-s", checkpoint, *flags, "--accept-repeated-rows")
    with cli.registry() as registry:
        restore = registry.job(job).launch.restore
    assert restore == RestoreSpec(
        checkpoint,
        RestoreOptions(
            claim_mode="no_claim",
            set_offsets=(("in", '{"a":{"0":5}}'), ("kafka[subscribe=a]", "earliest")),
            accept_repeated_rows=True,
        ),
    )


def test_a_savepoint_named_by_the_configuration_will_do(cli: Command, checkpoint: str) -> None:
    named = f"execution.state-recovery.path={checkpoint}"
    job = cli.start("serve", "-D", named, "--uid-map", "a=b")
    with cli.registry() as registry:
        restore = registry.job(job).launch.restore
    assert restore == RestoreSpec(
        checkpoint, RestoreOptions(claim_mode="no_claim", uid_map=(("a", "b"),))
    )


def test_a_dry_run_shows_it(cli: Command, checkpoint: str) -> None:
    words = ["serve", "--dry-run", "-s", checkpoint]
    plain = cli.ok(*cli.run_words(*words)).out
    words += ["--uid-map", "a\nb=c", "--uid-map", "d='"]
    text = cli.ok(*cli.run_words(*words)).out
    lines = text.splitlines()
    assert lines[0] + "\n" == plain
    assert lines[1:] == [
        "# the state of 'a\\nb' goes to uid 'c'",
        "# the state of 'd' goes to uid \"'\"",
    ]
    assert shlex.split(text, comments=True) == shlex.split(plain), "a shell sees the command only"
    assert cli.ok(*cli.run_words(*words, "-q")).out == plain
    document = cli.ok(*cli.run_words(*words, "--json")).json()
    assert document["uid_map"] == {"a\nb": "c", "d": "'"}
    assert cli.ok("list", "-a", "-q").out == "", "nothing was started"


@pytest.mark.parametrize(
    "values",
    [
        ("x=a", f"{uid_to_operator_id('x')}=b"),
        (f"{OPERATOR_ID}=a", f"{OPERATOR_ID.lower()}=b"),
        ("x=a", "x=a"),
    ],
)
def test_one_state_under_two_names_is_refused(cli: Command, values: tuple[str, ...]) -> None:
    options = [word for value in values for word in ("--uid-map", value)]
    result = cli("run", "-s", "somewhere", *options, "app.py")
    assert result.code == 2
    error, hint = result.err.splitlines()
    assert error == f"error: the uid map contains one state twice: {values[0]!r} and {values[1]!r}"
    assert hint == "hint: map the state of one operator to one operator: --uid-map OLD=NEW"


def test_a_swap_and_a_chain_of_names_are_fine(cli: Command, checkpoint: str) -> None:
    options = ["--uid-map", "a=b", "--uid-map", "b=a", "--uid-map", "c=d", "--uid-map", "d=e"]
    document = cli.ok(*cli.run_words("serve", "--dry-run", "--json", "-s", checkpoint, *options))
    assert document.json()["uid_map"] == {"a": "b", "b": "a", "c": "d", "d": "e"}


def test_the_help_says_which_side_is_which(cli: Command) -> None:
    text = " ".join(cli.ok("run", "--help").out.split())
    assert "--uid-map OLD=NEW Assign the state of OLD (a uid or operator id of the" in text
    assert "the first = separates (repeatable)" in text
