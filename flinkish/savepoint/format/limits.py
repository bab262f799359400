"""How large anything in a savepoint's own files may be: far above what is real.

What is larger is damage, or somebody's trick, and is not even tried to be read.
"""

from __future__ import annotations

from typing import Final

#: ``_metadata`` on the disk, bytes: tens of millions of files.
MAX_FILE: Final = 4 << 30
#: One block of it, compressed or not. They are written with 256 KiB and a record more.
MAX_BLOCK: Final = 32 << 20
#: All blocks after decompression, bytes: :data:`SPARE` and so many times the bytes on the disk.
MAX_RATIO: Final = 100
SPARE: Final = 256 << 20
#: All blocks with the header and the queries, after decompression.
MAX_QUERY_BYTES: Final = 128 << 20
#: The container's own header (its schema has 4 KiB).
MAX_HEADER: Final = 64 << 10
#: One text.
MAX_TEXT: Final = 16 << 20
#: Elements of all arrays and maps of the queries: operators, stores, offsets, settings.
MAX_ITEMS: Final = 500_000
MAX_QUERIES: Final = 100_000
#: Batches and versions of state: a batch each microsecond for three hundred years.
MAX_BATCH: Final = 10**16
#: Partitions of an operator.
MAX_PARTITIONS: Final = 1_000_000
#: Seconds since the epoch: up to the year 9999.
MAX_TIME: Final = 253_402_300_799.0
#: How deep JSON may be nested: schemas of some sixty structs within each other.
MAX_DEPTH: Final = 200
#: A list in ``_refs`` after decompression.
MAX_REFERENCES: Final = 512 << 20
