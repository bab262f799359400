"""Bringing files into a savepoint: one at a time here, many at once by whoever carries them out.

A :class:`Transfer` and its :class:`TransferOutcome` are plain data, so that executors of a cluster
can do the same work as threads of this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import Protocol

from flinkish import storage
from flinkish.savepoint.format import digests

#: Local files that a thread is given at a time.
BATCH = 128
_LOCAL_WORKERS = 4
#: Bytes that pass through this process in one batch: they are in memory together.
_BATCH_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Transfer:
    """A file to bring to ``target``: what it was when it was listed, so that no other is taken."""

    source: str
    target: str
    size: int
    stamp: str


@dataclass(frozen=True, slots=True)
class TransferOutcome:
    """What became of a transfer. ``lost`` says why there is no file: gone, or replaced."""

    size: int = 0
    digest: str = ""
    linked: bool = False
    lost: str | None = None


class FileTransferer(Protocol):
    """Whoever carries out transfers."""

    def carry(
        self, transfers: Iterable[Transfer], *, total_bytes: int
    ) -> Iterator[TransferOutcome]:
        """The outcomes, in the order of the transfers; ``total_bytes`` is what is to be moved.

        Raises StorageError. When the caller stops listening, no further transfer is begun and those
        that run are waited for.
        """


def transfer_all(batch: Sequence[Transfer]) -> list[TransferOutcome]:
    """Bring several files into place, and know their digests. Raises StorageError."""
    placings = [storage.Placing(job.source, job.target, job.stamp, job.size) for job in batch]
    return list(map(_outcome, batch, storage.place_all(placings)))


def _outcome(job: Transfer, placed: storage.PlacedFile | OSError) -> TransferOutcome:
    if isinstance(placed, storage.PlacedFile):
        try:
            found = placed.digest or digests.of_checkpoint_file(
                job.source, placed.size, data_path=job.target
            )
        except FileNotFoundError:
            return TransferOutcome(lost="gone")
        return TransferOutcome(placed.size, found, placed.linked)
    return TransferOutcome(lost="replaced" if isinstance(placed, storage.Replaced) else "gone")


class ThreadedTransferer:
    """Carries files in this process: bounded in number, on local disks by few threads."""

    def carry(
        self, transfers: Iterable[Transfer], *, total_bytes: int
    ) -> Iterator[TransferOutcome]:
        """See :class:`FileTransferer`."""
        iterator = iter(transfers)
        first = next(iterator, None)
        if first is None:
            return
        everything = _chained(first, iterator)
        for location in (first.target, first.source):
            if not storage.is_local(location):
                size = storage.batch_size(first.source, first.target)
                limit = _BATCH_BYTES if storage.is_local(first.source) else None
                batches = _batches(everything, size, limit)
                for outcomes in storage.in_flight(location, transfer_all, batches, batch=size):
                    yield from outcomes
                return
        yield from _locally(everything)


def _chained(first: Transfer, rest: Iterator[Transfer]) -> Iterator[Transfer]:
    yield first
    yield from rest


def _batches(
    transfers: Iterator[Transfer], size: int, limit: int | None
) -> Iterator[list[Transfer]]:
    """Up to ``size`` transfers that follow each other, of ``limit`` bytes where there is one."""
    batch: list[Transfer] = []
    total = 0
    for job in transfers:
        if batch and (len(batch) >= size or (limit and total + job.size > limit)):
            yield batch
            batch, total = [], 0
        batch.append(job)
        total += job.size
    if batch:
        yield batch


def _locally(transfers: Iterator[Transfer]) -> Iterator[TransferOutcome]:
    """A link takes microseconds: handing over each one would cost more, and a few are done here.

    Spark may trim the files of a small state within milliseconds.
    """
    first = list(islice(transfers, BATCH))
    if len(first) < BATCH:
        yield from transfer_all(first)
        return
    transfers = chain(first, transfers)
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
