"""Writers of RocksDB's sorted files (SSTs), for rows in any order or in key order."""

from __future__ import annotations

import collections
import os
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import rocksdict

from flinkish.engine.errors import EngineError, LostRows
from flinkish.engine.rows.arrow_parts import MAX_ROWS
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.stores.rocksdb import open_files, rocksdb_errors

#: An SST ends after this many bytes: ``Runs`` counts the collected rows, ``SortedRows`` the file.
MAX_RUN_BYTES: Final = 64 << 20
FAMILY_ID_BYTES: Final = 2
_ROW_OVERHEAD: Final = 16


def sst_options() -> Any:
    blocks: Any = rocksdict.BlockBasedOptions()
    blocks.set_format_version(5)
    blocks.set_bloom_filter(10, False)
    options: Any = rocksdict.Options(True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    # Spark compacts later if needed; compaction would only take time here.
    options.set_disable_auto_compactions(True)
    options.set_max_open_files(open_files(1))
    return options


class SortedRows:
    """A writer of rows that come in key order, into SSTs of bounded size.

    ``path`` is the path of its files without their numbers and endings. Families may come in any
    order, but the rows of a family must come together. At the end ``counts`` has the number of
    rows by family id, and ``files`` has the paths.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._writer: Any = None
        self._prefix = b""
        self.counts: dict[int | None, int] = {}
        self.files: list[str] = []

    def add(self, family: int | None, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add rows; raise LostRows for a key that is not above the previous one in its file."""
        prefix = b"" if family is None else family_prefix(family)
        with rocksdb_errors(make=sst_error):
            writer = self._writer
            if writer is None or prefix < self._prefix or writer.file_size() >= MAX_RUN_BYTES:
                writer = self._open()
            self._prefix = prefix
            # A Python loop over the rows would take as long as RocksDB's own work.
            collections.deque(map(writer.__setitem__, keys, values), maxlen=0)
        self.counts[family] = self.counts.get(family, 0) + len(keys)

    def _open(self) -> Any:
        self.finish()
        path = f"{self._path}-{len(self.files)}.sst"
        self._writer = rocksdict.SstFileWriter(sst_options())
        self._writer.open(path)
        self.files.append(path)
        return self._writer

    def finish(self) -> None:
        """Complete the files."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with rocksdb_errors(make=sst_error):
                writer.finish()


class Runs:
    """A sorter of rows: it writes every ``MAX_RUN_BYTES`` of rows as an SST."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.paths: list[str] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._bytes = 0

    def add(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add rows, and write the collected ones if there are enough of them."""
        for held, column in ((self._keys, keys), (self._values, values)):
            array = Binaries.of(column).to_arrow()
            held.append(array)
            self._bytes += array.nbytes
        self._bytes += _ROW_OVERHEAD * len(keys)
        if self._bytes >= MAX_RUN_BYTES:
            self.finish()

    def finish(self) -> None:
        """Write the collected rows."""
        keys, values = self._keys, self._values
        self._keys, self._values, self._bytes = [], [], 0
        if not sum(map(len, keys)):
            return
        columns = [pa.concat_arrays(keys), pa.concat_arrays(values)]
        del keys, values
        rows = pa.RecordBatch.from_arrays(columns, names=["key", "value"])
        rows = rows.take(pc.sort_indices(columns[0]))
        del columns
        path = os.path.join(self.directory, f"{len(self.paths)}.run")
        self.paths.append(path)
        with rocksdb_errors(make=sst_error):
            writer: Any = rocksdict.SstFileWriter(sst_options())
            writer.open(path)
            for start in range(0, rows.num_rows, MAX_ROWS):
                part = [column.to_pylist() for column in rows.slice(start, MAX_ROWS).columns]
                # A Python loop over the rows would take as long as RocksDB's own work.
                collections.deque(map(writer.__setitem__, *part), maxlen=0)
            writer.finish()


def family_prefix(number: int) -> bytes:
    """Return the bytes of a family's id, with which its keys begin."""
    return number.to_bytes(FAMILY_ID_BYTES, "little", signed=True)


def family_number(key: bytes) -> int | None:
    """Return the id of the family with which a key begins; None if the key is shorter."""
    if len(key) < FAMILY_ID_BYTES:
        return None
    return int.from_bytes(key[:FAMILY_ID_BYTES], "little", signed=True)


def sst_error(text: str) -> EngineError:
    if "ascending order" in text:
        return LostRows("a key of the new state repeats, but each key may have only one row")
    return EngineError(text)
