"""What a restore planner looks up in a driver: sinks, input files and other runs of a query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flinkish import storage
from flinkish.checkpoint.cut import newest_committed_batch, newest_planned_batch
from flinkish.checkpoint.discovery import query_id_of
from flinkish.connectors.sources import NewSource, SavedSource, SourceAnswer
from flinkish.connectors.table_commits import RollbackTarget, recorded_version
from flinkish.driver.connectors.question import SourceQuestion
from flinkish.driver.connectors.sinks import open_table
from flinkish.driver.connectors.sources import ask
from flinkish.driver.connectors.table import SinkPlace, merged_batches, since_savepoint
from flinkish.driver.log import log
from flinkish.driver.plan.writer_settings import output_of, qualified
from flinkish.errors import (
    ConsentNeeded,
    Corrupt,
    FlinkishError,
    Incompatible,
    StorageError,
    TableError,
)
from flinkish.messages.calls import KnownWriter
from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.restore.check.file_sinks import file_sink_status
from flinkish.restore.check.source_files import missing_files
from flinkish.restore.materialize.new_checkpoint import check_recipe
from flinkish.restore.origin.restore_inputs import NewQuery, NewSink
from flinkish.restore.origin.restore_origin import RestorableQuery
from flinkish.restore.plan.decisions import QueryPlan
from flinkish.restore.plan.query_id import OtherRun, QueryIdentity
from flinkish.restore.plan.sinks import Continuation, SinkMode, SinkPlan, SinkStatus, judge_sink
from flinkish.restore.plan.starts import (
    Agreed,
    Beginning,
    checkpoint_not_read,
    judge_start,
    judge_writers,
)
from flinkish.restore.recipe import Recipe


class DriverRestoreEnvironment:
    """The look-ups of a restore planner inside a driver.

    ``other_runs`` returns all other jobs that ever ran a Spark query id. ``under_other_ids``
    returns the jobs that went back to an earlier batch of that query under another query id.
    ``read_elsewhere`` returns the newest batch of the runs under other query ids that have read
    that query's input since it was saved, or None; for ``begun_elsewhere`` batches count that were
    only begun. ``writers`` returns the outputs of the queries of unfinished other jobs. With
    ``offline``, no broker and no table of a source is asked.
    """

    def __init__(
        self,
        other_runs: Callable[[str], Sequence[OtherRun]],
        *,
        under_other_ids: Callable[[str], Sequence[OtherRun]] = lambda _: (),
        read_elsewhere: Callable[[str], int | None] = lambda _: None,
        begun_elsewhere: Callable[[str], int | None] = lambda _: None,
        offline: bool = False,
        writers: Callable[[], Sequence[KnownWriter]] = tuple,
    ) -> None:
        self._other_runs = other_runs
        self._under_other_ids = under_other_ids
        self._read_elsewhere = read_elsewhere
        self._begun_elsewhere = begun_elsewhere
        self._writers = writers
        self._offline = offline

    def other_runs(self, query_id: str) -> Sequence[OtherRun]:
        """Return all other jobs that ever ran a Spark query id."""
        return self._other_runs(query_id)

    def runs_under_other_ids(self, query_id: str) -> Sequence[OtherRun]:
        """Return the jobs that went back to an earlier batch of a query under another query id."""
        return self._under_other_ids(query_id)

    def begun_elsewhere(self, offer: RestorableQuery) -> int | None:
        """Return the newest batch that runs under other ids have begun since a query was saved."""
        return None if offer.live else self._begun_elsewhere(offer.query_id)

    def sink(
        self,
        new: NewQuery,
        offer: RestorableQuery,
        recipe: Recipe,
        identity: QueryIdentity,
        mode: SinkMode | None,
        others: Sequence[RestorableQuery] = (),
    ) -> SinkPlan | None:
        """Judge whether the sink already has batches that the query would write.

        A running job completes the batch that it has planned before it is stopped. So a query that
        takes over from a running job replays no batch.
        """
        takes_over = identity.keep or identity.goes_back  # what a fork writes again is meant to be
        merged = [each for each in others if takes_over and not each.live]
        position = _position(new, offer, merged)
        if position is None:
            return None
        output = output_of(new.sink, new.session)
        if output is not None:
            runs = self._other_runs(offer.query_id)
            running = {run.job_id for run in runs if not run.state.is_final}
            taken = judge_writers(position, output.place, self._writers(), running, mode)
            if taken is not None:
                return taken
        wrote, job_at = offer, None  # a table keeps the base's batches apart, a file sink does not
        if not position.by_query_id:
            own = (s for s in (offer, *others) if _is_own(s.query.sink, new.sink, new.session))
            wrote = next(own, offer)
        if wrote.live and _is_own(wrote.query.sink, new.sink, new.session):
            job_at = newest_planned_batch(wrote.origin.root)  # read last, so never behind the sink
        query = Continuation(
            wrote.query.batch_id,
            identity.keep,
            stateful=bool(offer.query.operators if recipe.states is None else recipe.states),
            goes_back=identity.goes_back,
            in_use=identity.in_use,
            may_keep_id=identity.may_keep,
            replays_planned=recipe.replays_planned and not offer.live,
            has_planned_state=recipe.takes_planned_state,
            job_at=job_at,
            writes_elsewhere=wrote is not offer
            or _is_other(offer.query.sink, new.sink, new.session),
            moves_source=recipe.moves_source,
            raised_to=recipe.batch_id,
        )
        return judge_sink(position, query, mode)

    def start(self, new: NewQuery, mode: SinkMode | None) -> ConsentNeeded | Agreed | None:
        """Judge a query that the savepoint lacks, and that starts as it would without a restore."""
        stateful = new.operators is None or bool(new.operators)
        begins, query_id = Beginning(new.name, stateful), None
        if new.checkpoint is not None:
            try:
                location = str(qualified(new.checkpoint, new.session))
                begins, query_id = beginning(new.name, stateful, location)
            except StorageError as error:
                return checkpoint_not_read(new.name, new.checkpoint, error)
        position = start_status(new.sink, new.session, query_id)
        output = output_of(new.sink, new.session)
        if position is not None and output is not None:
            taken = judge_writers(position, output.place, self._writers(), (), mode)
            if taken is not None:
                return ConsentNeeded(taken.text, hint=taken.advice, reasons=[taken.reason])
        return judge_start(begins, position, mode=mode)

    def input_files(
        self, new: NewQuery, offer: RestorableQuery, plan: QueryPlan, moved: Collection[int]
    ) -> Sequence[Check]:
        """Check that the input files of the restored batch still exist."""
        left = {(s.query, s.entry) for s in plan.sources.given_up}
        matched = enumerate(plan.sources.matched or ())
        left |= {(s.query, s.entry) for entry, s in matched if s is not None and entry in moved}
        sources = [s for s in offer.query.sources or () if (s.query, s.entry) not in left]
        if not sources:
            return ()
        try:
            files_by_source = missing_files(offer.origin, sources)
        except FlinkishError as error:
            # The restore reads these logs too, and gives a better error message.
            log(f"query '{new.name}': its input files were not checked: {error.message}")
            return ()
        checks = []
        for check in files_by_source:
            grave = [Check("files-gone", RestoreOutcome.WARNING, text) for text in check.warnings()]
            light = [Check("files-gone", RestoreOutcome.NOTE, text) for text in check.notes()]
            checks += [*grave, *light]
        return checks

    def _gone_on(self, offer: RestorableQuery) -> int | None:
        """Return the newest batch of other runs of a query, if one has gone on after it was saved.

        Under its own id a later batch shows that; under another id, a batch of any number may have
        read any files.
        """
        if offer.live:
            return None
        runs = self._other_runs(offer.query_id)
        batches = [run.last_batch for run in runs if run.last_batch is not None]
        newest = max(batches, default=offer.query.batch_id)
        if newest > offer.query.batch_id:
            return newest
        return self._read_elsewhere(offer.query_id)

    def materialisation(self, offer: RestorableQuery, recipe: Recipe) -> Incompatible | None:
        """Return why no checkpoint can be made from a recipe, or None.

        Raises Corrupt or another error if logs cannot be read, unless the offer is a running job,
        which may have trimmed them since.
        """
        try:
            check_recipe(recipe)
        except Incompatible as error:
            return error
        except FlinkishError as error:
            if not offer.live:
                raise
            log(f"the logs of {recipe.origins[recipe.base].root} were not read: {error.message}")
        return None

    def source(
        self,
        new: NewQuery,
        source: NewSource,
        saved: SavedSource,
        offer: RestorableQuery,
        at_ms: int | None = None,
    ) -> SourceAnswer | None:
        """Return what still exists of a source's input, and its offsets at ``at_ms`` if given."""
        gone_on = partial(self._gone_on, offer)
        question = SourceQuestion(new.session, source, saved, offer, gone_on, at_ms)
        return ask(question, offline=self._offline)


def _position(
    new: NewQuery, offer: RestorableQuery, merged: Sequence[RestorableQuery]
) -> SinkStatus | None:
    """Return what the sink has recorded of the query; None if the sink records no batches.

    ``merged`` are the queries that are merged into it, whose later batches it writes again.
    """
    sink = new.sink
    place = SinkPlace(sink.format, sink.path, sink.table)
    target = sink.table or sink.path or ""
    kind = (sink.format or "parquet").lower()
    if sink.unreadable:
        return SinkStatus(kind, target, unreadable=sink.unreadable)
    table = open_table(place, new.session)
    if table is None:
        return file_sink_status(sink.format, sink.path, storage)
    try:
        if not table.exists():
            return SinkStatus(kind, target, by_query_id=True)
        reading = table.read(offer.query_id)
        recorded = recorded_version(offer.query.sink, reading.table_id)
        since, back = since_savepoint(table, reading, offer, recorded)
        since = replace(since, merged=merged_batches(table, merged))
        if since.merged:
            back = RollbackTarget(None, why="queries that are merged have written to it since")
    except TableError as error:
        return SinkStatus(kind, target, by_query_id=True, unreadable=error.message)
    return SinkStatus(
        kind,
        target,
        reading.newest_batch,
        by_query_id=True,
        rollback=back or RollbackTarget(None, why="it has nothing after the savepoint"),
        skips_after_rollback=reading.skips_after_rollback,
        computes_skipped=reading.computes_skipped,
        drift=since,
        version=reading.version,
    )


def start_status(sink: NewSink, session: Any, query_id: str | None) -> SinkStatus | None:
    """Return the status of a sink that may skip batches of a query that starts; None for another.

    A table that can be opened has a status only with ``query_id``, as it skips by query id.
    """
    kind, target = (sink.format or "parquet").lower(), sink.table or sink.path or ""
    if sink.unreadable:
        return SinkStatus(kind, target, by_query_id=True, unreadable=sink.unreadable)
    table = open_table(SinkPlace(sink.format, sink.path, sink.table), session)
    if table is None:
        return file_sink_status(sink.format, sink.path, storage)
    try:
        if query_id is None or not table.exists():
            return None
        reading = table.read(query_id)
    except TableError as error:
        return SinkStatus(kind, target, by_query_id=True, unreadable=error.message)
    return SinkStatus(
        format=kind,
        path=target,
        newest_batch=reading.newest_batch,
        by_query_id=True,
        computes_skipped=reading.computes_skipped,
    )


def beginning(name: str, stateful: bool, location: str) -> tuple[Beginning, str | None]:
    """Return where a query is about to start, and its query id if it has one.

    Raises StorageError if the checkpoint cannot be read by this process.
    """
    try:
        root = storage.locate(location)
        planned, committed = newest_planned_batch(root), newest_committed_batch(root)
        query_id = query_id_of(root)
    except Corrupt:  # the checkpoint's metadata is missing or damaged
        is_new = planned is None and committed is None
        return Beginning(name, stateful, None if is_new else root, committed, planned), None
    return Beginning(name, stateful, root, committed, planned), query_id


def _is_own(saved: Mapping[str, Any], sink: NewSink, session: Any) -> bool:
    """Return whether a query writes to the place that the saved query wrote to."""
    if sink.table is not None and saved.get("table") == sink.table:
        return True
    return has_path_of(saved, sink, session)


def has_path_of(saved: Mapping[str, Any], sink: NewSink, session: Any) -> bool:
    """Return whether a sink has the path of a saved sink, whose path is not yet qualified."""
    path = saved.get("path")
    if path is None or sink.path is None:
        return False
    path = str(path) if session is None else str(qualified(str(path), session))
    return storage.same_place(path, sink.path)


def _is_other(saved: Mapping[str, Any], sink: NewSink, session: Any) -> bool:
    """Return whether a query writes to another place than the saved query; False if unknown."""
    places = (saved.get("path"), sink.path), (saved.get("table"), sink.table)
    return any(None not in pair for pair in places) and not _is_own(saved, sink, session)
