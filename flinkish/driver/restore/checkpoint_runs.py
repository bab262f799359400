"""The last run of a query in its checkpoint, and what the program has changed since."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from flinkish import storage
from flinkish.checkpoint.cut import newest_watermark
from flinkish.checkpoint.format.logs import MAX_WATERMARK_MS
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.planned_queries import source_records
from flinkish.driver.plan.restore_environment import DriverRestoreEnvironment
from flinkish.errors import Incompatible, UnsupportedFormat, quoted
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.operators.identity import OperatorFacts
from flinkish.operators.state_semantics import StateSemantics
from flinkish.registry.job_registry import Registry
from flinkish.restore.origin.restore_inputs import NewQuery
from flinkish.restore.origin.restore_origin import open_query
from flinkish.restore.plan.source_plans import blocked, is_changed_file_source, rows_in_place
from flinkish.restore.plan.starts import Beginning, with_options_of_run


@dataclass(frozen=True)
class LastRun:
    """The query that ran in a checkpoint last, and what its driver knew of it."""

    query: QueryStatus
    facts: QueryFacts


def last_run_in(registry: Registry, begins: Beginning, query_id: str | None) -> LastRun | None:
    """Return the last run in a checkpoint, of this job or another; None if none is known."""
    if query_id is None or begins.checkpoint is None:
        return None
    runs = [
        (job, query)
        for job, query in registry.find_query(query_id)
        if storage.same_place(query.checkpoint_dir, begins.checkpoint)
    ]
    for job, query in sorted(runs, key=lambda run: run[0].start_time, reverse=True):
        facts = registry.facts(job.job_id).get(query.name)
        if facts is not None:
            return LastRun(query, facts)
    return None


def meanings_of(facts: QueryFacts | None) -> dict[int, StateSemantics]:
    """Return the meaning of each operator's state as a driver knew it, by ordinal."""
    known = [OperatorFacts.from_json(each) for each in (facts.operators if facts else ())]
    return {each.ordinal: each.meaning for each in known if each.meaning is not None}


def refuse_drained(name: str, checkpoint: str, ways: str) -> None:
    """Raise Incompatible, with ``ways`` as its hint, if a query has been or was being drained."""
    if newest_watermark(checkpoint) >= MAX_WATERMARK_MS:
        raise Incompatible(
            f"query '{name}' has been drained, or was being drained: its watermark is at "
            "the maximum, so every row with an event time would be late",
            hint=ways,
        )


def judge_mark(begins: Beginning, ran_in: str | None) -> None:
    """Raise Incompatible if a query starts in a drained checkpoint, unless this job ran it there.

    ``ran_in`` is the checkpoint in which this job has run the query before.
    """
    here = begins.checkpoint
    if here is None or (ran_in is not None and storage.same_place(ran_in, here)):
        return  # by now the user knows of it
    ways = (
        "give the query a new checkpointLocation; or start the program from an earlier savepoint, "
        f"with flinkish run -s; flinkish run -s {quoted(here)} resumes from this checkpoint even so"
    )
    with suppress(UnsupportedFormat):  # a newer Spark may read what this flinkish does not
        refuse_drained(begins.query, here, ways)


def judge_sources(ran: LastRun, program: NewQuery, planned: PlannedQuery) -> list[str]:
    """Judge the file sources of a query that continues in its checkpoint, as a restore would.

    Logs and directories are read only for a source whose path or options have changed.

    Returns
    -------
    list of str
        Notes about what changes.

    Raises
    ------
    ConsentNeeded, Incompatible
        Rows would be lost, or read twice.
    Corrupt, FilesVanished, UnsupportedFormat, StorageError
        The checkpoint cannot be read.
    """
    before, now = ran.facts.sources, source_records(planned, [])
    if len(before) != len(now):
        return []  # Spark refuses another number of sources
    pairs = enumerate(zip(before, now, strict=True))
    changed = {entry for entry, (old, new) in pairs if is_changed_file_source(old, new)}
    offer = open_query(ran.query, ran.facts, running=True) if changed else None
    if offer is None or offer.query.sources is None:
        return []
    look_up = DriverRestoreEnvironment(lambda _: ())
    saved = offer.query.sources
    answers = {
        source.entry: answer
        for source, old in zip(program.sources or (), saved, strict=True)
        if source.entry in changed
        and (answer := look_up.source(program, source, old, offer)) is not None
    }
    rows = rows_in_place(program, saved, answers)
    refusal = blocked(rows)
    if refusal is not None:
        raise with_options_of_run(refusal, ran.query.checkpoint_dir)
    return [row.text for row in rows if row.verdict == "changed"]
