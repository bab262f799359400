"""The verdict for each source of a restore, one row for each, for people and for decisions. Pure.

:mod:`.positions` decides which saved position a source takes. This module judges the match: whether
the source still reads what the position was taken in, and whether Spark can continue from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from flinkish.restore.plan.positions import SourceMatches, reset_flag
from flinkish.restore.source.restore_inputs import (
    NewQuery,
    NewSource,
    QueryKey,
    SavedQueryFacts,
    SavedSource,
)

SourceVerdict = Literal[
    "as-is",
    "moved",
    "new",
    "reset",
    "dropped",
    "changed",
    "consent-needed",
]

#: Sources whose data is only in the memory of the driver that read it. Spark's
#: ``TextSocketMicroBatchStream`` and ``MemoryStream`` slice a buffer that is empty in a new driver
#: and counted from 0: input up to the saved offset is silently skipped. Spark's other sources can
#: replay: files and Kafka are still there, ``rate`` and ``rate-micro-batch`` compute their rows
#: from the offsets.
NOT_REPLAYABLE = frozenset({"socket", "memory"})


@dataclass(frozen=True)
class SourcePlan:
    """The verdict for one source of the program, or for a saved one that the program does not read.

    Attributes
    ----------
    new
        None for a saved source that the program does not read.
    verdict
        ``consent-needed`` must not be executed without consent; ``changed`` needs a warning;
        ``dropped`` is counted by ``non_restored_state``.
    reason
        An id for programs.
    text, advice
        A sentence, and what the user can do, if anything.
    """

    new: NewSource | None
    saved: SavedSource | None
    verdict: SourceVerdict
    reason: str
    text: str
    advice: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the restore must not continue without the user's consent."""
        return self.verdict == "consent-needed"


def source_plans(
    new: NewQuery, own: SavedQueryFacts | None, matches: SourceMatches
) -> tuple[SourcePlan, ...]:
    """Return a row for each source of ``new``, in its order, then for those of ``own`` left behind.

    Parameters
    ----------
    own
        The saved query that continues as ``new``, or None.
    matches
        The decisions of :func:`~flinkish.restore.plan.positions.match_sources`.
    """
    sources = new.sources or ()
    paired = matches.matched
    if paired is None:
        known = own is None or own.sources is not None
        return tuple(_unpaired(source, own, known) for source in sources)
    key = None if own is None else own.key
    rows = [
        _row(source, old, key, reset=source.entry in matches.reset)
        for source, old in zip(sources, paired, strict=True)
    ]
    used = {(old.query, old.entry) for old in paired if old is not None}
    left = own.sources if own is not None else ()
    rows += [_dropped(s) for s in left or () if (s.query, s.entry) not in used]
    return tuple(rows)


def _unpaired(source: NewSource, own: SavedQueryFacts | None, known: bool) -> SourcePlan:
    """Return the row of an unmatched source: its query starts empty, or its sources are unknown."""
    if own is None or known:
        return _fresh(source)
    if kind_of(source.signature) in NOT_REPLAYABLE:
        return _not_replayable(source, None)
    text = f"{source.describe()}: what was read is not known, Spark pairs sources in their order"
    return SourcePlan(source, None, "as-is", "source-unknown", text)


def _fresh(source: NewSource) -> SourcePlan:
    return SourcePlan(source, None, "new", "new-source", f"{source.describe()} starts afresh")


def _dropped(saved: SavedSource) -> SourcePlan:
    return SourcePlan(
        None,
        saved,
        "dropped",
        "dropped-source",
        f"{saved.describe()} is taken by no source of this query",
        "read it again, or drop its position with -n (--allowNonRestoredState)",
    )


def _not_replayable(source: NewSource, saved: SavedSource | None) -> SourcePlan:
    return SourcePlan(
        source,
        saved,
        "consent-needed",
        "source-not-replayable",
        f"{source.describe()} cannot be read again from a position: Spark would skip input until "
        "it has counted up to the saved one",
        f"start it afresh and keep the state: {reset_flag(source)}",
    )


def _row(source: NewSource, saved: SavedSource | None, key: QueryKey, *, reset: bool) -> SourcePlan:
    if saved is None:
        return _fresh(source)
    if reset:
        text = f"{source.describe()} starts afresh, state is kept; given up: {saved.offset}"
        return SourcePlan(source, saved, "reset", "reset-source", text)
    now, before = kind_of(source.signature), kind_of(saved.signature)
    if saved.signature is not None and now != before:
        return SourcePlan(
            source,
            saved,
            "consent-needed",
            "source-kind",
            f"{source.describe()} reads {source.signature}, and read {saved.signature}: a position "
            f"of {before} means nothing to {now}",
            f"start it afresh and keep the state: {reset_flag(source)}",
        )
    if now in NOT_REPLAYABLE:
        return _not_replayable(source, saved)
    if saved.signature is not None and saved.signature != source.signature:
        return _other_input(source, saved, now)
    place = saved.query, saved.entry, saved.directory
    if place != (key, source.entry, source.directory):
        where = "" if saved.query in {key, None} else f" of query '{saved.query}'"
        text = f"{source.describe()} goes on from line {saved.entry} of the offset log{where}"
        return SourcePlan(source, saved, "moved", "moved-source", text)
    return SourcePlan(source, saved, "as-is", "same-source", f"{source.describe()} goes on")


def _other_input(source: NewSource, saved: SavedSource, kind: str) -> SourcePlan:
    """Return the row of a source of the same kind that reads something else now."""
    change = f"{source.describe()} reads {source.signature}, and read {saved.signature}"
    advice = f"or start it afresh and keep the state: {reset_flag(source)}"
    if kind == "file":
        return SourcePlan(
            source,
            saved,
            "changed",
            "path-changed",
            f"{change}: files are known by their paths, so every file there is new and will be "
            "read, copies of files that were read already too",
            f"make sure that only new files are there {advice}",
        )
    if kind == "kafka":
        gone = _topics_gone(source.signature, saved.offset)
        if gone:
            return SourcePlan(
                source,
                saved,
                "consent-needed",
                "topics-gone",
                f"{change}: the position is in {_words(gone)}, not read any more; Spark fails for "
                "it, or skips without a word with failOnDataLoss=false",
                f"subscribe to it as well, {advice}",
            )
        return SourcePlan(
            source,
            saved,
            "changed",
            "topics-changed",
            f"{change}: topics that are new are read from their beginning",
        )
    return SourcePlan(
        source,
        saved,
        "changed",
        "input-changed",
        f"{change}: it goes on from the old position {saved.offset} in it",
        f"make sure that this position means the same there, {advice}",
    )


def kind_of(signature: str | None) -> str:
    """Return ``kafka`` of ``kafka[subscribe=a]``; empty when not known."""
    return (signature or "").partition("[")[0].removesuffix("Source").lower()


def _topics_gone(signature: str, offset: str) -> list[str]:
    """Return the topics of a Kafka position that are not read now.

    A position is ``{"topic": {"partition": offset}}``. The result is empty if the topics cannot
    be compared: a pattern is Java's, and Python may not understand it. The forms are those of
    Spark's ``KafkaSourceOffset`` and ``ConsumerStrategy``; ``KafkaMicroBatchStream`` reports
    partitions of the start that are not in the end as lost data.
    """
    try:
        position = json.loads(offset)
    except ValueError:
        return []
    if not isinstance(position, dict):
        return []
    how, _, what = signature.partition("[")[2].removesuffix("]").partition("=")
    if how == "subscribe":
        wanted = {topic.strip() for topic in what.split(",")}
        return sorted(topic for topic in position if topic not in wanted)
    if how == "subscribePattern":
        try:
            pattern = re.compile(what)
        except re.error:
            return []
        return sorted(topic for topic in position if not pattern.fullmatch(topic))
    if how == "assign":
        try:
            assigned = json.loads(what)
        except ValueError:
            return []
        return sorted(
            topic
            for topic, partitions in position.items()
            if {int(n) for n in partitions} - {int(n) for n in assigned.get(topic, ())}
        )
    return []


def _words(topics: Sequence[str]) -> str:
    return ("topic " if len(topics) == 1 else "topics ") + ", ".join(topics)
