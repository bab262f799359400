"""Whether a sink already has batches that the restored query would write, and what to do. Pure.

Some sinks remember their batches, and silently skip a batch that they have:

* the file sink (parquet, orc, json, csv, text ...): ``_spark_metadata/<batch>`` below its path.
  ``FileStreamSink.addBatch`` skips a batch that is not above the newest entry, whatever the query
  id ("Skipping already committed batch");
* Delta: ``txn`` actions (``appId`` is the query id, ``version`` the batch), by which
  ``DeltaSink.addBatch`` skips in the same way, but only for its own query id;
* Iceberg: the summaries of snapshots; ``SparkWrite`` skips the commit of an epoch that the table
  already has from the same query id.

A query restored at an older batch reuses batch numbers that the sink has. A batch that the file
sink or Delta skips is committed, but never *computed*: its output is dropped and, if the query has
state, no state of that batch is written. The next batch that is not skipped then fails permanently,
because the state that it continues from does not exist (proven in ``tests/driver/test_sinks.py``).
Iceberg computes the batch, and drops its output.

:func:`judge_sink` detects a sink that is ahead in this way, and decides by the user's choice:

* ``rebase``: everything after the savepoint is written as new batches, after the sink's newest.
  Nothing is missing. The rows that the sink got from the batches after the savepoint stay in it, so
  those rows are there twice (the old ones and the new ones).
* ``accept``: the sink skips as many batches as it is ahead. If they have the same input as before,
  nothing is missing or duplicated; if not, rows are missing. This is not possible for a query with
  state whose skipped batches are not computed.
* ``rollback``: the table goes back to the version that it had at the savepoint, and everything
  after it is written again, so nothing is missing or duplicated. This is possible only for tables
  that keep their versions, and if nobody else has written to the table since.

A query gets a new query id if its job continued after the savepoint. Sinks that remember batches by
query id then accept its batches as new, although they have rows of the same input. Such a restore
requires the same choice.

A planned batch (written to the offset log, not committed) is replayed with exactly the same input.
If the saved query's sink is ahead, it already has that batch: the batch after the savepoint's. (A
file sink at another place has batches of other queries, so the planned batch must be written to
that sink.)

* If the query has no state, or the sink computes skipped batches anyway (Iceberg), it is right to
  skip the planned batch. So a sink that has this batch and no later one is not ahead, and a rebase
  gives the planned batch the number of the sink's newest one, so that it is not written twice.
* A crashed query still has the state of that batch on disk: tasks commit it before the sink commits
  the batch. A restore from its checkpoint uses that state if nothing else changes, and continues as
  Spark itself would.
* Otherwise the planned batch must be computed, so the sink must not skip it: a rebase gives it the
  number after the sink's newest, and its rows are written twice like those of the other batches. (A
  savepoint has only the state of the committed batch.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from flinkish.connectors.table_commits import Drift, RollbackTarget, listed

SinkMode = Literal["rebase", "accept", "rollback"]
_ALL: tuple[SinkMode, ...] = ("rebase", "accept", "rollback")
#: The reason's id for a sink that has the planned batch.
SINK_HAS_PLANNED = "sink-has-planned"
SinkVerdict = Literal["as-is", "ahead", "rebase", "accept", "rollback", "unreadable"]


@dataclass(frozen=True)
class SinkStatus:
    """The newest batch of a sink, and what else a restore must know of the sink.

    Attributes
    ----------
    path
        The place or the table, for messages.
    newest_batch
        None if there is none yet.
    by_query_id
        Whether a batch counts only for the query id with which it was written (Delta, Iceberg).
    unreadable
        Why the newest batch is not known; None if it is.
    rollback
        The version to which a table can go back; None for a sink without versions.
    skips_after_rollback
        Whether the sink skips the same batches after a rollback.
    computes_skipped
        Whether a batch that the sink skips is computed anyway.
    has_files
        Whether the log of a file sink names any file. If it names none, flinkish has completed the
        log (:mod:`flinkish.restore.check.file_sinks`) for a query that wrote nothing, or all
        batches were without rows.
    drift
        What others have done to a table since the savepoint.
    written
        When the newest batch of a local file sink was written, in seconds since the epoch.
    version
        The present version of a table; None if it has none, or if the sink keeps no versions.
    """

    format: str
    path: str
    newest_batch: int | None = None
    by_query_id: bool = False
    unreadable: str | None = None
    rollback: RollbackTarget | None = None
    skips_after_rollback: bool = False
    computes_skipped: bool = False
    has_files: bool = True
    drift: Drift = field(default_factory=Drift)
    written: float | None = None
    version: int | None = None


@dataclass(frozen=True)
class SinkPlan:
    """The consequence of a restore for a sink.

    Attributes
    ----------
    verdict
        ``ahead`` needs the user's consent; ``unreadable`` needs a warning.
    reason
        An id for programs.
    text
        A sentence.
    rebase_to
        For :attr:`~flinkish.restore.recipe.Recipe.rebase_to`; set only with the verdicts ``rebase``
        and ``rollback``.
    permit
        The values of ``--sink-ahead`` that permit the restore, with the verdict ``ahead``.
    rollback_to
        The version to which the table is brought back, with the verdict ``rollback``.
    planned_at
        The version that the table had when this was planned.
    keeps_query_id
        Whether the query keeps the savepoint's query id although the job it comes from went on.
    """

    format: str
    path: str
    newest_batch: int | None
    verdict: SinkVerdict
    reason: str
    text: str
    advice: str = ""
    rebase_to: int | None = None
    permit: tuple[SinkMode, ...] = ()
    rollback_to: int | None = None
    keeps_query_id: bool = False
    planned_at: int | None = None

    @property
    def blocks(self) -> bool:
        """Whether the restore must not continue without the user's consent."""
        return self.verdict == "ahead"


@dataclass(frozen=True)
class Continuation:
    """How a restored query continues, as far as its sink is concerned.

    Attributes
    ----------
    saved_batch
        The committed batch of the saved query that wrote to the sink.
    keeps_query_id
        Whether the query keeps the savepoint's query id. With another id, the batches of the saved
        id do not count for sinks that remember batches by query id; those of a file sink count.
    stateful
        Whether the query has state.
    goes_back
        Whether it gets a new query id because the job it comes from went on after the savepoint, or
        because it continues a query of another name.
    in_use
        Whether that job still runs.
    may_keep_id
        Whether it may keep the savepoint's query id if the user accepts that.
    replays_planned
        Whether the new checkpoint has a planned batch
        (:attr:`~flinkish.restore.recipe.Recipe.replays_planned`).
    has_planned_state
        Whether the new checkpoint also gets the state that the planned batch has written.
    job_at
        The newest batch that the running job had planned when the status was read, if the sink is
        the job's own. Up to that batch, the sink is ahead only because the job continues.
    writes_elsewhere
        Whether the program writes to another place than the saved query did.
    moves_source
        Whether a source of the saved query continues from other offsets, and so has no part in the
        planned batch (:attr:`~flinkish.restore.recipe.Recipe.moves_source`).
    raised_to
        The committed batch of the new checkpoint, before any rebase, if merged queries make it a
        later one than the saved batch. The sink skips only batches after it.
    """

    saved_batch: int
    keeps_query_id: bool
    stateful: bool
    goes_back: bool = False
    in_use: bool = False
    may_keep_id: bool = True
    replays_planned: bool = False
    has_planned_state: bool = False
    job_at: int | None = None
    writes_elsewhere: bool = False
    moves_source: bool = False
    raised_to: int = 0

    @property
    def resumes_after(self) -> int:
        """The committed batch of the new checkpoint, before any rebase."""
        return max(self.saved_batch, self.raised_to)


def judge_sink(status: SinkStatus, query: Continuation, mode: SinkMode | None = None) -> SinkPlan:
    """Compare the batches of a sink with the batch that a query continues from.

    ``mode`` is the user's choice for a sink that is ahead (``--sink-ahead``).
    """
    newest, saved, last = status.newest_batch, query.saved_batch, query.resumes_after
    where = f"the {status.format} sink {status.path}"
    if status.unreadable is not None and mode == "rollback":
        text = f"{where} cannot be rolled back to the savepoint: {status.unreadable}"
        return _ahead(status, query, "sink-cannot-go-back", text, ("rebase",), _UNSEEN)
    if status.unreadable is not None:
        text = f"the batches of {where} are unknown: {status.unreadable}"
        if mode is not None:
            text += f"; --sink-ahead {mode} has no effect on it"
        return _plan(
            status,
            "unreadable",
            "sink-unreadable",
            text,
            f"if it has batches after {saved}, output may be dropped, or be there twice: let the "
            "driver read it, or write to another path",
        )
    if status.drift.undone:
        return _judge_undone(status, query, mode, where)
    if newest is None or newest <= saved:
        return _judge_not_ahead(status, query, mode, where)
    following = max(newest, last) + 1
    if query.job_at is not None and newest <= query.job_at:
        text = f"{where} has batch {newest}: the job has continued"
        return _plan(status, "as-is", "sink-of-running-job", text)
    if not status.has_files:
        text = f"{where} has empty batches up to {newest}: it continues as batch {following}"
        return _plan(status, "rebase", "sink-without-rows", text, rebase_to=newest)
    shared = status.drift.asked
    reason = "sink-shared" if shared else "sink-ahead"
    where = f"others have written to {where} since: {shared}; it" if shared else where
    if status.by_query_id and not query.keeps_query_id:
        if not query.goes_back and mode != "rollback":
            text = f"{where} has batch {newest}, of another query id"
            return _plan(status, "as-is", "sink-other-id", text)
        return _judge_new_id(status, query, mode, where, reason)
    # Batches that are kept by query id are the saved query's, wherever the program writes.
    sink_has_it = query.replays_planned and (status.by_query_id or not query.writes_elsewhere)
    has_planned = sink_has_it and newest == saved + 1 > last
    breaks = query.stateful and not status.computes_skipped
    if has_planned and not query.moves_source and (query.has_planned_state or not breaks):
        state = ", and the state that it has written is taken" if breaks else ""
        text = (
            f"{where} has batch {newest}, which was not committed and is replayed with the same "
            f"input: the sink skips it{state}"
        )
        if shared:
            return _judge_shared(status, query, mode, text, SINK_HAS_PLANNED)
        return _plan(status, "as-is", SINK_HAS_PLANNED, text)
    skipped = f"{where} has batch {newest}, but the query resumes after batch {saved}"
    if mode == "rebase":
        # The sink has the planned batch. With the number of the sink's newest batch it is skipped,
        # not written twice. But a skipped batch is not computed, and state needs it computed.
        planned_skipped = sink_has_it and not breaks
        return _plan(
            status,
            "rebase",
            reason,
            f"{skipped}: it continues as batch {following}; output that the sink has "
            "from after the savepoint is written again",
            rebase_to=newest - 1 if planned_skipped else newest,
        )
    if mode == "rollback":
        return _roll_back(status, query, skipped, reason)
    if last > saved:  # what the sink skips is not what it has
        drops = f", and the sink would drop the output up to batch {newest}" * (newest > last)
        twice = (
            f"{skipped}, with the numbers after {last} of a query that is merged into it: input "
            f"that is read again would be there twice{drops}"
        )
        return _ahead(status, query, reason, twice, ("rebase", "rollback"))
    lost = f"{skipped}: the sink would silently drop the output up to batch {newest}"
    if has_planned and not breaks:
        lost = (
            f"{skipped}: the sink drops what is replayed of batch {newest}; rows of that batch "
            "that a source reads again from its new offsets would be there twice"
        )
    if mode == "accept" and not breaks:
        return _plan(status, "accept", reason, f"{lost}, as accepted")
    if breaks:
        reason = SINK_HAS_PLANNED if has_planned else "sink-ahead-state"
        lost += ", and the query would then fail, because skipped batches write no state"
        return _ahead(status, query, reason, lost, ("rebase", "rollback"))
    if has_planned:
        return _ahead(status, query, SINK_HAS_PLANNED, lost, ("accept", "rollback"))
    return _ahead(status, query, reason, lost, _ALL)


def _judge_undone(
    status: SinkStatus, query: Continuation, mode: SinkMode | None, where: str
) -> SinkPlan:
    """Judge a table that was rolled back to before the savepoint, by flinkish or by others.

    The table may lack the status's ``newest_batch``, as Delta still skips batches that were undone.
    """
    newest = status.newest_batch
    back = (
        f"{where} was rolled back to a version before the savepoint: it lacks output of "
        f"the batches up to {query.saved_batch}, and has what was written since"
    )
    skips = newest is not None and newest > query.resumes_after and query.keeps_query_id
    stays: SinkMode = "rebase" if skips else "accept"
    if mode == "rollback":
        return _roll_back(status, query, back, "sink-undone", stays, _AS_IT_IS)
    if mode == "rebase" or (mode == "accept" and not skips):
        verdict: SinkVerdict = "rebase" if mode == "rebase" else "accept"
        text = f"{back}: it continues with the table as it is, as accepted"
        return _plan(status, verdict, "sink-undone", text, rebase_to=newest if skips else None)
    return _ahead(status, query, "sink-undone", back, (stays, "rollback"), _AS_IT_IS)


def _judge_not_ahead(
    status: SinkStatus, query: Continuation, mode: SinkMode | None, where: str
) -> SinkPlan:
    """Judge a sink without batches after the savepoint's, which may have commits of others."""
    newest, saved = status.newest_batch, query.saved_batch
    has = f"{where} has " + ("no batch yet" if newest is None else f"batch {newest}")
    if status.drift != Drift():
        asked = status.drift.asked
        has += f", but others have written to it since: {asked or listed(status.drift.others)}"
        if asked:
            return _judge_shared(status, query, mode, has, "sink-shared")
        return _plan(status, "as-is", "sink-shared", has)
    if newest is not None and newest < saved and not status.by_query_id:
        text = (
            f"{where} ends at batch {newest}, but the query resumes after batch "
            f"{saved}: the batches in between were written elsewhere, or are lost"
        )
        return _plan(status, "as-is", "sink-behind", text)
    return _plan(status, "as-is", "sink-empty" if newest is None else "sink-not-ahead", has)


def _judge_shared(
    status: SinkStatus, query: Continuation, mode: SinkMode | None, text: str, accepted: str
) -> SinkPlan:
    """Judge a table that has rows of others; ``accepted`` is the reason if that is accepted."""
    if mode in ("accept", "rebase"):
        return _plan(status, mode, accepted, f"{text}; it continues, as accepted")
    if mode == "rollback":
        return _roll_back(status, query, text, "sink-shared", "accept", _AS_IT_IS)
    return _ahead(status, query, "sink-shared", text, ("accept",), _AS_IT_IS)


def _judge_new_id(
    status: SinkStatus, query: Continuation, mode: SinkMode | None, where: str, reason: str
) -> SinkPlan:
    """Judge a sink that accepts batches of a new query id as new, although it has their rows."""
    newest, saved = status.newest_batch, query.saved_batch
    has = f"{where} has the batches up to {newest} of the job that continued after batch {saved}"
    if mode == "rebase":
        text = f"{has}: they stay; input that is read again is written again under a new query id"
        return _plan(status, "rebase", reason, text)
    if mode == "rollback":
        return _roll_back(status, query, has, reason)
    breaks = query.stateful and not status.computes_skipped
    may_keep = query.may_keep_id and not breaks and query.resumes_after == saved
    if mode == "accept" and may_keep:
        return _plan(
            status,
            "accept",
            reason,
            f"{has}: the query keeps its id, and the sink drops its output up to batch {newest}, "
            "as accepted",
            keeps_query_id=True,
        )
    twice = f"{has}: with a new query id, input that is read again would be there twice"
    modes: tuple[SinkMode, ...] = _ALL if may_keep else ("rebase", "rollback")
    return _ahead(status, query, reason, twice, modes)


def _roll_back(
    status: SinkStatus,
    query: Continuation,
    ahead: str,
    reason: str = "sink-ahead",
    instead: SinkMode = "rebase",
    choices: Mapping[str, str] | None = None,
) -> SinkPlan:
    """Return the plan to roll a table back to the savepoint's version, or why it cannot be done.

    ``instead`` is the choice that works if the table cannot be rolled back; ``choices`` are the
    texts of the choices.
    """
    why = _why_not_back(status, query)
    if why or status.rollback is None:
        text = f"{ahead}, and it cannot be rolled back to the savepoint: {why}"
        return _ahead(status, query, "sink-cannot-go-back", text, (instead,), choices)
    undone = len(status.rollback.undone)
    newest = status.newest_batch
    skips = newest is not None and newest > query.resumes_after
    again = skips and query.keeps_query_id and status.skips_after_rollback
    number = f"; it continues as batch {(newest or 0) + 1}, because the sink skips earlier ones"
    return _plan(
        status,
        "rollback",
        reason,
        f"{ahead}: the table is rolled back to version {status.rollback.version}, which undoes "
        f"{undone} commit{'s' if undone != 1 else ''} after the savepoint{number if again else ''}",
        rebase_to=newest if again else None,
        rollback_to=status.rollback.version,
    )


def _why_not_back(status: SinkStatus, query: Continuation) -> str:
    """Return why a sink cannot be rolled back to the savepoint; empty if it can."""
    if status.rollback is None:
        return f"the format {status.format} keeps no versions"
    if query.in_use:
        return "the job that it comes from still writes to it"
    return status.rollback.why


_CHOICES = {
    "rebase": "--sink-ahead rebase writes it all again (output from after the savepoint is then "
    "there twice)",
    "accept": "--sink-ahead accept lets the sink drop that output",
    "rollback": "--sink-ahead rollback first rolls the table back to the savepoint (nothing is "
    "lost or there twice)",
}
#: The choices for a table that lacks rows, or has rows of others.
_AS_IT_IS = {
    **_CHOICES,
    "rebase": "--sink-ahead rebase continues with the table as it is",
    "accept": "--sink-ahead accept continues with the table as it is",
}
#: The choices for a table that is ahead, and has rows of others.
_WITH_OTHERS = {
    **_CHOICES,
    "accept": "--sink-ahead accept lets the sink drop that output, and continues with the rows of "
    "others as they are",
}
#: The choice for a sink whose batches are unknown.
_UNSEEN = {
    "rebase": "--sink-ahead rebase continues all the same (the output of batches that the sink has "
    "may be dropped, or be there twice)",
}


def _ahead(
    status: SinkStatus,
    query: Continuation,
    reason: str,
    text: str,
    modes: tuple[SinkMode, ...],
    choices: Mapping[str, str] | None = None,
) -> SinkPlan:
    """Return the plan of a sink that needs the user's choice, with the choices that work."""
    chosen = choices or (_CHOICES if status.drift == Drift() else _WITH_OTHERS)
    can_go_back = not _why_not_back(status, query)
    modes = tuple(mode for mode in modes if mode != "rollback" or can_go_back)
    others = "write to another path"
    if status.by_query_id and query.keeps_query_id:
        others += ", or give the query a new id with --fork"
    advice = ", ".join(chosen[mode] for mode in modes) + f"; or {others}"
    return _plan(status, "ahead", reason, text, advice, permit=modes)


def _plan(
    status: SinkStatus,
    verdict: SinkVerdict,
    reason: str,
    text: str,
    advice: str = "",
    *,
    rebase_to: int | None = None,
    permit: tuple[SinkMode, ...] = (),
    rollback_to: int | None = None,
    keeps_query_id: bool = False,
) -> SinkPlan:
    return SinkPlan(
        status.format,
        status.path,
        status.newest_batch,
        verdict,
        reason,
        text,
        advice,
        rebase_to=rebase_to,
        permit=permit,
        rollback_to=rollback_to,
        keeps_query_id=keeps_query_id,
        planned_at=status.version,
    )
