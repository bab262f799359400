"""Which operator takes which state."""

from __future__ import annotations

import pytest

from flinkish.errors import Incompatible, UsageError
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.origin.restore_inputs import NewQuery, SavedQueryFacts
from flinkish.restore.plan.operator_matching import check_uid_map, match_operators
from tests.support.restore.query_builders import (
    AGG,
    DEDUP,
    id_of,
    new,
    old,
    saved_query,
    source,
    starting,
)


def matched(
    query: NewQuery,
    *saved: SavedQueryFacts,
    hasher: HasherVersion = HasherVersion.V3,
    **uid_map: str,
) -> dict[int, tuple[str | None, int] | None]:
    """New ordinal -> (query, ordinal) of the state taken."""
    own = next((q for q in saved if q.key in (query.name, None)), None)
    matches = match_operators(query, saved, own, hasher=hasher, uid_map=uid_map)
    return {
        n: None if op is None else (op.query, op.state.ordinal) for n, op in matches.taken.items()
    }


def test_state_follows_its_uid_whatever_the_ordinals() -> None:
    saved = saved_query(old("x", 0), old("y", 1))
    assert matched(starting(new("y", 0), new("x", 1)), saved) == {0: ("q", 1), 1: ("q", 0)}


def test_a_new_operator_before_others_starts_empty_and_takes_nobodys_state() -> None:
    saved = saved_query(old("x", 0), old("y", 1))
    program = starting(new("x", 0), new("fresh", 1), new("y", 2))
    assert matched(program, saved) == {0: ("q", 0), 1: None, 2: ("q", 1)}


def test_a_uid_is_looked_for_in_its_own_query_first_then_in_the_others() -> None:
    one, two = saved_query(old("x", query="one"), key="one"), saved_query(old("x"), old("y", 1))
    assert matched(starting(new("x")), one, two) == {0: ("q", 0)}
    assert matched(starting(new("x"), name="one"), two, one) == {0: ("one", 0)}
    assert matched(starting(new("y"), name="one"), two, one) == {0: ("q", 1)}
    assert matched(starting(new("y"), name="other"), two) == {0: ("q", 1)}


def test_generated_ids_mean_something_in_their_own_query_only() -> None:
    saved = saved_query(old("place", named=False))
    assert matched(starting(new("place", named=False)), saved) == {0: ("q", 0)}
    assert matched(starting(new("place", named=False), name="other"), saved) == {0: None}


def test_a_generated_id_of_another_kind_is_not_that_operator() -> None:
    saved = saved_query(old("place", kind=DEDUP, named=False))
    assert matched(starting(new("place", kind=AGG, named=False)), saved) == {0: None}


def test_a_uid_of_another_kind_is_found_and_left_to_the_verdict() -> None:
    saved = saved_query(old("x", kind=DEDUP))
    assert matched(starting(new("x", kind=AGG)), saved) == {0: ("q", 0)}


def test_an_unknown_kind_fits_any() -> None:
    assert matched(starting(new("x", kind=AGG)), saved_query(old("x", kind=None))) == {0: ("q", 0)}


def test_the_uid_hash_comes_first_then_the_own_id() -> None:
    saved = saved_query(old("place", 0, named=False), old("own", 1, named=False))
    program = starting(new("own", named=False, uid_hash=id_of("place")))
    assert matched(program, saved) == {0: ("q", 0)}
    program = starting(new("own", named=False, uid_hash=id_of("gone")))
    assert matched(program, saved) == {0: ("q", 1)}
    program = starting(new("own", kind=AGG, named=False, uid_hash=id_of("place")))
    assert matched(program, saved) == {0: ("q", 0)}  # another kind: left to the verdict


def test_a_uid_hash_reaches_a_uid_of_another_query() -> None:
    saved = saved_query(old("x", query="one"), key="one")
    program = starting(new("own", named=False, uid_hash=id_of("x")), name="two")
    assert matched(program, saved) == {0: ("one", 0)}


def test_ids_are_compared_within_one_hasher() -> None:
    saved = saved_query(old("place", named=False))
    asked_v2 = starting(new("place", named=False, hasher="v2"))
    assert matched(asked_v2, saved, hasher=HasherVersion.V2) == {0: ("q", 0)}
    assert matched(asked_v2, saved, hasher=HasherVersion.V3) == {0: None}


def test_the_uid_map_names_uids_and_operator_ids() -> None:
    saved = saved_query(old("x", 0), old("place", 1, named=False))
    program = starting(new("renamed", 0), new("second", 1))
    assert matched(program, saved, renamed="x", second=id_of("place").upper()) == {
        0: ("q", 0),
        1: ("q", 1),
    }


def test_a_uid_map_that_names_nothing_is_a_usage_error() -> None:
    saved = saved_query(old("x"), old("y", 1), sources=(source("rate[]", uid="s"),))
    check_uid_map({"new": "x", "a": "s", "b": "q/s"}, [saved])
    with pytest.raises(UsageError, match="no operator 'z'") as caught:
        check_uid_map({"new": "z"}, [saved])
    assert "x, y" in str(caught.value.hint)


def test_two_operators_cannot_take_one_state() -> None:
    saved = saved_query(old("x"))
    with pytest.raises(Incompatible, match="both take"):
        matched(starting(new("x", 0), new("y", 1)), saved, y="x")


def test_a_program_that_gained_uids_is_found_by_the_ids_it_had() -> None:
    saved = saved_query(old("a", 0, named=False), old("b", 1, AGG, named=False))
    program = starting(new("x", 0, was="a"), new("y", 1, AGG, was="b"))
    assert matched(program, saved) == {0: ("q", 0), 1: ("q", 1)}
    own = match_operators(program, [saved], saved, hasher=HasherVersion.V3, uid_map={})
    assert "had no uids" in own.notes[0]


@pytest.mark.parametrize(
    ("uid_map", "uid_hash", "taken"),
    [
        ({"x": id_of("b")}, None, {0: ("q", 1), 1: None}),
        ({}, "b", {0: ("q", 1), 1: None}),
        ({"x": "s"}, None, {0: None, 1: None}),  # a source's uid
        ({"x": id_of("a")}, None, {0: ("q", 0), 1: ("q", 1)}),  # as by the ids
        ({}, "elsewhere", {0: ("other", 0), 1: None}),
    ],
)
def test_gained_uids_leave_alone_what_the_user_has_decided(
    uid_map: dict[str, str],
    uid_hash: str | None,
    taken: dict[int, tuple[str | None, int] | None],
) -> None:
    saved = saved_query(old("a", 0, named=False), old("b", 1, named=False))
    other = saved_query(old("elsewhere", query="other"), key="other")
    hash_ = None if uid_hash is None else id_of(uid_hash)
    program = starting(new("x", 0, was="a", uid_hash=hash_), new("y", 1, was="b"))
    matches = match_operators(
        program, [saved, other], saved, hasher=HasherVersion.V3, uid_map=uid_map
    )
    found = {n: op and (op.query, op.state.ordinal) for n, op in matches.taken.items()}
    assert found == taken


def test_a_uid_of_another_query_is_not_replaced_by_the_place_of_its_operator() -> None:
    saved = saved_query(old("a", 0, named=False), old("b", 1, named=False))
    other = saved_query(old("x", query="other"), key="other")
    program = starting(new("x", 0, was="a"), new("y", 1, was="b"))
    assert matched(program, saved, other) == {0: ("other", 0), 1: None}


def test_gained_uids_need_the_same_operators() -> None:
    """One more operator in front would have the id of the one that stood there."""
    saved = saved_query(old("a", 0, named=False))
    program = starting(new("fresh", 0, was="a"), new("x", 1, was="b"))
    assert matched(program, saved) == {0: None, 1: None}


def test_a_checkpoint_without_ids_is_taken_by_position_if_the_operators_are_the_same() -> None:
    plain = saved_query(
        old("", 0, AGG, query=None, named=False, ids=False),
        old("", 1, DEDUP, query=None, named=False, ids=False),
        key=None,
    )
    assert matched(starting(new("x", 0, AGG), new("y", 1, DEDUP)), plain) == {
        0: (None, 0),
        1: (None, 1),
    }
    with pytest.raises(Incompatible, match="does not identify them"):
        matched(starting(new("y", 0, DEDUP), new("x", 1, AGG)), plain)
    with pytest.raises(Incompatible, match="0 stateStoreSave, 1 dedupe"):
        matched(starting(new("x", 0, AGG)), plain)
