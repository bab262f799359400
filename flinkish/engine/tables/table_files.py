"""Write tables of state as Avro files, with rows of the state schemas, for any Avro tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from flinkish.engine.avro.state_avro import write_avro
from flinkish.engine.stores.files import StateSource
from flinkish.engine.tables.bootstrap_rows import columns_of
from flinkish.engine.tables.frames import StateTable, read_blocks


def write_table(file: BinaryIO, source: StateSource, table: StateTable, partition: int) -> int:
    """Write a partition of a state as an Avro object container file; return its rows.

    See :mod:`~.state_avro`. Raises StateFormatError if a state file is damaged, missing or
    unsupported; the output is then incomplete.
    """
    return write_avro(
        file,
        table.state_key,
        table.state_value,
        _batches(source, table, partition),
        codec="deflate",  # every Avro tool supports it
        metadata={"state": table.name, "partition": str(partition)},
        lists=table.lists,
    )


def _batches(source: StateSource, table: StateTable, partition: int) -> Iterator[tuple[Any, Any]]:
    for keys, values in read_blocks(source, table, partition):
        if table.lists:
            yield columns_of(keys), pa.RecordBatch.from_arrays([values], names=["list"])
        else:
            yield columns_of(keys), columns_of(values)
