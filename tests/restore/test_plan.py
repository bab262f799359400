"""The pure decisions of a restore."""

from __future__ import annotations

import pytest

from flinkish.errors import NonRestoredState
from flinkish.jobs.model import JobState
from flinkish.restore.plan import OtherRun, Take, decide_query_id, match_query, unmatched


@pytest.mark.parametrize(
    ("name", "offered", "taken", "allow", "take", "key"),
    [
        ("a", ["a", "b"], [], False, Take.RESTORE, "a"),
        ("b", ["a", "b"], ["a"], False, Take.RESTORE, "b"),
        ("new", ["a"], ["a"], False, Take.START_EMPTY, None),
        ("new", ["a"], [], True, Take.START_EMPTY, None),
        ("a", ["a"], ["a"], False, Take.START_EMPTY, None),
        ("anything", [None], [], False, Take.RESTORE, None),
        ("second", [None], [None], False, Take.START_EMPTY, None),
    ],
)
def test_match_query(
    name: str, offered: list[str | None], taken: list[str | None], allow: bool, take: Take, key: str
) -> None:
    match = match_query(name, offered, taken, allow_non_restored=allow)
    assert (match.take, match.offered) == (take, key)


def test_a_renamed_query_is_refused_and_the_message_names_what_waits() -> None:
    with pytest.raises(NonRestoredState) as caught:
        match_query("flights-v2", ["flights", "other"], ["other"], allow_non_restored=False)
    assert "'flights-v2'" in caught.value.message
    assert "'flights'" in caught.value.message
    assert "-n" in caught.value.hint
    assert caught.value.code == 5


def test_unmatched() -> None:
    assert unmatched(["b", "a", "c"], ["a"]) == ["b", "c"]


_F, _R = JobState.FINISHED, JobState.RUNNING


@pytest.mark.parametrize(
    ("batch", "runs", "fork", "keep", "word"),
    [
        (7, [], False, True, "ended"),
        (7, [OtherRun("a", _F, 7)], False, True, "ended"),
        (7, [OtherRun("a", _F, None)], False, True, "ended"),
        (7, [OtherRun("a", _F, 6)], False, True, "ended"),
        (7, [OtherRun("a", _F, 7)], True, False, "--fork"),
        (7, [OtherRun("a", _R, 7)], False, False, "RUNNING"),
        (7, [OtherRun("a", _F, 7), OtherRun("b", JobState.FAILED, 9)], False, False, "batch 9"),
        (7, [OtherRun("a", JobState.SUSPENDED, 7)], False, False, "SUSPENDED"),
    ],
)
def test_decide_query_id(
    batch: int, runs: list[OtherRun], fork: bool, keep: bool, word: str
) -> None:
    identity = decide_query_id(batch, runs, fork=fork)
    assert identity.keep is keep
    assert word in identity.reason
