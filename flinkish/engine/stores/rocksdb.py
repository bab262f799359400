"""What RocksDB's binding (rocksdict) needs wherever it is used for a database of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import rocksdict

from flinkish.engine.errors import EngineError
from flinkish.engine.rows.batches import in_pieces


@contextlib.contextmanager
def rocksdb_errors(
    what: str = "RocksDB", make: Callable[[str], EngineError] = EngineError
) -> Iterator[None]:
    """Inside, the binding's errors become the engine's: it knows one class, the plain one.

    Args:
        what: stands before the binding's words.
        make: the error of a message.
    """
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise make(f"{what}: {error}") from error


def without_log() -> Any:
    """How to write into a database that is thrown away."""
    options: Any = rocksdict.WriteOptions()  # its type hints are not right
    options.disable_wal = True
    return options


def pieces_of(database: Any) -> Iterator[list[tuple[bytes, bytes]]]:
    """Every row of a database in the order of the keys, in lists of bounded number and size.

    The binding's own iteration ends at damage as it does at the end, so RocksDB is asked which it
    was. Raises the binding's errors (see :func:`rocksdb_errors`).
    """
    options: Any = rocksdict.ReadOptions()  # its type hints are not right
    options.set_verify_checksums(True)
    options.fill_cache(False)
    last: bytes | None = None
    for piece in in_pieces(database.items(read_opt=options)):
        last = piece[-1][0]
        yield piece
    iterator = database.iter(options)
    if last is None:
        iterator.seek_to_first()
    else:
        iterator.seek(last)
        iterator.next()
    iterator.status()
    if iterator.valid():
        raise Exception("the iteration ended before the last row")  # as the binding's own errors
