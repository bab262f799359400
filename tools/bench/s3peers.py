"""A savepoint to S3 beside another program's copy of the same directory, requests 20 ms late."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from pathlib import Path

from tests.support.checkpoints.many_files import many_files
from tests.support.servers import s3
from tools.bench.measure import in_child

LATENCY = 0.02
BUCKET = "bench"


def measure(directory: Path, tool: str, files: int, runs: int) -> list[tuple[float, ...]]:
    """How many times as fast as ``tool`` a savepoint is, from local files and from S3."""
    checkpoint = str(many_files(directory / "checkpoint", files, deltas=10))
    local: list[float] = []
    there: list[float] = []
    with s3.s3proxy(directory) as bare, s3.delayed(bare, LATENCY, directory) as server:
        bare.create_bucket(BUCKET)
        environment = server.environment()
        for _ in range(runs):
            ours = in_child("savepoint", environment, checkpoint=checkpoint, target=_new())
            # Files a second: the peer copies sidecars and old files too, so the counts differ.
            rate = _rate(tool, checkpoint, environment)
            local.append(ours["files"] / ours["seconds"] / rate)
            source = f"{ours['path']}/0-query"
            again = in_child("savepoint", environment, checkpoint=source, target=_new())
            rate = _rate(tool, source, environment, count=ours["files"])
            there.append(again["files"] / again["seconds"] / rate)
    return [tuple(local), tuple(there)]


def _new() -> str:
    return f"s3://{BUCKET}/{uuid.uuid4().hex[:8]}"


def _rate(tool: str, source: str, environment: dict[str, str], count: int | None = None) -> float:
    """Files a second of the other program."""
    files = count or sum(len(names) for _, _, names in os.walk(source))
    endpoint = environment["AWS_ENDPOINT_URL_S3"]
    words = {
        "aws": ["aws", "s3", "cp", "--recursive", "--only-show-errors", source, _new()],
        "s5cmd": ["s5cmd", "--endpoint-url", endpoint, "cp", f"{source}/*", f"{_new()}/"],
    }[tool]
    started = time.perf_counter()
    subprocess.run(words, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)
    return files / (time.perf_counter() - started)
