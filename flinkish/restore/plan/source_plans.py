"""The verdict for each source of a restore, one row for each, for people and for decisions. Pure.

:mod:`.positions` decides which saved position a source takes. This module judges the match: whether
the source still reads what the position was taken in, and whether Spark can continue from it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from flinkish.connectors.files.positions import judge_unknown
from flinkish.connectors.source_plan import NO_FACTS, BrokerFacts, SourcePlan, change_of
from flinkish.connectors.sources import NewSource, QueryKey, SavedSource, kind_of, reset_flag
from flinkish.restore.plan.positions import SourceMatches
from flinkish.restore.plan.source_answers import answered, without_offsets
from flinkish.restore.source.restore_inputs import NewQuery, SavedQueryFacts

#: Sources whose data is only in the memory of the driver that read it. Spark's
#: ``TextSocketMicroBatchStream`` and ``MemoryStream`` slice a buffer that is empty in a new driver
#: and counted from 0: input up to the saved offset is silently skipped. Spark's other sources can
#: replay: files and Kafka are still there, ``rate`` and ``rate-micro-batch`` compute their rows
#: from the offsets.
NOT_REPLAYABLE = frozenset({"socket", "memory"})


def source_plans(
    new: NewQuery,
    own: SavedQueryFacts | None,
    matches: SourceMatches,
    facts: BrokerFacts = NO_FACTS,
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
        return tuple(
            without_offsets(source, None)
            if source.entry in facts.targets
            else judge_unknown(_unpaired(source, own, known), facts.files.get(source.entry), facts)
            for source in sources
        )
    key = None if own is None else own.key
    rows = [
        answered(_row(source, old, key, reset=source.entry in matches.reset), facts)
        for source, old in zip(sources, paired, strict=True)
    ]
    used = {(old.query, old.entry) for old in paired if old is not None}
    left = own.sources if own is not None else ()
    fresh = [source for source, old in zip(sources, paired, strict=True) if old is None]
    rows += [_dropped(s, fresh) for s in left or () if (s.query, s.entry) not in used]
    return tuple(rows)


def _unpaired(source: NewSource, own: SavedQueryFacts | None, known: bool) -> SourcePlan:
    """Return the row of an unmatched source: its query starts empty, or its sources are unknown."""
    if own is None or known:
        return _fresh(source)
    if kind_of(source.signature) in NOT_REPLAYABLE:
        return _not_replayable(source, None)
    text = f"{source.describe()}: what was read is unknown; Spark matches sources in order"
    return SourcePlan(source, None, "as-is", "source-unknown", text)


def _fresh(source: NewSource) -> SourcePlan:
    return SourcePlan(source, None, "new", "new-source", f"{source.describe()} starts from scratch")


def _dropped(saved: SavedSource, fresh: Sequence[NewSource] = ()) -> SourcePlan:
    """Return the row of a position that nothing takes; ``fresh``: the sources without one."""
    kind = kind_of(saved.signature)
    renamed = [s.uid for s in fresh if s.uid and saved.uid and kind_of(s.signature) == kind]
    maps = [shlex.quote(f"{saved.uid}={name}") for name in renamed]
    advice = (
        f"if the source was renamed, resume from its position: --uid-map {maps[0]}; or "
        if maps
        else ""
    )
    return SourcePlan(
        None,
        saved,
        "dropped",
        "dropped-source",
        f"{saved.describe()} is not taken by any source of this query",
        advice + "read it again, or drop its position with -n (--allowNonRestoredState)",
    )


def _not_replayable(source: NewSource, saved: SavedSource | None) -> SourcePlan:
    return SourcePlan(
        source,
        saved,
        "consent-needed",
        "source-not-replayable",
        f"{source.describe()} cannot be replayed: Spark would skip input until it has "
        "counted up to the saved position",
        f"start it from scratch and keep the state: {reset_flag(source)}",
    )


def _row(source: NewSource, saved: SavedSource | None, key: QueryKey, *, reset: bool) -> SourcePlan:
    if saved is None:
        return _fresh(source)
    if reset:
        text = (
            f"{source.describe()} starts from scratch, state is kept; discarded position: "
            f"{saved.offset}"
        )
        return SourcePlan(source, saved, "reset", "reset-source", text)
    now, before = kind_of(source.signature), kind_of(saved.signature)
    if saved.signature is not None and now != before:
        return SourcePlan(
            source,
            saved,
            "consent-needed",
            "source-kind",
            f"{source.describe()} now reads {source.signature} instead of "
            f"{saved.signature}: a position of {before} is meaningless for {now}",
            f"start it from scratch and keep the state: {reset_flag(source)}",
        )
    if now in NOT_REPLAYABLE:
        return _not_replayable(source, saved)
    if saved.signature is not None and saved.signature != source.signature:
        return _other_input(source, saved, now)
    place = saved.query, saved.entry, saved.directory
    if place != (key, source.entry, source.directory):
        where = "" if saved.query in {key, None} else f" of query '{saved.query}'"
        text = f"{source.describe()} resumes from line {saved.entry} of the offset log{where}"
        return SourcePlan(source, saved, "moved", "moved-source", text)
    return SourcePlan(source, saved, "as-is", "same-source", f"{source.describe()} resumes")


def _other_input(source: NewSource, saved: SavedSource, kind: str) -> SourcePlan:
    """Return the row of a source of the same kind that reads something else now."""
    change = change_of(source, saved)
    advice = f"or start it from scratch and keep the state: {reset_flag(source)}"
    if kind == "file":
        return SourcePlan(
            source,
            saved,
            "changed",
            "path-changed",
            f"{change}: files are identified by their paths, so every file there is new "
            "and will be read, including copies of files already read",
            f"make sure that it contains only new files, {advice}",
        )
    if kind == "kafka":
        return SourcePlan(
            source,
            saved,
            "changed",
            "topics-changed",
            f"{change}: new topics are read from their beginning",
        )
    return SourcePlan(
        source,
        saved,
        "changed",
        "input-changed",
        f"{change}: it resumes from the old position {saved.offset} in it",
        f"make sure that this position has the same meaning there, {advice}",
    )
