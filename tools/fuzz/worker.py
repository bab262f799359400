"""A process that reads inputs one after the other, each within a limit of memory and of time.

It is told what to read by a file of JSON lines: ``[target, seed]`` for a mutated input, or
``[target, "path"]`` for a file. It writes a line for each input that is a finding to its output,
and the number of the input it is at to a file, for the case that it does not survive it.
"""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType

from tools.fuzz.mutations import mutated
from tools.fuzz.targets import Target, make_targets

#: Memory that an input may take beyond what the process has, bytes.
MEMORY = 1 << 30
#: The largest file that may be written, bytes.
FILE = 1 << 29
#: Inputs that one process reads: libraries keep some address space of each.
INPUTS = 8_000
#: Seconds for one input.
SECONDS = 10.0


class Hang(BaseException):
    """An input took too long."""


def _alarm(_: int, __: FrameType | None) -> None:
    raise Hang


def input_of(target: Target, seed: object) -> bytes:
    """The input that a line of the list means."""
    if isinstance(seed, str):
        return Path(seed).read_bytes()
    return mutated(random.Random(f"{target.name} {seed}"), target.seeds)


def outcome(target: Target, data: bytes, place: Path) -> tuple[str, str]:
    """What an input came to: a word, and details where it is a finding."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        target.read(data, place)
        return "read", ""
    except target.errors as error:
        return f"{type(error).__name__} {getattr(error, 'code', '')}".rstrip(), ""
    except Hang:
        return "HANG", f"took more than {SECONDS} s"
    except MemoryError:
        return "MEMORY", traceback.format_exc(limit=-6)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return f"FOREIGN {type(error).__name__}", traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit_memory() -> None:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def main(base: str, plan: str, progress: str) -> None:
    """Read the inputs of ``plan``, from the one that ``progress`` says on."""
    root = Path(base)
    made = root / "seeds"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    targets = make_targets(made)
    place = root / "work"
    places = Path(progress)
    start = int(places.read_text() or "0") if places.exists() else 0
    lines = Path(plan).read_text().splitlines()
    signal.signal(signal.SIGALRM, _alarm)
    _limit_memory()
    counts: Counter[str] = Counter()
    mark = os.open(progress, os.O_WRONLY | os.O_CREAT)
    end = min(start + INPUTS, len(lines))
    for number in range(start, end):
        os.pwrite(mark, f"{number:<12}".encode(), 0)
        name, seed = json.loads(lines[number])
        target = targets[name]
        data = input_of(target, seed)
        place.mkdir()
        word, details = outcome(target, data, place)
        shutil.rmtree(place, ignore_errors=True)
        counts[f"{_group(name)}: {word}"] += 1
        left = os.listdir(tempfile.gettempdir())
        if left and not details:
            word, details = "LEFT", f"left behind in the temporary directory: {left}"
        for entry in left:
            shutil.rmtree(Path(tempfile.gettempdir()) / entry, ignore_errors=True)
        if details:
            report = {"number": number, "word": word, "details": details, "data": data.hex()}
            print(json.dumps(report), flush=True)
        if number % 500 == 0:
            gc.collect()
    os.pwrite(mark, f"{end:<12}".encode(), 0)
    print(json.dumps({"counts": counts}), flush=True)


def _group(name: str) -> str:
    """A target's name without the checkpoint that its seed is of."""
    for mark in ("-spark35", "-spark43"):
        name = name.partition(mark)[0]
    return name


if __name__ == "__main__":
    main(*sys.argv[1:])
