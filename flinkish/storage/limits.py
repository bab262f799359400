"""How much is asked of remote stores at once; apart, so that setting it imports no library."""

from __future__ import annotations

_DEFAULT = 64
_connections = _DEFAULT


def set_connections(number: int) -> None:
    """How many requests to remote stores may be in flight at once in this process.

    For stores that are opened from now on (``execution.savepoint.transfers``).
    """
    global _connections
    _connections = max(1, number)


def connections() -> int:
    """How many requests may be in flight at once."""
    return _connections
