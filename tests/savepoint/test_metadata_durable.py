"""``_metadata`` survives a power cut: its bytes are on the disk before it has its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkish.savepoint.format.contents import FileRecord, Header, QueryRecord, SavepointJob
from flinkish.savepoint.format.metadata import MetadataWriter

HEADER = Header(SavepointJob("a" * 32, "job"), 1700000000.0, "savepoint")
QUERY = QueryRecord(name="q", directory="0-q", query_id="id", batch_id=1, files=1, bytes=10)


def test_bytes_before_the_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = tmp_path / "_metadata"
    synced: list[tuple[int, int, bool]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        stat = os.fstat(descriptor)
        synced.append((stat.st_ino, stat.st_size, final.exists()))

    monkeypatch.setattr(os, "fsync", watched)
    with MetadataWriter(str(tmp_path), HEADER, [QUERY]) as writer:
        writer.add(FileRecord(0, "metadata", 10, "sha256:" + "0" * 64))
        writer.commit()
    whole = final.stat()
    # All of its bytes, while it had no name that a reader could find; then the directory.
    assert (whole.st_ino, whole.st_size, False) in synced
    assert (synced[-1][0], synced[-1][2]) == (tmp_path.stat().st_ino, True)
