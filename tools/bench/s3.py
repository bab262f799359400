"""A savepoint of many files to S3, beside copying the same files one at a time by plain s3fs.

From a local checkpoint (uploads) and from one on S3 (copies by the server); with every request
20 ms late as S3's are, and at the bare server. Copying one at a time is measured on a sample, half
of it before and half after the savepoint, and its rate stands for all files.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from flinkish import storage
from flinkish.checkpoint.cut import read_cut
from tests.support.checkpoints.many_files import many_files
from tests.support.servers import s3
from tests.support.servers.s3 import S3Server
from tools.bench.measure import in_child, machine

BUCKET = "bench"
SERVERS = {"s3proxy": s3.s3proxy, "moto": s3.moto}


@dataclass(frozen=True)
class Figures:
    """One comparison: files a second each way, and what the savepoint's process took."""

    what: str
    server: str
    latency: float
    single: float
    ours: dict[str, Any]

    @property
    def rate(self) -> float:
        """Files a second of the savepoint."""
        return float(self.ours["files"] / self.ours["seconds"])

    def row(self) -> str:
        """One line of the table."""
        return (
            f"  {self.what:14}{self.server:9}{self.latency * 1000:5.0f} ms"
            f"{self.single:9.1f}{self.rate:9.1f}{self.rate / self.single:7.1f}x"
            f"{self.ours['peak'] / 1e6:8.0f} MB{self.ours['in_flight']:6}"
            f"{sum(self.ours['requests'].values()) / self.ours['files']:8.2f}"
            f"{self.ours['cpu'] / self.ours['files'] * 1000:8.2f} ms  {machine()}"
        )


def measure(
    directory: Path, *, files: int, latency: float, sample: int, server: str, deltas: int = 10
) -> list[Figures]:
    """Measure all, and print each line when it is known."""
    checkpoint = many_files(directory / "checkpoint", files, deltas=deltas)
    print(
        f"savepoints of {files:,} files of 1 kB, {deltas} a directory, to S3; one at a time:"
        f" {sample:,} of them by plain s3fs\n"
        f"  {'':14}{'server':9}{'late':>8}{'single/s':>9}{'ours/s':>9}{'ratio':>8}"
        f"{'peak':>11}{'calls':>6}{'req/file':>8}{'CPU/file':>11}",
        flush=True,
    )
    found: list[Figures] = []
    with SERVERS[server](directory) as bare:
        bare.create_bucket(BUCKET)
        for late in (latency, 0.0):
            with _late(bare, late, directory) as one:
                found.append(_compare(one, late, str(checkpoint), sample))
                print(found[-1].row(), flush=True)
                # A query's directory in a savepoint is a checkpoint.
                there = f"{found[-1].ours['path']}/0-query"
                found.append(_compare(one, late, there, sample))
                print(found[-1].row(), flush=True)
    return found


@contextmanager
def _late(server: S3Server, latency: float, directory: Path) -> Iterator[S3Server]:
    if not latency:
        yield server
        return
    with s3.delayed(server, latency, directory) as late:
        yield late


def _new(kind: str) -> str:
    return f"s3://{BUCKET}/{kind}/{uuid.uuid4().hex[:8]}"


def _compare(server: S3Server, latency: float, source: str, sample: int) -> Figures:
    environment = server.environment()
    target = _new("single")
    with server.configured():
        paths = list(islice(read_cut(source).files, sample))
    pairs = [(storage.join(source, path), storage.join(target, path)) for path in paths]
    half = len(pairs) // 2
    before = in_child("one_at_a_time", environment, files=pairs[:half])
    ours = in_child("savepoint", environment, checkpoint=source, target=_new("savepoints"))
    after = in_child("one_at_a_time", environment, files=pairs[half:])
    single = len(pairs) / (before["seconds"] + after["seconds"])
    what = "local -> S3" if os.path.isabs(source) else "S3 -> S3"
    return Figures(what, server.name, latency, single, ours)
