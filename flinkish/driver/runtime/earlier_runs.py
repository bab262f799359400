"""The queries of a job as its last driver left them, for a restarted driver.

A restarted job (RESTARTING) resumes in place: each query in its previous checkpoint, from its
newest committed batch, with the same query id. Nothing is copied, and the savepoint that the job
was once restored from is only needed for queries that were not started before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkish import storage
from flinkish.checkpoint.cut import newest_entries
from flinkish.checkpoint.format.pins import SETTING_CHECKPOINT_FORMAT
from flinkish.driver.restore.checkpoint_runs import meanings_of, refuse_drained
from flinkish.errors import ConsentNeeded, NoCommittedBatch
from flinkish.messages.plan import RestorePlan
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.operators.state_semantics import StateSemantics
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.restore.plan.history import saved_shift


@dataclass(frozen=True)
class EarlierRun:
    """The newest run of one query in an earlier driver of the job.

    If the job began with a restore, ``plan`` is the query's part of the restore plan, and
    ``restored_batch`` is the savepoint's batch that the query was restored from. ``meanings`` are
    the known meanings of its operators' state, by ordinal. ``history_shift`` is the shift of its
    history batches (:mod:`flinkish.restore.plan.history`). ``own`` is the program's own checkpoint
    location, as the program wrote it; empty if the program sets none.
    """

    name: str
    checkpoint: str
    batch_id: int | None = None
    plan: RestorePlan | None = None
    restored_batch: int | None = None
    meanings: Mapping[int, StateSemantics] = field(default_factory=dict)
    query_id: str = ""
    history_shift: int = 0
    own: str = ""

    @property
    def location(self) -> str:
        """The checkpoint as a location for Spark."""
        if storage.is_local(self.checkpoint):
            return f"file://{self.checkpoint}"
        return storage.for_spark(self.checkpoint)

    @property
    def places(self) -> frozenset[str]:
        """The spellings of the program's own checkpoint location; empty if it sets none."""
        if not self.own:
            return frozenset()
        names = {self.own, storage.one_name(self.own)}
        if self.restored_batch is None:
            names.add(storage.one_name(self.checkpoint))  # not restored: in its own location
        return frozenset(names)

    def refuse_other(self, name: str, own: str, place: str) -> ConsentNeeded | None:
        """Return the refusal of an unnamed query that starts at a different location, or None.

        ``name`` is the query's generated name, which is also the name of this run. ``own`` is the
        query's location as the program writes it, ``place`` the normalised form.
        """
        if not self.places.isdisjoint((own, place)):
            return None
        return ConsentNeeded(
            f"the unnamed query with the checkpointLocation {own} would resume as '{name}' in "
            f"{self.checkpoint}, which belongs to another location",
            hint="name the queries with queryName; or start a new job, with flinkish run",
            reasons=["query-unknown"],
        )

    def read_settings(self) -> dict[str, str]:
        """Return the Spark settings that the checkpoint pins, and ``checkpointFormatVersion``.

        The format version is not in the offset log, but Spark before 4.3 needs it at every start.
        There are no settings if the query has not committed a batch.

        Raises NoCommittedBatch if the query had committed a batch and the checkpoint is gone,
        Incompatible if the query has been or was being drained, unless it was drained already when
        the job restored it, and Corrupt or UnsupportedFormat if its logs cannot be read.
        """
        entries = newest_entries(self.checkpoint)
        if entries is None:
            if self.batch_id is None:
                return {}
            raise NoCommittedBatch(
                f"query '{self.name}' had committed batch {self.batch_id}, and its checkpoint "
                f"{self.checkpoint} is gone",
                hint="its state is lost: start the program from a savepoint, with flinkish run -s",
            )
        offsets, commit = entries
        if not self._began_drained:
            ways = "start the program from an earlier savepoint, with flinkish run -s"
            refuse_drained(self.name, self.checkpoint, ways)
        return {**offsets.pins, SETTING_CHECKPOINT_FORMAT: str(commit.version)}

    @property
    def _began_drained(self) -> bool:
        """Whether the job began with a restore of a drained query, whose plan said so."""
        checks = () if self.plan is None else self.plan.checks
        return any(check.id == "drained" and check.query == self.name for check in checks)


def earlier_runs(registry: Registry, job: JobRecord) -> dict[str, EarlierRun]:
    """Return the queries of a job that is started again, by name; none for a new job."""
    if job.state is not JobState.RESTARTING:
        return {}
    facts = registry.facts(job.job_id)
    return {
        query.name: run_of(query, facts.get(query.name)) for query in registry.queries(job.job_id)
    }


def _planned(query: QueryStatus) -> int:
    """Return the history shift in the restore plan, for a query that has no facts yet."""
    row = query.planned
    return row.history.shift if row is not None and row.history is not None else 0


def run_of(query: QueryStatus, facts: QueryFacts | None = None) -> EarlierRun:
    """Return the run that a query's last status and its recorded facts describe."""
    return EarlierRun(
        query.name,
        query.checkpoint_dir,
        query.batch_id,
        query.plan,
        query.restored_batch,
        meanings=meanings_of(facts),
        query_id=query.query_id,
        own=query.own_location,
        history_shift=saved_shift(facts.sink if facts is not None else {}) or _planned(query),
    )
