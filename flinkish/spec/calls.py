"""What a driver without a job is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.spec.launch import RestoreSpec


@dataclass(frozen=True)
class KnownRun:
    """A job that ran a query of the savepoint, as the registry knows it.

    Attributes
    ----------
    state
        The name of the job's state.
    last_batch
        The newest batch that the query has reported.
    """

    job_id: str
    state: str
    last_batch: int | None = None


@dataclass(frozen=True)
class RestoreQuestion:
    """A restore whose plan is asked for.

    Attributes
    ----------
    runs
        By Spark query id the jobs that ran it.
    """

    spec: RestoreSpec
    runs: Mapping[str, tuple[KnownRun, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Described:
    """What a driver says of a program.

    Attributes
    ----------
    queries
        Its queries as ``flinkish.driver.tasks.describe.query_record`` describes them.
    plan
        The plan of the restore, where one was asked for.
    """

    queries: tuple[dict[str, Any], ...] = ()
    plan: dict[str, Any] | None = None


@dataclass(frozen=True)
class StateTask:
    """What is to be done with a state: with a ``target`` it is exported, else rows are shown.

    Attributes
    ----------
    path
        The savepoint.
    name
        ``UID[/STATE]``.
    where
        A condition in SQL on ``partition``, ``key`` and ``value``.
    limit
        Rows to show, at most.
    partition
        The only one to show.
    target
        The directory that is made.
    format
        ``parquet``, ``avro`` or ``json``.
    """

    path: str
    name: str
    where: str | None = None
    limit: int = 20
    partition: int | None = None
    target: str | None = None
    format: str = "parquet"


@dataclass(frozen=True)
class StateAnswer:
    """What came of a :class:`StateTask`.

    Attributes
    ----------
    rows, more
        The rows to show, and whether there are others.
    exported
        The number of rows that were written.
    """

    rows: tuple[dict[str, Any], ...] = ()
    more: bool = False
    exported: int = 0
