"""``--map-path`` from the command line into the registry, and what is refused before a driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.checkpoints.handwritten import CheckpointLikeness


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Its source has read ``/in/0.json`` and others."""
    return str(CheckpointLikeness(tmp_path / "checkpoint").run_to(2).root)


def test_the_driver_finds_it_in_the_registry(cli: Command, checkpoint: str) -> None:
    flags = ("--map-path", "/in/=s3a://b/k=1/in")
    job = cli.start("serve", "-s", checkpoint, *flags)
    with cli.registry() as registry:
        restore = registry.job(job).launch.restore
    assert restore is not None
    assert restore.options.path_map == (("/in", "s3://b/k=1/in"),)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["/in"], "it is not OLD=NEW"),
        (["/in=/a=/b"], "it is not OLD=NEW"),
        (["=/new"], "the path is empty"),
        (["/in=/in/"], "both sides are the same place"),
        (["/in=s3:b"], "without a slash after the colon"),
        (["/in=/a", "/in/x=/b"], "/in and /in/x overlap"),
        (["/nowhere=/new"], "names a path in /nowhere"),
    ],
)
def test_bad_mappings(cli: Command, checkpoint: str, values: list[str], words: str) -> None:
    flags = [word for value in values for word in ("--map-path", value)]
    result = cli(*cli.run_words("serve", "--json", "-s", checkpoint, *flags))
    error = result.error()
    assert error["code"] == 2
    assert words in error["message"] + " " + str(error["hint"])


def test_it_needs_a_savepoint(cli: Command) -> None:
    result = cli(*cli.run_words("serve", "--map-path", "/a=/b"))
    assert "mapping paths needs a savepoint" in result.err
