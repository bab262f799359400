"""The restore of one query inside the driver: what is offered, its plan, its checkpoint.

Jobs, checks, exports and rehearsals share this module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flinkish.checkpoint.format.pins import SETTING_CHECKPOINT_FORMAT
from flinkish.connectors.sources import RESET, SET, QueryKey
from flinkish.driver.migration.checkpoint_migration import engine_is_here, make_rewritten
from flinkish.driver.plan.plan_extraction import PlannedQuery
from flinkish.driver.plan.planned_queries import empty_states, new_query
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.errors import (
    UsageError,
)
from flinkish.messages.calls import JobOrigin
from flinkish.messages.launch import RestoreSpec
from flinkish.restore.check.version_check import fit_offers
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.origin.restore_inputs import NewQuery
from flinkish.restore.origin.restore_origin import RestoreOrigin, open_origin
from flinkish.restore.plan.judging import FOR_THE_ENGINE
from flinkish.restore.plan.non_restored_state import (
    NonRestored,
)
from flinkish.restore.plan.preconditions import SETTING_SCHEMA_CHECK
from flinkish.restore.plan.query_restore import PlanningSettings, QueryRestore, StateRewrite
from flinkish.restore.plan.restore_planner import RestorePlanner
from flinkish.restore.plan.schema_messages import ACCEPT_PARTIAL
from flinkish.restore.plan.source_matching import check_reset
from flinkish.restore.recipe import Recipe


def offers_here(spec: RestoreSpec, job: JobOrigin | None = None) -> RestoreOrigin:
    """Open what is restored, converted for the Spark of this process.

    Parameters
    ----------
    job
        The job whose checkpoints are restored instead of the savepoint.

    Raises
    ------
    FlinkishError
        An error of :func:`~flinkish.restore.origin.restore_origin.open_origin`.
    """
    from pyspark import __version__ as spark

    return fit_offers(open_origin(spec, job), spark)


def plan_start(
    planner: RestorePlanner,
    name: str,
    planned: PlannedQuery | None,
    facts: WriterFacts,
    session: Any,
    modules: tuple[str, ...],
) -> tuple[NewQuery, QueryRestore]:
    """Plan the restore of a starting query, for a run or for a check.

    Parameters
    ----------
    planned
        The query as planned with :func:`planning_settings`; None when it cannot be planned.
    modules
        The modules whose classes a snapshot of typed state may name.

    Returns
    -------
    tuple
        The starting query as the planner sees it, and its restore plan.
    """
    settings = _asked_settings(planner.offers, session)
    new = new_query(name, planned, facts, session, settings, modules)
    return new, planner.plan(new, empty_states(planned) if planned is not None else {})


def make_restored(
    session: Any,
    recipe: Recipe,
    rewrite: StateRewrite | None,
    target: str,
    *,
    location: str | None = None,
) -> None:
    """Create the checkpoint ``target``, with its state rewritten where the plan asks for that.

    For ``location``, and for errors, see ``make_checkpoint`` and ``make_rewritten``.
    """
    if rewrite is None:
        make_checkpoint(recipe, target, location=location)
    else:
        make_rewritten(session, recipe, rewrite, target, location=location)


def settings_of(spec: RestoreSpec, planning: Planning) -> PlanningSettings:
    """Return what the plan of a restore depends on besides the user's options."""
    from pyspark import __version__ as spark

    return PlanningSettings(
        parallelism=spec.parallelism,
        hasher=planning.hasher,
        executors=FOR_THE_ENGINE if engine_is_here() else frozenset(),
        migrates_lazily=planning.migrates_lazily,
        spark=spark,
    )


def check_names(
    spec: RestoreSpec,
    queries: Sequence[NewQuery],
    left: NonRestored | None = None,
    saved: Collection[QueryKey] = (),
) -> None:
    """Raise UsageError if an option of the restore names something that the program lacks.

    Parameters
    ----------
    queries
        All queries that the program has started.
    left
        The state in the savepoint that these queries have not taken, if the program may start
        others. Names that later queries may have are passed over.
    saved
        The queries of the savepoint.
    """
    left = left or NonRestored()
    later = [query.key for query in left.queries]
    for option, names in (
        (RESET, spec.options.reset_sources),
        (SET, [name for name, _ in spec.options.set_offsets]),
    ):
        named = [name for name in names if not left.may_read(name)]
        check_reset(named, queries, saved, later, option=option)
    uids = {op.uid for query in queries for op in query.operators or ()}
    uids |= {source.uid for query in queries for source in query.sources or ()}
    operators = [op for query in queries for op in query.operators or ()]
    for name in spec.options.accept_partial:
        to_come = left.may_be_of(name) or any(
            new == name and left.may_give(old) for old, new in spec.options.uid_map
        )
        if not to_come and not any(op.answers_to(name) for op in operators):
            raise UsageError(
                f"the program has no operator {name!r}, for which partial results are accepted",
                hint=f"{ACCEPT_PARTIAL} UID; see the program's uids with: flinkish info APP.py",
            )
    for old, new in spec.options.uid_map:
        if new not in uids and not left.may_give(old):
            raise UsageError(
                f"the program has no operator with uid {new!r}, to which the uid map maps {old!r}",
                hint="--uid-map OLD=NEW; see the program's uids with: flinkish info APP.py",
            )


def planning_settings(offers: RestoreOrigin, name: str) -> Mapping[str, str]:
    """Return the Spark settings of query ``name``'s checkpoint, to plan the query with them."""
    by_key = offers.by_key
    offer = by_key.get(name) or by_key.get(None) or next(iter(by_key.values()))
    rewritten = offer.fit.checkpoint_format == 1
    return {**offer.pins, **_format_setting(offer.checkpoint_format, always=rewritten)}


def session_settings(planner: RestorePlanner) -> Mapping[str, str]:
    """Return Spark settings that restored checkpoints need and the offset log does not pin.

    ``checkpointFormatVersion`` is not pinned. A checkpoint written with 2 fails on Spark before 4.3
    unless the setting is given again, and one rewritten to 1 fails on 4.0 if the setting is 2.
    """
    keys = {plan.base.key for plan in planner.query_plans() if plan.base is not None}
    offers = [planner.offers.by_key[key] for key in keys]
    rewritten = any(offer.fit.checkpoint_format == 1 for offer in offers)
    newest = max((offer.checkpoint_format for offer in offers), default=1)
    return _format_setting(newest, always=rewritten)


def _asked_settings(offers: RestoreOrigin, session: Any) -> dict[str, str]:
    """Return the session's values of the settings that the savepoint pins or the checks use."""
    keys = {key for offer in offers.by_key.values() for key in offer.pins} | {SETTING_SCHEMA_CHECK}
    values = {key: session.conf.get(key, None) for key in sorted(keys)}
    return {key: str(value) for key, value in values.items() if value is not None}


def _format_setting(version: int, *, always: bool = False) -> dict[str, str]:
    return {SETTING_CHECKPOINT_FORMAT: str(version)} if always or version > 1 else {}
