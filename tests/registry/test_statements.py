"""Which job a reference means, against a plain restatement of the rule, for any set of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flinkish.errors import AmbiguousJob, JobNotFound, UsageError
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.rows import one_place
from flinkish.registry.statements import (
    choose,
    is_id,
    is_prefix,
    name_matches,
    takes_up,
    without_superseded,
)

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Few digits and names that look like prefixes, so that everything collides with everything.
_NAMES = st.sampled_from(["abab", "aaaa", "flights", "a" * 32, "x" * 32, "ab"])
_IDS = st.text("ab", min_size=6, max_size=6).map(lambda digits: digits + "0" * 26)
_JOBS = st.dictionaries(_IDS, st.tuples(_NAMES, st.sampled_from(list(JobState))), max_size=6)
_REFERENCES = st.one_of(_NAMES, st.text("abAB", min_size=1, max_size=6), _IDS)


@patient
@given(_JOBS, _REFERENCES, st.booleans())
def test_the_rule(
    given_jobs: dict[str, tuple[str, JobState]], reference: str, include_final: bool
) -> None:
    jobs = [
        JobRecord(job_id, name, state, float(n), Launch("/a.py"))
        for n, (job_id, (name, state)) in enumerate(given_jobs.items())
    ]
    prefix = reference.lower()
    by_id = [job for job in jobs if is_prefix(reference) and job.job_id.startswith(prefix)]
    by_name = [job for job in jobs if job.name == reference]
    running = {job.job_id for job in by_name if not job.state.is_final}
    named = running or ({job.job_id for job in by_name} if include_final else set())
    meant = named | {job.job_id for job in by_id}
    try:
        chosen = choose(reference, by_id, by_name, include_final=include_final)
    except AmbiguousJob as error:
        assert len(meant) > 1
        assert {c["job_id"] for c in error.data["candidates"]} == meant  # noqa: PT017
    except JobNotFound as error:
        assert not meant
        assert error.hint  # noqa: PT017 (which error it is depends on the example)
    except UsageError:
        assert not meant
        assert len(reference) == 32
        assert not is_id(reference)
    else:
        assert meant == {chosen.job_id}


def test_what_looks_like_an_id() -> None:
    assert is_id("aB" * 16)
    assert not is_id("a" * 31)
    assert not is_id("g" * 32)
    assert not is_id("a" * 32 + "\n")
    assert is_prefix("00fF")
    assert not is_prefix("00f")
    assert not is_prefix("0x12")
    assert not is_prefix("a" * 33)
    assert not is_prefix("١٢٣٤")


@pytest.mark.parametrize(
    ("name", "pattern", "matches"),
    [
        ("rides", "r*", True),
        ("rides", "rid?s", True),
        ("rides", "R*", False),
        ("rides [eu]", "rides [eu]", True),
        ("rides [eu]", "rides [*", True),
        ("rides e", "rides [eu]", False),
    ],
)
def test_names_and_patterns(name: str, pattern: str, matches: bool) -> None:
    assert name_matches(name, pattern) == matches


@pytest.mark.parametrize(
    ("restore", "own", "queries", "left"),
    [
        (RestoreSpec("/sp/a"), None, ("y",), "b"),  # from its savepoint
        (RestoreSpec("/sp/a", RestoreOptions(fork=True)), None, ("y",), "ab"),
        (RestoreSpec("/cp/a", job="a"), None, ("y",), "b"),  # from its checkpoints
        (RestoreSpec("/sp/a"), None, (), "ab"),  # refused before it had a query
        (RestoreSpec("/sp/0"), RestoreSpec("/sp/0"), ("y",), "b"),  # an upgrade was rolled back
        (RestoreSpec("/sp/0"), None, ("y",), "ab"),
        (None, None, ("x",), "b"),  # the same query
        (None, None, ("y",), "ab"),
    ],
)
def test_a_job_that_another_has_gone_on_from_is_not_meant(
    tmp_path: Path,
    restore: RestoreSpec | None,
    own: RestoreSpec | None,
    queries: tuple[str, ...],
    left: str,
) -> None:
    (tmp_path / "moved").symlink_to("/sp/a")
    old = JobRecord("a", "n", JobState.FINISHED, 1.0, Launch("/a.py", restore=own))
    new = JobRecord("b", "n", JobState.FINISHED, 2.0, Launch("/a.py", restore=restore))
    known = {"a": ("x",), "b": queries}
    found = without_superseded([old, new], known, {"a": (str(tmp_path / "moved"),), "b": ()})
    assert "".join(job.job_id for job in found) == left


@pytest.mark.parametrize("other", ["hdfs://NN:8020/sp/a", "hdfs://me@nn/sp/a", "hdfs://nn/sp/b"])
def test_a_savepoint_has_several_spellings(other: str) -> None:
    used = takes_up(RestoreSpec(other), "a", {one_place("hdfs://nn/sp/a")})
    assert used == other.endswith("a")
