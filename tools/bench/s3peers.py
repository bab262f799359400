"""A savepoint to S3 beside another program's copy of the same directory, requests 20 ms late."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

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
            ours, seconds = _savepoint(checkpoint, environment)
            # Files a second: the peer copies sidecars and old files too, so the counts differ.
            rate = _rate(tool, checkpoint, environment)
            local.append(ours["files"] / seconds / rate)
            source = f"{ours['path']}/0-query"
            again, seconds = _savepoint(source, environment)
            rate = _rate(tool, source, environment, count=ours["files"])
            there.append(again["files"] / seconds / rate)
    return [tuple(local), tuple(there)]


def _savepoint(checkpoint: str, environment: dict[str, str]) -> tuple[dict[str, Any], float]:
    """What a savepoint says of itself, and its seconds with the start of its process."""
    started = time.perf_counter()
    answer = in_child("savepoint", environment, checkpoint=checkpoint, target=_new())
    return answer, time.perf_counter() - started


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
