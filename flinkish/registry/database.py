"""A database under the registry: one narrow interface, its schema, and what is stored in it.

The SQL is the same for SQLite and PostgreSQL (``sqlite`` and ``postgres``); what differs is
how a transaction begins, which errors mean "try again", and how a fault is told to a person. A
write is given as a function of a transaction, so that it can be tried again as a whole.
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
    """Statements inside one transaction; made by :meth:`Database.write` only."""

    def __init__(self, run: Callable[[str, Parameters], tuple[list[Row], int]]) -> None:
        self._run = run

    def execute(self, sql: str, **parameters: Any) -> int:
        """Run a statement with ``:name`` parameters; returns the number of rows it changed."""
        return self._run(sql, parameters)[1]

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        """Run a query with ``:name`` parameters; returns its rows as dictionaries."""
        return self._run(sql, parameters)[0]


class Database:
    """What the registry needs of a database. Safe to use from several threads of a process.

    One connection a process, behind a lock: every statement here takes well under a millisecond,
    and one connection keeps :meth:`changes_marker` simple. A child made by ``fork`` opens its own.
    """

    #: The URL without its password.
    url_masked: str
    #: Why nothing can be written, or None.
    read_only: str | None = None

    def read(self, sql: str, parameters: Parameters) -> list[Row]:
        """Rows of one query. Raises :class:`RegistryError`."""
        raise NotImplementedError

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one write transaction and commit; any exception rolls it back.

        ``work`` may be run again when the database asks for it, so it must have no other effect.
        Raises :class:`RegistryError` when the database cannot be written.
        """
        raise NotImplementedError

    def changes_marker(self) -> object:
        """A cheap value that changes when another connection has written."""
        raise NotImplementedError

    def now(self) -> float:
        """The time all users of this registry agree on, in seconds since the epoch."""
        return time.time()

    def close(self) -> None:
        """Close the connection; the object can be used no more."""
        raise NotImplementedError


def check_version(version: int, where: str) -> None:
    """Raise :class:`RegistryError` when the schema is newer than this flinkish."""
    if version > VERSION:
        raise RegistryError(
            f"the registry {where} was written by a newer flinkish "
            f"(schema {version}, this one knows {VERSION})",
            hint="upgrade flinkish, or set registry.url to another registry",
        )


def migrate(transaction: Transaction, where: str, now: float) -> None:
    """Apply the steps that are missing; another process may have been quicker, so look again."""
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
    """Text as both databases take it: no NUL, and no halves of surrogate pairs (odd file names)."""
    if isinstance(value, str):
        if "\x00" in value:
            value = value.replace("\x00", "\\x00")
        if not value.isascii():
            value = value.encode("utf-8", "backslashreplace").decode()
    return value
