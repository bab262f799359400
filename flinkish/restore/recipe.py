"""What a new checkpoint is made of: the planner's decision, carried out by ``make_checkpoint``.

An *origin* is one query's cut (of a savepoint, or of a plain Spark checkpoint). Most checkpoints
have one origin and take everything as it is. Others take an operator's state under another ordinal,
leave one out, add an empty one, or bring the state and the source positions of several queries
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkish import storage


@dataclass(frozen=True)
class SourceCheckpoint:
    """The files of one query at one committed batch; ``files`` are relative to ``root``.

    ``held`` has the locations of those that lie elsewhere: in another savepoint that holds them
    for this one.
    """

    root: str
    files: tuple[str, ...]
    batch_id: int
    held: Mapping[str, str] = field(default_factory=dict)

    def at(self, path: str) -> str:
        """The location of one of its files."""
        return self.held.get(path) or storage.join(storage.locate(self.root), path)


@dataclass(frozen=True)
class TakenState:
    """The state ``state/<ordinal>`` of the origin with that index.

    ``new_schema``: without the files of its schema, for Spark to write them as the program has it.
    """

    origin: int
    ordinal: int
    new_schema: bool = False


@dataclass(frozen=True)
class EmptyState:
    """No state yet, at the version the others are at: Spark loads it as if it had emptied it.

    ``partitions`` is the number of its partition directories, ``stores`` are the names of the state
    stores in each (``default``, or a join's four). ``files`` are what Spark 4.x writes for an
    operator when it plans it (``_metadata/metadata``, ``0/_metadata/schema`` ...), relative to its
    directory, by content; none on 3.5. Absolute schema locations in them are put right.
    """

    partitions: int
    stores: tuple[str, ...] = ("default",)
    files: Mapping[str, bytes] | None = None


@dataclass(frozen=True)
class TakenSource:
    """A source's position: line ``entry`` (from 0) of the offsets, and ``sources/<directory>``.

    ``origin`` is the index of the query whose logs and files these are.
    ``target`` is the directory of the source in the new checkpoint.
    """

    origin: int
    entry: int
    directory: str
    target: str


@dataclass(frozen=True)
class FreshSource:
    """A source without a position (``-`` in the offset log): it starts afresh."""


@dataclass(frozen=True)
class Recipe:
    """How to make one query's checkpoint.

    Attributes
    ----------
    origins: the cuts that files are taken from.
    base: index of the origin whose logs, settings and query id are gone on with.
    states: by the new ordinal; None: all of the base's, as they are.
    sources: in the order of the new query's offset log; None: the base's, as they are.
    query_id: replaces the base's in ``metadata``; None: the query goes on as itself.
    rebase_to: the committed batch the new checkpoint is to stand at, for a sink that has later
        batches already; what is planned becomes the batch after it. Never before the origins'.
    pins: other values of settings that the base's offset log pins.
    """

    origins: tuple[SourceCheckpoint, ...]
    base: int = 0
    states: Mapping[int, TakenState | EmptyState] | None = None
    sources: tuple[TakenSource | FreshSource, ...] | None = None
    query_id: str | None = None
    rebase_to: int | None = None
    pins: Mapping[str, str] = field(default_factory=dict)

    @property
    def batch_id(self) -> int:
        """The committed batch the new checkpoint stands at.

        The newest of those origins that give state or positions (and the base), or ``rebase_to``:
        versions of state can be raised without touching what is in the files, not always lowered.
        """
        used = {self.base}
        for state in (self.states or {}).values():
            if isinstance(state, TakenState):
                used.add(state.origin)
        for source in self.sources or ():
            if isinstance(source, TakenSource):
                used.add(source.origin)
        newest = max(self.origins[index].batch_id for index in used)
        return newest if self.rebase_to is None else max(newest, self.rebase_to)
