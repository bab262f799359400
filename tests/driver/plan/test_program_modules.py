"""Which modules a savepoint may name: the program's own, unless the user says otherwise."""

from __future__ import annotations

import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from flinkish.driver.plan.uid_rules import snapshot_modules


@pytest.mark.parametrize(
    ("configured", "modules"),
    [
        ("", ("flinkish",)),
        ("jobs", ("flinkish", "jobs")),
        ("jobs.types, shared ,", ("flinkish", "jobs.types", "shared")),
    ],
)
def test_what_the_user_says(configured: str, modules: tuple[str, ...]) -> None:
    assert snapshot_modules(configured) == modules


def test_the_program_and_what_is_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside.py").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "data").mkdir()
    sent = tmp_path / "data" / "sent.zip"
    with zipfile.ZipFile(sent, "w") as archive:
        archive.writestr("carried.py", "")
    installed = [sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"]]
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(sent), *installed])
    assert snapshot_modules(None) == ("flinkish", "__main__", "beside", "carried", "package")
    monkeypatch.setattr(sys, "path", installed)
    assert snapshot_modules(None) == ("flinkish", "__main__")


def test_a_program_below_the_home_of_spark_or_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Spark's own images, /opt/spark/work-dir, and in <venv>/app."""
    places = ("work-dir", "python", "python/lib/py4j.zip", "jars", "app", "lib/site-packages")
    for number, place in enumerate(places):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / f"module{number}.py").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    paths = {"data": str(tmp_path), "purelib": str(tmp_path / "lib/site-packages")}
    monkeypatch.setattr(sysconfig, "get_paths", lambda: paths)
    monkeypatch.setattr(sys, "path", [str(tmp_path / place) for place in places])
    assert snapshot_modules(None) == ("flinkish", "__main__", "module0", "module4")
