"""The steps of an upgrade and their undo. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flinkish.client.metrics import seconds_of
from flinkish.errors import WrongState
from flinkish.launch.deploy_mode import master_of
from flinkish.messages.launch import Launch
from flinkish.messages.plan import Check, RestoreOutcome, SinkRow
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import RequestResult
from flinkish.messages.restore_options import SINK_MODES
from flinkish.messages.upgrades import Health, Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.jobs import JobState

_S = UpgradeState
#: Least ratio of processed to arriving rows of a query that counts as caught up.
_SPARE = 1.2
_K = UpgradeKind
#: States of a job that a failure or a cancel has ended.
BROKEN_OFF = (JobState.FAILED, JobState.CANCELED)
#: The forward steps of each kind.
_FORWARDS = {
    _K.IN_PLACE: (_S.STOPPING, _S.STARTING, _S.WATCHING, _S.UPGRADED),
    _K.HANDOVER: (_S.PREPARING, _S.STOPPING, _S.STARTING, _S.WATCHING, _S.UPGRADED),
    _K.SHADOW: (
        *(_S.SAVING, _S.STARTING, _S.WATCHING, _S.SHADOWING, _S.PROMOTING),
        _S.UPGRADED,
    ),
}


def first(kind: UpgradeKind) -> UpgradeState:
    """Return the first step of an upgrade."""
    return _FORWARDS[kind][0]


def after(kind: UpgradeKind, state: UpgradeState) -> UpgradeState:
    """Return the state after the step of ``state`` was carried out."""
    if state is _S.ENDING:
        return _S.ABANDONED if kind is _K.SHADOW else _S.RETURNING
    if state is _S.RETURNING:
        return _S.ROLLED_BACK
    steps = _FORWARDS[kind]
    return steps[steps.index(state) + 1]


def after_failure(kind: UpgradeKind, state: UpgradeState) -> UpgradeState | None:
    """Return the state after the step of ``state`` failed; None if it does not change.

    The step of ENDING ends the new program, if it has a job. A failed step of a rollback does not
    change the state: ``flinkish upgrade rollback`` carries the step out again.
    """
    if state in (_S.ENDING, _S.RETURNING):
        return None
    if state is _S.PROMOTING:
        return _S.SHADOWING  # the old job continues, and so does its shadow
    if state is first(kind) and state is not _S.PREPARING:
        return _S.ABANDONED
    return _S.ENDING


def undo(upgrade: Upgrade) -> UpgradeState:
    """Return the state from which an unfinished upgrade is undone.

    STOPPING and PROMOTING are returned as they are, because the rollback first checks whether the
    old job has been asked to stop. Raises WrongState if the upgrade is finished.
    """
    if upgrade.state.is_final:
        raise WrongState(
            f"upgrade {upgrade.upgrade_id} is {upgrade.state.value}: it is finished",
            hint="roll back with: flinkish upgrade in-place JOB --to OLD_APP.py"
            if upgrade.state is _S.UPGRADED
            else "",
            upgrade_id=upgrade.upgrade_id,
            job_id=upgrade.new_job_id,
            state=upgrade.state.value,
        )
    if upgrade.kind is _K.SHADOW:
        if upgrade.state is _S.PROMOTING:
            return _S.PROMOTING
        return _S.ABANDONED if upgrade.state is _S.SAVING else _S.ENDING
    forwards = (_S.PREPARING, _S.STARTING, _S.WATCHING)
    return _S.ENDING if upgrade.state in forwards else upgrade.state


def describe(upgrade: Upgrade) -> Iterator[str]:
    """Yield the steps of an upgrade, and what undoes them, for people."""
    health, target = upgrade.health, upgrade.target
    limit = f"{health.timeout:.15g} s"
    well = until_healthy(health)
    watch = f"watch it {well}, allowing {limit} for its start and then another {limit}"
    if upgrade.kind is _K.SHADOW:
        yield f"1. take a savepoint of the job, which continues, in {target}"
        yield (
            "2. start the new program alongside it, as another job with its own query ids; both "
            f"need resources, the new program {resources(upgrade.launch)}"
        )
        yield f"3. {watch}, and until it has caught up with the job"
        yield "4. when it is promoted: stop the job with a savepoint"
        yield "if 2 or 3 fails, or when it is abandoned: end the new program; the job continues"
        return
    if upgrade.kind is _K.HANDOVER:
        yield (
            "1. start the driver of the new program alongside the job, up to its first query; "
            "until step 3 "
            f"both need resources, the new program {resources(upgrade.launch)}"
        )
        yield f"2. stop the job with a savepoint in {target}"
        yield "3. have the new program start its queries from the savepoint"
        yield f"4. {watch}"
        yield "if 1 or 2 fails: end the new program; the job continues"
        yield "if 3 or 4 fails: end the new program and start the old one again from the savepoint"
        return
    yield f"1. stop the job with a savepoint in {target}; if that fails, the job continues"
    yield "2. start the new program from the savepoint"
    yield f"3. {watch}"
    yield "if 2 or 3 fails: end the new program and start the old one again from the savepoint"


def until_healthy(health: Health) -> str:
    """Return how long a new program is watched, as a clause. Pure."""
    if not health.batches:
        return "until its queries have started"
    batches = "1 batch" if health.batches == 1 else f"{health.batches} batches"
    return f"until every query has committed {batches}"


def resources(launch: Launch) -> str:
    """Return the resources that a program's launch requests, for people."""
    conf = launch.conf
    facts = [f"a driver with {conf.get('spark.driver.memory', '1g')} of memory"]
    master = master_of(launch)
    if master is None or master.startswith("local"):
        return f"{facts[0]} (--master {master})" if master else facts[0]
    most = conf.get("spark.dynamicAllocation.maxExecutors")
    number = conf.get("spark.executor.instances") or (f"up to {most}" if most else "its")
    facts.append(f"{number} executors with {conf.get('spark.executor.memory', '1g')} each")
    if "spark.cores.max" in conf:
        facts.append(f"{conf['spark.cores.max']} cores at most")
    return ", ".join(facts)


def lacking(queries: Sequence[QueryStatus], batches: int) -> str | None:
    """Return why a new program's queries are not healthy yet, as a clause, or None.

    ``queries`` are as its driver reports them. Each has to commit ``batches`` batches after the one
    that it was restored at.
    """
    if not queries:
        return "it has no streaming query"
    texts = []
    for query in queries:
        committed = 0 if query.batch_id is None else query.batch_id + 1 - query.first_batch
        if committed < batches:
            texts.append(f"query '{query.name}' has committed {committed} of {batches} batches")
    return "; ".join(texts) or None


def behind(shadow: QueryStatus, job: QueryStatus | None) -> str | None:
    """Return why a shadow's query has not caught up with the job yet, as a clause, or None.

    The query has caught up when it waits for input, when its watermark has reached that of the job,
    or, without watermarks that can be read, when it processes rows clearly faster than they arrive.
    ``job`` is the job's query of the same name, if there is one.
    """
    if shadow.waits_for_input:
        return None
    reached = seconds_of(shadow.watermark)
    wanted = None if job is None else seconds_of(job.watermark)
    if job is not None and reached is not None and wanted is not None:
        if reached >= wanted:
            return None
        return f"query '{shadow.name}' is at {shadow.watermark}, the job at {job.watermark}"
    arriving, processed = shadow.input_rows_per_second, shadow.processed_rows_per_second
    if arriving and processed and processed >= _SPARE * arriving:
        return None
    return f"query '{shadow.name}' is working through a backlog"


def brought_back(queries: Sequence[QueryStatus]) -> list[SinkRow]:
    """Return how a restore treated sinks that were ahead, from the queries' plans. Pure.

    ``queries`` are those of the restored job.
    """
    sinks = [sink for query in queries if query.plan is not None for sink in query.plan.sinks]
    return [sink for sink in sinks if sink.verdict in SINK_MODES]


def warned_of(queries: Sequence[QueryStatus]) -> list[Check]:
    """Return what a restore warned of in its queries' plans, such as rows that are lost. Pure."""
    checks = [check for query in queries if query.plan is not None for check in query.plan.checks]
    return [check for check in checks if check.outcome is RestoreOutcome.WARNING]


def lacks_queries(stop: RequestResult | None) -> bool:
    """Return whether the stopped job may have queries that had not begun, so without state. Pure.

    The old program starts them empty after a rollback; :func:`.preparation.check_begun` has refused
    those whose state is elsewhere.
    """
    return stop is not None and (not stop.complete or any(q.pending for q in stop.left_out))
