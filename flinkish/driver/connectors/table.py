"""The interface of tables (Delta, Iceberg), and the conversion of their errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from flinkish.connectors.table_commits import TableCommit, TableReading
from flinkish.errors import TableError


@dataclass(frozen=True)
class SinkPlace:
    """Where a query writes.

    ``format`` is None for the session's default format (``spark.sql.sources.default``). ``path`` is
    its location, from the program or from the catalog; None if it has none, or the table does not
    exist yet. ``table`` is the name that the program gives (``toTable``).
    """

    format: str | None
    path: str | None = None
    table: str | None = None


class Table(Protocol):
    """A table that a query writes to; opened for a single use.

    All methods raise :class:`~flinkish.errors.TableError` if the table cannot be read or does not
    support them.
    """

    def exists(self) -> bool:
        """Return whether there is a table."""

    def read(self, query_id: str) -> TableReading:
        """Return what the table has recorded of a query."""

    def history(
        self, version: int | None = None, *, back_to: int | None = None
    ) -> Sequence[TableCommit]:
        """Return the commits that lead to a version, oldest first.

        They reach back as far as the table still has them, up to a limit.

        ``version`` is the present one by default; if the table does not have it, there are no
        commits. Versions before ``back_to`` are of no interest.
        """

    def roll_back(self, version: int) -> None:
        """Bring the table to a version that it still has."""


@contextmanager
def table_errors(table: str, product: str) -> Iterator[None]:
    """Turn the errors of a table's own classes into TableError, with their first line.

    ``table`` is its path or name, ``product`` the name of the table format, whose classes may be
    missing in the session.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except TypeError as error:  # to Py4J a class that is not there is a package
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
    """Return the first line of an error that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
