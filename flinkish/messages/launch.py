"""The launch of a job, and the restore it starts from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkish.messages.codec import OMIT_DEFAULT
from flinkish.messages.plan import RestorePlan

#: The values of ``--sink-ahead``.
SINK_MODES = ("rebase", "accept", "rollback")
#: The fewest state partitions that can be asked for.
LEAST_PARALLELISM = 1
#: The values of ``--verify``: logs and metadata by their digests and all files by their sizes, or
#: all files by their digests.
VERIFY_LEVELS = ("logs", "full")


@dataclass(frozen=True)
class RestoreSpec:
    """The restore that ``run -s`` requests.

    Attributes
    ----------
    path
        The savepoint, or a plain Spark checkpoint. Empty while it is not taken yet
        (:attr:`is_awaited`).
    allow_non_restored
        Whether state that no operator of the program takes is dropped.
    claim_mode
        Who owns the savepoint afterwards: ``no_claim`` or ``claim``.
    fork
        Whether the queries get new query ids.
    uid_map
        Pairs (old, new): the operator of the program with the uid ``new`` gets the state of
        ``old``, a uid or an operator id (32 hex digits in any case) in the savepoint. No state and
        no uid occurs twice.
    reset_sources
        Names of the sources that start without a saved position.
    sink_ahead
        What to do with a sink that already has later batches: one of :data:`SINK_MODES`.
    parallelism
        The number of state partitions; None for the savepoint's.
    accept_lost_rows
        Whether rows that a source can no longer read are skipped.
    accept_partial
        The operators (uid, name or id) whose old keys or rows may lack a part of the answer.
    set_offsets
        Pairs of the name of a source and the offsets from which it goes on, as text
        (:func:`flinkish.restore.plan.new_offsets.parse_target`).
    accept_repeated_rows
        Whether rows may be read again.
    offline
        Whether the restore is planned without asking the brokers of its sources.
    verify
        How the files of a savepoint are checked before a driver starts: one of
        :data:`VERIFY_LEVELS`.
    expected
        The plan that was shown to the user, that of all queries: the restore must have the
        same plan.
    job
        The id of the ended job whose checkpoints are restored instead of a savepoint (``run
        --resume``).
    """

    path: str
    allow_non_restored: bool = False
    claim_mode: str = "no_claim"
    fork: bool = False
    uid_map: tuple[tuple[str, str], ...] = ()
    reset_sources: tuple[str, ...] = ()
    sink_ahead: str | None = None
    parallelism: int | None = None
    expected: RestorePlan | None = None
    accept_lost_rows: bool = field(default=False, metadata=OMIT_DEFAULT)
    offline: bool = field(default=False, metadata=OMIT_DEFAULT)
    accept_partial: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)
    set_offsets: tuple[tuple[str, str], ...] = field(default=(), metadata=OMIT_DEFAULT)
    accept_repeated_rows: bool = field(default=False, metadata=OMIT_DEFAULT)
    verify: str = field(default=VERIFY_LEVELS[0], metadata=OMIT_DEFAULT)
    job: str | None = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def is_awaited(self) -> bool:
        """Whether the driver holds its program before the first query until a savepoint is named.

        See :mod:`flinkish.driver.runtime.handover`.
        """
        return not self.path


@dataclass(frozen=True)
class Launch:
    """All that the supervisor and the driver need to launch a job.

    Attributes
    ----------
    application
        The absolute path of the program, or None when ``module`` is set (``-pym``).
    python, client_python
        The Python interpreter of the executors' workers (``-pyexec``), and of the driver
        (``-pyclientexec``).
    conf
        Spark's settings.
    options
        flinkish's effective configuration at submission.
    secret_arguments
        Arguments that follow ``arguments``. Only the driver gets them unmasked
        (:mod:`flinkish.launch.secret_settings`).
    sink_ahead
        What to do with a sink that has batches already, when nothing is restored: one of
        :data:`SINK_MODES`.
    resumes
        Whether ``run --resume`` started it, so that the next such run goes on from it.
    named
        Whether the user has named the job, so that its runs belong together.
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
    sink_ahead: str | None = field(default=None, metadata=OMIT_DEFAULT)
    resumes: bool = field(default=False, metadata=OMIT_DEFAULT)
    named: bool = field(default=False, metadata=OMIT_DEFAULT)

    @property
    def default_name(self) -> str:
        """The stem of the program's file name, or the last part of its module's name."""
        if self.application is None:
            return str(self.module).rpartition(".")[2]
        return os.path.splitext(os.path.basename(self.application))[0]


@dataclass(frozen=True)
class Secrets:
    """Values that a launcher passes to the supervisor directly, to keep them out of the registry.

    Attributes
    ----------
    conf
        Secret settings of Spark.
    arguments
        All arguments of the program if one of them is secret, else None.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] | None = None
