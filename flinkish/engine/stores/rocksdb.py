"""The RocksDB binding (rocksdict), and the engine's own directories on the local disk.

Spark's stores are read in :mod:`.rocksdb_store` and written in :mod:`.rocksdb_writer`.
"""

from __future__ import annotations

import bisect
import contextlib
import operator
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import rocksdict

from flinkish.engine.errors import EngineError
from flinkish.engine.rows.arrow_parts import MAX_ROWS, in_pieces
from flinkish.errors import FlinkishError
from flinkish.storage.deletion import remove_tree
from flinkish.storage.locations import split

#: Key and value.
Row = tuple[bytes, bytes]
_key: Final = operator.itemgetter(0)


@contextlib.contextmanager
def rocksdb_errors(
    what: str = "RocksDB", make: Callable[[str], FlinkishError] = EngineError
) -> Iterator[None]:
    """Convert the binding's errors inside the block into errors of the engine.

    The binding raises plain ``Exception`` only, so other classes pass unchanged.

    ``what`` begins the message; ``make`` returns the error for a message.
    """
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise make(f"{what}: {error}") from error


def without_log() -> Any:
    """Return write options without a write-ahead log, for a database that is thrown away."""
    options: Any = rocksdict.WriteOptions()  # its type hints are not right
    options.disable_wal = True
    return options


def pieces_of(database: Any, most: int = MAX_ROWS) -> Iterator[list[Row]]:
    """Yield all rows of a database in key order, in lists of bounded number and size.

    The binding's iteration ends at damage as it does at the end of the rows, so RocksDB's iterator
    is asked for its status. Raises the binding's errors (see :func:`rocksdb_errors`).
    """
    options: Any = rocksdict.ReadOptions()  # its type hints are not right
    options.set_verify_checksums(True)
    options.fill_cache(False)
    last: bytes | None = None
    for piece in in_pieces(database.items(read_opt=options), most):
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
        raise Exception("the iteration ended before the last row")  # as the binding raises it


def merged(sources: Sequence[Iterator[list[Row]]]) -> Iterator[list[Row]]:
    """Yield the rows of several sources in key order; each source has lists in key order."""
    if len(sources) == 1:
        yield from sources[0]
        return
    heads = {
        number: piece for number, source in enumerate(sources) if (piece := next(source, None))
    }
    while heads:
        # No later list has a row before the smallest of the last keys.
        bound = min(piece[-1][0] for piece in heads.values())
        rows: list[Row] = []
        for number, piece in list(heads.items()):
            end = bisect.bisect_right(piece, bound, key=_key)
            rows += piece[:end]
            if rest := piece[end:] or next(sources[number], []):
                heads[number] = rest
            else:
                del heads[number]
        rows.sort(key=_key)
        yield rows


def make_scratch(prefix: str = "state-", parent: str | None = None) -> str:
    """Create a directory that only this user can enter, and return its path.

    If ``parent`` is None, it is created in the system's temporary directory.
    """
    return tempfile.mkdtemp(prefix=prefix, dir=parent)


def remove_scratch(directory: str) -> None:
    """Remove a directory of :func:`make_scratch` as far as possible, without following links."""
    remove_tree(*split(os.path.abspath(directory)))
