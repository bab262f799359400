"""Limits on a savepoint's own files, far above all real sizes.

A larger value means damage or manipulation, and the file is not read.
"""

from __future__ import annotations

from typing import Final

#: Bytes of ``_metadata`` on the disk: enough for tens of millions of files.
MAX_FILE: Final = 4 << 30
#: Bytes of one block, compressed or not. The writer makes blocks of 256 KiB plus one record.
MAX_BLOCK: Final = 32 << 20
#: All blocks together may unpack to SPARE bytes plus MAX_RATIO times the bytes on the disk.
MAX_RATIO: Final = 100
SPARE: Final = 256 << 20
#: Bytes of those blocks that contain the header or queries, after decompression.
MAX_QUERY_BYTES: Final = 128 << 20
#: Bytes of the container's header (the schema takes 4 KiB).
MAX_HEADER: Final = 64 << 10
#: Bytes of one string.
MAX_TEXT: Final = 16 << 20
#: Elements in all arrays and maps of header and queries: operators, stores, offsets, settings,
#: left-out queries.
MAX_ITEMS: Final = 500_000
MAX_QUERIES: Final = 100_000
#: Batch ids and state versions: one batch per microsecond for three hundred years.
MAX_BATCH: Final = 10**16
#: Partitions of an operator.
MAX_PARTITIONS: Final = 1_000_000
#: Seconds since the epoch: up to the year 9999.
MAX_TIME: Final = 253_402_300_799.0
#: Bytes of a reference list in ``_refs`` after decompression.
MAX_REFERENCES: Final = 512 << 20
