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
