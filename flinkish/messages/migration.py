"""The migration of a savepoint's state, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.messages.requests import SavepointSummary


@dataclass(frozen=True)
class NewSchema:
    """The new Avro schema for the values of one state.

    Attributes
    ----------
    query, ordinal
        The operator that has the state.
    state
        The name of the state; "" where the operator has only one.
    schema
        Avro's JSON.
    name
        The state as the user named it, ``[QUERY/]UID[/STATE]``.
    """

    query: str
    ordinal: int
    state: str
    schema: Any
    name: str


@dataclass(frozen=True)
class Migration:
    """The requested changes to a savepoint; None leaves a property as it is.

    Attributes
    ----------
    path
        The savepoint.
    target
        The directory of the new savepoint.
    partitions
        The number of state partitions (``-p``).
    backend
        ``hdfs`` or ``rocksdb``.
    compression
        The codec of the state files.
    checkpoint_format
        Spark's checkpoint format, 1 or 2: format 2 names state files by unique ids.
    formats
        State format versions, by the settings that pin them.
    schemas
        The new schemas of values.
    owner
        The user who migrates: ``user@host``.
    type
        ``native`` or ``canonical``.
    instead
        Whether the new savepoint replaces ``path``, which is only an intermediate result. The new
        one then keeps the trigger of ``path`` and the savepoint that its job was restored from.
    """

    path: str
    target: str
    partitions: int | None = None
    backend: str | None = None
    compression: str | None = None
    checkpoint_format: int | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    schemas: tuple[NewSchema, ...] = ()
    owner: str | None = None
    type: str | None = None
    instead: bool = False


@dataclass(frozen=True)
class MigratedOperator:
    """The migrated state of one operator.

    Attributes
    ----------
    bytes, rows
        Its size in bytes and its number of rows.
    keys, content
        Digests in hexadecimal: of the keys, and of keys and values.
    shuffle
        Why its rows went through a shuffle of Spark; None if they did not.
    native
        Whether the optional package ``flinkish-rocksdb`` did the work.
    """

    query: str
    uid: str | None
    ordinal: int
    bytes: int
    rows: int
    keys: str
    content: str
    shuffle: str | None = None
    native: bool = False


@dataclass(frozen=True)
class MigrationResult:
    """The new savepoint and its operators."""

    savepoint: SavepointSummary
    operators: tuple[MigratedOperator, ...]
