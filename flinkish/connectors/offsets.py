"""Other offsets for a source, on purpose (``--set-offsets``): which they are, and what they cost.

Pure. A source is moved to its earliest or latest offsets, to those of a time, or to offsets in its
own form. Only Kafka's form is understood: :func:`kafka_offsets` resolves what a broker has to
resolve, and counts what is skipped and what is read again, by differences of offsets, so the most
that there can be. Offsets of other sources are taken as given (:func:`other_offsets`), if they look
like the saved ones.

What a time means is as in Spark (``startingTimestamp``): the first row at or after it, and the end
of a partition that has none so late, as with ``startingOffsetsByTimestampStrategy=latest``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from flinkish.connectors.base import ACCEPT_LOST_ROWS
from flinkish.connectors.kafka.positions import OFFLINE
from flinkish.connectors.kafka.reading import (
    Available,
    BrokerAnswer,
    KafkaReading,
    Position,
    position_of,
)
from flinkish.connectors.sources import SET
from flinkish.errors import UsageError
from flinkish.messages.plan import Move

#: The user's agreement that rows are read again.
ACCEPT_REPEATED = "--accept-repeated-rows"
#: Where the position of a file source stays as it is, and its files have other paths.
MOVED = "moved"
#: Kafka's own words for the first and the next offset of a partition, in Spark's JSON.
EARLIEST, LATEST = -2, -1
_LARGEST = 2**63 - 1
_TIMESTAMP = "timestamp:"
_FORMS = (
    "earliest, latest, timestamp:TIME (ISO-8601 with a zone, or milliseconds), moved (of files), "
    "or JSON"
)
#: The partitions that a sentence names.
_SHOWN = 5


@dataclass(frozen=True)
class Target:
    """Where a source is moved to.

    Attributes
    ----------
    time_ms
        Milliseconds since the epoch, of a ``timestamp``.
    offsets
        Parsed JSON in the source's own form, of ``offsets``.
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
    """Return the target that a text names; UsageError when it names none."""
    word = text.strip()
    if word in ("earliest", "latest"):
        return Target("earliest" if word == "earliest" else "latest")
    if word == MOVED:
        return Target("moved")
    if word.startswith(_TIMESTAMP):
        return Target("timestamp", time_ms=_milliseconds(word.removeprefix(_TIMESTAMP).strip()))
    try:
        found = json.loads(word)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) or type(found) is int:
        return Target("offsets", offsets=found)
    shown = word if len(word) <= 60 else word[:60] + " ..."
    raise UsageError(
        f"{shown!r} does not specify offsets", hint=f"{SET} SOURCE=WHERE takes {_FORMS}"
    )


def _milliseconds(text: str) -> int:
    if re.fullmatch("[0-9]{1,15}", text):
        return int(text)
    zoned = text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text
    try:
        found = datetime.fromisoformat(zoned)
    except ValueError:
        found = None
    if found is None:
        hint = "write 2026-01-31T10:00:00Z, or milliseconds since 1970"
        raise UsageError(f"{text!r} is not a time", hint=hint)
    if found.tzinfo is None:
        raise UsageError(f"the time {text!r} has no time zone", hint=f"write {text}Z for UTC")
    since = found - datetime(1970, 1, 1, tzinfo=timezone.utc)
    if since.days < 0:
        raise UsageError(f"the time {text!r} is before 1970")
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


@dataclass(frozen=True)
class NewOffsets:
    """The offsets from which a source goes on.

    Attributes
    ----------
    offset
        The line of the offset log.
    moves
        What becomes of Kafka's partitions, of those alone that are moved.
    known
        Whether it is known how many rows are skipped and repeated.
    """

    offset: str
    moves: tuple[Move, ...] = ()
    known: bool = True

    @property
    def skipped(self) -> int:
        """The rows that are never read, at most."""
        return sum(move.skipped for move in self.moves)

    @property
    def repeated(self) -> int:
        """The rows that are read again, at most."""
        return sum(move.repeated for move in self.moves)

    def missing_consents(self, saved: str, *, lost: bool, repeated: bool) -> tuple[str, ...]:
        """Return the options that agree to what this costs and were not given.

        Parameters
        ----------
        saved
            The saved line of the offset log.
        lost, repeated
            Whether the user agrees that rows are skipped, and read again.
        """
        unknown = not self.known and self.offset != saved
        flags = [ACCEPT_LOST_ROWS] if (self.skipped or unknown) and not lost else []
        flags += [ACCEPT_REPEATED] if (self.repeated or unknown) and not repeated else []
        return tuple(flags)

    def cost(self) -> str:
        """Return what it costs as the end of a sentence."""
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
    """Why a source cannot be moved there: a stable id, a text after its name, an advice."""

    reason: str
    text: str
    advice: str = ""


def kafka_offsets(
    target: Target, reading: KafkaReading, position: Position, answer: BrokerAnswer
) -> NewOffsets | Unresolved:
    """Return the offsets of a Kafka source, or why there are none.

    Partitions that are not named in ``offsets`` keep their saved ones. The other targets are for
    all partitions that the source reads, and for no others.

    Parameters
    ----------
    position
        The saved one.
    answer
        What the broker has, and of a time the offsets at it.
    """
    topics = answer.topics
    has = {(t, n): each for t, found in (topics or {}).items() for n, each in found.items()}
    read = {place: each for place, each in has.items() if reading.reads(*place)}
    saved = {(t, n): at for t, found in position.items() for n, at in found.items()}
    after: dict[tuple[str, int], int]
    if target.how == "offsets":
        given = _given(target.offsets, reading, read, answer)
        if isinstance(given, Unresolved):
            return given
        after = {**saved, **given}
    elif target.how == MOVED:
        text = "has no files that could have been moved: it is a Kafka source"
        return Unresolved("set-offsets-form", text, f"omit {SET} for it")
    elif topics is None or (target.how == "timestamp" and answer.at is None):
        return _needs_broker(f"where {target.describe()} is", answer)
    elif not read:
        text = "cannot be moved: the broker has none of the topics that it reads"
        return Unresolved("set-offsets-topic", text, "create the topics first")
    else:
        after = {place: _at(target, place, each, answer) for place, each in read.items()}
    moves = [_move(place, saved.get(place), at, has.get(place)) for place, at in after.items()]
    gone = sorted(saved.keys() - after.keys())
    moves += [_left(place, saved[place], has.get(place)) for place in gone]
    moved = tuple(sorted((m for m in moves if m.before != m.after), key=_order))
    return NewOffsets(_log_line(after), moved)


def _given(
    offsets: Any,
    reading: KafkaReading,
    read: Mapping[tuple[str, int], Available],
    answer: BrokerAnswer,
) -> dict[tuple[str, int], int] | Unresolved:
    """Return the named offsets, with those that the broker has to resolve."""
    found = position_of(offsets)
    places = {(t, n): at for t, each in (found or {}).items() for n, at in each.items()}
    if not places or not EARLIEST <= min(places.values()) <= max(places.values()) <= _LARGEST:
        form = (
            'write {"TOPIC": {"PARTITION": OFFSET}}, with -2 for the earliest and -1 for the latest'
        )
        return Unresolved("set-offsets-form", "cannot be moved: these are not Kafka offsets", form)
    known = answer.topics is not None
    strange = [p for p in places if (p not in read if known else not reading.reads(*p))]
    if strange:
        names = _names(strange)
        there = "does not read it, or the broker does not have it" if known else "does not read it"
        text = f"cannot be moved in {names}: it {there}"
        return Unresolved("set-offsets-topic", text, "use partitions that it reads")
    if not known and min(places.values()) < 0:
        return _needs_broker("what -2 (earliest) and -1 (latest) are", answer)
    resolved: dict[tuple[str, int], int] = {}
    for place, at in places.items():
        has = read.get(place)
        if has is not None and at < 0:
            at = has.begin if at == EARLIEST else has.end
        if has is not None and not has.begin <= at <= has.end:
            return Unresolved(
                "set-offsets-range",
                f"cannot be moved to offset {at} of {_names([place])}: the broker has {has.begin} "
                f"to {has.end} there",
                "use an offset in that range; -2 is the earliest, -1 the latest",
            )
        resolved[place] = at
    return resolved


def _needs_broker(what: str, answer: BrokerAnswer) -> Unresolved:
    why = f" ({answer.why})" if answer.why else ""
    return Unresolved(
        "set-offsets-broker",
        f"cannot be moved: only the broker knows {what}, and it was not asked{why}",
        f"omit {OFFLINE}, make sure that the broker answers, or give offsets in a file",
    )


def _at(target: Target, place: tuple[str, int], has: Available, answer: BrokerAnswer) -> int:
    if target.how == "earliest":
        return has.begin
    topic, number = place
    at = (answer.at or {}).get(topic, {}).get(number) if target.how == "timestamp" else None
    return has.end if at is None else min(max(at, has.begin), has.end)


def _move(place: tuple[str, int], before: int | None, after: int, has: Available | None) -> Move:
    """Return the move of a partition; one that is new would be read from its beginning."""
    begin = 0 if has is None else has.begin
    start = begin if before is None else before
    skipped, repeated = max(0, after - start), max(0, start - after)
    if has is not None and start > has.end:  # made again, or cut: nobody knows what was read of it
        skipped, repeated = after - has.begin, has.end - after
    return Move(*place, before, after, skipped, repeated)


def _left(place: tuple[str, int], before: int, has: Available | None) -> Move:
    return Move(*place, before, None, 0 if has is None else max(0, has.end - before))


def _order(move: Move) -> tuple[str, int]:
    return move.topic, move.partition


def _log_line(places: Mapping[tuple[str, int], int]) -> str:
    """Return the line of the offset log as Spark writes it (``JsonUtils.partitionOffsets``)."""
    found: dict[str, dict[str, int]] = {}
    for (topic, number), at in sorted(places.items()):
        found.setdefault(topic, {})[str(number)] = at
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def other_offsets(target: Target, saved: str, kind: str) -> NewOffsets | Unresolved:
    """Return the offsets of a source of another kind: as given, if they look like the saved ones.

    Parameters
    ----------
    saved
        The saved line of the offset log.
    kind
        ``file``, ``rate`` ...
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
        found = json.loads(saved)
    except (ValueError, RecursionError):
        found = None
    if found is None or not _alike(found, target.offsets):
        text = f"cannot be moved: the offsets are not like the saved ones, {saved}"
        return Unresolved("set-offsets-form", text, "give offsets of that form")
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


def _names(places: list[tuple[str, int]]) -> str:
    return ", ".join(f"partition {n} of topic {topic}" for topic, n in sorted(places)[:_SHOWN])


def _where(moves: tuple[Move, ...], rows: Callable[[Move], int]) -> str:
    """Return how many rows by topic and partition, as far as a sentence can hold them."""
    found = [move for move in moves if rows(move)]
    shown = [f"{rows(m):,} of {m.topic}-{m.partition}, {_from(m)}" for m in found[:_SHOWN]]
    more = [f"and {len(found) - _SHOWN} more partitions"] if len(found) > _SHOWN else []
    return f" ({'; '.join([*shown, *more])})"


def _from(move: Move) -> str:
    before = "new" if move.before is None else str(move.before)
    return f"{before} to " + ("the end" if move.after is None else str(move.after))
