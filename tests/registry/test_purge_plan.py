"""What becomes of ended jobs: facts in, plan out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.messages.launch import Launch
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.purge_plan import (
    Found,
    JobFacts,
    JobPlan,
    Rules,
    RunFacts,
    SavepointFacts,
    What,
    plan_purge,
)

RULES = Rules(ended_before=100.0)


def job(
    digit: str, state: JobState = JobState.FINISHED, end: float | None = 50.0, **facts: object
) -> JobFacts:
    """A job that ended long ago, with checkpoints and a log."""
    job_id = digit * 32
    record = JobRecord(
        job_id,
        f"job-{digit}",
        state,
        1.0,
        Launch("/app.py"),
        log_path=f"/logs/{job_id}.log",
        checkpoint_dir=f"/cp/{job_id}",
        end_time=end,
    )
    made = JobFacts(record, place=f"/cp/{job_id}", checkpoint=Found(3, 30), log_bytes=7)
    return replace(made, **facts)  # type: ignore[arg-type]


def run(place: str, batch: int | None = 5, query_id: str = "id") -> RunFacts:
    return RunFacts("q", query_id, place, place, batch)


def savepoint(path: str, **batches: int) -> SavepointFacts:
    return SavepointFacts(path, path, batches)


def only(*jobs: JobFacts, savepoints: tuple[SavepointFacts, ...] = ()) -> JobPlan:
    """The plan for the first of the jobs."""
    return plan_purge(jobs, savepoints, RULES)[0]


def test_all_of_a_job_goes() -> None:
    plan = only(job("a", runs=[run("/cp/" + "a" * 32 + "/q")]))
    assert [(item.what, item.stays) for item in plan.items] == [
        (What.CHECKPOINT, None),
        (What.LOG, None),
        (What.RECORD, None),
    ]
    assert (plan.keep, plan.bytes, plan.reasons) == (False, 37, ())


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (job("a", end=100.0), "it ended too recently"),
        (job("a", end=None), "it ended too recently"),
        (job("a", JobState.FAILED, is_unacknowledged=True), "its failure is not acknowledged"),
        (job("a", saving="a savepoint is being written by eva"), "by eva"),
        (job("a", checkpoint=Found(stays="it is a link")), "its checkpoints stay: it is a link"),
        (job("a", checkpoint=Found(3, 30, modified=100.0)), "written to after it had ended"),
    ],
)
def test_what_stays_as_a_whole(facts: JobFacts, reason: str) -> None:
    plan = only(facts)
    assert plan.keep
    assert plan.items == ()
    assert reason in plan.reasons[0]


def test_failures_go_when_asked_for() -> None:
    failed = job("a", JobState.FAILED, is_unacknowledged=True)
    (plan,) = plan_purge([failed], [], Rules(100.0, failed=True))
    assert not plan.keep


def test_jobs_that_run_are_not_spoken_of() -> None:
    assert plan_purge([job("a", JobState.RUNNING, end=None)], [], RULES) == ()


def test_a_savepoint_in_the_checkpoints() -> None:
    inside = savepoint("/cp/" + "a" * 32 + "/mine/savepoint-1")
    assert "is in its checkpoints" in only(job("a"), savepoints=(inside,)).reasons[0]
    beside = savepoint("/cp/" + "a" * 32 + "-mine")
    assert not only(job("a"), savepoints=(beside,)).keep


@pytest.mark.parametrize("other", [job("b", JobState.RUNNING, None), job("b", end=200.0)])
def test_who_stays_keeps_what_it_needs(other: JobFacts) -> None:
    place = "/cp/" + "a" * 32
    shares = replace(other, runs=[run(f"{place}/q", query_id="other")])
    assert "has its checkpoints there" in only(job("a"), shares).reasons[0]
    restored = replace(other, origin=place)
    assert "was restored from its checkpoints" in only(job("a"), restored).reasons[0]
    assert not only(job("a"), other).keep


def test_who_goes_keeps_nothing_and_who_stays_by_another_does() -> None:
    needs_a = job("b", origin="/cp/" + "a" * 32)
    assert [plan.keep for plan in plan_purge([job("a"), needs_a], [], RULES)] == [False, False]
    needs_b = job("c", end=200.0, origin="/cp/" + "b" * 32)
    plans = plan_purge([job("a"), needs_a, needs_b], [], RULES)
    assert [plan.keep for plan in plans] == [True, True, True]


def test_a_checkpoint_that_the_program_placed_stays() -> None:
    plan = only(job("a", runs=[run("/data/cp")], checkpoint=None))
    found = {item.location: item.stays for item in plan.items}
    assert found["/data/cp"] == "the program chose that place"
    assert not plan.keep, "its record goes"


def test_a_log_that_flinkish_did_not_name_stays() -> None:
    odd = job("a")
    odd = replace(odd, job=replace(odd.job, log_path="/etc/passwd"))
    assert [item.stays for item in only(odd).items if item.what is What.LOG] == [
        "it does not have the name of a flinkish log"
    ]


def test_the_record_stays_for_who_restores_an_earlier_batch() -> None:
    facts = job("a", runs=[run("/cp/" + "a" * 32 + "/q", batch=9)])

    def record(*savepoints: SavepointFacts) -> str | None:
        plan = only(facts, savepoints=savepoints)
        assert plan.items[0].stays is None, "the files go all the same"
        return plan.items[-1].stays

    assert record(savepoint("/sp/1", id=9)) is None
    assert record(savepoint("/sp/1", other=3)) is None
    assert record(savepoint("/sp/1", id=9), savepoint("/sp/0", id=8)) == (
        "the savepoint /sp/0 is of batch 8 of query 'q', which this job continued to batch 9"
    )
    kept = job("b", end=200.0, runs=[run("/cp/" + "b" * 32 + "/q", batch=4)])
    plan = only(facts, kept)
    assert "is at an earlier batch of query 'q'" in str(plan.items[-1].stays)


def test_the_record_stays_for_who_starts_in_a_checkpoint_that_was_left_behind() -> None:
    """The program's own, from which ``run -s`` has taken the job away."""
    first = job(
        "a", runs=[replace(run("/data/cp", batch=4), own_place="/data/cp")], checkpoint=None
    )
    moved = [
        job(digit, runs=[replace(run(f"/cp/{digit * 32}/q", batch=batch), own_place="/data/cp")])
        for digit, batch in (("b", 9), ("c", 12))
    ]
    plans = plan_purge([first, *moved], [], RULES)
    records = [plan.items[-1].stays for plan in plans]
    assert records[:2] == [None, None], "the newest tells what they tell"
    assert records[2] == (
        "the checkpoint /data/cp of its program does not have the batches of query 'q' up to 12"
    )
    back = job(
        "d", runs=[replace(run("/data/cp", batch=13), own_place="/data/cp")], checkpoint=None
    )
    plan = plan_purge([moved[1], back], [], RULES)[0]
    assert plan.items[-1].stays is None, "it has them by now"
