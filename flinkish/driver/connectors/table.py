"""The interface of tables (Delta, Iceberg), and the conversion of their errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from flinkish.connectors.table_commits import (
    Drift,
    RollbackTarget,
    TableCommit,
    TableReading,
    drift,
    rollback_target,
)
from flinkish.errors import TableError
from flinkish.restore.origin.restore_origin import RestorableQuery


@dataclass(frozen=True)
class SinkPlace:
    """Where a query writes.

    ``format`` is None for the session's default format (``spark.sql.sources.default``). ``path`` is
    the output's location, from the program or the catalog; None if the sink has none, or the table
    does not exist yet. ``table`` is the name that the program gives (``toTable``).
    """

    format: str | None
    path: str | None = None
    table: str | None = None


class Table(Protocol):
    """A table that a query writes to. An instance is opened for a single use.

    All methods raise TableError if the table cannot be read or does not support them.
    """

    def exists(self) -> bool:
        """Return whether the table exists."""

    def read(self, query_id: str) -> TableReading:
        """Return what the table has recorded of a query."""

    def history(
        self, version: int | None = None, *, back_to: int | None = None
    ) -> Sequence[TableCommit]:
        """Return the commits that lead to a version, oldest first.

        They reach back as far as the table still has them, up to a limit.

        ``version`` is by default the present version; if the table does not have the version, there
        are no commits. Commits before the version ``back_to`` may be missing.
        """

    def roll_back(self, version: int) -> None:
        """Bring the table to a version that it still has."""


def since_savepoint(
    table: Table, reading: TableReading, offer: RestorableQuery, recorded: int | None
) -> tuple[Drift, RollbackTarget | None]:
    """Return other writers' commits to a table since the savepoint, and the possible rollback.

    The rollback is None if the table has nothing to roll back. A table that has no commits of the
    saved query, and is not the table in the savepoint, counts as another table, without drift. For
    a running job no drift is reported, as the job may still write to the table.
    """
    newest = reading.newest_batch
    ahead = newest is not None and newest > offer.query.batch_id
    saved = offer.query_id, offer.query.batch_id, recorded
    if offer.live or (recorded is None and newest is None):
        back = rollback_target(table.history(), *saved) if ahead else None
        return Drift(), back
    # Delta keeps the number of a batch that was undone; Iceberg does not.
    had = min(newest, saved[1]) if newest is not None and reading.skips_after_rollback else None
    commits = table.history(back_to=recorded)
    since = drift(commits, *saved, had)
    if since.new_writers:  # did they write before the savepoint too?
        commits = table.history()
        since = drift(commits, *saved, had)
    if not (ahead or since.undone or since.new_writers):
        return since, None
    before = table.history(recorded) if since.undone and recorded is not None else ()
    if since.undone and recorded is not None:
        commits = table.history()
    return since, rollback_target(commits, *saved, before)


def merged_batches(table: Table, merged: Sequence[RestorableQuery]) -> tuple[str, ...]:
    """Return what a table has of queries from after their saved batches, as texts."""
    texts = []
    for each in merged:
        newest, first = table.read(each.query_id).newest_batch, each.query.batch_id + 1
        if newest is not None and newest >= first:
            texts.append(f"batches {first} to {newest} of {each.query.describe()}")
    return tuple(texts)


@contextmanager
def table_errors(table: str, product: str) -> Iterator[None]:
    """Turn the errors of a table's own classes into TableError, with their first line.

    ``table`` is the table's path or name. ``product`` names the table format or the catalog, whose
    classes the session may lack.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except TypeError as error:  # for Py4J, a missing class is a package
        if "JavaPackage" not in str(error):
            raise
        raise TableError(
            f"the table {table} cannot be read: the session has no classes of {product}",
            hint=f"start the program with the jars of {product}, for example by --packages",
        ) from error
    except Py4JJavaError as error:
        raise TableError(f"the table {table}: {first_line(error.java_exception)}") from error
    except (Py4JError, PySparkException) as error:
        raise TableError(f"the table {table}: {first_line(error)}") from error


def first_line(error: object) -> str:
    """Return the first line of an error that is not blank, or ``no message``."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
