from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.errors import UsageError
from flinkish.savepoint.manage.generations import Candidate
from flinkish.savepoint.manage.retention import Decision, Policy, plan


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


NOW = at("2026-11-21T12:00")


def reasons(times: list[str], policy: Policy) -> dict[str, list[str]]:
    found = plan([Candidate(time, "j", at(time)) for time in times], policy, NOW)
    return {each.candidate.path: list(each.reasons) for each in found}


def test_last() -> None:
    assert reasons(["2026-11-01", "2026-11-03", "2026-11-02"], Policy(keep_last=2)) == {
        "2026-11-03": ["newest", "last 2"],
        "2026-11-02": ["last 2"],
        "2026-11-01": [],
    }


def test_within_counts_from_now_and_takes_its_border() -> None:
    times = ["2026-11-21T12:04", "2026-11-14T12:00", "2026-11-14T11:59"]
    assert reasons(times, Policy(keep_within=7 * 86400)) == {
        times[0]: ["newest", "within 7 d"],  # as far ahead as clocks differ
        times[1]: ["within 7 d"],
        times[2]: [],
    }
    assert reasons(times[:1], Policy(keep_within=5400))[times[0]][1] == "within 90 min"
    assert reasons(times[:1], Policy(keep_within=90.5))[times[0]][1] == "within 90.5 s"


def test_periods_are_those_that_have_a_savepoint() -> None:
    times = [
        "2026-11-20T23:59:59",
        "2026-11-20T23:00",
        "2026-11-20T00:00",
        "2026-11-19T10:00",
        "2026-10-01T10:00",  # the third day that has one, weeks ago
        "2026-10-01T09:00",
        "2026-09-01T10:00",
    ]
    found = reasons(times, Policy(keep_daily=3))
    assert [found[time] for time in times] == [
        ["newest", "daily 2026-11-20 UTC"],
        [],
        [],
        ["daily 2026-11-19 UTC"],
        ["daily 2026-10-01 UTC"],
        [],
        [],
    ]
    found = reasons(times, Policy(keep_hourly=2))
    assert found[times[0]] == ["newest", "hourly 2026-11-20 23:00 UTC"]
    assert found[times[1]] == []
    assert found[times[2]] == ["hourly 2026-11-20 00:00 UTC"]


def test_weeks_begin_on_monday() -> None:
    times = ["2026-01-05T00:00", "2026-01-04T23:59", "2025-12-29T00:00", "2025-12-28T23:59"]
    found = reasons(times, Policy(keep_weekly=3))
    assert [found[time] for time in times] == [
        ["newest", "weekly 2026-W02 UTC"],
        ["weekly 2026-W01 UTC"],
        [],
        ["weekly 2025-W52 UTC"],
    ]


def test_rules_add_up() -> None:
    found = reasons(["2026-11-20", "2026-11-19"], Policy(keep_last=1, keep_daily=2, keep_weekly=1))
    assert found == {
        "2026-11-20": ["newest", "last 1", "daily 2026-11-20 UTC", "weekly 2026-W47 UTC"],
        "2026-11-19": ["daily 2026-11-19 UTC"],
    }


def test_jobs_do_not_crowd_each_other_out() -> None:
    many = [Candidate(f"a{n}", "a", 100.0 + n) for n in range(5)]
    one = Candidate("b", "b", 1.0)
    kept = {d.candidate.path for d in plan([one, *many], Policy(keep_last=2), NOW) if d.keep}
    assert kept == {"a4", "a3", "b"}


def test_what_is_needed_stays() -> None:
    old = Candidate("old", "j", 1.0, needed=("job X was restored from it",))
    new = Candidate("new", "j", 2.0)
    decisions = plan([old, new], Policy(keep_last=1), NOW)
    assert decisions[1] == Decision(old, ("job X was restored from it",))


@pytest.mark.parametrize("policy", [Policy(), Policy(0, 0.0, 0, 0, 0)])
def test_an_empty_policy_is_refused(policy: Policy) -> None:
    assert policy.is_empty
    with pytest.raises(UsageError, match="empty"):
        plan([], policy, NOW)


def test_numbers_below_zero_are_refused() -> None:
    with pytest.raises(UsageError, match="below zero"):
        plan([], Policy(keep_last=3, keep_daily=-1), NOW)


COUNTS = st.integers(0, 6)
POLICIES = st.builds(
    Policy,
    COUNTS,
    st.sampled_from([0.0, 3600.0, 86400.0 * 9]),
    COUNTS,
    COUNTS,
    COUNTS,
).filter(lambda policy: not policy.is_empty)
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.uuids().map(str),
        st.sampled_from(["a", "b"]),
        # Dense in places, so that many fall into one hour, and sparse in others.
        st.one_of(
            st.integers(0, 30).map(lambda n: NOW - n * 600.0),
            st.integers(0, 400).map(lambda n: NOW - n * 40000.0),
        ),
    ),
    max_size=40,
)


def kept(candidates: list[Candidate], policy: Policy) -> set[str]:
    return {d.candidate.path for d in plan(candidates, policy, NOW) if d.keep}


@given(CANDIDATES, POLICIES)
def test_the_newest_of_a_job_is_never_removed(candidates: list[Candidate], policy: Policy) -> None:
    found = kept(candidates, policy)
    for job in {c.job for c in candidates}:
        newest = max(c.created for c in candidates if c.job == job)
        assert any(c.path in found for c in candidates if c.job == job and c.created == newest)


@given(CANDIDATES, POLICIES, st.sampled_from(sorted(Policy.__dataclass_fields__)))
def test_more_of_a_rule_never_keeps_less(
    candidates: list[Candidate], policy: Policy, rule: str
) -> None:
    more = replace(policy, **{rule: vars(policy)[rule] + 1})
    assert kept(candidates, policy) <= kept(candidates, more)


@given(CANDIDATES, POLICIES)
def test_a_second_time_removes_nothing_more(candidates: list[Candidate], policy: Policy) -> None:
    found = kept(candidates, policy)
    left = [c for c in candidates if c.path in found]
    assert kept(left, policy) == found


@given(CANDIDATES, POLICIES)
def test_every_savepoint_has_one_decision_in_order(
    candidates: list[Candidate], policy: Policy
) -> None:
    decisions = plan(candidates, policy, NOW)
    assert sorted(d.candidate.path for d in decisions) == sorted(c.path for c in candidates)
    times = [d.candidate.created for d in decisions]
    assert times == sorted(times, reverse=True)


@given(CANDIDATES, COUNTS.filter(bool))
def test_daily_against_a_plain_count_of_days(candidates: list[Candidate], count: int) -> None:
    """The same rule written another way: day by day, over text."""
    for job in {c.job for c in candidates}:
        mine = sorted((c.created, c.path) for c in candidates if c.job == job)
        days: dict[str, float] = {}
        for created, _ in mine:  # the newest of a day comes last
            days[str(datetime.fromtimestamp(created, tz=timezone.utc).date())] = created
        expected = sorted(days.values())[-count:]
        found = plan([c for c in candidates if c.job == job], Policy(keep_daily=count), NOW)
        assert sorted(d.candidate.created for d in found if d.keep) == expected
