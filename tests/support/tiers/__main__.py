"""The commands behind ``make test-deep``, ``make test-matrix`` and ``make due``.

``run TIER [FILE ...]`` runs what is due, the most due first, or the named files, and records them.
``due`` says what is due and why. ``status`` is what ``make test`` ends with: 1 when the records
will not do. ``explain TEST WHY`` writes a reason behind a recorded failure. ``rooms --record``
makes the seconds of the last ``make test`` those that the next ones are shown beside.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
from collections.abc import Sequence

from tests.support.tiers import records, rooms
from tests.support.tiers.due import Judge, Standing, complaints, describe
from tests.support.tiers.parts import TIERS
from tests.support.tiers.repository import Repository
from tests.support.tiers.runner import Runner, named

REPOSITORY = Repository()
WORKERS = 2


def standings() -> list[Standing] | None:
    """Return all files, the most due first; None where the history is not here."""
    if not REPOSITORY.is_whole():
        return None
    # Trees of sources have no circles worth looking for, and the search takes half of the time.
    gc.disable()
    return Judge(REPOSITORY, records.load(), rooms.KEPT / "sources.pickle").standings()


def run(tier: str, files: Sequence[str], workers: int, minutes: float | None) -> int:
    """Run what is due of a tier, or the named files."""
    everything = standings()
    if everything is None:
        print(f"test-{tier}: no full git history here, so nobody can say what is due")
        return 2
    found = [standing for standing in everything if standing.part.tier == tier]
    if files:
        try:
            wanted = named(found, files)
        except FileNotFoundError as error:
            print(f"test-{tier}: {error}", file=sys.stderr)
            return 2
        if not wanted:
            print(f"test-{tier}: no test of this tier is in {' '.join(files)}")
    else:
        wanted = [standing for standing in found if standing.why is not None]
        print("\n".join(describe(found, workers, whole=False)), flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it stops as Ctrl-C does
    records.save(records.load().only({(each.part.name, each.file) for each in everything}))
    return Runner(REPOSITORY, workers, rooms.KEPT).run(wanted, minutes)


def status(workers: int) -> int:
    """Print what is recorded; 1 when it will not do."""
    found = standings()
    if found is None:
        print("slow tiers: no full git history here, so nobody can say what is due")
        return 0
    print("\n".join(describe(found, workers, whole=False)))
    errors, warnings = complaints(found, workers)
    for line in warnings:
        print(f"warning: {line}", file=sys.stderr)
    for line in errors:
        print(f"error: {line}", file=sys.stderr)
    return 1 if errors else 0


def due(workers: int) -> int:
    """Print what is due."""
    found = standings()
    if found is None:
        print("no full git history here, so nobody can say what is due", file=sys.stderr)
        return 2
    print("\n".join(describe(found, workers)))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.tiers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("tier", choices=TIERS)
    running.add_argument("files", nargs="*", metavar="FILE")
    running.add_argument("--minutes", type=float)
    for command in (running, commands.add_parser("due"), commands.add_parser("status")):
        command.add_argument("--workers", type=int, default=WORKERS)
    explaining = commands.add_parser("explain")
    explaining.add_argument("test")
    explaining.add_argument("why")
    of_rooms = commands.add_parser("rooms")
    of_rooms.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    if asked.command == "run":
        return run(asked.tier, asked.files, asked.workers, asked.minutes)
    if asked.command == "explain":
        records.save(records.load().explained(asked.test, asked.why))
        return 0
    if asked.command == "rooms":
        now = rooms.load(rooms.KEPT / "rooms.json")
        print("\n".join(rooms.table(now, rooms.load())))
        if asked.record:
            rooms.save(now)
        return 0
    return due(asked.workers) if asked.command == "due" else status(asked.workers)


if __name__ == "__main__":
    sys.exit(main())
