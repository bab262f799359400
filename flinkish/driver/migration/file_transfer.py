"""Transfer of savepoint files by the job's executors instead of its driver.

A large state whose files cannot be linked has too many bytes for one host to copy. The transfers
are plain data (:class:`flinkish.storage.Placing`), so Spark jobs can carry them out. They do so in
waves, because the driver's memory must not grow with the number of files. Executors access the
storage with their own environment and get flinkish as a zip file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import chain, islice
from typing import Any

from flinkish import storage
from flinkish.driver.log import log
from flinkish.driver.script import reason
from flinkish.errors import FlinkishError, StorageError, from_record
from flinkish.savepoint.write.transfer import (
    FileTransferer,
    ThreadedTransferer,
    TransferOutcome,
)
from flinkish.state.shipping import ship_package

#: Size in bytes from which ``auto`` uses the executors.
AUTO_BYTES = 1 << 30
#: Maximum number of transfers that the driver holds at once.
WAVE = 8192
#: Number of transfers per task.
_PIECE = 256


def should_distribute(mode: str, *, master: str, source: str, target: str, size: int) -> bool:
    """Return whether executors copy the files. Pure.

    ``mode`` is ``auto``, ``true`` or ``false`` (``execution.savepoint.distributed``). The rest
    matters only for ``auto``. A local ``master`` has no executors on other hosts. ``source`` and
    ``target`` are the locations of one of the files; ``size`` is the size of all files in bytes.
    """
    if mode != "auto":
        return mode == "true"
    here = storage.is_local(source) or storage.is_local(target) or master.startswith("local")
    return not here and size >= AUTO_BYTES


class SparkTransferer:
    """Copies files with the executors of a session if that is worthwhile, otherwise with threads.

    In mode ``auto``, an error on the executors (a missing library, credentials that only the driver
    has) is logged, and the driver copies the rest itself. In mode ``true`` the error is raised.
    """

    def __init__(self, session: Any, mode: str) -> None:
        self._context = session.sparkContext
        self._mode = mode
        self._threads: FileTransferer = ThreadedTransferer()

    def carry(
        self, transfers: Iterable[storage.Placing], *, total_bytes: int
    ) -> Generator[TransferOutcome, None, None]:
        """Carry out transfers: see :class:`flinkish.savepoint.write.transfer.FileTransferer`."""
        iterator = iter(transfers)
        first = next(iterator, None)
        if first is None:
            return
        iterator = chain([first], iterator)
        distributed = should_distribute(
            self._mode,
            master=self._context.master,
            source=first.source,
            target=first.target,
            size=total_bytes,
        )
        while distributed and (wave := list(islice(iterator, WAVE))):
            try:
                ship_package(self._context)
                outcomes = self._on_executors(wave)
            except Exception as error:
                # Py4J's and Spark's errors have no common base class. The wave is repeated below.
                if self._mode == "true":
                    raise _refused(error) from error
                log(
                    "the executors could not copy the savepoint's files, so the driver does: "
                    f"{reason(str(error))}"
                )
                iterator = chain(wave, iterator)
                distributed = False
                break
            yield from outcomes
        yield from self._threads.carry(iterator, total_bytes=total_bytes)

    def _on_executors(self, wave: Sequence[storage.Placing]) -> list[TransferOutcome]:
        pieces = [list(wave[at : at + _PIECE]) for at in range(0, len(wave), _PIECE)]
        self._context.setJobDescription("flinkish: copy a savepoint's files")
        try:
            results = self._context.parallelize(pieces, len(pieces)).map(carry_piece).collect()
        finally:
            self._context.setJobDescription(None)
        outcomes: list[TransferOutcome] = []
        for result in results:
            if isinstance(result, dict):
                raise from_record(result)
            outcomes += result
        return outcomes


def carry_piece(piece: Sequence[storage.Placing]) -> list[TransferOutcome] | dict[str, Any]:
    """Carry out one batch of transfers on an executor.

    Returns the outcomes, or the record of the FlinkishError that ended the batch.
    """
    try:
        return list(ThreadedTransferer().carry(piece, total_bytes=0))
    except FlinkishError as error:
        return error.to_record()


def _refused(error: Exception) -> FlinkishError:
    if isinstance(error, FlinkishError):
        return error
    return StorageError(
        f"the executors could not copy the savepoint's files: {reason(str(error))}",
        hint="set execution.savepoint.distributed=false to let the driver do it",
    )
