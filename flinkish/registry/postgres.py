"""PostgreSQL as the registry's database, for jobs whose drivers run on several hosts.

Imported only for a ``postgresql://`` URL, because its client (psycopg 3) is an optional dependency
and slow to import. Transactions are READ COMMITTED. One that depends on a job locks the job's row
first, and its later statements see what was committed before the lock was granted.
"""

from __future__ import annotations

import os
import re
import time
from _thread import allocate_lock
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from flinkish.config import MASK, mask_secrets
from flinkish.config.secrets import passwords_of
from flinkish.errors import RegistryError
from flinkish.registry.database import (
    READ_VERSION,
    Database,
    Parameters,
    Row,
    Transaction,
    check_version,
    migrate,
    storable,
)
from flinkish.registry.schema import VERSION

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as missing:
    raise RegistryError(
        f"a PostgreSQL registry needs psycopg, which cannot be imported: {missing}",
        hint="pip install 'flinkish[postgres]'",
    ) from missing

T = TypeVar("T")

#: Lock that serialises schema changes; any number that all versions of flinkish share.
_MIGRATION_LOCK = 0x666C696E6B
#: Lock of :meth:`PostgresDatabase.serialize`; likewise shared by all versions.
_SERIAL_LOCK = _MIGRATION_LOCK + 1
#: Settings of libpq that apply unless the URL has them. They are in seconds, except that
#: ``tcp_user_timeout`` is in milliseconds and ``keepalives_count`` is a number of probes. Without
#: the last four, a driver whose server has vanished with its host, as before a failover, waits a
#: quarter of an hour for the server's answer, and cannot report to the new server meanwhile.
_CONNECTION = {
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
_ATTEMPTS = 5
_CLOCKS = (
    "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION), "
    "CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) AS DOUBLE PRECISION)"
)
_SET = 1.0  # seconds: a larger jump of this host's clock means that the clock was set


class PostgresDatabase(Database):
    """A PostgreSQL database. A lost connection is replaced, if possible in the same call."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._url = url
        self.url_masked = mask_secrets(url)
        self._lock = allocate_lock()
        self._process = os.getpid()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._inherited: list[psycopg.Connection[tuple[Any, ...]] | None] = []
        self._ahead = 0.0  # the server's clock minus this host's, seconds
        self._clock = 0.0  # _clock_setting() when _ahead was measured
        self._translated: dict[str, str] = {}
        try:
            self._prepare(create)
        except BaseException:
            self.close()
            raise

    def read(self, sql: str, parameters: Parameters) -> list[Row]:
        with self._lock:
            return self._reliably(lambda connection: self._run(connection, sql, parameters)[0])

    def write(self, work: Callable[[Transaction], T]) -> T:
        with self._lock:
            return self._reliably(lambda connection: self._transact(connection, work))

    def serialize(self, transaction: Transaction) -> None:
        transaction.rows("SELECT pg_advisory_xact_lock(:lock)", lock=_SERIAL_LOCK)

    def changes_marker(self) -> object:
        return object()

    def now(self) -> float:
        return time.time() + self._ahead

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and os.getpid() == self._process:
            connection.close()

    def _reliably(self, action: Callable[[psycopg.Connection[tuple[Any, ...]]], T]) -> T:
        """Run ``action``; retry it after a rollback by the server, or on a new connection.

        A new connection is made when the old one proves to be dead. A commit whose answer was lost
        may have succeeded, so it is not repeated but reported as an error (see :meth:`_transact`).
        """
        try:
            for _ in range(_ATTEMPTS - 1):
                used = self._usable()
                try:
                    return action(self._connected())
                except _CommitLost:
                    raise
                except psycopg.errors.TransactionRollback:
                    continue  # the server resolved a deadlock by aborting this transaction
                except psycopg.OperationalError:
                    if not used or self._usable():
                        raise  # the cause is not an old connection: a retry will not help
            return action(self._connected())
        except psycopg.Error as error:
            self._fail(error)

    def _usable(self) -> bool:
        return (
            self._connection is not None
            and not self._connection.closed
            and self._process == os.getpid()
        )

    def _transact(
        self, connection: psycopg.Connection[tuple[Any, ...]], work: Callable[[Transaction], T]
    ) -> T:
        connection.execute("BEGIN")
        try:
            result = work(Transaction(lambda sql, values: self._run(connection, sql, values)))
        except BaseException:
            with suppress(psycopg.Error):  # on a dead connection the server has rolled back
                connection.execute("ROLLBACK")
            raise
        try:
            connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            raise _CommitLost(f"the connection was lost during a commit: {error}") from error
        return result

    def _run(
        self, connection: psycopg.Connection[tuple[Any, ...]], sql: str, parameters: Parameters
    ) -> tuple[list[Row], int]:
        text = self._translated.get(sql)
        if text is None:
            text = self._translated[sql] = translate(sql)
        values = {name: storable(value) for name, value in parameters.items()}
        # bytes, because psycopg's types require literals for str: the text comes from this package.
        cursor = connection.execute(text.encode(), values or None)
        if cursor.description is None:
            return [], cursor.rowcount
        names = [column.name for column in cursor.description]
        rows = [dict(zip(names, row)) for row in cursor]  # noqa: B905 (one query's columns)
        return rows, cursor.rowcount

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        if not self._usable() or self._connection is None:
            # A forked child must neither use nor close its parent's connection.
            self._inherited.append(self._connection if self._process != os.getpid() else None)
            self._process = os.getpid()
            # libpq parses the URL here, as it accepts unescaped special characters in a password.
            settings: dict[str, Any] = {**_CONNECTION, **conninfo_to_dict(self._url)}
            # No server-side prepared statements: poolers in transaction mode lose them.
            self._connection = psycopg.connect(
                self._url,
                autocommit=True,
                prepare_threshold=None,
                **{name: settings[name] for name in _CONNECTION},
            )
            self._compare_clocks(self._connection)
        elif abs(_clock_setting() - self._clock) > _SET:
            self._compare_clocks(self._connection)
        return self._connection

    def _compare_clocks(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        clock = _clock_setting()
        before = time.time()
        row = connection.execute(_CLOCKS).fetchone()
        after = time.time()
        server, self.up_since = (float(row[0]), float(row[1])) if row else (before, 0.0)
        # Ignore a difference that the round trip explains: equal clocks stay equal.
        self._ahead = 0.0 if before - 0.001 <= server <= after + 0.001 else server - after
        self._clock = clock

    def _prepare(self, create: bool) -> None:
        with self._lock:
            version = self._reliably(self._version)
        check_version(version, self.url_masked)
        if version == VERSION:
            return
        if version == 0 and not create:
            raise RegistryError(
                f"there is no registry in {self.url_masked}",
                hint="flinkish run creates one; check registry.url (FLINKISH_REGISTRY)",
            )
        self.write(self._migrate)

    def _version(self, connection: psycopg.Connection[tuple[Any, ...]]) -> int:
        try:
            row = connection.execute(READ_VERSION.encode()).fetchone()
        except psycopg.errors.UndefinedTable:
            return 0
        return int(row[0] or 0) if row else 0

    def _migrate(self, transaction: Transaction) -> None:
        transaction.rows("SELECT pg_advisory_xact_lock(:lock)", lock=_MIGRATION_LOCK)
        migrate(transaction, self.url_masked, self.now())

    def _fail(self, error: psycopg.Error) -> NoReturn:
        text = " ".join(self._hide(str(error)).split())
        hint = "check registry.url and the rights of its user"
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            text, hint = f"the server is read-only ({text})", "point registry.url at the primary"
        elif isinstance(error, psycopg.OperationalError):
            hint = "check that the server runs and can be reached, then try again"
        # No `from error`: with --debug its text would show what is masked here.
        raise RegistryError(f"the registry {self.url_masked} failed: {text}", hint=hint) from None

    def _hide(self, text: str) -> str:
        for password in passwords_of(self._url):
            text = text.replace(password, MASK)
            # Without %XX escapes, libpq may take a part of the password for a port or a host.
            for part in filter(None, re.split(r"[/?#@:&=%\s]+", password)):
                text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", MASK, text)
        return mask_secrets(text)


class _CommitLost(psycopg.OperationalError):
    """The connection broke during COMMIT: it is unknown whether the commit happened."""


def _clock_setting() -> float:
    """Return a number of seconds that changes only when this host's clock is set."""
    return time.time() - time.monotonic()


def translate(sql: str) -> str:
    """Convert ``:name`` parameters to psycopg's form, and double each percent sign."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", sql.replace("%", "%%"))
