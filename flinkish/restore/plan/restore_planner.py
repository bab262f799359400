"""The plan of a whole restore, query by query in the order in which the program starts them.

One planner serves ``flinkish check``, which shows the plan, and ``run -s``, which shows it and then
carries it out exactly. Decisions are pure, except that the time is part of a new history shift. The
given :class:`RestoreEnvironment` looks up the rest: the newest batch of a sink, missing input
files, other runs of a query.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, cast

from flinkish.connectors.offsets import Target, parse_target
from flinkish.connectors.registry import sink_connector
from flinkish.connectors.source_plan import SourceFacts
from flinkish.connectors.sources import RESET, SET, NewSource, QueryKey, SavedSource, SourceAnswer
from flinkish.errors import ConsentNeeded, FlinkishError, Incompatible, UsageError
from flinkish.messages.plan import Check, RestoreOutcome, RestorePlan
from flinkish.messages.restore_options import RestoreOptions
from flinkish.restore.origin.restore_inputs import NewQuery
from flinkish.restore.origin.restore_origin import RestorableQuery, RestoreOrigin
from flinkish.restore.plan.decisions import QueryPlan, plan_query, recipe_for
from flinkish.restore.plan.document import restore_plan
from flinkish.restore.plan.history import (
    Replay,
    check_foreach_batch,
    counts_history,
    decide_history,
    saved_shift,
)
from flinkish.restore.plan.judging import ask, refuse
from flinkish.restore.plan.non_restored_state import (
    NOTHING_TAKEN,
    NonRestored,
    Taken,
    check_left_out,
    find_non_restored,
)
from flinkish.restore.plan.operator_matching import check_uid_map
from flinkish.restore.plan.pins import pin_rows
from flinkish.restore.plan.preconditions import preconditions, with_watermark
from flinkish.restore.plan.query_id import OtherRun, QueryIdentity, decide_query_id
from flinkish.restore.plan.query_restore import (
    PlanningSettings,
    QueryRestore,
    StateRewrite,
    cannot_rewrite,
    has_rescaled,
    rewrite_of,
)
from flinkish.restore.plan.repeated_batches import check_replay, judge_repeats, sink_format
from flinkish.restore.plan.sinks import SINK_HAS_PLANNED, SinkMode, SinkPlan
from flinkish.restore.plan.source_matching import reset_entries
from flinkish.restore.plan.source_plans import (
    blocked,
    fresh_rows,
    in_order,
    job_sources,
    source_plans,
)
from flinkish.restore.plan.starts import Agreed
from flinkish.restore.recipe import EmptyState, OriginCheckpoint, Recipe

DEFAULT_SETTINGS = PlanningSettings()


class RestoreEnvironment(Protocol):
    """Look-ups that a planner needs."""

    def other_runs(self, query_id: str) -> Sequence[OtherRun]:
        """Return all other jobs that ever ran this Spark query id."""

    def runs_under_other_ids(self, query_id: str) -> Sequence[OtherRun]:
        """Return the jobs that went back to an earlier batch of a query, under another id."""

    def begun_elsewhere(self, offer: RestorableQuery) -> int | None:
        """Return the newest batch that runs under other ids have begun since a query was saved."""

    def sink(
        self,
        new: NewQuery,
        offer: RestorableQuery,
        recipe: Recipe,
        identity: QueryIdentity,
        mode: SinkMode | None,
        others: Sequence[RestorableQuery] = (),
    ) -> SinkPlan | None:
        """Return the plan for the sink, which may have batches; None if it records no batches.

        ``others`` are the saved queries besides ``offer`` that give state or positions.
        """

    def start(self, new: NewQuery, mode: SinkMode | None) -> ConsentNeeded | Agreed | None:
        """Return the refusal or the note on a query that the savepoint lacks; None for neither."""

    def input_files(
        self, new: NewQuery, offer: RestorableQuery, plan: QueryPlan, moved: Collection[int]
    ) -> Sequence[Check]:
        """Return the checks for missing input files of the restored batch.

        ``moved`` are the entries of sources with new offsets, or whose files exist at a new place.
        """

    def source(
        self,
        new: NewQuery,
        source: NewSource,
        saved: SavedSource,
        offer: RestorableQuery,
        at_ms: int | None = None,
    ) -> SourceAnswer | None:
        """Return what a source can still read, and its offsets at a time if requested.

        None if nothing is asked about the source, or the question fails.
        """

    def materialisation(self, offer: RestorableQuery, recipe: Recipe) -> Incompatible | None:
        """Return why no checkpoint can be made of a recipe, or None.

        Raises Corrupt, UnsupportedFormat or StorageError for logs that cannot be read.
        """


class RestorePlanner:
    """Plans the restore of one job, one query after the other.

    Raises UsageError when ``--uid-map`` names something that the savepoint lacks, or when
    ``--set-offsets`` gives no valid target.
    """

    def __init__(
        self,
        offers: RestoreOrigin,
        options: RestoreOptions,
        environment: RestoreEnvironment,
        settings: PlanningSettings = DEFAULT_SETTINGS,
        before: Taken = NOTHING_TAKEN,
    ) -> None:
        self.offers = offers
        #: What earlier drivers of the job took from the savepoint.
        self.before = before
        self.options = options
        self.settings = settings
        self._environment = environment
        self._done: dict[str, QueryRestore] = {}
        #: The old uid or operator id by the new uid.
        self._uid_map = {new: old for old, new in options.uid_map}
        self._set_offsets = [(name, parse_target(text)) for name, text in options.set_offsets]
        check_uid_map(self._uid_map, offers.queries)

    @property
    def _sink_ahead(self) -> SinkMode | None:
        return cast("SinkMode | None", self.options.sink_ahead)

    @property
    def queries(self) -> Sequence[QueryRestore]:
        """The plans made so far, in the order of the starts."""
        return list(self._done.values())

    def plan(self, new: NewQuery, empty: Mapping[int, EmptyState]) -> QueryRestore:
        """Plan one starting query; an obstacle becomes the plan's ``refusal``.

        ``empty`` has the empty state of operators without saved state, by ordinal. Raises
        UsageError if ``--uid-map``, ``--reset-source`` or ``--set-offsets`` is ambiguous or wrong,
        and what the environment's ``materialisation`` raises for logs that cannot be read.
        """
        sink = new.sink
        writes = {"format": sink.format, "path": sink.path, "table": sink.table}
        restore = replace(self._plan(new, empty), writes={**writes, "place": sink.place})
        self._done[new.name] = restore
        return restore

    def forget(self, name: str) -> None:
        """Forget the plan of a query that has not started: its state has no owner again."""
        self._done.pop(name, None)

    def _plan(self, new: NewQuery, empty: Mapping[int, EmptyState]) -> QueryRestore:
        options, settings = self.options, self.settings
        started: set[QueryKey] = {p.base.key for p in self.query_plans() if p.base and p.own}
        started |= self.before.continued
        try:
            plan = plan_query(
                new,
                self.offers.queries,
                started,
                hasher=settings.hasher,
                uid_map=self._uid_map,
                reset=options.reset_sources,
                partitions=settings.parallelism,
                migrates_lazily=settings.migrates_lazily,
            )
        except UsageError:
            raise
        except FlinkishError as error:
            return QueryRestore(new.name, refusal=error)
        targets = self._targets(new, plan)
        if plan.base is None and targets:
            text = f"query '{new.name}' has no saved offsets that could be changed"
            none = Incompatible(text, hint=f"omit {SET}", reasons=["set-offsets-new"])
            return QueryRestore(new.name, plan, refusal=none)
        if plan.base is None:
            return self._without_state(new, plan)
        offer = self.offers.by_key[plan.base.key]
        identity = self._identity(plan, offer)
        rows = source_plans(
            new,
            plan.base if plan.own else None,
            plan.sources,
            self._source_facts(new, plan, targets),
        )
        # What `--set-offsets` has moved has no part in the planned batch.
        moved = {r.new.entry for r in rows if r.new is not None and (r.move or r.set_to)}
        checks = [
            *preconditions(new, plan.base, plan.other_givers(self.offers.queries)),
            *self._environment.input_files(new, offer, plan, moved),
        ]
        checks += [check for row in rows for check in row.checks]
        checks += [Check("path-mapped", RestoreOutcome.NOTE, text) for text in offer.path_notes]
        if offer.planned_fault:
            checks.append(Check("planned-batch", RestoreOutcome.WARNING, offer.planned_fault))
        restore = QueryRestore(
            new.name,
            plan,
            identity,
            sources=rows,
            pins=pin_rows(
                new.name,
                plan.base.pins,
                new.settings,
                settings.parallelism,
                canonical=offer.canonical,
                rescales=has_rescaled(plan, settings.parallelism),
            ),
            checks=tuple(checks),
        )
        refusal = refuse(plan.operators or (), settings.executors) or blocked(rows, checks)
        if refusal is not None:
            return replace(restore, refusal=refusal)
        origins = {key: each.origin for key, each in self.offers.by_key.items()}
        rewrite = rewrite_of(
            plan,
            settings.parallelism,
            fit=offer.fit,
            canonical=offer.canonical,
            settings=new.settings,
        )
        recipe = recipe_for(
            plan,
            origins,
            empty,
            rewritten=rewrite is not None,
            offsets={r.new.entry: r.set_to for r in rows if r.new and r.set_to is not None},
            moves={
                r.new.entry: None if r.move is None else (r.move.old, r.move.new)
                for r in rows
                if r.new is not None and r.elsewhere
            },
        )
        givers = self._offers_of([recipe.origins[index] for index in recipe.watermark_givers])
        watermarks = [each.query.watermark_ms or 0 for each in givers]
        restore = replace(restore, checks=with_watermark(checks, new, plan.base, rows, watermarks))
        takes = rewrite is None and recipe.can_take_planned_state
        recipe = replace(recipe, takes_planned_state=takes)
        others = [each for each in self._offers_of(recipe.origins) if each is not offer]
        sink = self._environment.sink(new, offer, recipe, identity, self._sink_ahead, others)
        if sink is not None and sink.blocks:
            refusal = _sink_ahead(sink, rewrite, recipe, settings)
        takes = takes and sink is not None and sink.reason == SINK_HAS_PLANNED
        recipe = replace(
            recipe,
            rebase_to=sink.rebase_to if sink is not None else None,
            takes_planned_state=takes,
        )
        if rewrite is None:  # if state is rewritten, the engine changes the pins
            recipe = replace(recipe, pins=offer.fit.formats)
        elif refusal is None:
            refusal = cannot_rewrite(rewrite, recipe, settings)
        refusal = refusal or ask(plan.operators or (), options.accept_partial)
        if not isinstance(refusal, Incompatible):  # which no consent can resolve
            permitted = recipe
            if sink is not None and sink.blocks and sink.permit == ("rebase",):
                permitted = replace(recipe, rebase_to=sink.newest_batch)
            refusal = self._environment.materialisation(offer, permitted) or refusal
        if sink is not None and sink.keeps_query_id:
            identity = QueryIdentity(True, f"{identity.reason}; kept by --sink-ahead accept")
        repeats = (
            *self._written_again(new, offer, recipe),
            None if offer.live else check_replay(new, recipe, settings.spark),
        )
        restore = self._with_history(restore, new, offer, recipe, identity)
        return replace(
            restore,
            identity=identity,
            checks=(*restore.checks, *(check for check in repeats if check is not None)),
            sink=sink,
            recipe=None if refusal is not None else recipe,
            rewrite=rewrite,
            refusal=refusal,
        )

    def _with_history(
        self,
        restore: QueryRestore,
        new: NewQuery,
        offer: RestorableQuery,
        recipe: Recipe,
        identity: QueryIdentity,
    ) -> QueryRestore:
        """Return the plan with its history shift and the check of a ``foreachBatch`` function."""
        entries = [source.entry for source in offer.query.sources or ()]
        numbered = (new.sink.format or "").lower() == "foreachbatch"
        facts = (
            saved_shift(offer.query.sink),
            offer.query.batch_id,
            identity,
            self._environment.other_runs(offer.query_id),
            Replay(recipe.has_planned, recipe.repeats_planned(entries), recipe.batch_id),
            self._environment.begun_elsewhere(offer) if numbered else None,
        )
        checks = [check_foreach_batch(new.name, *facts)] if numbered else []
        for each in self._offers_of(recipe.origins) if numbered else ():
            if each is not offer and counts_history(sink_format(each.query.sink)):
                checks.append(self._merged_function(new, each))
        noted = [check for check in checks if check.outcome is not RestoreOutcome.OK] or checks[:1]
        history = decide_history(*facts, now_ms=int(time.time() * 1000))
        return replace(restore, history=history, checks=(*restore.checks, *noted))

    def _merged_function(self, new: NewQuery, giver: RestorableQuery) -> Check:
        """Return what runs again of a ``foreachBatch`` function whose query another one takes."""
        return check_foreach_batch(
            new.name,
            saved_shift(giver.query.sink),
            giver.query.batch_id,
            QueryIdentity(False, "its query is merged into another one"),
            self._environment.other_runs(giver.query_id),
            Replay(Recipe((giver.origin,)).has_planned),
            self._environment.begun_elsewhere(giver),
            merged=giver.query.describe(),
        )

    def _targets(self, new: NewQuery, plan: QueryPlan) -> dict[int, Target]:
        """Return the offsets that sources get, by entry; raise UsageError for one named twice."""
        targets: dict[int, Target] = {}
        saved = list(self.offers.by_key)
        for name, target in self._set_offsets:
            for entry in reset_entries([name], new, saved, option=SET):
                if entry in targets or entry in plan.sources.reset:
                    raise UsageError(
                        f"the source {name!r}, which is to get other offsets, is named twice",
                        hint=f"name it once, with {SET} or with {RESET}",
                    )
                targets[entry] = target
        return targets

    def _source_facts(
        self, new: NewQuery, plan: QueryPlan, targets: Mapping[int, Target]
    ) -> SourceFacts:
        """Return what is known about the data of sources that have a saved position."""
        answers: dict[int, SourceAnswer] = {}
        matched = plan.sources.matched or in_order(new, plan.base)
        for source, saved in zip(new.sources or (), matched, strict=False):
            if saved is None:
                continue
            target = targets.get(source.entry)
            at_ms = None if target is None else target.time_ms
            offer = self.offers.by_key[saved.query]
            answer = self._environment.source(new, source, saved, offer, at_ms)
            if answer is not None:
                answers[source.entry] = answer
        return SourceFacts(answers, self.options, targets, job_sources(self.offers))

    def _without_state(self, new: NewQuery, plan: QueryPlan) -> QueryRestore:
        """Return the plan of a query that the savepoint does not have."""
        rows = fresh_rows(new, SourceFacts(options=self.options, saved=job_sources(self.offers)))
        checks = [*preconditions(new, None), *(check for row in rows for check in row.checks)]
        left_out = check_left_out(
            new.name,
            self.offers.left_out,
            complete=self.offers.complete,
            agreed=self.options.allow_non_restored,
        )
        refusal = blocked(rows)
        if left_out is not None:
            checks.append(left_out)
            if left_out.outcome is RestoreOutcome.CONSENT:
                refusal = ConsentNeeded(left_out.text, hint=left_out.advice, reasons=[left_out.id])
        start = self._environment.start(new, self._sink_ahead)
        if isinstance(start, Agreed):
            is_readable = start.reason != "sink-unreadable"
            outcome = RestoreOutcome.NOTE if is_readable else RestoreOutcome.WARNING
            checks.append(Check(start.reason, outcome, start.text))
        elif refusal is None:
            refusal = start
        return QueryRestore(new.name, plan, checks=tuple(checks), refusal=refusal)

    def _identity(self, plan: QueryPlan, offer: RestorableQuery) -> QueryIdentity:
        runs = self._environment.other_runs(offer.query_id)
        identity = decide_query_id(offer.query.batch_id, runs, fork=self.options.fork)
        if plan.own:
            return identity
        # Its sink may have batches of the saved query, whose id another query may keep.
        return QueryIdentity(
            False,
            f"its state comes from query '{offer.query.key}'",
            goes_back=not self.options.fork and not identity.in_use,
            in_use=identity.in_use,
            may_keep=False,
        )

    def _written_again(
        self, new: NewQuery, offer: RestorableQuery, recipe: Recipe
    ) -> Sequence[Check]:
        """Return what a sink gets again, without the batch that a running job still commits."""
        if not sink_connector(new.sink.format).repeats_batches:
            return ()
        checks: list[Check] = []
        for each in self._offers_of(recipe.origins):
            runs: list[OtherRun] = []
            if not each.live:
                runs += self._environment.other_runs(each.query_id)
                runs += self._environment.runs_under_other_ids(each.query_id)
            check = judge_repeats(
                new.name,
                new.sink.format,
                sink_format(each.query.sink),
                each.query.batch_id,
                runs,
                planned=each is offer and recipe.replays_planned and not each.live,
            )
            checks += [] if check is None else [check]
        # If batches of one saved query repeat, the notes that others repeat nothing are left out.
        return [c for c in checks if c.outcome is RestoreOutcome.WARNING] or checks[:1]

    def _offers_of(self, origins: Sequence[OriginCheckpoint]) -> list[RestorableQuery]:
        """Return the saved queries whose files these are."""
        by_key = self.offers.by_key.values()
        return [each for each in by_key if any(each.origin is origin for origin in origins)]

    def query_plans(self) -> list[QueryPlan]:
        """Return the plans of the queries that could be planned."""
        return [each.plan for each in self._done.values() if each.plan is not None]

    def non_restored(self) -> NonRestored:
        """Return the parts of the savepoint that no query has taken so far."""
        return find_non_restored(self.offers.queries, self.query_plans(), self.before)

    def _left_behind(self) -> NonRestored:
        """Return the non-restored state, without queries refused before operators were matched."""
        refused: set[QueryKey] = {name for name, each in self._done.items() if each.plan is None}
        if refused:
            refused.add(None)  # the query of a plain checkpoint may continue as any of these
        left = self.non_restored()
        return NonRestored(
            tuple(query for query in left.queries if query.key not in refused),
            tuple(op for op in left.operators if op.query not in refused),
            tuple(source for source in left.sources if source.query not in refused),
        )

    def restore_plan_of(self, restore: QueryRestore) -> RestorePlan:
        """Return one query's part of the plan."""
        return restore_plan([restore], NonRestored(), self.options, self.settings.executors)

    def restore_plan(self, *, complete: bool) -> RestorePlan:
        """Return the plan so far.

        With ``complete`` the program has started all its queries, so non-restored state counts.
        """
        left = self._left_behind() if complete else NonRestored()
        plan = restore_plan(self.queries, left, self.options, self.settings.executors)
        return replace(plan, complete=complete)


def _sink_ahead(
    sink: SinkPlan, rewrite: StateRewrite | None, recipe: Recipe, settings: PlanningSettings
) -> FlinkishError:
    """Return the refusal for a sink that is ahead: ConsentNeeded if consent can resolve it."""
    permitted = recipe
    if sink.permit == ("rebase",):
        permitted = replace(recipe, rebase_to=sink.newest_batch)
    never = None if rewrite is None else cannot_rewrite(rewrite, permitted, settings)
    if never is not None:
        return Incompatible(f"{sink.text}; {never.message}", hint=never.hint, reasons=[sink.reason])
    return ConsentNeeded(sink.text, hint=sink.advice, reasons=[sink.reason])
