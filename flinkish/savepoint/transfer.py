"""Bringing files into a savepoint: one at a time here, many at once by whoever carries them out.

A :class:`Transfer` and its :class:`Outcome` are plain data, so that executors of a cluster can do
the same work as threads of this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from flinkish import storage
from flinkish.savepoint import digest

#: Local files that a thread is given at a time.
BATCH = 128
_LOCAL_WORKERS = 4


@dataclass(frozen=True, slots=True)
class Transfer:
    """A file to bring to ``target``: what it was when it was listed, so that no other is taken."""

    source: str
    target: str
    size: int
    stamp: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a transfer. ``lost`` says why there is no file: gone, or replaced."""

    size: int = 0
    digest: str = ""
    linked: bool = False
    lost: str | None = None


class Carrier(Protocol):
    """Whoever carries out transfers."""

    def carry(self, transfers: Iterable[Transfer], *, total_bytes: int) -> Iterator[Outcome]:
        """The outcomes, in the order of the transfers; ``total_bytes`` is what is to be moved.

        Raises StorageError. When the caller stops listening, no further transfer is begun and those
        that run are waited for.
        """


def transfer(job: Transfer) -> Outcome:
    """Bring one file into place, and know its digest. Raises StorageError."""
    try:
        placed = storage.place(job.source, job.target, stamp=job.stamp, size=job.size)
        found = placed.digest or digest.of_checkpoint_file(
            job.source, placed.size, data_path=job.target
        )
    except FileNotFoundError:
        return Outcome(lost="gone")
    except storage.Replaced:
        return Outcome(lost="replaced")
    return Outcome(placed.size, found, placed.linked)


class Threads:
    """Carries files in this process: bounded in number, on local disks by few threads."""

    def carry(self, transfers: Iterable[Transfer], *, total_bytes: int) -> Iterator[Outcome]:
        """See :class:`Carrier`."""
        iterator = iter(transfers)
        first = next(iterator, None)
        if first is None:
            return
        everything = _chained(first, iterator)
        for location in (first.target, first.source):
            if not storage.is_local(location):
                yield from storage.in_flight(location, transfer, everything)
                return
        yield from _locally(everything)


def _chained(first: Transfer, rest: Iterator[Transfer]) -> Iterator[Transfer]:
    yield first
    yield from rest


def _locally(transfers: Iterator[Transfer]) -> Iterator[Outcome]:
    """A link takes microseconds: handing over each one would cost more."""
    with ThreadPoolExecutor(_LOCAL_WORKERS, thread_name_prefix="flinkish-savepoint") as pool:
        waiting = []
        try:
            while batch := list(islice(transfers, BATCH)):
                waiting.append(pool.submit(transfer_all, batch))
                if len(waiting) >= 2 * _LOCAL_WORKERS:
                    yield from waiting.pop(0).result()
            while waiting:
                yield from waiting.pop(0).result()
        except BaseException:
            for future in waiting:
                future.cancel()
            raise


def transfer_all(batch: Iterable[Transfer]) -> list[Outcome]:
    """The outcomes of several transfers."""
    return [transfer(job) for job in batch]
