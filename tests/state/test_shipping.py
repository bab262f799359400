"""The package that executors get."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import flinkish
from flinkish.errors import UsageError
from flinkish.state.shipping import ship_package


def _shipped(directory: Path, monkeypatch: pytest.MonkeyPatch, package: Path) -> list[str]:
    files: list[str] = []
    context = SimpleNamespace(_temp_dir=str(directory), addPyFile=files.append)
    monkeypatch.setattr(flinkish, "__file__", str(package / "__init__.py"))
    ship_package(context)
    return files


def test_files_of_before_1980_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "flinkish"
    package.mkdir()
    (package / "__init__.py").write_text("x = 1")
    os.utime(package / "__init__.py", (1, 1))
    (file,) = _shipped(tmp_path, monkeypatch, package)
    with zipfile.ZipFile(file) as archive:
        assert archive.read("flinkish/__init__.py") == b"x = 1"


def test_a_package_within_a_zip_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="cannot be sent to the executors"):
        _shipped(tmp_path, monkeypatch, tmp_path / "app.zip" / "flinkish")
