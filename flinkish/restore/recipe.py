"""The recipe of a new checkpoint: the planner's decision, carried out by ``make_checkpoint``.

An *origin* is one query's cut (in a savepoint, or of a Spark checkpoint). Most new checkpoints have
one origin and take everything from it unchanged. Others take an operator's state under another
ordinal, leave state out, add empty state, or combine state and source positions of several queries.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from flinkish import storage
from flinkish.checkpoint.format.names import OFFSETS
from flinkish.connectors.path_map import NO_MAP, PathMap
from flinkish.savepoint.format.digests import FileTable


@dataclass(frozen=True)
class OriginCheckpoint:
    """The files of one query at one committed batch.

    Attributes
    ----------
    files
        Paths relative to ``root``.
    held
        The locations, by path, of files that another savepoint holds for this one.
    recorded
        The sizes and digests of the files in a savepoint; a checkpoint has none.
    planned_state
        The paths of the state files that the planned batch has written, if it had written all of
        them when the query was killed before the commit. They are not among ``files``.
    paths
        How the paths in the logs of file sources are mapped when these logs are read.
    """

    root: str
    files: tuple[str, ...]
    batch_id: int
    held: Mapping[str, str] = field(default_factory=dict)
    recorded: FileTable = field(default_factory=FileTable, repr=False)
    planned_state: tuple[str, ...] = ()
    paths: PathMap = NO_MAP

    def at(self, path: str) -> str:
        """Return the location of one of its files."""
        return self.held.get(path) or storage.join(storage.locate(self.root), path)


@dataclass(frozen=True)
class TakenState:
    """The state ``state/<ordinal>`` of the origin with the index ``origin``.

    Attributes
    ----------
    new_schema
        Whether the schema files are left out, so that Spark writes the schemas of the program.
    kind
        Spark's name for the operator that takes the state, if that operator is of another kind.
    """

    origin: int
    ordinal: int
    new_schema: bool = False
    kind: str | None = None


@dataclass(frozen=True)
class EmptyState:
    """The state of an operator without rows, at the same version as the other operators' state.

    Spark loads it as state that it has emptied itself.

    Attributes
    ----------
    partitions
        The number of partition directories.
    stores
        The names of the state stores in each partition (``default``, or a join's four).
    files
        The contents of the files that Spark 4.x writes when it plans an operator
        (``_metadata/metadata``, ``0/_metadata/schema`` ...), by path relative to the operator's
        directory; None on 3.5. Absolute schema locations in them are rewritten.
    is_keyed
        Whether Spark spreads its rows over partitions; False if that is unknown.
    """

    partitions: int
    stores: tuple[str, ...] = ("default",)
    files: Mapping[str, bytes] | None = None
    is_keyed: bool = False


@dataclass(frozen=True)
class TakenSource:
    """A source's position, taken from an origin.

    Attributes
    ----------
    origin
        The index of the origin whose logs and files these are.
    entry
        The line of the offset log, from 0.
    directory
        The directory below ``sources/`` in the origin.
    target
        The directory below ``sources/`` in the new checkpoint.
    offset
        The new position (``--set-offsets``), with which the source has no part in a planned batch.
    move
        The URLs of the old and the new directory, if the files of a file source were moved; the log
        of the source gets the new paths.
    """

    origin: int
    entry: int
    directory: str
    target: str
    offset: str | None = None
    move: tuple[str, str] | None = None


@dataclass(frozen=True)
class FreshSource:
    """A source without a saved position (``-`` in the offset log): it starts as in a new query."""


@dataclass(frozen=True)
class Recipe:
    """The instructions for one query's checkpoint.

    Attributes
    ----------
    origins
        The cuts that files are taken from.
    base
        The index of the origin whose logs, settings and query id continue.
    states
        The states by the new ordinal; None for all of the base's, unchanged.
    sources
        The sources in the order of the new query's offset log; None for the base's, unchanged.
    query_id
        The query id that replaces the base's in ``metadata``; None to keep the base's.
    rebase_to
        The committed batch of the new checkpoint, for a sink that already has later batches. The
        planned batch becomes the next one. A batch before those of the origins has no effect.
    pins
        New values of settings that the base's offset log pins.
    takes_planned_state
        Whether the state that the planned batch has written is taken, as its sink skips that batch.
    """

    origins: tuple[OriginCheckpoint, ...]
    base: int = 0
    states: Mapping[int, TakenState | EmptyState] | None = None
    sources: tuple[TakenSource | FreshSource, ...] | None = None
    query_id: str | None = None
    rebase_to: int | None = None
    pins: Mapping[str, str] = field(default_factory=dict)
    takes_planned_state: bool = False

    def with_query_id(self, *, keep: bool) -> Recipe:
        """Return the recipe with the base's query id, or with a new one."""
        return replace(self, query_id=None if keep else str(uuid.uuid4()))

    @property
    def can_take_planned_state(self) -> bool:
        """Whether the base has its planned batch's state, and states, sources and batch stay."""
        base = self.origins[self.base]
        same = self.states is None and self.sources is None
        return bool(base.planned_state) and same and self.batch_id == base.batch_id

    @property
    def batch_id(self) -> int:
        """The committed batch of the new checkpoint.

        It is the newest batch of the origins that give state or positions (and of the base), or
        ``rebase_to`` if that is later. Renaming the files raises state to a later version, but
        cannot always lower the version.
        """
        newest = max(self.origins[index].batch_id for index in self.used)
        return newest if self.rebase_to is None else max(newest, self.rebase_to)

    @property
    def used(self) -> set[int]:
        """The base, and the origins that give state or positions."""
        taken = [*(self.states or {}).values(), *(self.sources or ())]
        return {self.base, *(t.origin for t in taken if isinstance(t, TakenState | TakenSource))}

    @property
    def watermark_givers(self) -> list[int]:
        """The origins whose watermarks count: those that give state, or positions that are kept.

        A position that ``--set-offsets`` replaces does not count.
        """
        givers = {s.origin for s in (self.states or {}).values() if isinstance(s, TakenState)}
        taken = [s for s in self.sources or () if isinstance(s, TakenSource)]
        givers |= {s.origin for s in taken if s.offset is None}
        own = {self.base} if self.states is None or self.sources is None else set()
        return sorted(givers | own)

    @property
    def keeps_planned(self) -> bool:
        """Whether a source keeps a position of the base; a planned batch of the base is then kept.

        A position that ``--set-offsets`` replaces does not count.
        """
        return self.sources is None or bool(self._keeping)

    @property
    def _keeping(self) -> set[int]:
        """The entries of the base's sources that continue from their own positions."""
        taken = [s for s in self.sources or () if isinstance(s, TakenSource)]
        return {s.entry for s in taken if s.origin == self.base and s.offset is None}

    @property
    def moves_source(self) -> bool:
        """Whether ``--set-offsets`` replaces a position of the base."""
        taken = [s for s in self.sources or () if isinstance(s, TakenSource)]
        return any(s.origin == self.base and s.offset is not None for s in taken)

    @property
    def has_planned(self) -> bool:
        """Whether the base has a batch that is planned, and not committed."""
        base = self.origins[self.base]
        return f"{OFFSETS}/{base.batch_id + 1}" in base.files

    @property
    def replays_planned(self) -> bool:
        """Whether the new checkpoint has a planned batch, which Spark replays as the next one.

        That batch has no input that the base's planned batch lacks, so a sink that already has the
        base's has all of the input (:func:`~flinkish.restore.plan.sinks.judge_sink`).
        """
        return self.has_planned and self.keeps_planned

    def repeats_planned(self, entries: Iterable[int]) -> bool:
        """Return whether the new checkpoint's planned batch has the whole input of the base's.

        ``entries`` are the lines of all sources of the base in its offset log. A source that is
        reset, gets other offsets or is not read any more has no part in the new planned batch.
        """
        return self.replays_planned and (self.sources is None or self._keeping.issuperset(entries))
