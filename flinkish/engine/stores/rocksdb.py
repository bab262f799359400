"""The RocksDB binding (rocksdict), and the engine's own directories on the local disk.

Spark's stores are read in :mod:`.rocksdb_store` and written in :mod:`.rocksdb_writer`.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import itertools
import operator
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import rocksdict

from flinkish.engine.bounds import MAX_ROW
from flinkish.engine.errors import EngineError, StateFormatError
from flinkish.engine.rows.arrow_parts import MANY, MAX_ROWS, in_pieces
from flinkish.errors import FlinkishError, StorageError
from flinkish.storage.deletion import remove_tree
from flinkish.storage.errors import storage_error
from flinkish.storage.locations import split

#: Key and value.
Row = tuple[bytes, bytes]
_key: Final = operator.itemgetter(0)
#: Files that the databases of one task may keep open together, unless their minimums exceed it.
_OPEN_FILES: Final = 512
#: The minimum for one database: RocksDB raises lower numbers to it.
_FEWEST_OPEN_FILES: Final = 20
#: Entries that an iterator skips before it seeks to the next key. If keys are not in order, a seek
#: may lead back, and the iteration might never end.
NEVER_SEEK: Final = 1 << 62
_TOO_MANY: Final = (errno.EMFILE, errno.ENFILE)
#: Texts of errors that come from the machine, with their numbers. They do not mean damage to the
#: state, unlike a file that is missing or not regular.
_REFUSALS: Final = {
    os.strerror(number): number
    for number in (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
        *(errno.EIO, errno.ESTALE, errno.ENOMEM, *_TOO_MANY),
    )
}


@contextlib.contextmanager
def rocksdb_errors(
    what: str = "RocksDB", make: Callable[[str], FlinkishError] = EngineError
) -> Iterator[None]:
    """Convert the binding's errors inside the block into errors of the engine.

    The binding raises plain ``Exception``, and OSError without a number where its own code uses
    the disk. Other errors pass unchanged.

    ``what`` begins the message; ``make`` returns the error for a message. What the machine refuses
    becomes a StorageError in any case.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno is None:
            raise storage_error("use", "RocksDB's files", error) from error
        if type(error) is not Exception:
            raise
        raise refusal(str(error)) or make(f"{what}: {error}") from error


def refusal(text: str) -> StorageError | None:
    """Return the error for the text of RocksDB's status if the machine refused an operation.

    Other statuses, which are about the content of the files, give None.
    """
    if not text.startswith("IO error"):
        return None
    for reason, number in _REFUSALS.items():
        if text.endswith(reason) or text.startswith(f"IO error: {reason}"):
            error = storage_error("use", "RocksDB's files", OSError(number, text))
            if number in _TOO_MANY:
                error.hint = "allow more open files (ulimit -n) to the processes that rewrite state"
            return error
    return None


def open_files(databases: int) -> int:
    """Return how many files each of several databases may keep open at once."""
    return max(_FEWEST_OPEN_FILES, _OPEN_FILES // max(databases, 1))


def without_log() -> Any:
    """Return write options without a write-ahead log, for a database that is thrown away."""
    options: Any = rocksdict.WriteOptions()  # its type hints are wrong
    options.disable_wal = True
    return options


def pieces_of(database: Any, most: int = MAX_ROWS) -> Iterator[list[Row]]:
    """Yield all rows of a database in key order, in lists of bounded number and size.

    The binding's iteration ends at damage as it does at the end of the rows, so RocksDB's iterator
    is asked for its status.

    Raises the binding's errors (see :func:`rocksdb_errors`). Like the binding, raises plain
    ``Exception`` if the iteration ended too early, and for what RocksDB does not check: keys out
    of order, and keys or values above ``MAX_ROW`` bytes.
    """
    options: Any = rocksdict.ReadOptions()  # its type hints are wrong
    options.set_verify_checksums(True)
    options.fill_cache(False)
    last: bytes | None = None
    for piece in in_pieces(database.items(read_opt=options), most):
        # Sorting what is sorted takes less time than comparing each key with the next.
        if (last is not None and piece[0][0] <= last) or sorted(piece) != piece:
            raise Exception("the keys of its rows are not in order")  # as the binding raises it
        largest = max(map(len, itertools.chain.from_iterable(piece[-MANY:])))
        if largest > MAX_ROW:
            raise Exception(f"a key or value of {largest} bytes")
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
        raise Exception("the iteration ended before the last row")


def merged(sources: Sequence[Iterator[list[Row]]]) -> Iterator[list[Row]]:
    """Yield the rows of several sources in key order; each source has lists in key order.

    Raises StateFormatError if a source is so far out of order that the merge would not end.
    """
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
        if not rows:
            raise StateFormatError("RocksDB", None, "the keys of its rows are not in order")
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
