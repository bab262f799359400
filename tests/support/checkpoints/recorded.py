"""The recorded checkpoints of real Spark runs (written by ``streaming_queries record``)."""

from __future__ import annotations

import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

ARCHIVES = Path(__file__).parents[2] / "data" / "checkpoints"
NAMES = sorted(path.name.removesuffix(".tar.gz") for path in ARCHIVES.glob("*.tar.gz"))
#: Each backend, each kind of file, families of columns; the smallest that have them.
TELLING = (
    "spark35-hdfs-join",
    "spark43-changelog-agg",
    "spark43-changelog-join3",
    "spark43-hdfs-agg",
    "spark43-ids-zip-dedup",
    "spark43-rocksdb-tws",
)


def fast_of(names: Collection[str], fast: Collection[str] = TELLING) -> list[Any]:
    """The parameters of a test of ``names``: those that are not ``fast`` are deep."""
    return [n if n in fast else pytest.param(n, marks=pytest.mark.deep) for n in names]


def unpack(name: str, directory: Path) -> Path:
    """Unpack one recorded checkpoint; its root."""
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return directory / name


def change_one_digit(path: Path, before: str) -> None:
    """As a failing disk does: the file keeps its size and its form, and the checksum file tells."""
    text = path.read_bytes()
    at = text.index(before.encode()) + len(before)
    while not text[at : at + 1].isdigit():
        at += 1
    digit = b"1" if text[at : at + 1] != b"1" else b"2"
    path.write_bytes(text[:at] + digit + text[at + 1 :])
