"""Tables of state as Avro files: rows of the state schemas, which any Avro tool reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from flinkish.engine.avro.state_avro import write_avro
from flinkish.engine.stores.directories import StateSource
from flinkish.engine.tables.bootstrap_rows import columns_of
from flinkish.engine.tables.frames import StateTable, read_blocks


def write_table(file: BinaryIO, source: StateSource, table: StateTable, partition: int) -> int:
    """Write a partition of a state as an Avro object container file (:mod:`~.avro_files`).

    Args:
        file: what is written to; it stays open.
        source: the checkpoint's directory.
        table: the state.
        partition: the partition.

    Returns:
        How many rows were written.

    Raises StateFormatError and its like; then the file is not whole.
    """
    return write_avro(
        file,
        table.state_key,
        table.state_value,
        _batches(source, table, partition),
        codec="deflate",  # every Avro tool knows it
        metadata={"state": table.name, "partition": str(partition)},
        lists=table.lists,
    )


def _batches(source: StateSource, table: StateTable, partition: int) -> Iterator[tuple[Any, Any]]:
    for keys, values in read_blocks(source, table, partition):
        if table.lists:
            yield columns_of(keys), pa.RecordBatch.from_arrays([values], names=["list"])
        else:
            yield columns_of(keys), columns_of(values)
