"""Both sides of a restore as plain data: what a savepoint offers, what a starting query asks for.

A saved query is known by its name; None is the one query of a plain Spark checkpoint, which has
none. Operator ids are 32 hex digits, and None in checkpoints that flinkish never managed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.checkpoint.operators import StoreInfo
from flinkish.operators.identity import UNKNOWN, Identified, OperatorIdentity
from flinkish.operators.meaning import StateSemantics
from flinkish.units import size_text

#: Key of a saved query.
QueryKey = str | None


@dataclass(frozen=True)
class SavedOperator(Identified):
    """One stateful operator of a saved query; ``rows`` and ``kind`` are None where not known.

    ``stores`` are its state stores with their schemas, ``meaning`` what their columns are.
    ``rewritten`` says why they are not the savepoint's, but what the engine will have made of them.
    """

    query: QueryKey
    ordinal: int
    kind: str | None
    partitions: int
    bytes: int
    rows: int | None = None
    identity: OperatorIdentity = UNKNOWN
    stores: tuple[StoreInfo, ...] = ()
    meaning: StateSemantics | None = None
    rewritten: str = ""

    @property
    def movable(self) -> bool:
        """Whether another query of the job may take it: generated ids mean something in their own
        query only."""
        return self.uid is not None

    def describe(self) -> str:
        """For messages: ``uid 'dedup' (dedupe, 120 rows, 4.5 KiB, query 'q')``."""
        if self.uid is not None:
            name = f"uid '{self.uid}'"
        elif self.operator_id_v3 is not None:
            name = f"operator {self.operator_id_v3} without uid"
        else:
            name = f"operator {self.ordinal} without uid"
        rows = "rows unknown" if self.rows is None else f"{self.rows:,} rows"
        query = "" if self.query is None else f", query '{self.query}'"
        return f"{name} ({self.kind or 'kind unknown'}, {rows}, {size_text(self.bytes)}{query})"


@dataclass(frozen=True)
class SavedSource(Identified):
    """The position of one source: line ``entry`` of the offset log, directory below ``sources/``.

    ``offset`` is the line itself, ``signature`` says what it reads, ``inputs`` through which input
    it reaches operators that have several: pairs of ordinal and input (a join's left is 0).
    """

    query: QueryKey
    entry: int
    directory: str
    offset: str
    identity: OperatorIdentity = UNKNOWN
    signature: str | None = None
    inputs: tuple[tuple[int, int], ...] = ()

    def describe(self) -> str:
        """For messages: ``the position of source 'flights' (query 'q')``."""
        name = repr(self.uid) if self.uid is not None else (self.signature or f"{self.entry}")
        return f"the position of source {name}" + (
            "" if self.query is None else f" (query '{self.query}')"
        )


@dataclass(frozen=True)
class SavedQueryFacts:
    """One query of a savepoint; ``sources`` is None where it does not say what they are.

    ``sink`` is what the savepoint says of the sink (``format``, ``path``, ``output_mode`` ...),
    ``pins`` are the settings of its offset log, ``watermark_ms`` is 0 or None without one.
    """

    key: QueryKey
    batch_id: int
    operators: tuple[SavedOperator, ...] = ()
    sources: tuple[SavedSource, ...] | None = None
    sink: Mapping[str, Any] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    watermark_ms: int | None = None

    def describe(self) -> str:
        """For messages."""
        return "the checkpoint's query" if self.key is None else f"query '{self.key}'"


@dataclass(frozen=True)
class NewOperator:
    """One stateful operator of a starting query.

    ``lookup_ids`` are the ids to look for under the hasher asked for, first match wins: a uid hash,
    then its own id. ``generated_id`` is the id it would have without its uid (v3). ``name`` is for
    people. ``partitions``, ``stores`` and ``meaning``: the state that it will keep.
    """

    ordinal: int
    kind: str
    name: str
    lookup_ids: tuple[str, ...]
    generated_id: str
    uid: str | None = None
    partitions: int = 0
    stores: tuple[StoreInfo, ...] = ()
    meaning: StateSemantics = field(default_factory=StateSemantics)

    def describe(self) -> str:
        """For messages: ``uid 'dedup' (dedupe)``."""
        name = f"uid '{self.uid}'" if self.uid is not None else f'"{self.name}" without uid'
        return f"{name} ({self.kind})"


@dataclass(frozen=True)
class NewSource:
    """One source of a starting query; ``feeds`` are the ordinals of the operators behind it,
    ``inputs`` as in :class:`SavedSource`."""

    entry: int
    directory: str
    signature: str
    lookup_ids: tuple[str, ...]
    uid: str | None = None
    feeds: tuple[int, ...] = ()
    inputs: tuple[tuple[int, int], ...] = ()

    def describe(self) -> str:
        """For messages."""
        return f"source '{self.uid}'" if self.uid is not None else f"source {self.signature}"


@dataclass(frozen=True)
class NewSink:
    """Where a starting query writes.

    ``path`` as the program gives it; ``output_mode`` is None where it does not. ``problem`` says
    why what it does cannot be savepointed, with what to do, or is None.
    """

    format: str | None = None
    path: str | None = None
    table: str | None = None
    output_mode: str | None = None
    problem: tuple[str, str] | None = None


@dataclass(frozen=True)
class NewQuery:
    """A starting query; None for ``operators`` and ``sources``: its plan could not be read.

    ``settings`` are the session's values of the settings that the savepoint pins.
    """

    name: str
    operators: tuple[NewOperator, ...] | None = ()
    sources: tuple[NewSource, ...] | None = ()
    sink: NewSink = field(default_factory=NewSink)
    settings: Mapping[str, str] = field(default_factory=dict)
