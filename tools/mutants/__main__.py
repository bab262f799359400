"""``python -m tools.mutants``: do the fast tests notice deliberate faults?

Exit status: 0 when each is caught, 1 when one is not, 2 when the list does not fit the source.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tools.mutants.catalog import MUTANTS
from tools.mutants.model import Fate, Mutant, Outcome, OutOfDate, check_list
from tools.mutants.runner import FAST, Copy, Reach, commit_of, tracked_files
from tools.mutants.source import Source

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the command line says; returns the exit status."""
    options = _parser().parse_args(arguments)
    chosen = [m for m in MUTANTS if not options.only or m.id in options.only]
    unknown = sorted(set(options.only or ()) - {m.id for m in chosen})
    if unknown:
        print(f"no such mutant: {', '.join(unknown)}; see --list", file=sys.stderr)
        return 2
    if options.list:
        for mutant in chosen:
            print(f"{mutant.id:32} {mutant.what} ({mutant.place})")
        return 0
    source = Source(ROOT)
    try:
        check_list(source, chosen)
    except OutOfDate as error:
        print(f"the list is out of date, see tools/mutants/catalog.py:\n{error}", file=sys.stderr)
        return 2
    outcomes = []
    files = tracked_files(ROOT)
    for outcome in run(source, chosen, files, options.reach, jobs=options.jobs):
        outcomes.append(outcome)
        print(_line(outcome), flush=True)
    counts = Counter(outcome.fate for outcome in outcomes)
    print(", ".join(f"{counts[fate]} {fate.value}" for fate in Fate if counts[fate]))
    for outcome in outcomes:
        if outcome.fate is not Fate.CAUGHT:
            print(f"{outcome.fate.value}: {outcome.mutant.id}: {outcome.mutant.what}")
    if options.report:
        report = _report(outcomes, options.reach)
        options.report.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if counts[Fate.CAUGHT] == len(outcomes) else 1


def run(
    source: Source, mutants: Sequence[Mutant], files: Sequence[str], reach: Reach, *, jobs: int = 1
) -> Iterator[Outcome]:
    """What becomes of each mutant, in the order of the list; each of ``jobs`` has its own copy."""
    with ExitStack() as stack:
        free: SimpleQueue[Copy] = SimpleQueue()
        copies = []
        for _ in range(jobs):
            # A test that was stopped may leave a process that still writes.
            parent = tempfile.TemporaryDirectory(prefix="mut-", ignore_cleanup_errors=True)
            copies.append(Copy(source, Path(stack.enter_context(parent)), files))
            free.put(copies[-1])

        def one(mutant: Mutant) -> Outcome:
            copy = free.get()
            try:
                return copy.try_mutant(mutant, reach)
            finally:
                free.put(copy)

        executor = ThreadPoolExecutor(jobs)
        stack.callback(executor.shutdown, cancel_futures=True)
        try:
            yield from executor.map(one, mutants)
        except BaseException:
            for copy in copies:
                copy.stop()
            raise


def _line(outcome: Outcome) -> str:
    noticed = " ".join(part for part in (outcome.test, outcome.note) if part)
    return (
        f"{outcome.fate.value:8} {outcome.mutant.id:32} {outcome.seconds:6.1f} s "
        f"{outcome.stage:5} {noticed}".rstrip()
    )


def _report(outcomes: Sequence[Outcome], reach: Reach) -> dict[str, Any]:
    commit, changed = commit_of(ROOT)
    counts = Counter(outcome.fate for outcome in outcomes)
    return {
        "commit": commit,
        "changed": changed,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "tests": FAST,
        "reach": reach.name.lower(),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 1),
        **{fate.value: counts[fate] for fate in Fate},
        "mutants": [outcome.to_json() for outcome in outcomes],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants",
        description="Make deliberate faults, one at a time, in a copy of the checkout, and see "
        "whether the fast tests notice.",
    )
    parser.add_argument("--list", action="store_true", help="only list the faults")
    parser.add_argument("--only", nargs="+", metavar="ID", help="only these")
    how_far = parser.add_mutually_exclusive_group()
    how_far.add_argument(
        "--quick",
        dest="reach",
        action="store_const",
        const=Reach.PLAIN,
        default=Reach.SPARK,
        help="do not try Spark's tests beyond those that are near",
    )
    how_far.add_argument(
        "--near",
        dest="reach",
        action="store_const",
        const=Reach.NEAR,
        help="try only the tests that are named as near (to look after the list)",
    )
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="how many at once")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what was found as JSON")
    return parser


def _terminated(*_: object) -> None:
    raise SystemExit(143)


if __name__ == "__main__":
    # The copy, and what runs in it, must not be left behind.
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
