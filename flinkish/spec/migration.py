"""What becomes of a savepoint's state, and what it came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.spec.savepoints import SavepointRecord, SavepointResult


@dataclass(frozen=True)
class NewSchema:
    """The Avro schema that the values of one state get.

    Attributes
    ----------
    query, ordinal
        Whose state it is.
    state
        Which of its states; "" where it has one.
    schema
        Avro's JSON.
    name
        What was asked for, ``UID[/STATE]``.
    """

    query: str
    ordinal: int
    state: str
    schema: Any
    name: str


@dataclass(frozen=True)
class Migration:
    """What a savepoint is to become; None stays as it is.

    Attributes
    ----------
    path
        The savepoint.
    target
        The directory that gets the new one.
    partitions
        State partitions (``-p``).
    backend
        ``hdfs`` or ``rocksdb``.
    compression
        Codec of the state files.
    checkpoint_format
        Spark's, 1 or 2: 2 names state files by unique ids.
    formats
        State format versions by the settings that pin them.
    schemas
        Of values.
    owner
        Who does it: ``user@host``.
    type
        ``native`` or ``canonical``.
    instead
        The new one stands for the old one, which is only on the way: it has the same trigger and
        origin.
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
    """What the state of one operator came to: bytes, rows, and their digests in hexadecimal."""

    query: str
    uid: str | None
    ordinal: int
    bytes: int
    rows: int
    keys: str
    content: str


@dataclass(frozen=True)
class MigrationResult:
    """The new savepoint, what the registry keeps of it, and its operators."""

    savepoint: SavepointResult
    record: SavepointRecord
    operators: tuple[MigratedOperator, ...]
