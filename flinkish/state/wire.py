"""Byte strings, each preceded by its size: writing, and strict reading.

A size is a varint: seven bits a byte, the lowest first, with the high bit set if more follow. Each
size has one valid form. Bytes are untrusted: every size is compared with the remaining bytes.
"""

from __future__ import annotations

from typing import Final

from flinkish.errors import Corrupt

_LONGEST: Final = 9  # bytes of a size: 63 bits


def put_size(out: bytearray, size: int) -> None:
    """Append a size, or another number that is not negative."""
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)


def put_part(out: bytearray, data: bytes) -> None:
    """Append bytes with their size in front."""
    if len(data) < 0x80:
        out.append(len(data))
    else:
        put_size(out, len(data))
    out += data


def put_text(out: bytearray, text: str) -> None:
    """Append a text as UTF-8 with its size in front."""
    put_part(out, text.encode())


class Parts:
    """Reads what the functions of this module have written, from start to end.

    ``what`` describes the bytes, for errors.
    """

    __slots__ = ("_at", "_data", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._at = 0

    def damaged(self, reason: str) -> Corrupt:
        """Return the error for these bytes."""
        return Corrupt(f"{self._what} is damaged at byte {self._at} of {len(self._data)}: {reason}")

    def size(self) -> int:
        """Read a size or number; raise Corrupt if it is cut off or not in canonical form."""
        size = shift = 0
        while True:
            if self._at >= len(self._data):
                raise self.damaged("it ends within a size")
            byte = self._data[self._at]
            self._at += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise self.damaged("a size has more bytes than it needs")
                return size
            shift += 7
            if shift >= 7 * _LONGEST:
                raise self.damaged("a size is too long")

    def count(self) -> int:
        """Read the number of parts that follow; each takes at least one byte."""
        count = self.size()
        if count > len(self._data) - self._at:
            raise self.damaged(f"{count} parts should follow, which do not fit")
        return count

    def part(self, most: int | None = None) -> bytes:
        """Read bytes preceded by their size; Corrupt if cut off, or more than ``most``."""
        data, start = self._data, self._at
        if start < len(data) and data[start] < 0x80:  # nearly always
            size, start = data[start], start + 1
        else:
            size = self.size()
            start = self._at
        end = start + size
        if end > len(data):
            raise self.damaged(f"a part of {size} bytes is cut off")
        if most is not None and size > most:
            raise self.damaged(f"a part of {size} bytes; the maximum is {most}")
        self._at = end
        return data[start:end]

    def text(self, most: int | None = None) -> str:
        """Read a text; see :meth:`part`."""
        data = self.part(most)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self.damaged("a text is not UTF-8") from error

    def end(self) -> None:
        """Raise Corrupt unless everything was read."""
        if self._at != len(self._data):
            raise self.damaged(f"{len(self._data) - self._at} extra bytes")
