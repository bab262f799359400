"""Recipes on the recorded checkpoints of real Spark: making them, and looking at what was made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flinkish.checkpoint.cut import Cut, read_cut
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.recipe import OriginCheckpoint, Recipe
from tests.support.checkpoints.recorded import unpack


def origin(cut: Cut) -> OriginCheckpoint:
    return OriginCheckpoint(cut.root, tuple(cut.files), cut.batch_id)


def make(target: Path, *cuts: Cut, **recipe: Any) -> dict[str, bytes]:
    """Make the checkpoint; its files by path."""
    make_checkpoint(Recipe(tuple(origin(cut) for cut in cuts), **recipe), str(target))
    found = {p.relative_to(target).as_posix(): p for p in target.rglob("*") if p.is_file()}
    assert not [name for name in found if "/." in name]
    return {name: path.read_bytes() for name, path in found.items()}


def header(entry: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(entry.split(b"\n")[1])
    return parsed


def lines(entry: bytes) -> list[str]:
    return entry.decode().split("\n")[2:]


def content(cut: Cut, *paths: str) -> dict[str, bytes]:
    return {path: Path(cut.root, path).read_bytes() for path in paths}


def state_of(files: Mapping[str, bytes], ordinal: int) -> dict[str, bytes]:
    prefix = f"state/{ordinal}/"
    return {p.removeprefix(prefix): data for p, data in files.items() if p.startswith(prefix)}


def forget_checksums(file: Path) -> None:
    """Remove the checksum file of what a file was before it was changed on purpose."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def rewrite(cut_root: str, path: str, old: str, new: str) -> None:
    file = Path(cut_root, path)
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    forget_checksums(file)


def older(name: str, tmp_path: Path, batch: int, watermark: int | None = None) -> Cut:
    """A copy of a recorded checkpoint at an earlier batch, with another next watermark."""
    (tmp_path / "older").mkdir()
    root = str(unpack(name, tmp_path / "older"))
    if watermark is not None:
        path = Path(root, f"commits/{batch}")
        path.write_text(re.sub(r'Ms":\d+', f'Ms":{watermark}', path.read_text()))
        forget_checksums(path)
    return read_cut(root, batch)
