"""The row of a source in a restore plan, and what is known when the row is judged. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from flinkish.connectors.offsets import Target
from flinkish.connectors.sources import NewSource, SavedSource, SourceAnswer
from flinkish.messages.plan import Check, Move
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions

SourceVerdict = Literal[
    "as-is",
    "moved",
    "new",
    "reset",
    "set",
    "dropped",
    "changed",
    "consent-needed",
    "incompatible",
]


@dataclass(frozen=True)
class FileMove:
    """Where the files of a file source were, and where they are: URLs of directories."""

    old: str
    new: str


@dataclass(frozen=True)
class SourcePlan:
    """The verdict on a source of a query, or on a saved position that no source of the query takes.

    Attributes
    ----------
    new
        None for a saved position that no source of the query takes.
    saved
        None for a source that no saved position is matched with.
    verdict
        With ``consent-needed`` the restore must not be carried out without the user's consent, with
        ``incompatible`` not at all. ``changed`` needs a warning. Positions with ``dropped`` count
        in ``non_restored_state``.
    reason
        An id for programs.
    text, advice
        A sentence, and what the user can do, if anything.
    lost_rows
        The maximum number of rows that are never read; None if unknown.
    checks
        Further findings about the source.
    repeated_rows
        The maximum number of rows that are read again; None if unknown, or if none are at stake.
    set_to
        The position that replaces the saved one (``--set-offsets``).
    moves
        The partitions of a Kafka source whose offset ``set_to`` changes.
    elsewhere
        Whether a file source has read files that do not lie where it reads now, so that Spark must
        not ask for the files of the newest batch.
    move
        How the paths in the log of a file source change.
    """

    new: NewSource | None
    saved: SavedSource | None
    verdict: SourceVerdict
    reason: str
    text: str
    advice: str = ""
    lost_rows: int | None = None
    checks: tuple[Check, ...] = ()
    repeated_rows: int | None = None
    set_to: str | None = None
    moves: tuple[Move, ...] = ()
    elsewhere: bool = False
    move: FileMove | None = None

    @property
    def blocks(self) -> bool:
        """Whether the restore must not continue, or not without the user's consent."""
        return self.verdict in ("consent-needed", "incompatible")

    @property
    def goes_back(self) -> bool:
        """Whether ``--set-offsets`` may let the source read rows again."""
        moved = self.saved is not None and self.set_to not in (None, self.saved.offset)
        return moved and self.repeated_rows != 0


@dataclass(frozen=True)
class SourceFacts:
    """The facts by which the sources of a query are judged; the mappings are by entry.

    ``answers`` are those of the systems that the sources read, ``options`` has what the user agreed
    to, and ``targets`` says where sources are moved (``--set-offsets``). ``saved`` are the sources
    of all queries of the saved job; None if not all are known.
    """

    answers: Mapping[int, SourceAnswer] = field(default_factory=dict)
    options: RestoreOptions = NO_OPTIONS
    targets: Mapping[int, Target] = field(default_factory=dict)
    saved: Sequence[SavedSource] | None = None


#: No system was asked, and the user has given no options.
NO_FACTS = SourceFacts()


def change_of(source: NewSource, saved: SavedSource) -> str:
    """Return a clause that says what a source reads now, and what it read before."""
    return f"{source.describe()} now reads {source.signature} instead of {saved.signature}"
