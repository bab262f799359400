"""Which specification ``spark-pipelines`` runs: as its own command line and search say."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from flinkish.driver.connect.spec_program import specification_of


def module(file: str | None) -> ModuleType:
    main = ModuleType("__main__")
    if file is not None:
        main.__file__ = file
    return main


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["run", "--spec", "projects/rides/rides.yml"], "rides.yml"),
        (["run", "--spec=rides.yml", "--refresh", "counts"], "rides.yml"),
        (["run"], "spark-pipeline.yaml"),
        (["run", "--spec"], "spark-pipeline.yaml"),
    ],
)
def test_the_named_one_or_that_of_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], name: str
) -> None:
    for each in ("rides.yml", "spark-pipeline.yaml"):
        (tmp_path / each).touch()
    monkeypatch.chdir(tmp_path)  # as Spark does while it imports the definitions
    monkeypatch.setattr(sys, "argv", ["cli.py", *words])
    main = module("/opt/spark/python/pyspark/pipelines/cli.py")
    assert specification_of(main) == str(tmp_path / name)


def test_other_programs_have_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["cli.py", "run"])
    for main in (
        None,
        module(None),
        module("/home/me/cli.py"),
        module("a/pyspark/pipelines/cli.py"),
    ):
        assert specification_of(main) is None
