"""Digests of the bytes that pass through this process."""

from __future__ import annotations

from typing import Protocol


class Hasher(Protocol):
    """A digest under way, such as one of ``hashlib``."""

    @property
    def name(self) -> str:
        """The name of the algorithm."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""

    def hexdigest(self) -> str:
        """Return the digest of all bytes so far."""


def digest_of(hasher: Hasher) -> str:
    """Return the digest of all bytes so far, in the form that savepoints record."""
    return f"{hasher.name}:{hasher.hexdigest()}"
