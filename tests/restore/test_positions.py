"""From where sources go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.errors import Incompatible
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.matching import match_operators
from flinkish.restore.model import NewQuery, SavedQuery
from flinkish.restore.plan import plan_query
from flinkish.restore.positions import SourceMatches, match_sources
from tests.restore.cases import new, old, reads, saved_query, source, starting

A, B = "FileSource[/a]", "FileSource[/b]"


def positions(query: NewQuery, *saved: SavedQuery, **uid_map: str) -> SourceMatches:
    own = next((q for q in saved if q.key in (query.name, None)), None)
    version = HasherVersion.V3
    taken = match_operators(query, saved, own, hasher=version, uid_map=uid_map).taken
    return match_sources(query, saved, own, taken, hasher=version, uid_map=uid_map)


def entries(matches: SourceMatches) -> list[tuple[str | None, int] | None]:
    assert matches.positions is not None
    return [None if s is None else (s.query, s.entry) for s in matches.positions]


def test_the_same_sources_leave_the_log_as_it_is() -> None:
    saved = saved_query(sources=(source(A, 0), source(B, 1)))
    assert positions(starting(sources=(reads(A, 0), reads(B, 1))), saved).positions is None


def test_sources_that_changed_places_are_found_by_what_they_read() -> None:
    saved = saved_query(sources=(source(A, 0), source(B, 1)))
    found = positions(starting(sources=(reads(B, 0), reads(A, 1))), saved)
    assert entries(found) == [("q", 1), ("q", 0)]


def test_a_uid_finds_a_source_that_reads_elsewhere_now() -> None:
    saved = saved_query(sources=(source(A, 0, uid="a"), source(B, 1, uid="b")))
    program = starting(sources=(reads("FileSource[/new]", 0, uid="b"), reads(A, 1, uid="a")))
    assert entries(positions(program, saved)) == [("q", 1), ("q", 0)]


def test_a_path_may_change_where_the_rest_is_paired() -> None:
    saved = saved_query(sources=(source(A, 0), source(B, 1)))
    program = starting(sources=(reads("FileSource[/moved]", 0), reads(B, 1)))
    assert positions(program, saved) == SourceMatches()


def test_another_kind_of_source_is_not_paired() -> None:
    saved = saved_query(sources=(source(A, 0),))
    found = positions(starting(sources=(reads("rate[]", 0),)), saved)
    assert entries(found) == [None]
    assert "starts afresh" in found.notes[0]


def test_an_added_source_starts_afresh_and_the_others_go_on() -> None:
    saved = saved_query(sources=(source(A, 0),))
    found = positions(starting(sources=(reads(B, 0), reads(A, 1))), saved)
    assert entries(found) == [None, ("q", 0)]
    assert B in found.notes[0]


def test_a_removed_source_is_left_out() -> None:
    saved = saved_query(sources=(source(A, 0), source(B, 1)))
    assert entries(positions(starting(sources=(reads(B, 0),)), saved)) == [("q", 1)]


def test_a_dataframe_used_twice_keeps_its_one_log() -> None:
    twice = (source(A, 0, directory="0"), source(A, 1, directory="0"))
    program = starting(sources=(reads(A, 0, directory="0"), reads(A, 1, directory="0")))
    assert positions(program, saved_query(sources=twice)) == SourceMatches()


def test_split_each_branch_takes_its_own_source() -> None:
    saved = saved_query(old("x", 0), old("y", 1), sources=(source(A, 0), source(B, 1)))
    left = starting(new("x"), name="left", sources=(reads(A, 0, feeds=(0,)),))
    right = starting(new("y"), name="right", sources=(reads(B, 0, feeds=(0,)),))
    assert entries(positions(left, saved)) == [("q", 0)]
    assert entries(positions(right, saved)) == [("q", 1)]


def test_merge_takes_each_source_from_the_query_whose_state_it_feeds() -> None:
    """Both read the same files, at different positions."""
    one = saved_query(
        old("x", query="one"), key="one", sources=(source(A, query="one", offset="5"),)
    )
    two = saved_query(
        old("y", query="two"), key="two", sources=(source(A, query="two", offset="9"),)
    )
    program = starting(
        new("x", 0),
        new("y", 1),
        name="both",
        sources=(reads(A, 0, feeds=(0,)), reads(A, 1, feeds=(1,))),
    )
    assert entries(positions(program, one, two)) == [("one", 0), ("two", 0)]


def test_one_source_before_states_at_two_positions_is_refused() -> None:
    def saved(name: str, word: str, offset: str) -> SavedQuery:
        sources = (source(A, query=name, offset=offset),)
        return saved_query(old(word, query=name), key=name, sources=sources)

    program = starting(new("x", 0), new("y", 1), name="both", sources=(reads(A, 0, feeds=(0, 1)),))
    with pytest.raises(Incompatible, match="different positions"):
        positions(program, saved("one", "x", "5"), saved("two", "y", "9"))
    same = positions(program, saved("one", "x", "5"), saved("two", "y", "5"))
    assert entries(same) == [("one", 0)]


def test_one_source_read_twice_goes_on_from_one_position() -> None:
    """A program that read its input once, and now once for each operator."""
    saved = saved_query(old("x", 0), old("y", 1), sources=(source(A, 0),))
    program = starting(
        new("x", 0), new("y", 1), sources=(reads(A, 0, feeds=(0,)), reads(A, 1, feeds=(1,)))
    )
    assert entries(positions(program, saved)) == [("q", 0), ("q", 0)]


def test_unknown_sources_are_left_as_they_are_and_cannot_be_combined() -> None:
    plain = saved_query(old("x"), sources=None)
    assert positions(starting(new("x"), sources=(reads(A),)), plain) == SourceMatches()
    with pytest.raises(Incompatible, match="not known"):
        positions(starting(new("x"), name="other", sources=(reads(A),)), plain)


def test_a_renamed_source_is_found_through_the_uid_map() -> None:
    saved = saved_query(sources=(source(A, 0, uid="a"), source(B, 1, uid="b")))
    program = starting(sources=(reads("rate[]", 0, uid="new"), reads(A, 1, uid="a")))
    assert entries(positions(program, saved, new="b")) == [("q", 1), ("q", 0)]


@pytest.mark.parametrize("turned", [False, True])
def test_a_join_whose_inputs_have_changed_places_is_refused(turned: bool) -> None:
    """Unless each still reaches it through the input whose rows the state holds."""
    saved = saved_query(
        old("pairs", kind="symmetricHashJoin"),
        sources=(
            replace(source(A, 0), inputs=((0, 0),)),
            replace(source(B, 1), inputs=((0, 1),)),
        ),
    )
    first, second = (B, A) if turned else (A, B)
    program = starting(
        new("pairs", kind="symmetricHashJoin"),
        sources=(
            replace(reads(first, 0, feeds=(0,)), inputs=((0, 0),)),
            replace(reads(second, 1, feeds=(0,)), inputs=((0, 1),)),
        ),
    )
    if not turned:
        assert plan_query(program, [saved], []).unchanged
        return
    with pytest.raises(Incompatible, match=r"input 1 of uid 'pairs'.* is input 0 now"):
        plan_query(program, [saved], [])
