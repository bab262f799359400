"""What users wait for, measured: ``make bench`` (or ``python -m tools.bench``).

Without a name ``startup`` and ``savepoint`` are measured; the others take minutes, and start
servers or Spark. What is measured how stands in the modules of the same names. ``table`` measures
all of them beside their peers, and ``chart`` writes the page of its result.

Wall times; runs of the things compared alternate, so that other load hits all of them. The best
and the median of the runs are shown: on a busy machine only the best means something.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tools.bench import (
    agent,
    chart,
    check,
    engine,
    handover,
    increment,
    local,
    memory,
    s3,
    startup,
    table,
)
from tools.bench.row import Table

NAMES = (
    *("startup", "savepoint", "check", "s3", "memory", "increment", "engine", "handover"),
    "agent",
)
#: The newest table, of which docs/performance.md is made.
DOCUMENT = Path(__file__).with_name("table.json")
#: Files of a checkpoint where the command line does not say.
FILES = {"savepoint": 20_000, "s3": 20_000, "memory": 1_000_000}


def rescale(text: str) -> tuple[int, int]:
    """Return the numbers of partitions of a text like 8:12, before and after."""
    match = re.fullmatch(r"([1-9][0-9]*):([1-9][0-9]*)", text)
    if match is None:
        reason = f"{text!r} is not BEFORE:AFTER, two numbers of partitions, such as 8:12"
        raise argparse.ArgumentTypeError(reason)
    return int(match[1]), int(match[2])


def write_table(words: list[str]) -> int:
    """Measure the rows of the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench table")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it")
    parser.add_argument("--rows", type=int, help="of the engine's state")
    parser.add_argument(
        "--only",
        action="append",
        choices=[group.name for group in table.GROUPS],
        help="measure this group, and keep the others' rows of the output file (repeatable)",
    )
    parser.add_argument("-o", "--output", type=Path, default=DOCUMENT)
    options = parser.parse_args(words)
    sizes = table.QUICK if options.quick else table.Sizes()
    if options.rows is not None:
        sizes = replace(sizes, rows=options.rows)
    table.run(sizes, options.only or (), options.output, quick=options.quick)
    return 0


def write_chart(words: list[str]) -> int:
    """Write the page of a measured table."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench chart")
    parser.add_argument("document", type=Path, nargs="?", default=DOCUMENT)
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/performance.md"))
    options = parser.parse_args(words)
    chart.write(Table.from_json(options.document.read_text(encoding="utf-8")), options.output)
    return 0


def main() -> int:
    """Run the measurements named on the command line, or the quick ones."""
    if sys.argv[1:2] == ["table"]:
        return write_table(sys.argv[2:])
    if sys.argv[1:2] == ["chart"]:
        return write_chart(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("what", nargs="*", choices=["", *NAMES], default="")
    parser.add_argument("--runs", type=int, default=30, help="startup: runs of each command")
    parser.add_argument("--checks", type=int, default=5, help="check: runs")
    parser.add_argument("--files", type=int, help=f"files of the checkpoint ({FILES})")
    parser.add_argument("--latency", type=float, default=0.02, help="s3: seconds a request is late")
    parser.add_argument("--sample", type=int, default=1000, help="s3: files copied one at a time")
    parser.add_argument("--server", choices=list(s3.SERVERS), default="s3proxy", help="s3: which")
    parser.add_argument("--bytes", type=int, default=1_000_000_000, help="increment: of the state")
    parser.add_argument("--rows", type=int, default=5_000_000, help="engine: of the state")
    parser.add_argument("--repeat", type=int, default=3, help="engine: runs of each way")
    parser.add_argument(
        "--partitions", type=rescale, default="8:12", help="engine: before and after, 8:12"
    )
    parser.add_argument("--switches", type=int, default=5, help="handover: runs of each way")
    parser.add_argument("--pairs", type=int, default=20, help="agent: with and without it")
    parser.add_argument("--batches", type=int, default=50, help="agent: in each of them")
    options = parser.parse_args()
    files = {name: options.files or FILES[name] for name in FILES}
    for what in options.what or ("startup", "savepoint"):
        with tempfile.TemporaryDirectory(prefix="flinkish-bench-") as name:
            directory = Path(name)
            if what == "startup":
                startup.startup(directory, options.runs)
            elif what == "savepoint":
                local.savepoint(directory, files[what])
            elif what == "check":
                check.check(directory, options.checks)
            elif what == "s3":
                s3.measure(
                    directory,
                    files=files[what],
                    latency=options.latency,
                    sample=options.sample,
                    server=options.server,
                )
            elif what == "memory":
                memory.measure(directory, memory.other_disk(directory), files[what])
            elif what == "increment":
                increment.measure(directory, memory.other_disk(directory), options.bytes)
            elif what == "engine":
                before, after = options.partitions
                engine.measure(
                    directory,
                    rows=options.rows,
                    runs=options.repeat,
                    before=before,
                    after=after,
                )
            elif what == "handover":
                handover.measure(directory, options.switches, handover.Job())
            elif what == "agent":
                agent.measure(directory, pairs=options.pairs, batches=options.batches)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
