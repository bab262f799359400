"""What a second savepoint of an unchanged RocksDB state moves: the budget is 1 % of the bytes.

The state is made by a real Spark query; its savepoints go to S3 (s3proxy) and to another disk,
where nothing can be linked. A third one is taken after one more batch that changed no key.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.servers import s3
from tools.bench.measure import ROOT, in_child, machine

_ROW = 1100
#: Bytes of state that a batch adds.
_BATCH = 100_000_000


@dataclass(frozen=True)
class Moved:
    """One savepoint: what it holds and what of it was moved, bytes."""

    where: str
    what: str
    answer: dict[str, Any]

    @property
    def share(self) -> float:
        """The part of the bytes that was moved."""
        return float(self.answer["moved_bytes"] / self.answer["bytes"])

    def row(self) -> str:
        """One line of the table."""
        a = self.answer
        return (
            f"  {self.where:12}{self.what:32}{a['bytes'] / 1e6:9,.1f} MB"
            f"{a['moved_bytes'] / 1e6:10,.3f} MB{self.share:10.4%}{a['files']:7}"
            f"{a['files'] - a['shared']:7}"
            f"{a['seconds']:8.1f} s{a['peak'] / 1e6:7.0f} MB  {machine()}"
        )


def measure(directory: Path, other: Path | None, size: int) -> list[Moved]:
    """Measure all, and print each line when it is known; ``size`` is that of the state, bytes."""
    _run_query(directory, size // _ROW, max(1, size // _BATCH))
    checkpoint = str(directory / "checkpoint")
    print(
        f"savepoints of a RocksDB state of {size:,} bytes\n"
        f"  {'':44}{'holds':>12}{'moves':>13}{'part':>10}{'files':>7}{'moved':>7}{'time':>10}"
        f"{'peak':>10}",
        flush=True,
    )
    found: list[Moved] = []
    with ExitStack() as stack:
        server = stack.enter_context(s3.s3proxy(directory))
        server.create_bucket("bench")
        places: list[tuple[str, str, dict[str, str]]] = [
            ("S3", "s3://bench/savepoints", server.environment())
        ]
        if other is not None:
            made = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="flinkish-bench-", dir=other)
            )
            places.append(("other disk", made, {}))
        for what in ("first", "again, nothing happened", "after a batch without keys"):
            if what.startswith("after"):
                _run_query(directory, 0, 1)
            for where, target, environment in places:
                answer = in_child("savepoint", environment, checkpoint=checkpoint, target=target)
                found.append(Moved(where, what, answer))
                print(found[-1].row(), flush=True)
    return found


def _run_query(directory: Path, rows: int, batches: int) -> None:
    command = [sys.executable, "-m", "tools.bench.bigstate", str(directory)]
    done = subprocess.run(
        [*command, str(rows), str(batches)], cwd=ROOT, check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"the query failed:\n{done.stderr[-4000:]}")
