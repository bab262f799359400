"""``--set-offsets``: the offsets to which a source is moved, and the rows that this costs. Pure.

A source is moved to its earliest or latest offsets, to those of a time, or to explicit offsets in
its own form. Kafka's connector resolves these targets. For any other format only explicit offsets
are possible, if they look like the saved ones (:func:`other_offsets`). A file source can
also keep its position although its files were moved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from flinkish.checkpoint.format.logs import log_offset
from flinkish.config.values import parse_time
from flinkish.connectors.sources import ACCEPT_LOST_ROWS, SET
from flinkish.errors import UsageError
from flinkish.messages.plan import Move

#: The option by which the user agrees that rows are read again.
ACCEPT_REPEATED = "--accept-repeated-rows"
#: The target of a file source that keeps its position although its files have other paths now.
MOVED = "moved"
_TIMESTAMP = "timestamp:"
_FORMS = (
    "earliest, latest, timestamp:TIME (ISO-8601 with a zone, or milliseconds), moved (of files), "
    "or JSON"
)
#: Maximum number of partitions that a message names.
_SHOWN = 5


@dataclass(frozen=True)
class Target:
    """Where a source is moved to.

    Attributes
    ----------
    time_ms
        The milliseconds since the epoch, if ``how`` is ``timestamp``.
    offsets
        Parsed JSON in the source's own form, if ``how`` is ``offsets``.
    """

    how: Literal["earliest", "latest", "timestamp", "offsets", "moved"]
    time_ms: int | None = None
    offsets: Any = None

    @property
    def text(self) -> str:
        """The target in the form that :func:`parse_target` reads."""
        if self.how == "timestamp":
            return f"{_TIMESTAMP}{self.time_ms}"
        if self.how == "offsets":
            return json.dumps(self.offsets, separators=(",", ":"))
        return self.how

    def describe(self) -> str:
        """Return a text for messages."""
        if self.time_ms is not None:
            seconds, rest = divmod(self.time_ms, 1000)
            try:
                at = datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None)
            except (OSError, OverflowError, ValueError):
                return f"time {self.time_ms} ms"
            return f"{at.isoformat()}" + (f".{rest:03}Z" if rest else "Z")
        return "the offsets that were given" if self.how == "offsets" else self.how


def parse_target(text: str) -> Target:
    """Return the target that a text names; raise UsageError if it names no valid one."""
    word = text.strip()
    if word in ("earliest", "latest"):
        return Target("earliest" if word == "earliest" else "latest")
    if word == MOVED:
        return Target("moved")
    if word.startswith(_TIMESTAMP):
        return Target("timestamp", time_ms=_milliseconds(word.removeprefix(_TIMESTAMP).strip()))
    try:
        parsed = json.loads(word)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict) or type(parsed) is int:
        return Target("offsets", offsets=parsed)
    excerpt = word if len(word) <= 60 else word[:60] + " ..."
    raise UsageError(
        f"{excerpt!r} does not specify offsets", hint=f"{SET} SOURCE=WHERE takes {_FORMS}"
    )


def _milliseconds(text: str) -> int:
    if re.fullmatch("[0-9]{1,15}", text):
        return int(text)
    try:
        moment = parse_time(text)
    except ValueError:
        moment = None
    if moment is None:
        hint = "write 2026-01-31T10:00:00Z, or milliseconds since 1970"
        raise UsageError(f"{text!r} is not a time", hint=hint)
    if moment.tzinfo is None:
        raise UsageError(f"the time {text!r} has no time zone", hint=f"write {text}Z for UTC")
    since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    if since.days < 0:
        raise UsageError(f"the time {text!r} is before 1970")
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


@dataclass(frozen=True)
class NewOffsets:
    """The offsets from which a source continues.

    Attributes
    ----------
    offset
        The line of the offset log.
    moves
        The partitions of a Kafka source whose offset changes.
    known
        Whether it is known how many rows are skipped and repeated.
    unnoticed
        How many of the skipped rows the findings about the new offsets count as lost, too.
    """

    offset: str
    moves: tuple[Move, ...] = ()
    known: bool = True
    unnoticed: int = 0

    @property
    def skipped(self) -> int:
        """How many rows are never read, at most; 0 if the number is not :attr:`known`."""
        return sum(move.skipped for move in self.moves)

    @property
    def repeated(self) -> int:
        """How many rows are read again, at most; 0 if the number is not :attr:`known`."""
        return sum(move.repeated for move in self.moves)

    def missing_consents(self, saved: str, *, lost: bool, repeated: bool) -> tuple[str, ...]:
        """Return the options with which the user still has to agree to lost or repeated rows.

        ``saved`` is the line of the offset log. ``lost`` and ``repeated`` say whether the user
        agrees that rows are skipped, and read again.
        """
        unknown = not self.known and self.offset != saved
        flags = [ACCEPT_LOST_ROWS] if (self.skipped or unknown) and not lost else []
        flags += [ACCEPT_REPEATED] if (self.repeated or unknown) and not repeated else []
        return tuple(flags)

    def cost(self) -> str:
        """Return how many rows are skipped or read again, as the end of a sentence."""
        if not self.known:
            return "the number of rows skipped or read again is unknown"
        if not self.moves:
            return "it is already there"
        parts = [
            f"{_rows(count)} {what}" + _where(self.moves, key)
            for count, what, key in (
                (self.skipped, "never read", lambda move: move.skipped),
                (self.repeated, "read again", lambda move: move.repeated),
            )
            if count
        ]
        return "; ".join(parts) or "no row is skipped or read again"


@dataclass(frozen=True)
class Unresolved:
    """Why a source cannot be moved: a stable id, a text to follow the source's name, and advice."""

    reason: str
    text: str
    advice: str = ""


def other_offsets(target: Target, saved: str, kind: str) -> NewOffsets | Unresolved:
    """Return the offsets to which a source other than Kafka's is moved, or why it cannot be moved.

    The target must be explicit offsets that look like the saved ones; for a file source, its log
    must have them. ``saved`` is the line of the offset log, ``kind`` the format (``file``, ``rate``
    ...).
    """
    if target.how == MOVED:
        text = f"has no files that could have been moved: it is a {kind} source"
        return Unresolved("set-offsets-form", text, f"omit {SET} for it")
    if target.how != "offsets":
        text = (
            f"cannot be moved to {target.describe()}: that is for Kafka, and this is a {kind} "
            "source"
        )
        advice = f"give offsets in the form of the saved ones: {saved}"
        return Unresolved("set-offsets-form", text, advice)
    try:
        parsed = json.loads(saved)
    except (ValueError, RecursionError):
        parsed = None
    if parsed is None or not _alike(parsed, target.offsets):
        text = f"cannot be moved: the offsets are not like the saved ones, {saved}"
        return Unresolved("set-offsets-form", text, "give offsets of that form")
    end, place = log_offset(saved), log_offset(target.text)
    if end is not None and place is not None and not -1 <= place <= end:
        text = f"cannot be moved to log offset {place}: its log of files has -1 to {end}"
        return Unresolved("set-offsets-range", text, "give a log offset that it has")
    return NewOffsets(target.text, known=False)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two JSON values have the same keys, and values of the same types."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    return True


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"up to {count:,} rows"


def _where(moves: tuple[Move, ...], rows: Callable[[Move], int]) -> str:
    """Return the numbers of rows of the first few partitions, in brackets."""
    affected = [move for move in moves if rows(move)]
    texts = [f"{rows(m):,} of {m.topic}-{m.partition}, {_from(m)}" for m in affected[:_SHOWN]]
    more = [f"and {len(affected) - _SHOWN} more partitions"] if len(affected) > _SHOWN else []
    return f" ({'; '.join([*texts, *more])})"


def _from(move: Move) -> str:
    before = "new" if move.before is None else str(move.before)
    return f"{before} to " + ("the end" if move.after is None else str(move.after))
