"""How a job is launched, and what it is restored from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RestoreSpec:
    """What ``run -s`` asks for.

    Attributes
    ----------
    path
        The savepoint, or a plain Spark checkpoint.
    allow_non_restored
        State that no operator of the program takes is dropped.
    claim_mode
        Who owns the savepoint afterwards: ``no_claim`` or ``claim``.
    fork
        The queries get new query ids.
    uid_map
        Pairs (old, new): the state of ``old``, a uid or an operator id (32 hex digits in any
        case) in the savepoint, is that of the program's operator with the uid ``new``. No state
        and no uid stands in it twice.
    reset_sources
        Sources that start afresh.
    sink_ahead
        What to do with a sink that has later batches already: ``rebase`` or ``accept``.
    parallelism
        The number of state partitions, None for the savepoint's.
    expected
        What the plan says that was shown to the user, by query: the restore must come to the same.
    """

    path: str
    allow_non_restored: bool = False
    claim_mode: str = "no_claim"
    fork: bool = False
    uid_map: tuple[tuple[str, str], ...] = ()
    reset_sources: tuple[str, ...] = ()
    sink_ahead: str | None = None
    parallelism: int | None = None
    expected: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Launch:
    """How a job is launched: all that the supervisor and the driver need.

    Attributes
    ----------
    application
        The absolute path of the program, or None with ``module`` set (``-pym``).
    python, client_python
        Interpreter of the executors' workers (``-pyexec``), and of the driver (``-pyclientexec``).
    conf
        Spark's settings.
    options
        flinkish's effective configuration at submission.
    secret_arguments
        They follow ``arguments``; only the driver gets them as they are
        (:mod:`flinkish.launch.secret_settings`).
    """

    application: str | None
    module: str | None = None
    arguments: tuple[str, ...] = ()
    master: str | None = None
    spark_home: str | None = None
    python: str | None = None
    client_python: str | None = None
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    restore: RestoreSpec | None = None
    secret_arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Secrets:
    """What a launcher hands to the supervisor, because the registry must not have it.

    Attributes
    ----------
    conf
        Secret settings of Spark.
    arguments
        All arguments of the program where one of them is secret, else None.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] | None = None
