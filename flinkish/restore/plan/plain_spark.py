"""Checkpoints in which queries continue without flinkish. Pure.

:func:`plan_unchanged` plans one for a program that stays the same. The program does not run, so a
sink that only Spark can read, such as a table, is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flinkish.errors import ConsentNeeded, FlinkishError, Incompatible
from flinkish.restore.origin.restore_origin import RestorableQuery
from flinkish.restore.plan.query_id import OtherRun, QueryIdentity, decide_query_id
from flinkish.restore.plan.sinks import (
    SINK_HAS_PLANNED,
    Continuation,
    SinkMode,
    SinkPlan,
    SinkStatus,
    judge_sink,
)
from flinkish.restore.recipe import Recipe


@dataclass(frozen=True)
class UnchangedQuery:
    """The plan of one query; its recipe has the saved query id, whatever ``identity`` says."""

    recipe: Recipe
    identity: QueryIdentity
    sink: SinkPlan | None = None
    refusal: FlinkishError | None = None


def plan_unchanged(
    offer: RestorableQuery,
    runs: Sequence[OtherRun],
    status: SinkStatus | None,
    *,
    fork: bool = False,
    mode: SinkMode | None = None,
) -> UnchangedQuery:
    """Plan the checkpoint of a query whose program stays the same.

    ``runs`` are the other jobs that ever ran its query id; ``status`` is the status of its sink,
    None if the sink was not looked at; ``mode`` is ``--sink-ahead``.
    """
    recipe = Recipe((offer.origin,))
    identity = decide_query_id(offer.query.batch_id, runs, fork=fork)
    if offer.canonical:
        return UnchangedQuery(recipe, identity, refusal=_canonical(offer))
    if status is None:
        return UnchangedQuery(recipe, identity)
    takes = recipe.can_take_planned_state
    query = Continuation(
        recipe.batch_id,
        identity.keep,
        stateful=bool(offer.query.operators),
        goes_back=identity.goes_back,
        in_use=identity.in_use,
        replays_planned=recipe.replays_planned,
        has_planned_state=takes,
    )
    sink = judge_sink(status, query, mode)
    if sink.keeps_query_id:
        identity = QueryIdentity(True, f"{identity.reason}; kept by --sink-ahead accept")
    recipe = replace(
        recipe,
        rebase_to=sink.rebase_to,
        takes_planned_state=takes and sink.reason == SINK_HAS_PLANNED,
    )
    refusal = None
    if sink.blocks:
        text = f"{offer.query.describe()}: {sink.text}"
        refusal = ConsentNeeded(text, hint=sink.advice, reasons=[sink.reason])
    return UnchangedQuery(recipe, identity, sink, refusal)


def _canonical(offer: RestorableQuery) -> Incompatible:
    return Incompatible(
        f"{offer.query.describe()}: its state is canonical, a form that Spark cannot load",
        hint="name the program too, so that the state is written for its Spark; or convert the "
        "savepoint first: flinkish migrate PATH TARGET --type native",
        reasons=["canonical"],
    )


@dataclass(frozen=True)
class PlainContinuation:
    """How a query continues, in the respects that flinkish handles and Spark alone does not.

    ``counts_history`` says whether the history batches of its ``foreachBatch`` function differ from
    Spark's batch ids. ``log_path`` is the place of a file sink, whose log ends at ``newest_logged``
    and has a compact entry every ``interval`` batches.
    """

    query: str
    next_batch: int
    counts_history: bool = False
    log_path: str | None = None
    newest_logged: int | None = None
    interval: int = 10

    def warnings(self) -> list[str]:
        """Return what Spark alone does not do for the query."""
        warnings = []
        if self.counts_history:
            warnings.append(
                f"query '{self.query}': without flinkish, history_batch returns Spark's batch ids, "
                "which do not continue the numbers that it returned before, and may repeat some of "
                "them for other data"
            )
        newest = -1 if self.newest_logged is None else self.newest_logged
        if self.log_path is not None and newest < self.next_batch - 1:
            compact = (self.next_batch // self.interval + 1) * self.interval - 1
            ends = "has no batch" if newest < 0 else f"ends at batch {newest}"
            warnings.append(
                f"query '{self.query}': the log of the file sink {self.log_path} {ends}, and the "
                f"query continues with batch {self.next_batch}: Spark alone fails in batch "
                f"{compact}, which needs the missing entries; let the query write to the place "
                "that has them"
            )
        return warnings
