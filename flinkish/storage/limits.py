"""Limit on concurrent remote requests; a separate module, so that setting it imports no library."""

from __future__ import annotations

_DEFAULT = 64
_connections = _DEFAULT


def set_connections(number: int) -> None:
    """Set how many requests to remote stores may be in flight at once in this process.

    Applies to stores opened after the call (``execution.savepoint.transfers``).
    """
    global _connections
    _connections = max(1, number)


def connections() -> int:
    """Return how many requests to remote stores may be in flight at once."""
    return _connections
