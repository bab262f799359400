"""Both sides of a restore as plain data: the contents of a savepoint, and the starting queries.

The key of a saved query is its name; None is that of the one query of a plain Spark checkpoint,
without a name. Operator ids are 32 hex digits; None in checkpoints that flinkish never managed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.connectors.sources import NewSource, QueryKey, SavedSource, within
from flinkish.operators.identity import PlannedNode
from flinkish.savepoint.format.contents import OperatorRecord
from flinkish.state.serializers import TypeSerializer
from flinkish.state.snapshots import DEFAULT_MODULES
from flinkish.units import size_text


@dataclass(frozen=True)
class SavedOperator(OperatorRecord):
    """One stateful operator of a saved query.

    Attributes
    ----------
    rewritten
        Why the engine rewrites the state, or empty; ``state`` has the stores after the rewrite.
    regrouped
        Whether the rewrite also regroups the rows, so that columns cannot change in the same pass.
    """

    query: QueryKey
    rewritten: str = ""
    regrouped: bool = False

    @property
    def movable(self) -> bool:
        """Whether another query of the job may take its state.

        A move requires a uid, because a generated id is meaningful only in its own query.
        """
        return self.uid is not None

    def describe(self) -> str:
        """Return a text for messages: ``uid 'dedup' (dedupe, 120 rows, 4.5 KiB, query 'q')``."""
        if self.uid is not None:
            name = f"uid '{self.uid}'"
        elif self.operator_id_v3 is not None:
            name = f"operator {self.operator_id_v3} without uid"
        else:
            name = f"operator {self.state.ordinal} without uid"
        rows = "rows unknown" if self.facts.rows is None else f"{self.facts.rows:,} rows"
        query = "" if self.query is None else f", query '{self.query}'"
        kind, size = self.state.kind or "kind unknown", size_text(self.state.bytes)
        return f"{name} ({kind}, {rows}, {size}{query})"


@dataclass(frozen=True)
class SavedQueryFacts:
    """One query of a savepoint.

    Attributes
    ----------
    sources
        None if the savepoint does not describe them.
    sink
        The savepoint's description of the sink (``format``, ``path``, ``output_mode`` ...).
    pins
        The settings in its offset log.
    watermark_ms
        The watermark in milliseconds; 0 or None without one.
    """

    key: QueryKey
    batch_id: int
    operators: tuple[SavedOperator, ...] = ()
    sources: tuple[SavedSource, ...] | None = None
    sink: Mapping[str, Any] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    watermark_ms: int | None = None

    def describe(self) -> str:
        """Return a text for messages."""
        return "the checkpoint's query" if self.key is None else f"query '{self.key}'"


@dataclass(frozen=True)
class NewOperator:
    """One stateful operator of a starting query.

    Attributes
    ----------
    name
        A name for messages.
    lookup_ids
        The ids to look for under the selected hasher: a uid hash, if any, and then the operator's
        own id. The first that is found counts.
    generated_id
        The id that it would have without its uid (v3).
    serializers
        The program's serializers of its typed states, by the name of their column.
    query
        The name of the query.
    """

    node: PlannedNode
    name: str
    lookup_ids: tuple[str, ...]
    generated_id: str
    uid: str | None = None
    serializers: Mapping[str, TypeSerializer[Any]] = field(default_factory=dict)
    query: str = ""

    def answers_to(self, name: str) -> bool:
        """Return whether ``name`` is its uid, name or id, with or without ``QUERY/`` before it."""
        names = {name, within(name, self.query) or name}
        return not names.isdisjoint((self.uid, self.name, *self.lookup_ids))

    def describe(self) -> str:
        """Return a text for messages: ``uid 'dedup' (dedupe)``."""
        name = f"uid '{self.uid}'" if self.uid is not None else f'"{self.name}" without uid'
        return f"{name} ({self.node.kind})"


@dataclass(frozen=True)
class NewSink:
    """The sink of a starting query.

    Attributes
    ----------
    format, path
        The format is a short name; if the program gives none, it is the session's default. The path
        is a URL or an absolute local path. For a table, both are its catalog's, if any.
    output_mode
        None if the program does not set it.
    problem
        Why the query cannot be savepointed with this sink, and the advice; None if it can.
    unreadable
        Why its target could not be determined; empty if it could.
    place
        What it writes to, in the spelling of the registry's claims; None if unknown.
    """

    format: str | None = None
    path: str | None = None
    table: str | None = None
    output_mode: str | None = None
    problem: tuple[str, str] | None = None
    unreadable: str = ""
    place: str | None = None


@dataclass(frozen=True)
class NewQuery:
    """A starting query.

    Attributes
    ----------
    operators, sources
        None if the query's plan could not be read.
    settings
        The session's values of the settings that the savepoint pins.
    modules
        The modules whose classes a snapshot of typed state may name.
    checkpoint
        The checkpoint location that the program gives the query or the session, or None.
    session
        The session that starts it, to look up tables and brokers; the planner only passes it on.
    """

    name: str
    operators: tuple[NewOperator, ...] | None = ()
    sources: tuple[NewSource, ...] | None = ()
    sink: NewSink = field(default_factory=NewSink)
    settings: Mapping[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = DEFAULT_MODULES
    checkpoint: str | None = None
    session: Any = field(default=None, compare=False, repr=False)
