"""The interface between the registry and its database, and the migration of its schema.

The SQL is the same for SQLite and PostgreSQL (``sqlite`` and ``postgres``). The two differ in how
a transaction begins, which errors mean "try again", and how an error is reported. A write is
passed as a function of a transaction, so that the whole transaction can be retried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flinkish.errors import RegistryError
from flinkish.registry.schema import MIGRATIONS, VERSION, VERSION_TABLE

T = TypeVar("T")
Row = dict[str, Any]
Parameters = Mapping[str, Any]

READ_VERSION = "SELECT MAX(version) AS version FROM flinkish_schema"


class Transaction:
    """Statements inside one transaction. Made only by :meth:`Database.write`."""

    def __init__(self, run: Callable[[str, Parameters], tuple[list[Row], int]]) -> None:
        self._run = run

    def execute(self, sql: str, **parameters: Any) -> int:
        """Run a statement with ``:name`` parameters and return the number of rows it changed."""
        return self._run(sql, parameters)[1]

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        """Run a query with ``:name`` parameters and return its rows as dictionaries."""
        return self._run(sql, parameters)[0]


class Database:
    """A database as the registry uses it. Safe to use from several threads of a process.

    There is one connection per process, guarded by a lock. One is enough, because every statement
    of the registry takes well under a millisecond, and it keeps :meth:`changes_marker` simple. A
    child made by ``fork`` opens its own connection.
    """

    #: The URL without its password.
    url_masked: str
    #: The reason why nothing can be written, or None.
    read_only: str | None = None
    #: When the database's server was started, in seconds since the epoch; 0 without a server.
    up_since: float = 0.0

    def read(self, sql: str, parameters: Parameters) -> list[Row]:
        """Run one query and return its rows. Raises :class:`RegistryError`."""
        raise NotImplementedError

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one write transaction and commit it. Any exception rolls it back.

        ``work`` may run again if the database requires a retry, so it must have no other effect.
        Raises :class:`RegistryError`, also if the registry is read-only.
        """
        raise NotImplementedError

    def serialize(self, transaction: Transaction) -> None:
        """Wait until no other transaction that called this is open, and make later ones wait.

        Call it before a condition on rows that other transactions may add. Later statements of
        this transaction see what the others have committed.
        """
        raise NotImplementedError

    def changes_marker(self) -> object:
        """Return a value, cheap to get, that changes when another connection has written.

        It may also change at other times.
        """
        raise NotImplementedError

    def now(self) -> float:
        """Return the time that all users of this registry share, in seconds since the epoch."""
        return time.time()

    def close(self) -> None:
        """Close the connection. The object must not be used afterwards."""
        raise NotImplementedError


def check_version(version: int, where: str) -> None:
    """Raise :class:`RegistryError` if the schema is newer than this flinkish knows."""
    if version > VERSION:
        raise RegistryError(
            f"the registry {where} was written by a newer flinkish "
            f"(schema {version}, this one knows {VERSION})",
            hint="upgrade flinkish, or set registry.url to another registry",
        )


def migrate(transaction: Transaction, where: str, now: float) -> None:
    """Apply the missing schema steps. Raises RegistryError if the schema is too new.

    The version is read again inside the transaction, because another process may have migrated the
    schema in the meantime.
    """
    from flinkish import __version__

    transaction.execute(VERSION_TABLE)
    version = transaction.rows(READ_VERSION)[0]["version"] or 0
    check_version(version, where)
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        for statement in statements:
            transaction.execute(statement)
        transaction.execute(
            "INSERT INTO flinkish_schema (version, applied, flinkish_version) "
            "VALUES (:version, :applied, :flinkish)",
            version=number,
            applied=now,
            flinkish=__version__,
        )


def storable(value: Any) -> Any:
    """Return text that both databases accept; other values are returned unchanged.

    NUL is escaped, and so are halves of surrogate pairs (from odd file names).
    """
    if isinstance(value, str):
        if "\x00" in value:
            value = value.replace("\x00", "\\x00")
        if not value.isascii():
            value = value.encode("utf-8", "backslashreplace").decode()
    return value
