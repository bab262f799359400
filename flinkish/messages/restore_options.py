"""The user's options of a restore, from the command line to the planner in the driver."""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkish.annotations import public
from flinkish.messages.codec import OMIT_DEFAULT

#: The values of ``--sink-ahead``.
SINK_MODES = ("rebase", "accept", "rollback")
#: The values of ``--verify``, the default first: ``logs`` checks the digests of logs and metadata
#: and the sizes of all files, ``full`` the digests of all files.
VERIFY_LEVELS = ("logs", "full")


@public
@dataclass(frozen=True)
class RestoreOptions:
    """How a savepoint is restored.

    Attributes
    ----------
    allow_non_restored
        Whether non-restored state, which no operator of the program takes, is dropped.
    claim_mode
        Who owns the savepoint afterwards: ``no_claim`` or ``claim``. None is as configured for a
        run, by default ``no_claim``; restarts and upgrades ignore the configuration.
    fork
        Whether the queries get new ids, so that the original job may continue.
    uid_map
        Pairs (old, new): the operator of the program with the uid ``new`` gets the state of
        ``old``, a uid or an operator id (32 hex digits in any case) of the savepoint. No state and
        no uid occurs twice.
    path_map
        Pairs (old, new) of locations: what the savepoint locates in ``old`` is now in ``new``. No
        ``old`` lies within another ``old``, and no ``new`` within another ``new``.
    reset_sources
        Sources that start from scratch, by uid or by what they read. The prefix ``QUERY/`` limits
        the name to that query of the program.
    sink_ahead
        For a sink that has later batches, one of :data:`SINK_MODES`: ``rebase`` continues after
        them, ``accept`` drops output, ``rollback`` rolls its table back to the savepoint's version.
    accept_lost_rows
        Whether rows that a source can no longer read are skipped.
    accept_partial
        Operators, by uid, name or id, whose results may be incomplete for existing keys and rows;
        with ``QUERY/`` as for ``reset_sources``.
    offline
        Whether the restore is planned without asking the brokers of Kafka sources.
    set_offsets
        Pairs (source, where): the source, by uid or by what it reads, resumes from ``earliest``,
        ``latest``, ``timestamp:TIME``, ``moved``, offsets as JSON in the source's own form, or the
        offsets in a file.
    accept_repeated_rows
        Whether rows may be read again, and counted again by the state.
    verify
        How the files of the savepoint are verified before a driver starts: one of
        :data:`VERIFY_LEVELS`; None means the first level.
    """

    allow_non_restored: bool = field(default=False, metadata=OMIT_DEFAULT)
    claim_mode: str | None = field(default=None, metadata=OMIT_DEFAULT)
    fork: bool = field(default=False, metadata=OMIT_DEFAULT)
    uid_map: tuple[tuple[str, str], ...] = field(default=(), metadata=OMIT_DEFAULT)
    path_map: tuple[tuple[str, str], ...] = field(default=(), metadata=OMIT_DEFAULT)
    reset_sources: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)
    sink_ahead: str | None = field(default=None, metadata=OMIT_DEFAULT)
    accept_lost_rows: bool = field(default=False, metadata=OMIT_DEFAULT)
    accept_partial: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)
    offline: bool = field(default=False, metadata=OMIT_DEFAULT)
    set_offsets: tuple[tuple[str, str], ...] = field(default=(), metadata=OMIT_DEFAULT)
    accept_repeated_rows: bool = field(default=False, metadata=OMIT_DEFAULT)
    verify: str | None = field(default=None, metadata=OMIT_DEFAULT)


#: The options of a restore without any option.
NO_OPTIONS = RestoreOptions()
