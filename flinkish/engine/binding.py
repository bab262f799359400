"""What RocksDB's binding (rocksdict) needs wherever it is used for a database of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import rocksdict

from flinkish.engine.errors import EngineError


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
