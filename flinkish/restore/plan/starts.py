"""Whether a query may start, as far as its sink and other jobs are concerned. Pure.

``run -s`` and ``check`` plan a restore. A plain ``run``, a ``restart``, and a query that a program
starts later begin without a restore: with batch 0 in a new checkpoint, or where their own
checkpoint ends. A sink that remembers its batches (:mod:`flinkish.restore.plan.sinks`) silently
drops the output of batches that it has already, and another job may have continued from the
checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from flinkish.connectors.registry import source_connector
from flinkish.connectors.sources import kind_of
from flinkish.errors import ConsentNeeded, FlinkishError, StorageError, quoted
from flinkish.messages.calls import KnownWriter
from flinkish.restore.plan.sinks import SinkMode, SinkPlan, SinkStatus

#: How a user learns whether a local path of another host is another directory.
NEXT_BATCH = (
    "if the other job's path is another directory on its host, try again a minute after that job's "
    "next batch, which proves it"
)
#: Seconds by which the clocks of two hosts and of the storage may differ.
_CLOCKS = 60.0
#: Sinks that keep nothing, so repeated output does not matter.
KEEP_NOTHING = frozenset({"console", "memory", "noop"})
#: Prefixes of the formats of sources whose rows are generated, or cannot be read again.
_GONE = ("memory", "rate", "socket", "textsocket")


@dataclass(frozen=True)
class Beginning:
    """The start of a query, before this run's first batch.

    Attributes
    ----------
    query
        Its name.
    checkpoint
        The checkpoint in which it continues; None for a new one.
    committed, planned
        The newest batches in that checkpoint's logs; None if there are none.
    """

    query: str
    stateful: bool = False
    checkpoint: str | None = None
    committed: int | None = None
    planned: int | None = None

    @property
    def is_new(self) -> bool:
        """Whether its checkpoint does not exist yet."""
        return self.checkpoint is None

    @property
    def last_batch(self) -> int:
        """The newest batch that it has begun, -1 before the first."""
        return -1 if self.planned is None else self.planned

    def describe(self) -> str:
        """Return the beginning of a sentence about it."""
        if self.checkpoint is None:
            return f"query '{self.query}' would start with batch 0, in a new checkpoint"
        if self.planned is None:
            return f"query '{self.query}' would start with batch 0, in {self.checkpoint}"
        if self.committed is None:
            again = f"would start with batch {self.planned} again, as planned in"
            return f"query '{self.query}' {again} {self.checkpoint}"
        return (
            f"query '{self.query}' would resume after batch {self.committed} of {self.checkpoint}"
        )


@dataclass(frozen=True)
class EarlierRun:
    """A run of a query by another job.

    Attributes
    ----------
    name, job_id
        The job.
    batch
        The newest batch that it has committed; for a run that has committed none, the batch that it
        has planned.
    checkpoint
        The checkpoint that has this batch; or, for a run that has written the same input, its sink.
    to_table
        For a run that has written the same input, whether it has written to a table, which still
        has its batches; else it has written to a sink that keeps no batch numbers.
    """

    name: str
    job_id: str
    batch: int
    checkpoint: str = ""
    to_table: bool = True

    def describe(self) -> str:
        """Return a text for messages."""
        return f"job {self.name} ({self.job_id})"


@dataclass(frozen=True)
class Agreed:
    """A start that may go ahead, with a note: it is permitted, repeats output, or is not judged.

    Attributes
    ----------
    text
        A note about what happens.
    rebase_to
        The number after which the query's batch numbers begin; None if they begin as usual.
    reason
        An id for programs; ``sink-unreadable`` if it is unknown whether consent would be needed.
    """

    text: str
    rebase_to: int | None = None
    reason: str = "sink-ahead"


def is_read_again(signature: str, options: Mapping[str, str]) -> bool:
    """Return whether a query in a new checkpoint reads again what earlier runs read from a source.

    ``options`` are those that matter for a restore.
    """
    kind = kind_of(signature)
    return not kind.startswith(_GONE) and source_connector(signature).is_read_again(options)


def agreed_mode(mode: SinkMode | None, *, again: bool) -> SinkMode | None:
    """Return what the user's choice for sinks that are ahead means for one query.

    ``mode`` is the ``--sink-ahead`` with which the job was first started. ``again`` says that the
    query continues where the job's last driver left it. Then only ``accept`` still applies, because
    the query may not have passed the sink's batches yet, but must not write everything again.
    """
    return mode if mode == "accept" or not again else None


def judge_start(
    begins: Beginning,
    position: SinkStatus | None,
    *,
    ahead: EarlierRun | None = None,
    written: EarlierRun | None = None,
    stands: EarlierRun | None = None,
    begun: EarlierRun | None = None,
    named: bool = True,
    mode: SinkMode | None = None,
) -> ConsentNeeded | Agreed | None:
    """Decide whether a query may start as ``begins`` says.

    ``position`` is the status of the sink; None if it records no batches, or records them by query
    id and the query is new. ``ahead`` is the run that has continued this query in another
    checkpoint, if any. ``written`` is the run of this job's name that has written the same input to
    the same table, or to the same kind of sink without batch numbers. ``stands`` is the newest run
    of this job's name, from which ``run --resume`` continues. ``begun`` is the run of this job's
    name that has planned its first batch of the query and committed none. ``named`` says that the
    user has named the job; otherwise runs of this name may be of several jobs. Returns the refusal,
    or the note on a start that may go ahead; None if there is nothing to note.
    """
    sink = _sink_ahead(begins, position)
    counts_on = mode == "rebase" or (position is not None and not position.has_files)
    if ahead is None and sink and position is not None and begins.is_new and counts_on:
        newest = position.newest_batch or 0
        has = f"batch {newest}" if position.has_files else f"empty batches up to {newest}"
        what = f"the {position.format} sink {position.path} has {has}"
        text = f"query '{begins.query}' starts in a new checkpoint with batch {newest + 1}: {what}"
        return Agreed(text, newest)
    breaks = begins.stateful and not (position is not None and position.computes_skipped)
    if sink and breaks:
        sink += ", and the query would then fail, because skipped batches write no state"
    if ahead is None and sink and mode == "accept" and not breaks:
        return Agreed(f"{begins.describe()}: {sink}, as accepted")
    if ahead is None and not sink and written is not None and mode == "rebase":
        return Agreed(f"{begins.describe()}: {_twice(written)}, as accepted")
    if ahead is not None:
        gone = f"{ahead.describe()} has continued with it to batch {ahead.batch}"
        why, reason = f"{gone} in {ahead.checkpoint}", "checkpoint-stale"
        why += f"; {sink}" if sink else "; what that job has read would be read and written again"
    elif sink:
        why, reason = sink, "sink-ahead"
    elif written is not None and not (named or written.to_table):
        ways = "give the query a checkpointLocation, or the job a --name to resume it with --resume"
        return Agreed(f"{begins.describe()}: {_twice(written)}; {ways}", reason="sink-written")
    elif written is not None:
        why, reason = _twice(written), "table-written" if written.to_table else "sink-written"
    elif position is not None and position.unreadable is not None:
        return _not_known(begins, position)
    else:
        return None
    choices = list(_ways(begins, stands if ahead is None else ahead))
    if sink and begins.is_new and begun is not None and _has_begun_all(begun, position):
        choices.insert(
            0,
            f"restart {begun.describe()}, which ended in batch {begun.batch}, in its own "
            f"checkpoint: flinkish restart {begun.job_id}",
        )
    if sink and begins.is_new:
        choices.append(
            "--sink-ahead rebase starts after the newest batch of the sink, and writes all input"
        )
    if sink and ahead is None and not breaks:
        choices.append("--sink-ahead accept lets the sink drop that output")
    if written is not None and reason.endswith("-written"):
        choices.append("--sink-ahead rebase writes it all again")
    if reason == "sink-ahead":
        choices.append("or write to another path")
    elif reason == "table-written":
        choices.append("or write to another table")
    return ConsentNeeded(f"{begins.describe()}: {why}", hint="; ".join(choices), reasons=[reason])


def _sink_ahead(begins: Beginning, position: SinkStatus | None) -> str:
    """Return what the sink would drop, as a clause; empty if nothing."""
    if position is None or position.newest_batch is None:
        return ""
    if position.newest_batch <= begins.last_batch:
        return ""
    newest = position.newest_batch
    return (
        f"the {position.format} sink {position.path} has batch {newest}, and would "
        "silently drop the output up to that batch"
    )


def _has_begun_all(begun: EarlierRun, position: SinkStatus | None) -> bool:
    """Return whether a run has planned every batch that a sink has."""
    newest = None if position is None else position.newest_batch
    return newest is not None and newest <= begun.batch


def _not_known(begins: Beginning, position: SinkStatus) -> Agreed:
    """Return the note on a sink whose batches cannot be read, though Spark may reach it."""
    what = f"the batches of the {position.format} sink {position.path} are unknown"
    why = f"{what}: {position.unreadable}"
    if not position.by_query_id:
        after = f" after {begins.last_batch}" if begins.last_batch >= 0 else ""
        drops = "it silently drops the query's output up to the newest of them"
        why += f"; if it has batches{after}, {drops}"
    return Agreed(f"{begins.describe()}: {why}", reason="sink-unreadable")


def checkpoint_not_read(query: str, location: str, error: StorageError) -> Agreed:
    """Return the note on a query whose own checkpoint cannot be read from here."""
    what = f"its checkpoint {location} cannot be read from here: {error.message}"
    text = f"query '{query}': {what}; whether its sink is ahead of it is unknown"
    return Agreed(text, reason="sink-unreadable")


def _twice(written: EarlierRun) -> str:
    what = "they would be there twice" if written.to_table else "it would all be written again"
    return (
        f"{written.describe()} has written the batches up to {written.batch} of the same input to "
        f"{written.checkpoint}, and {what}"
    )


def with_options_of_run(refusal: FlinkishError, location: str) -> FlinkishError:
    """Return a refusal whose hint also names the command that takes the options in it.

    ``location`` is the checkpoint or savepoint that was to be resumed by a command without these
    options.
    """
    command = f"flinkish run -s {quoted(location)}"
    refusal.hint = f"{refusal.hint} (give these options to {command}, with the program)"
    return refusal


def _ways(begins: Beginning, stands: EarlierRun | None) -> Iterable[str]:
    """Yield the ways to continue other than to agree to this start."""
    if stands is not None:
        yield (
            f"resume job {stands.name} (at batch {stands.batch}) with: flinkish run "
            f"--name {quoted(stands.name)} --resume"
        )
    yield "start from a savepoint with -s PATH"
    if begins.checkpoint is not None and begins.committed is not None:
        yield f"resume from this checkpoint with -s {quoted(begins.checkpoint)} --sink-ahead rebase"
    elif begins.checkpoint is not None and begins.planned is None:
        yield f"remove {begins.checkpoint}, which has no batch, and use --sink-ahead rebase"


def may_be_another_directory(writer: KnownWriter) -> bool:
    """Return whether the place of a writer is a local path of another host. Pure."""
    return writer.elsewhere and not writer.is_table and writer.place.startswith("/")


def is_another_directory(writer: KnownWriter, sink: SinkStatus) -> bool:
    """Return whether a writer's place is another host's directory of the same name. Pure.

    If both hosts have mounted one directory, the log of the sink has the batch that the writer
    committed last, and its newest entry is not older than the end of that batch. A writer that has
    committed nothing proves nothing, because its first batch may be running.
    """
    if not may_be_another_directory(writer):
        return False
    if writer.last_batch is None or sink.unreadable is not None:
        return False
    if sink.newest_batch is None or sink.newest_batch < writer.last_batch:
        return True
    if sink.written is None or writer.last_batch_end is None:
        return False
    ended = datetime.fromisoformat(writer.last_batch_end.replace("Z", "+00:00")).timestamp()
    return sink.written < ended - _CLOCKS


def judge_writers(
    sink: SinkStatus,
    place: str,
    writers: Iterable[KnownWriter],
    same_job: Collection[str],
    mode: SinkMode | None,
) -> SinkPlan | None:
    """Return the plan for a sink that a query of another job also writes to, or None.

    ``place`` is in the form of the writers' places. ``writers`` are queries of other jobs, which
    have not ended. ``same_job`` are the jobs among them that run the query that is restored. Only
    these count for a table, because a table may have several writers, but may get each input only
    once.
    """
    for each in writers:
        if each.place != place or (each.is_table and each.job_id not in same_job):
            continue
        if each.is_table and mode == "rebase":
            continue
        if is_another_directory(each, sink):
            continue
        what = "rows of the same input would be there twice"
        if not each.is_table:
            what = "if two queries write to one file sink, the output of one is dropped"
        text = (
            f"query '{each.query}' of job {each.name} ({each.job_id}), which is "
            f"{each.state}, also writes to the {sink.format} sink {sink.path}: {what}"
        )
        advice = f"stop that job first, with: flinkish stop {each.job_id}; or write to another path"
        if may_be_another_directory(each):
            advice += f"; {NEXT_BATCH}"
        if each.is_table:
            advice += "; --sink-ahead rebase writes it all again"
        permit: tuple[SinkMode, ...] = ("rebase",) if each.is_table else ()
        return SinkPlan(
            sink.format,
            sink.path,
            sink.newest_batch,
            "ahead",
            "sink-in-use",
            text,
            advice,
            permit=permit,
        )
    return None
