"""One row with the verdict for each source of a restore, to show and to decide by. Pure.

:mod:`.source_matching` decides which saved position a source takes. This module judges the match:
whether the source still reads what the position belongs to, and whether Spark can continue from it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from flinkish.checkpoint.format.logs import NO_OFFSET
from flinkish.connectors.base import NO_OFFSETS, UNKNOWN_OFFSETS, not_set
from flinkish.connectors.registry import source_connector
from flinkish.connectors.source_plan import NO_FACTS, SourceFacts, SourcePlan
from flinkish.connectors.sources import (
    NewSource,
    QueryKey,
    SavedSource,
    SourceAnswer,
    kind_of,
    reset_flag,
)
from flinkish.errors import ConsentNeeded, FlinkishError, Incompatible
from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.restore.origin.restore_inputs import NewQuery, SavedQueryFacts
from flinkish.restore.origin.restore_origin import RestoreOrigin
from flinkish.restore.plan.source_matching import SourceMatches

#: Sources whose data is only in the memory of the driver that read it. Spark's
#: ``TextSocketMicroBatchStream`` and ``MemoryStream`` slice a buffer that is empty in a new driver
#: and counted from 0, so input up to the saved offset is silently skipped. Spark's other sources
#: can replay: files and Kafka keep their rows, and ``rate`` and ``rate-micro-batch`` compute their
#: rows from the offsets.
NOT_REPLAYABLE = frozenset({"socket", "memory"})


def source_plans(
    new: NewQuery,
    own: SavedQueryFacts | None,
    matches: SourceMatches,
    facts: SourceFacts = NO_FACTS,
) -> tuple[SourcePlan, ...]:
    """Return a row for each source of ``new``, in order, and then for positions left behind.

    ``own`` is the saved query that continues as ``new``, if any. The positions left behind are
    those of ``own`` that no source of ``new`` takes; if what the sources read is unknown, they have
    no rows.
    """
    sources = new.sources or ()
    paired = matches.matched
    if paired is None:
        is_described = own is None or own.sources is not None
        return tuple(
            _judged_unpaired(_unpaired(each, own, is_described), facts) for each in sources
        )
    key = None if own is None else own.key
    rows = [
        _judged(_row(source, old, key, reset=source.entry in matches.reset), source, facts)
        for source, old in zip(sources, paired, strict=True)
    ]
    used = {(old.query, old.entry) for old in paired if old is not None}
    left = own.sources if own is not None else ()
    fresh = [source for source, old in zip(sources, paired, strict=True) if old is None]
    rows += [_dropped(s, fresh) for s in left or () if (s.query, s.entry) not in used]
    return tuple(rows)


def job_sources(origin: RestoreOrigin) -> tuple[SavedSource, ...] | None:
    """Return the sources of all queries of a saved job; None if not all are known."""
    described = [query.sources for query in origin.queries]
    if origin.left_out or not origin.complete or None in described:
        return None
    return tuple(source for sources in described for source in sources or ())


def fresh_rows(new: NewQuery, facts: SourceFacts) -> tuple[SourcePlan, ...]:
    """Return a row for each source of a query that the savepoint lacks."""
    return tuple(_judged_unpaired(_fresh(each), facts) for each in new.sources or ())


def is_changed_file_source(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether a file source reads another path than before, or with other options.

    Both are records of sources, as savepoints have them.
    """
    if kind_of(now.get("signature")) != "file" or before.get("signature") is None:
        return False
    return any(before.get(key) != now.get(key) for key in ("signature", "options"))


def rows_in_place(
    new: NewQuery, saved: Sequence[SavedSource], answers: Mapping[int, SourceAnswer]
) -> tuple[SourcePlan, ...]:
    """Return a row for each changed source of a query that continues in its own checkpoint.

    ``saved`` are the positions in that checkpoint, one for each source of ``new``. ``answers`` are
    those about the sources that have changed, by their entry.
    """
    facts = SourceFacts(answers=answers)
    return tuple(
        _judged(_row(source, old, old.query, reset=False), source, facts)
        for source, old in zip(new.sources or (), saved, strict=True)
        if source.entry in answers
    )


def in_order(new: NewQuery, base: SavedQueryFacts | None) -> list[SavedSource]:
    """Return the positions of a checkpoint that does not describe its sources, in Spark's order.

    Their offsets are only in the logs.
    """
    if base is None or base.sources is not None:
        return []
    return [SavedSource(base.key, s.entry, s.directory, NO_OFFSET) for s in new.sources or ()]


def blocked(rows: Sequence[SourcePlan], checks: Sequence[Check] = ()) -> FlinkishError | None:
    """Return the refusal for sources and preconditions, or None."""
    refused = [check for check in checks if check.outcome is RestoreOutcome.REFUSED]
    if refused:
        texts = "; ".join(check.text for check in refused)
        return Incompatible(texts, hint=refused[0].advice, reasons=[c.id for c in refused])
    stuck = [row for row in rows if row.blocks]
    if not stuck:
        return None
    texts = "; ".join(row.text for row in stuck)
    advice = "; ".join(dict.fromkeys(row.advice for row in stuck))
    reasons = [row.reason for row in stuck]
    if any(row.verdict == "incompatible" for row in stuck):
        return Incompatible(texts, hint=advice, reasons=reasons)
    return ConsentNeeded(texts, hint=advice, reasons=reasons)


def _judged(row: SourcePlan, source: NewSource, facts: SourceFacts) -> SourcePlan:
    saved, answer = row.saved, facts.answers.get(source.entry)
    connector = source_connector(source.signature, "" if saved is None else saved.offset)
    if answer is None and saved is not None:
        answer = connector.unasked(source, saved)
    row = connector.judge(row, answer, facts.targets.get(source.entry), facts.options)
    return connector.judge_fork(row, facts.saved, facts.options)


def _judged_unpaired(row: SourcePlan, facts: SourceFacts) -> SourcePlan:
    if row.new is None or row.new.entry in facts.targets:
        return not_set(row, UNKNOWN_OFFSETS if row.reason == "source-unknown" else NO_OFFSETS)
    connector = source_connector(row.new.signature)
    row = connector.judge_unpaired(row, facts.answers.get(row.new.entry), facts.options)
    return connector.judge_fork(row, facts.saved, facts.options)


def _unpaired(source: NewSource, own: SavedQueryFacts | None, is_described: bool) -> SourcePlan:
    """Return the row of an unmatched source: its query starts empty, or its sources are unknown."""
    if own is None or is_described:
        return _fresh(source)
    if kind_of(source.signature) in NOT_REPLAYABLE:
        return _not_replayable(source, None)
    text = f"{source.describe()}: what was read is unknown; Spark matches sources in order"
    return SourcePlan(source, None, "as-is", "source-unknown", text)


def _fresh(source: NewSource) -> SourcePlan:
    return SourcePlan(source, None, "new", "new-source", f"{source.describe()} starts from scratch")


def _dropped(saved: SavedSource, fresh: Sequence[NewSource] = ()) -> SourcePlan:
    """Return the row of a position that nothing takes; ``fresh`` are sources without a position."""
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
        advice
        + "keep reading it in the program, or drop its position with -n (--allowNonRestoredState)",
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
        return source_connector(source.signature, saved.offset).changed(source, saved)
    place = saved.query, saved.entry, saved.directory
    if place != (key, source.entry, source.directory):
        where = "" if saved.query in {key, None} else f" of query '{saved.query}'"
        text = f"{source.describe()} resumes from line {saved.entry} of the offset log{where}"
        return SourcePlan(source, saved, "moved", "moved-source", text)
    return SourcePlan(source, saved, "as-is", "same-source", f"{source.describe()} resumes")
