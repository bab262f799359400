"""What counts as a job, on histories of several hosts, registries and clocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import strategies as st

from flinkish.errors import Corrupt, FlinkishError
from flinkish.messages.requests import LeftOut
from flinkish.savepoint.directory.catalog import Catalog, CatalogEntry
from flinkish.savepoint.format.contents import Header, QueryRecord, SavepointJob
from flinkish.savepoint.manage.candidates import Known, generations
from flinkish.savepoint.manage.generations import by_clock
from flinkish.savepoint.manage.retention import Policy, plan_whole
from tests.support.examples import examples

NOW = 1_700_000_000.0
DAY = 86400.0
LAST = Policy(keep_last=1)
MINE, THEIRS, OTHERS = "mine", "theirs", "others'"


@dataclass(frozen=True)
class Step:
    """One savepoint of a history: who takes it, on which clock, and what has happened before."""

    team: str
    line: int
    restored: bool
    batches: int
    #: Seconds by which the clock of the host, and that of the storage, is wrong.
    skew: float
    storage_skew: float
    whole: bool


@dataclass(frozen=True)
class Taken:
    """A savepoint of a history, and whose it is in truth."""

    entry: CatalogEntry
    team: str
    line: int
    whole: bool

    @property
    def place(self) -> tuple[str, int]:
        return self.team, self.line

    @property
    def batch(self) -> int:
        return self.entry.queries[0].batch_id


def entry(
    name: str,
    created: float,
    *,
    run: str = "a" * 32,
    query: str = "q",
    batch: int = 4,
    job: str = "job",
    origin: str | None = None,
    written: float | None = None,
) -> CatalogEntry:
    header = Header(SavepointJob(run, job, restored_from=origin), created, "savepoint")
    record = QueryRecord(query, batch, name=query, directory=f"0-{query}")
    return CatalogEntry(f"/sp/{name}", header, (record,), written=written)


def history(steps: list[Step]) -> list[Taken]:
    """Lines 0 and 1 have queries of their own for each team; line 2 has the same ones for all,
    as after every team has restored one savepoint."""
    runs: dict[tuple[str, int], int] = {}
    batches: dict[tuple[str, int], int] = {}
    found = []
    for number, step in enumerate(steps):
        place = (step.team, step.line)
        runs[place] = runs.get(place, 0) + step.restored
        batches[place] = batches.get(place, 0) + step.batches
        true = NOW - (len(steps) - number) * 40_000.0
        found.append(
            Taken(
                entry(
                    f"{number:02}",
                    max(true + step.skew, 0.0),
                    run=f"{step.team} {step.line} {runs[place]}",
                    query="shared" if step.line == 2 else f"{step.team} {step.line}",
                    batch=batches[place],
                    written=true + step.storage_skew,
                ),
                *place,
                step.whole,
            )
        )
    return found


SKEWS = st.sampled_from([0.0, 0.0, 0.0, 60.0, -60.0, -400 * DAY, -2 * DAY, 2 * DAY, 400 * DAY])
STEPS = st.builds(
    Step,
    team=st.sampled_from([MINE, MINE, THEIRS, OTHERS]),
    line=st.integers(0, 2),
    restored=st.booleans(),
    batches=st.integers(0, 3),
    skew=SKEWS,
    storage_skew=SKEWS,
    whole=st.sampled_from([True, True, True, False]),
)
HISTORIES = st.lists(STEPS, max_size=16).map(history)
COUNTS = st.integers(0, 3)
POLICIES = st.builds(
    Policy, COUNTS, st.sampled_from([0.0, 3600.0, 9 * DAY]), COUNTS, COUNTS, COUNTS
).filter(lambda policy: not policy.is_empty)


def kept(
    taken: list[Taken],
    policy: Policy,
    protected: dict[str, str] | None = None,
    forged: list[CatalogEntry] | None = None,
) -> tuple[set[str], set[str]]:
    """The paths of what stays, and of those of it that are not whole."""
    mine = [each.entry for each in taken if each.team == MINE]
    known = Known(
        protected or {},
        jobs={each.header.job.job_id for each in mine},
        taken_here={each.path for each in mine},
    )
    entries = [*(each.entry for each in taken), *(forged or [])]
    broken = {each.entry.path for each in taken if not each.whole}

    def damage(path: str) -> FlinkishError | None:
        return Corrupt("cut", path=path) if path in broken else None

    found = generations(Catalog(tuple(entries)), known, now=NOW)
    decisions, bad = plan_whole([each.candidate for each in found], policy, NOW, damage)
    return {d.candidate.path for d in decisions if d.keep} | {*bad}, {*bad}


def check_newest_of_every_job(taken: list[Taken], left: set[str]) -> None:
    for place in {each.place for each in taken}:
        whole = [each for each in taken if each.place == place and each.whole]
        newest = max((each.batch for each in whole), default=0)
        same_state = {each.entry.path for each in whole if each.batch == newest}
        assert same_state & left or not whole


@examples(30, 500, HISTORIES, POLICIES)
def test_the_newest_whole_one_of_every_job_stays_whatever_the_clocks_say(
    taken: list[Taken], policy: Policy
) -> None:
    check_newest_of_every_job(taken, kept(taken, policy)[0])


@examples(30, 500, HISTORIES, POLICIES, st.data())
def test_what_has_just_been_taken_stays(
    taken: list[Taken], policy: Policy, data: st.DataObject
) -> None:
    for each in taken and [data.draw(st.sampled_from(taken))]:
        left, _ = kept(taken, policy, {each.entry.path: "just taken"})
        assert each.entry.path in left


@examples(30, 500, HISTORIES, POLICIES)
def test_a_second_prune_removes_nothing_more(taken: list[Taken], policy: Policy) -> None:
    left, _ = kept(taken, policy)
    assert kept([each for each in taken if each.entry.path in left], policy)[0] == left


@examples(30, 500, HISTORIES, POLICIES)
def test_what_is_not_whole_keeps_nobody_from_being_kept(taken: list[Taken], policy: Policy) -> None:
    left, bad = kept(taken, policy)
    assert left - bad == kept([each for each in taken if each.whole], policy)[0]


@examples(30, 500, HISTORIES, POLICIES, st.lists(st.integers(0, 15), max_size=3), st.booleans())
def test_no_forgery_takes_the_place_of_the_newest_one_taken_here(
    taken: list[Taken], policy: Policy, copied: list[int], future: bool
) -> None:
    """Copies of the headers, with other times and batches; two jobs in one."""
    forged = []
    queries = tuple(
        {q.query_id: replace(q, batch_id=10**16) for t in taken for q in t.entry.queries}
    )
    records = tuple(QueryRecord(each, 10**16, name="q", directory="0-q") for each in queries)
    for number in copied:
        for each in taken[number : number + 1]:
            header = replace(each.entry.header, created=NOW + (1e9 if future else 0.0))
            forged.append(CatalogEntry(f"/sp/forged {number}", header, records, written=NOW))
    left, _ = kept(taken, policy, forged=forged)
    check_newest_of_every_job([each for each in taken if each.team == MINE], left)


def left_of(*entries: CatalogEntry, known: Known | None = None, policy: Policy = LAST) -> set[str]:
    found = generations(Catalog(entries), known or Known({}), now=NOW)
    decisions, _ = plan_whole([each.candidate for each in found], policy, NOW, lambda _: None)
    return {d.candidate.path.removeprefix("/sp/") for d in decisions if d.keep}


def test_jobs_of_one_name_are_told_apart_by_their_queries() -> None:
    ours = [entry(f"a{n}", n, run="a" * 32, query="qa") for n in range(2)]
    theirs = [entry(f"b{n}", n, run="b" * 32, query="qb") for n in range(2)]
    assert left_of(*ours, *theirs) == {"a1", "b1"}


def test_a_restored_job_goes_on_under_any_name() -> None:
    first = entry("1", 1.0, run="a" * 32, batch=4)
    second = entry("2", 2.0, run="b" * 32, batch=9, job="renamed", origin="/sp/1")
    assert left_of(first, second) == {"2"}


def test_registries_that_restored_one_savepoint_are_two_jobs() -> None:
    ours = entry("ours", 1.0, run="a" * 32, batch=4)
    theirs = entry("theirs", 2.0, run="b" * 32, batch=9, origin="/sp/ours")
    knowing = Known({}, jobs={"a" * 32})
    assert left_of(ours, theirs, known=knowing) == {"ours", "theirs"}
    again = entry("theirs again", 3.0, run="b" * 32, batch=10)
    assert left_of(ours, theirs, again, known=knowing) == {"ours", "theirs again"}
    third = entry("a third", 1.0, run="c" * 32, batch=20, origin="/sp/ours")
    both = left_of(ours, theirs, third, known=knowing, policy=Policy(keep_last=2))
    assert both == {"ours", "theirs", "a third"}
    assert left_of(ours, theirs, known=Known({}, jobs={"a" * 32, "b" * 32})) == {"theirs"}


def test_a_job_that_went_back_counts_with_its_origin_and_leaves_the_newest_of_it() -> None:
    """It has new query ids: the batches after the savepoint are another line's."""
    old = [entry(f"a{n}", n, run="a" * 32, query="old", batch=n) for n in range(4)]
    new = [
        entry(f"b{n}", 10.0 + n, run="b" * 32, query="new", batch=n, origin="/sp/a1")
        for n in range(2)
    ]
    assert left_of(*old, *new, policy=Policy(keep_last=3)) == {"b1", "b0", "a3"}
    fork = [
        replace(e, header=replace(e.header, job=replace(e.header.job, name="fork"))) for e in new
    ]
    assert left_of(*old, *fork, policy=Policy(keep_last=3)) == {"b1", "b0", "a3", "a2", "a1"}


def test_a_clock_that_is_behind_is_overruled_by_the_batches() -> None:
    good = [entry(f"a{n}", NOW - 1000 + n, batch=n) for n in range(5)]
    behind = [entry(f"b{n}", NOW - 400 * DAY + n, run="b" * 32, batch=5 + n) for n in range(3)]
    left = left_of(*good, *behind, policy=Policy(keep_last=2))
    assert {"b2", "b1"} <= left, "the last two by their batches"
    assert {"a4", "a3"} <= left, "and by the clock, which may be the right one"
    assert {"b0", "a2", "a1", "a0"}.isdisjoint(left)
    within = left_of(*good, *behind, policy=Policy(keep_within=7 * DAY))
    assert {"b0", "b1", "b2"} <= within, "taken after what was taken today"


def test_batches_that_began_again_are_overruled_by_the_clock() -> None:
    """Somebody has taken a checkpoint back: the same query counts from an earlier batch on."""
    before = [entry(f"a{n}", 1.0 + n, batch=10 + n) for n in range(4)]
    after = [entry(f"b{n}", 100.0 + n, run="b" * 32, batch=n) for n in range(3)]
    assert {"b2", "b1", "a3"} <= left_of(*before, *after, policy=Policy(keep_last=2))


def test_a_time_in_the_future_is_the_file_s_or_none() -> None:
    wrong = entry("wrong", NOW + 9 * DAY, batch=1, written=NOW - 500)
    lost = entry("lost", NOW + 9 * DAY, batch=2)
    right = entry("right", NOW - 400, batch=3)
    found = generations(Catalog((wrong, lost, right)), Known({}), now=NOW)
    order = [
        (each.candidate.path, each.time) for each in by_clock([g.candidate for g in found], NOW)
    ]
    assert order == [("/sp/right", NOW - 400), ("/sp/wrong", NOW - 500), ("/sp/lost", None)]
    assert left_of(wrong, lost, right) == {"right"}
    days = Policy(keep_daily=3)
    assert left_of(wrong, lost, right, policy=days) == {"right"}
    assert left_of(wrong, lost, policy=days) == {"wrong", "lost"}, "nobody knows its age"


def test_a_clock_here_that_is_behind_removes_nothing_by_age() -> None:
    all_in_the_future = [entry(f"{n}", NOW + n * DAY, batch=n) for n in range(1, 5)]
    for policy in (Policy(keep_within=DAY), Policy(keep_daily=1)):
        assert len(left_of(*all_in_the_future, policy=policy)) == 4
    assert left_of(*all_in_the_future) == {"4"}


def queries_of(name: str, created: float, batches: dict[str, int], **header: Any) -> CatalogEntry:
    """A savepoint of several queries of one job."""
    one = entry(name, created)
    trigger = header.pop("trigger", "savepoint")
    job = replace(one.header.job, **header)
    records = tuple(
        QueryRecord(q, b, name=q, directory=f"{n}-{q}") for n, (q, b) in enumerate(batches.items())
    )
    return replace(one, queries=records, header=replace(one.header, job=job, trigger=trigger))


@pytest.mark.parametrize(
    "header",
    [
        {"complete": False},
        {"left_out": (LeftOut("clicks", "no input", pending=True),)},
        {"trigger": "offline"},
    ],
    ids=["not all started", "one is pending", "one checkpoint of several"],
)
def test_one_that_lacks_a_query_leaves_the_last_one_that_has_it(header: dict[str, Any]) -> None:
    first = queries_of("1", 1.0, {"orders": 30, "clicks": 800})
    second = queries_of("2", 2.0, {"orders": 40, "clicks": 900})
    third = queries_of("3", 3.0, {"orders": 41}, **header)
    fourth = queries_of("4", 4.0, {"orders": 42}, **header)
    assert left_of(first, second, third) == {"2", "3"}
    assert left_of(first, second, third, fourth) == {"2", "4"}, "it stands for its equals"
    fifth = queries_of("5", 5.0, {"orders": 43, "clicks": 901})
    assert left_of(first, second, third, fourth, fifth) == {"5"}


@pytest.mark.parametrize("left_out", [(), (LeftOut("clicks", "it has ended"),)])
def test_a_query_that_a_program_has_dropped_keeps_nothing(left_out: tuple[LeftOut, ...]) -> None:
    first = queries_of("1", 1.0, {"orders": 40, "clicks": 900})
    second = queries_of("2", 2.0, {"orders": 41}, left_out=left_out)
    assert left_of(first, second) == {"2"}


def test_of_queries_of_which_one_was_taken_back_the_last_state_before_stays() -> None:
    before = [queries_of(f"a{n}", 1.0 + n, {"q1": 3 + n, "q2": 7 + n}) for n in range(3)]
    after = [queries_of(f"b{n}", 10.0 + n, {"q1": 6 + n, "q2": 5 + n}) for n in range(3)]
    assert left_of(*before, *after) == {"a2", "b2"}
    two = left_of(*before, *after, policy=Policy(keep_last=2))
    assert two == {"a1", "a2", "b1", "b2"}, "the last two of either"
    caught_up = queries_of("c", 20.0, {"q1": 9, "q2": 9})
    assert left_of(*before, *after, caught_up) == {"c"}


def test_parents_in_circles_end() -> None:
    one = entry("1", 1.0, run="a" * 32, query="x", origin="/sp/2")
    two = entry("2", 2.0, run="b" * 32, query="y", origin="/sp/1")
    own = entry("3", 3.0, run="c" * 32, query="z", origin="/sp/3\0")
    assert left_of(one, two, own) == {"1", "2", "3"}
