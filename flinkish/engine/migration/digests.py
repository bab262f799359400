"""Order-independent counts and digests of rows, by which a rewrite is verified.

A digest is the sum, modulo 2^64, of the 64-bit xxHash (XXH3) of each row: of its key alone, and of
its value with the key's hash as the seed. Equal sets of rows have equal digests regardless of their
partitions, and a row that is lost, duplicated or changed makes them differ. A digest is no defence
against deliberate collisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import xxhash

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class RowsDigest:
    """Count and digests of a set of rows.

    ``keys`` is the digest of the keys, ``content`` that of keys and values.
    """

    rows: int = 0
    keys: int = 0
    content: int = 0

    def __add__(self, other: RowsDigest) -> RowsDigest:
        return RowsDigest(
            self.rows + other.rows,
            (self.keys + other.keys) & _MASK,
            (self.content + other.content) & _MASK,
        )

    def to_json(self) -> dict[str, str | int]:
        """Return the form for metadata: digests as 16 hexadecimal digits."""
        return {"rows": self.rows, "keys": f"{self.keys:016x}", "content": f"{self.content:016x}"}


def digest_rows(keys: Sequence[bytes], values: Iterable[bytes], salt: int = 0) -> RowsDigest:
    """Return the digest of rows.

    ``salt`` seeds the key hashes and separates rows of different families.
    """
    one = xxhash.xxh3_64_intdigest
    hashes = [one(key, salt) for key in keys]
    content = sum(map(one, values, hashes))
    return RowsDigest(len(hashes), sum(hashes) & _MASK, content & _MASK)


def sum_digests(digests: Iterable[RowsDigest]) -> RowsDigest:
    """Return the digest of the union of rows."""
    total = RowsDigest()
    for digest in digests:
        total += digest
    return total


def family_salt(store: str, family: str) -> int:
    """Return the salt of a column family's rows."""
    return xxhash.xxh3_64_intdigest(f"{store}/{family}".encode())
