"""``run -s`` inside the driver: gives each starting query its state back."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.checkpoint.layout import SETTING_CHECKPOINT_FORMAT
from flinkish.driver.log import say
from flinkish.driver.planned import empty_states, new_query
from flinkish.driver.planner import PlannedQuery
from flinkish.errors import StorageError, UsageError
from flinkish.jobs.model import QueryStatus, RestoreSpec
from flinkish.jobs.registry import Registry
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.checkpoint import make_checkpoint
from flinkish.restore.matching import check_uid_map
from flinkish.restore.offers import Offer, read_offers
from flinkish.restore.plan import (
    OtherRun,
    QueryIdentity,
    QueryPlan,
    Untaken,
    decide_query_id,
    plan_query,
    untaken,
)
from flinkish.restore.recipes import recipe_for
from flinkish.savepoint.dispose import dispose


@dataclass(frozen=True)
class Restored:
    """A query that has its checkpoint: the batch it stands at, and what is to be said of it."""

    batch_id: int
    notes: tuple[str, ...]


class Restorer:
    """Serves one job's restore; thread-safe, as queries may be started from several threads."""

    def __init__(
        self, registry: Registry, job_id: str, spec: RestoreSpec, hasher: HasherVersion
    ) -> None:
        self._registry = registry
        self._job_id = job_id
        self._spec = spec
        self._hasher = hasher
        self._uid_map = {new: old for old, new in spec.uid_map}
        self._lock = threading.Lock()
        self._plans: dict[str, QueryPlan] = {}
        self._batches: dict[str, int] = {}
        self._source_uids: set[str | None] = set()
        self._claimed = False
        self._agreed = False
        self._offers = read_offers(spec.path)
        check_uid_map(self._uid_map, self._offers.queries)

    def settings_for(self, name: str) -> Mapping[str, str]:
        """Spark settings to plan the query ``name`` with: those its checkpoint will pin."""
        offers = self._offers.by_key
        offer = offers.get(name) or offers.get(None) or next(iter(offers.values()))
        return {**offer.pins, **_format_setting(offer.checkpoint_format)}

    def restore(self, name: str, planned: PlannedQuery | None, target: str) -> Restored | None:
        """Materialise the checkpoint of query ``name`` at ``target``.

        Returns None when the query starts empty. Raises what
        :func:`~flinkish.restore.plan.plan_query` and ``make_checkpoint`` raise.
        """
        with self._lock:
            started = {plan.base.key for plan in self._plans.values() if plan.base and plan.own}
            new = new_query(name, planned)
            self._source_uids |= {source.uid for source in new.sources or ()}
            plan = plan_query(
                new,
                self._offers.queries,
                started,
                hasher=self._hasher,
                uid_map=self._uid_map,
            )
            if plan.base is None:
                self._plans[name] = plan
                for note in plan.notes:
                    say(note)
                return None
            offer = self._offers.by_key[plan.base.key]
            identity = self._identity(plan, offer)
            recipe = recipe_for(
                plan,
                {key: offer.donor for key, offer in self._offers.by_key.items()},
                empty_states(planned) if planned is not None else {},
            )
            recipe = replace(recipe, query_id=None if identity.keep else _new_query_id())
            make_checkpoint(recipe, target)
            self._plans[name] = plan
            self._batches[name] = recipe.batch_id
        notes = [
            *plan.notes,
            f"query '{name}' restored at batch {recipe.batch_id} from {self._spec.path}, "
            f"{'same' if identity.keep else 'new'} query id ({identity.reason})",
        ]
        for note in notes:
            say(note)
        return Restored(recipe.batch_id, tuple(notes))

    def _identity(self, plan: QueryPlan, offer: Offer) -> QueryIdentity:
        if not plan.own:
            return QueryIdentity(False, f"its state was that of query '{offer.query.key}'")
        runs = [
            OtherRun(job.job_id, job.state, _last_batch(query))
            for job, query in self._registry.find_query(offer.query_id)
            if job.job_id != self._job_id
        ]
        return decide_query_id(offer.query.batch_id, runs, fork=self._spec.fork)

    def untaken(self) -> Untaken:
        """What of the savepoint no query has taken so far."""
        with self._lock:
            return untaken(self._offers.queries, list(self._plans.values()))

    def is_waiting(self) -> bool:
        """Whether state waits for a query that the program has not started yet."""
        return bool(self.untaken()) and not self._agreed

    def check(self, *, more_to_come: bool) -> list[str]:
        """Refuse to go on with state left behind, unless ``-n`` was given.

        Parameters
        ----------
        more_to_come: the program may start more queries after this one (it waits for a query that
            ends by itself): saved queries that nothing was taken of may wait for them, unless a
            query of this program has found nothing at all.

        Returns what is to be said of dropped state. Raises NonRestoredState.
        """
        left = self.untaken()
        if not more_to_come:
            self._check_uid_map_was_used()
        if more_to_come and all(plan.base is not None for plan in self._plans.values()):
            left = replace(left, queries=())
        if not left or self._agreed:
            return []
        if not self._spec.allow_non_restored:
            raise left.error()
        if more_to_come:
            return []
        self._agreed = True
        notes = [f"state dropped (-n): {line}" for line in left.lines()]
        for note in notes:
            say(note)
        return notes

    def _check_uid_map_was_used(self) -> None:
        uids = {
            op.operator.uid for plan in self._plans.values() for op in plan.operators or ()
        } | self._source_uids
        unknown = sorted(set(self._uid_map) - uids)
        if unknown:
            raise UsageError(
                f"--uid-map {self._uid_map[unknown[0]]}={unknown[0]}: the program has no operator "
                f"with uid {unknown[0]!r}",
                hint="see its uids with: flinkish info APP.py",
            )

    def session_settings(self) -> Mapping[str, str]:
        """Spark settings the restored checkpoints need that the offset log does not pin.

        ``checkpointFormatVersion`` is not pinned: a checkpoint written with 2 fails on Spark
        before 4.3 unless it is set again.
        """
        keys = {plan.base.key for plan in self._plans.values() if plan.base is not None}
        formats = {self._offers.by_key[key].checkpoint_format for key in keys}
        return _format_setting(max(formats, default=1))

    def settle_claim(self, committed: Mapping[str, int | None]) -> None:
        """Delete a claimed savepoint once every restored query has a commit of its own.

        Parameters
        ----------
        committed: newest committed batch by query name.
        """
        if self._claimed or self._spec.claim_mode != "claim" or not self._offers.is_savepoint:
            return
        if not self._agreed and self.untaken():
            return
        with self._lock:
            for name, restored_at in self._batches.items():
                batch = committed.get(name)
                if batch is None or batch <= restored_at:
                    return
            self._claimed = True
        dispose(self._spec.path)
        self._registry.mark_disposed(self._spec.path)
        say(f"claimed savepoint {self._spec.path} deleted: the job's own checkpoints replace it")


def _format_setting(version: int) -> dict[str, str]:
    return {SETTING_CHECKPOINT_FORMAT: str(version)} if version > 1 else {}


def _last_batch(query: QueryStatus) -> int | None:
    """The newest batch another job committed: from its commit log where that is still there, as
    the registry's number is as old as the last heartbeat."""
    try:
        batch = newest_committed_batch(query.checkpoint_dir)
    except StorageError:
        batch = None  # not a local checkpoint
    numbers = [number for number in (batch, query.batch_id) if number is not None]
    return max(numbers, default=None)


def _new_query_id() -> str:
    import uuid

    return str(uuid.uuid4())
