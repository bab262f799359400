"""The look-ups of a restore planner inside a driver: sinks, input files, other runs of a query."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from flinkish import storage
from flinkish.checkpoint.cut import newest_planned_batch
from flinkish.driver.log import log
from flinkish.errors import FlinkishError, StorageError
from flinkish.restore.check.kafka_topics import ask_for
from flinkish.restore.check.source_files import missing_files
from flinkish.restore.materialize.new_logs import replays_planned
from flinkish.restore.plan.decisions import QueryPlan
from flinkish.restore.plan.kafka_reading import BrokerAnswer, parse_position
from flinkish.restore.plan.query_id import OtherRun
from flinkish.restore.plan.sinks import SinkMode, SinkPlan, judge_sink, sink_position
from flinkish.restore.plan.verdicts import Check, RestoreOutcome
from flinkish.restore.recipe import Recipe
from flinkish.restore.source.restore_inputs import NewQuery, NewSource, SavedSource
from flinkish.restore.source.restore_source import RestorableQuery


class DriverRestoreEnvironment:
    """The look-ups of a restore planner inside a driver.

    Parameters
    ----------
    other_runs
        Returns all other jobs that ever ran a Spark query id.
    offline
        Whether no broker is asked.
    """

    def __init__(
        self, other_runs: Callable[[str], Sequence[OtherRun]], *, offline: bool = False
    ) -> None:
        self._other_runs = other_runs
        self._offline = offline

    def other_runs(self, query_id: str) -> Sequence[OtherRun]:
        """Return all other jobs that ever ran this Spark query id."""
        return self._other_runs(query_id)

    def sink(
        self,
        new: NewQuery,
        offer: RestorableQuery,
        recipe: Recipe,
        keep_id: bool,
        mode: SinkMode | None,
    ) -> SinkPlan | None:
        """Judge whether the sink already has batches that the query would write.

        A running job would end with the batch that it has planned, so nothing would be replayed.
        """
        position = sink_position(new.sink.format, new.sink.path, offer.query_id, storage)
        if position is None:
            return None
        job_at = None
        if offer.live and _same_place(offer.query.sink.get("path"), position.path):
            job_at = newest_planned_batch(offer.origin.root)  # after the sink: never behind it
        return judge_sink(
            recipe.batch_id,
            position,
            keep_id,
            mode,
            replays_planned=replays_planned(recipe) and not offer.live,
            stateful=bool(offer.query.operators if recipe.states is None else recipe.states),
            job_at=job_at,
        )

    def input_files(
        self, new: NewQuery, offer: RestorableQuery, plan: QueryPlan
    ) -> Sequence[Check]:
        """Check that the input files of the restored batch still exist."""
        afresh = {(s.query, s.entry) for s in plan.sources.given_up}
        sources = [s for s in offer.query.sources or () if (s.query, s.entry) not in afresh]
        if not sources:
            return ()
        try:
            found = missing_files(offer.origin, sources)
        except FlinkishError as error:
            # The restore itself reads these logs too, and reports the error better.
            log(f"query '{new.name}': its input files were not checked: {error.message}")
            return ()
        checks = []
        for check in found:
            grave = [Check("files-gone", RestoreOutcome.WARNING, text) for text in check.warnings()]
            light = [Check("files-gone", RestoreOutcome.NOTE, text) for text in check.notes()]
            checks += [*grave, *light]
        return checks

    def broker(self, source: NewSource, saved: SavedSource) -> BrokerAnswer:
        """Ask the broker of a Kafka source for the topics of the source and of its position."""
        if self._offline:
            return BrokerAnswer(None, "--offline")
        position = parse_position(saved.offset)
        if position is None:
            return BrokerAnswer(None, "the saved position is not one of Kafka")
        return ask_for(source, position)


def _same_place(saved: str | None, path: str) -> bool:
    """Return whether two locations are one, whichever links lead there."""
    if saved is None:
        return False
    try:
        places = [storage.locate(each) for each in (saved, path)]
    except StorageError:
        return saved == path
    one, other = (os.path.realpath(p) if storage.is_local(p) else p.rstrip("/") for p in places)
    return one == other


def qualified(path: str | None, session: Any) -> str | None:
    """Return a sink's path with the file system that Spark would write to, unless that is local."""
    if path is None or "://" in path or path.startswith("file:"):
        return path
    default = str(session._jsc.hadoopConfiguration().get("fs.defaultFS") or "")
    if default.startswith("file:") or not default:
        return os.path.abspath(path)
    return default.rstrip("/") + "/" + path.lstrip("/")
