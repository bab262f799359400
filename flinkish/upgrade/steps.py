"""The steps of an upgrade in place and their undo. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flinkish.errors import WrongState
from flinkish.registry.jobs import QueryStatus
from flinkish.spec.launch import Launch
from flinkish.spec.upgrades import Upgrade, UpgradeState

_S = UpgradeState
#: What follows a step that was carried out.
_AFTER = {
    _S.PREPARING: _S.STOPPING,
    _S.STOPPING: _S.STARTING,
    _S.STARTING: _S.WATCHING,
    _S.WATCHING: _S.UPGRADED,
    _S.ENDING: _S.RETURNING,
    _S.RETURNING: _S.ROLLED_BACK,
}
#: What follows a step that failed. The steps of the way back are tried again by ``rollback``.
_AFTER_FAILURE = {
    _S.PREPARING: _S.ENDING,
    _S.STOPPING: _S.ABANDONED,
    _S.STARTING: _S.ENDING,
    _S.WATCHING: _S.ENDING,
}


def after(state: UpgradeState) -> UpgradeState:
    """Return the state after the step of ``state`` was carried out."""
    return _AFTER[state]


def after_failure(state: UpgradeState, *, handover: bool = False) -> UpgradeState | None:
    """Return the state after the step of ``state`` failed; None when it stays as it is.

    In a handover there is a driver of the new program before the old job is stopped.
    """
    if state is _S.STOPPING and handover:
        return _S.ENDING
    return _AFTER_FAILURE.get(state)


def undo(upgrade: Upgrade) -> UpgradeState:
    """Return the state from which an unfinished upgrade is undone.

    Before the old job has ended (STOPPING) it stays STOPPING: whether the old job has been asked to
    stop is found out first.

    Raises
    ------
    WrongState
        It is finished.
    """
    if upgrade.state.is_final:
        raise WrongState(
            f"upgrade {upgrade.upgrade_id} is {upgrade.state.value}: it is finished",
            hint="go back with: flinkish upgrade in-place JOB --to OLD_APP.py"
            if upgrade.state is _S.UPGRADED
            else "",
            upgrade_id=upgrade.upgrade_id,
            state=upgrade.state.value,
        )
    forwards = (_S.PREPARING, _S.STARTING, _S.WATCHING)
    return _S.ENDING if upgrade.state in forwards else upgrade.state


def describe(upgrade: Upgrade) -> Iterator[str]:
    """Yield the steps of an upgrade, and what undoes them, for people."""
    health, target = upgrade.health, upgrade.target
    well = (
        f"until every query has committed {health.batches} batches"
        if health.batches
        else "until its queries have started"
    )
    watch = f"watch it {well}, for {health.timeout:g} s at most each for its start and for this"
    if upgrade.handover:
        yield (
            "1. start the driver of the new program beside the job, up to its first query; until 3 "
            f"both need their resources: {resources(upgrade.launch)} more"
        )
        yield f"2. stop the job with a savepoint in {target}"
        yield "3. let the new program start its queries from the savepoint"
        yield f"4. {watch}"
        yield "if 1 or 2 fails: end the new program; the job goes on"
        yield "if 3 or 4 fails: end the new program and start the old one again from the savepoint"
        return
    yield f"1. stop the job with a savepoint in {target}; if that fails, the job goes on"
    yield "2. start the new program from the savepoint"
    yield f"3. {watch}"
    yield "if 2 or 3 fails: end the new program and start the old one again from the savepoint"


def resources(launch: Launch) -> str:
    """Return what a program asks of its machines, as far as its launch says, for people."""
    conf = launch.conf
    facts = [f"a driver with {conf.get('spark.driver.memory', '1g')} of memory"]
    master = launch.master or conf.get("spark.master")
    if master is None or master.startswith("local"):
        return f"{facts[0]} (--master {master})" if master else facts[0]
    most = conf.get("spark.dynamicAllocation.maxExecutors")
    number = conf.get("spark.executor.instances") or (f"up to {most}" if most else "its")
    facts.append(f"{number} executors with {conf.get('spark.executor.memory', '1g')} each")
    if "spark.cores.max" in conf:
        facts.append(f"{conf['spark.cores.max']} cores at most")
    return ", ".join(facts)


def lacking(queries: Sequence[QueryStatus], batches: int) -> str | None:
    """Return what a new program's queries lack of being well, as a clause; None if nothing.

    Parameters
    ----------
    queries
        As its driver reports them.
    batches
        How many batches each has to commit, after the one that it was restored at.
    """
    if not queries:
        return "it has no streaming query"
    texts = []
    for query in queries:
        begun = -1 if query.restored_batch is None else query.restored_batch
        newest = begun if query.batch_id is None else query.batch_id
        if newest < begun + batches:
            done = newest - begun
            texts.append(f"query '{query.name}' has committed {done} of {batches} batches")
    return "; ".join(texts) or None
