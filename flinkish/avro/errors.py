"""Errors of reading Avro's bytes."""

from __future__ import annotations

from flinkish.errors import Corrupt, UnsupportedFormat


class DamagedAvro(Corrupt):
    """Bytes are damaged, truncated, or not Avro.

    ``offset`` is the position of the damaged value or block in the bytes or the file.
    """

    def __init__(self, reason: str, offset: int, length: int | None = None) -> None:
        of = "" if length is None else f" of {length}"
        super().__init__(f"an Avro value is damaged at byte {offset}{of}: {reason}")
        self.reason = reason
        self.offset = offset
        self._length = length

    def __reduce__(self) -> tuple[type[DamagedAvro], tuple[str, int, int | None]]:
        # Spark's workers send errors to the driver as pickles.
        return type(self), (self.reason, self.offset, self._length)


class UnsupportedAvro(UnsupportedFormat):
    """A file has another version of Avro's container format."""
