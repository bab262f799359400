"""SQLite as the registry's database: a file of the user, shared by the processes of one host.

SQLite facts used here (sqlite.org: wal.html, lang_transaction.html, rescode.html): in WAL mode
readers never wait for writers; a write transaction begun with BEGIN IMMEDIATE gets "busy" only
at its beginning; the switch to WAL, and any call during a recovery after a crash or the checkpoint
of a closing connection, can be "busy" without the busy handler: ``_patiently`` repeats every call.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from _thread import allocate_lock
from collections.abc import Callable
from typing import NoReturn, TypeVar

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
from flinkish.registry.schema import VERSION, is_absent

T = TypeVar("T")

#: How long a call waits for other writers before it gives up, in seconds.
PATIENCE = 60.0
_BUSY_HANDLER = 2.0
_PAUSE = 0.01


class SqliteDatabase(Database):
    """A SQLite file at the absolute ``path``.

    With ``create``, a missing file is created with mode 0600 (its directory with 0700). Without it,
    a missing file raises RegistryError. One that cannot be read or brought up to date always does.
    """

    #: The file's state when an immutable connection, which sees no later change, was made; or None.
    _frozen: tuple[object, ...] | None = None

    def __init__(self, path: str, *, create: bool = True) -> None:
        self.url_masked = "sqlite:///" + path
        self._path = path
        self._lock = allocate_lock()
        self._connection: sqlite3.Connection | None = None
        self._inherited: list[sqlite3.Connection | None] = []
        self._process = os.getpid()
        if os.path.isdir(path):
            raise RegistryError(
                f"the registry {path} is a directory", hint="name a file, such as registry.db in it"
            )
        if self.is_absent(path):
            if not create:
                raise RegistryError(
                    f"there is no registry at {path}",
                    hint="flinkish run creates one; check registry.url (FLINKISH_REGISTRY)",
                )
            if not os.path.exists(path):
                self._make_file()
        if not os.access(path, os.R_OK):
            raise RegistryError(
                f"the registry {path} is not readable by this user",
                hint="run as its owner, or set registry.url (FLINKISH_REGISTRY) to your own",
            )
        self.read_only = _why_read_only(path)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def is_absent(path: str) -> bool:
        """Return whether there is no registry at ``path`` yet; RegistryError if unknown."""
        try:
            return is_absent(path)
        except OSError as error:
            raise RegistryError(
                f"the registry {path} cannot be accessed: {error.strerror}",
                hint="make it accessible to this user (is its disk mounted?), or set registry.url "
                "(FLINKISH_REGISTRY) to your own",
            ) from error

    def read(self, sql: str, parameters: Parameters) -> list[Row]:
        with self._lock:
            return self._patiently(lambda: _fetch(self._connected(), sql, parameters)[0])

    def write(self, work: Callable[[Transaction], T]) -> T:
        if self.read_only:
            self._refuse_write(self.read_only)
        with self._lock:
            return self._patiently(lambda: self._transact(work))

    def serialize(self, transaction: Transaction) -> None:
        """Do nothing: every write began with BEGIN IMMEDIATE."""

    def changes_marker(self) -> object:
        with self._lock:
            version = self._patiently(
                lambda: self._connected().execute("PRAGMA data_version").fetchone()[0]
            )
            return version if self._frozen is None else self._frozen

    def close(self) -> None:
        if os.getpid() != self._process:  # a forked child: the connection is its parent's
            self._inherited.append(self._connection)
            self._connection = None
            return
        # Closing a connection that another thread is using crashes the process.
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _transact(self, work: Callable[[Transaction], T]) -> T:
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(Transaction(lambda sql, values: _fetch(connection, sql, values)))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _patiently(self, action: Callable[[], T]) -> T:
        """Run ``action`` again while the database is busy, for up to :data:`PATIENCE` seconds."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return action()
            except sqlite3.Error as error:
                if _kind(error) != "busy" or time.monotonic() >= deadline:
                    self._fail(error)
                time.sleep(_PAUSE)

    def _connected(self) -> sqlite3.Connection:
        is_forked = os.getpid() != self._process
        is_outdated = self._frozen is not None and self._frozen != self._file_state()
        if self._connection is None or is_forked or is_outdated:
            # SQLite forbids a forked child to use or close its parent's connection.
            if is_forked:
                self._inherited.append(self._connection)
            elif self._connection is not None:
                self._connection.close()
            self._connection, self._process = None, os.getpid()
            self._connection = self._connect_reader() if self.read_only else self._connect("rw")
        return self._connection

    def _connect_reader(self) -> sqlite3.Connection:
        self._frozen = None
        try:
            return self._connect("ro")
        except sqlite3.Error as error:
            if _kind(error) == "busy" or os.path.exists(self._path + "-wal"):
                raise
        # A WAL database in a directory where no -shm can be made. There is no -wal beside it,
        # so no process is writing and the file alone is complete: read it as it is.
        self._frozen = self._file_state()
        return self._connect("ro", "&immutable=1")

    def _file_state(self) -> tuple[object, ...]:
        try:
            file = os.stat(self._path)
        except OSError:
            return ()
        wal = os.path.exists(self._path + "-wal")
        return file.st_ino, file.st_mtime_ns, file.st_size, wal

    def _connect(self, mode: str, suffix: str = "") -> sqlite3.Connection:
        quoted = self._path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        connection = sqlite3.connect(
            f"file:{quoted}?mode={mode}{suffix}",
            uri=True,
            timeout=_BUSY_HANDLER,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            # In WAL mode NORMAL loses nothing when a process dies. A power cut loses at most the
            # last transactions, never consistency. These PRAGMAs read the file, and may fail.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        """Bring the schema to :data:`VERSION`; for a current file this is one small query."""
        version = self._patiently(self._version)
        check_version(version, self.url_masked)
        if version == VERSION:
            return
        if self.read_only and version == 0:
            raise RegistryError(
                f"the registry {self._path} is empty, and {self.read_only}",
                hint="make it writable, or set registry.url to another file",
            )
        if self.read_only:
            raise RegistryError(
                f"the registry {self._path} is of an older flinkish and needs an update, "
                f"but {self.read_only}",
                hint="run flinkish list once as a user who may write it",
            )
        self._patiently(self._refuse_foreign)  # before anything in the file changes
        self._patiently(lambda: self._connected().execute("PRAGMA journal_mode = WAL").fetchall())
        self._patiently(lambda: self._transact(self._migrate))

    def _version(self) -> int:
        connection = self._connected()
        try:
            return connection.execute(READ_VERSION).fetchone()[0] or 0
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return 0
            raise

    def _refuse_foreign(self) -> None:
        tables = _fetch(
            self._connected(), "SELECT name FROM sqlite_master WHERE type = 'table'", {}
        )[0]
        if tables and not any(row["name"] == "flinkish_schema" for row in tables):
            raise RegistryError(
                f"{self._path} is the database of another program "
                f"(it has a table {tables[0]['name']})",
                hint="set registry.url (FLINKISH_REGISTRY) to a file of its own",
            )

    def _migrate(self, transaction: Transaction) -> None:
        migrate(transaction, self.url_masked, self.now())

    def _make_file(self) -> None:
        directory = os.path.dirname(self._path)
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError as error:
            raise RegistryError(
                f"cannot make the registry {self._path}: {error.strerror}",
                hint="make its directory writable, or set registry.url (FLINKISH_REGISTRY)",
            ) from error

    def _refuse_write(self, why: str) -> NoReturn:
        raise RegistryError(
            f"the registry {self._path} cannot be written: {why}",
            hint="run as a user who may write it, or set registry.url (FLINKISH_REGISTRY)",
        )

    def _fail(self, error: sqlite3.Error) -> NoReturn:
        kind, path = _kind(error), self._path
        if kind == "busy":
            message = f"the registry {path} was held by other processes for {PATIENCE:.0f} s"
            hint = "look for a stopped process that has it open (fuser shows it), then try again"
        elif kind == "notadb":
            message = f"{path} is not a registry: it is not a SQLite database"
            hint = "set registry.url (FLINKISH_REGISTRY) to another file, or move this one away"
        elif kind == "corrupt":
            message = f"the registry {path} is damaged: {error}"
            hint = "restore it from a backup, or move it away; savepoints can be imported again"
        elif kind == "readonly":
            self._refuse_write("the file or its file system is read-only")
        elif kind == "full":
            message = f"the registry {path} cannot be written: the disk is full"
            hint = "free some space on its file system"
        else:
            message = f"the registry {path} failed: {error}"
            hint = "check the file, its directory and its file system"
        raise RegistryError(message, hint=hint) from error


class AbsentDatabase(SqliteDatabase):
    """An empty database in memory that stands for a registry file that does not exist yet.

    Commands that only read must not create the file.
    """

    def __init__(self, path: str) -> None:
        self.url_masked = "sqlite:///" + path
        self._path = path
        self._lock = allocate_lock()
        self._connection = None
        self._inherited = []
        self._process = os.getpid()
        self.read_only = None
        self._prepare()

    def _connect(self, mode: str, suffix: str = "") -> sqlite3.Connection:
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def _fetch(
    connection: sqlite3.Connection, sql: str, parameters: Parameters
) -> tuple[list[Row], int]:
    values = {name: storable(value) for name, value in parameters.items()}
    cursor = connection.execute(sql, values)
    if cursor.description is None:
        return [], cursor.rowcount
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor], cursor.rowcount  # noqa: B905 (one query)


def _why_read_only(path: str) -> str | None:
    if not os.access(path, os.W_OK):
        return "the file is not writable by this user"
    if not os.access(os.path.dirname(path), os.W_OK):
        return "its directory is not writable by this user (SQLite keeps its journal there)"
    return None


def _kind(error: sqlite3.Error) -> str:
    """Classify a SQLite error: busy, notadb, corrupt, readonly, full or other."""
    if sys.version_info >= (3, 11):
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None:
            return _KINDS.get(code & 0xFF, "other")
    text = str(error)
    return next((kind for words, kind in _WORDS.items() if words in text), "other")


#: Primary result codes (sqlite.org/rescode.html): BUSY 5, LOCKED 6, READONLY 8, CORRUPT 11,
#: FULL 13, PROTOCOL 15 (a race while opening the WAL), NOTADB 26.
_KINDS = {
    5: "busy",
    6: "busy",
    8: "readonly",
    11: "corrupt",
    13: "full",
    15: "busy",
    26: "notadb",
}
#: The same kinds by message, for Python 3.10, whose errors carry no code.
_WORDS = {
    "is locked": "busy",
    "locking protocol": "busy",
    "readonly database": "readonly",
    "malformed": "corrupt",
    "disk is full": "full",
    "is not a database": "notadb",
}
