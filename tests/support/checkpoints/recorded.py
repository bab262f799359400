"""The recorded checkpoints of real Spark runs (written by ``streaming_queries record``)."""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVES = Path(__file__).parents[2] / "data" / "checkpoints"
NAMES = sorted(path.name.removesuffix(".tar.gz") for path in ARCHIVES.glob("*.tar.gz"))


def unpack(name: str, directory: Path) -> Path:
    """Unpack one recorded checkpoint; its root."""
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return directory / name
