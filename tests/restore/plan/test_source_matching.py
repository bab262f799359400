"""From where sources go on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from flinkish.errors import ConsentNeeded, Incompatible, UsageError
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.origin.restore_inputs import NewQuery, SavedQueryFacts
from flinkish.restore.plan.decisions import plan_query
from flinkish.restore.plan.operator_matching import match_operators
from flinkish.restore.plan.source_matching import (
    SourceMatches,
    check_inputs,
    check_reset,
    match_sources,
    reset_entries,
)
from tests.support.restore.query_builders import (
    id_of,
    new,
    old,
    reads,
    saved_query,
    source,
    starting,
)

A, B = "FileSource[/a]", "FileSource[/b]"


def positions(query: NewQuery, *saved: SavedQueryFacts, **uid_map: str) -> SourceMatches:
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
    assert positions(program, saved).positions is None


def test_another_kind_of_source_is_not_paired() -> None:
    saved = saved_query(sources=(source(A, 0),))
    found = positions(starting(sources=(reads("rate[]", 0),)), saved)
    assert entries(found) == [None]
    assert "starts from scratch" in found.notes[0]


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
    assert positions(program, saved_query(sources=twice)).positions is None


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
    def saved(name: str, word: str, offset: str) -> SavedQueryFacts:
        sources = (source(A, query=name, offset=offset),)
        return saved_query(old(word, query=name), key=name, sources=sources)

    program = starting(new("x", 0), new("y", 1), name="both", sources=(reads(A, 0, feeds=(0, 1)),))
    with pytest.raises(ConsentNeeded, match="different positions"):
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


def _shared_by_two() -> tuple[SavedQueryFacts, SavedQueryFacts]:
    """Two queries that share a source of uid ``ev``, each at its own position."""
    return (
        saved_query(
            old("x", query="one"),
            key="one",
            sources=(source(A, uid="ev", query="one", offset="9"),),
        ),
        saved_query(
            old("y", query="two"),
            key="two",
            sources=(source(A, uid="ev", query="two", offset="3"),),
        ),
    )


@pytest.mark.parametrize(
    ("uid", "uid_map"), [("ev", {}), ("new", {"new": "ev"}), ("new", {"new": "two/ev"})]
)
@pytest.mark.parametrize("name", ["two", "three", "one"])
def test_a_uid_that_two_queries_share_is_that_of_the_query_whose_state_it_feeds(
    name: str, uid: str, uid_map: dict[str, str]
) -> None:
    program = starting(new("y"), name=name, sources=(reads(A, uid=uid, feeds=(0,)),))
    taken = positions(program, *_shared_by_two(), **uid_map).matched
    assert taken is not None
    assert [(s.query, s.offset) for s in taken if s is not None] == [("two", "3")]


def test_a_uid_that_two_other_queries_share_is_refused_at_different_positions() -> None:
    saved = _shared_by_two()
    both = starting(
        new("x", 0), new("y", 1), name="one", sources=(reads(A, uid="ev", feeds=(0, 1)),)
    )
    with pytest.raises(ConsentNeeded, match="feeds states that were saved at different positions"):
        positions(both, *saved)
    stateless = starting(name="three", sources=(reads(A, uid="ev"),))
    with pytest.raises(ConsentNeeded, match="by other queries: 9 in query 'one', 3 in") as error:
        positions(stateless, *saved)
    assert error.value.hint.endswith("from scratch and keep the state: --reset-source three/ev")
    assert reset(stateless, *saved, names=["three/ev"]).reset == {0}
    hashed = starting(name="three", sources=(reads(A, uid_hash=id_of("ev")),))
    with pytest.raises(ConsentNeeded, match="by other queries") as error:
        positions(hashed, *saved)
    assert "--uid-map" in error.value.hint
    advised = error.value.hint.rpartition("--reset-source ")[2].strip("'")
    assert reset(hashed, *saved, names=[advised]).reset == {0}
    mapped = starting(name="three", sources=(reads(A, uid="new"),))
    assert entries(positions(mapped, *saved, new="two/ev")) == [("two", 0)]
    own = starting(name="two", sources=(reads(A, uid="ev"),))
    assert positions(own, *saved).positions is None


def test_no_uid_map_is_advised_for_positions_without_a_uid() -> None:
    saved = [
        saved_query(key=key, sources=(source(A, query=key, offset=offset, place="first"),))
        for key, offset in (("one", "9"), ("two", "3"))
    ]
    program = starting(name="three", sources=(reads(A, uid_hash=id_of("first")),))
    with pytest.raises(ConsentNeeded, match="by other queries") as error:
        positions(program, *saved)
    assert "--uid-map" not in error.value.hint


def test_a_source_read_twice_and_now_one_goes_on_from_one_position() -> None:
    def saved(offset: str) -> SavedQueryFacts:
        return saved_query(sources=(source(A, 0, offset="5"), source(A, 1, offset=offset)))

    program = starting(sources=(reads(A, 0, directory="0"), reads(A, 1, directory="0")))
    assert entries(positions(program, saved("5"))) == [("q", 0), ("q", 1)]
    with pytest.raises(ConsentNeeded, match="is one source now, and was saved as several"):
        positions(program, saved("6"))
    assert entries(reset(program, saved("6"), names=[A])) == [None, None]


def test_unknown_sources_are_left_as_they_are_and_cannot_be_combined() -> None:
    plain = saved_query(old("x"), sources=None)
    assert positions(starting(new("x"), sources=(reads(A),)), plain) == SourceMatches()
    with pytest.raises(Incompatible, match="is unknown"):
        positions(starting(new("x"), name="other", sources=(reads(A),)), plain)


def test_a_renamed_source_is_found_through_the_uid_map() -> None:
    saved = saved_query(sources=(source(A, 0, uid="a"), source(B, 1, uid="b")))
    program = starting(sources=(reads("rate[]", 0, uid="new"), reads(A, 1, uid="a")))
    assert entries(positions(program, saved, new="b")) == [("q", 1), ("q", 0)]


def test_a_source_of_a_query_with_another_name_is_found_through_the_uid_map_or_its_hash() -> None:
    saved = saved_query(key="p", sources=(source(A, 0, query="p", uid="s"),))
    renamed = reads(B, 0, uid="t")
    assert entries(positions(starting(sources=(renamed,)), saved, t="s")) == [("p", 0)]
    by_hash = replace(reads(B, 0), lookup_ids=(id_of("s"), id_of("its place")))
    assert entries(positions(starting(sources=(by_hash,)), saved)) == [("p", 0)]
    assert positions(starting(sources=(renamed,)), saved) == SourceMatches()


def test_a_name_of_sparks_is_one_of_its_query() -> None:
    orders = source(A, 0, query="p", uid="orders", directory="orders")
    plain = source(B, 0, query="q")
    saved = (saved_query(key="p", sources=(orders,)), saved_query(key="q", sources=(plain,)))
    named = reads(B, 0, uid="orders", directory="orders")
    # Query q gives its source a name that is one of query p: it keeps its own position.
    assert entries(positions(starting(name="q", sources=(named,)), *saved)) == [("q", 0)]
    # A uid of flinkish is one of the job.
    moved = positions(starting(name="q", sources=(reads(B, 0, uid="a"),)), *_with_uid("a"))
    assert entries(moved) == [("p", 0)]
    # A query that takes the state of another takes the position behind its names too.
    state = saved_query(old("x", query="p"), key="p", sources=(orders,))
    reader = reads(A, 0, uid="orders", directory="orders", feeds=(0,))
    query = starting(new("x"), name="r", sources=(reader,))
    assert entries(positions(query, state)) == [("p", 0)]


def _with_uid(uid: str) -> tuple[SavedQueryFacts, SavedQueryFacts]:
    one, other = source(A, 0, query="p", uid=uid), source(B, 0, query="q", uid="b")
    return saved_query(key="p", sources=(one,)), saved_query(key="q", sources=(other,))


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
    with pytest.raises(Incompatible, match=r"input 1 of uid 'pairs'.* is now input 0"):
        plan_query(program, [saved], [])


# --reset-source.


def reset(query: NewQuery, *saved: SavedQueryFacts, names: Collection[str]) -> SourceMatches:
    own = next((q for q in saved if q.key in (query.name, None)), None)
    version = HasherVersion.V3
    taken = match_operators(query, saved, own, hasher=version, uid_map={}).taken
    return match_sources(query, saved, own, taken, hasher=version, uid_map={}, reset=names)


KAFKA = "kafka[subscribe=orders, topic=x]"


@pytest.mark.parametrize("name", ["in", KAFKA, "orders", "1"])
def test_a_source_that_is_named_starts_afresh(name: str) -> None:
    saved = saved_query(sources=(source(A, 0), source(KAFKA, 1, uid="in")))
    program = starting(sources=(reads(A, 0), reads(KAFKA, 1, uid="in")))
    found = reset(program, saved, names=[name])
    assert entries(found) == [("q", 0), None]
    assert found.matched == saved.sources
    assert found.reset == {1}
    assert saved.sources is not None
    assert found.given_up == (saved.sources[1],)
    assert found.notes == ("query 'q': source 'in' starts from scratch (--reset-source)",)
    assert plan_query(program, [saved], []).positions is None  # nothing is named


def test_a_source_that_starts_afresh_leaves_its_position_to_no_other() -> None:
    """Not even to one that reads the same."""
    saved = saved_query(sources=(source(A, 0),))
    program = starting(sources=(reads(A, 0), reads(A, 1)))
    found = reset(program, saved, names=["0"])
    assert entries(found) == [None, None]
    assert [line.rpartition("] ")[2] for line in found.notes] == [
        "starts from scratch (--reset-source)",
        "is new and starts from scratch",
    ]


def test_a_dataframe_used_twice_is_one_name() -> None:
    twice = (source(A, 0, directory="0"), source(A, 1, directory="0"), source(B, 2))
    program = starting(
        sources=(reads(A, 0, directory="0"), reads(A, 1, directory="0"), reads(B, 2))
    )
    found = reset(program, saved_query(sources=twice), names=[A])
    assert entries(found) == [None, None, ("q", 2)]
    assert found.given_up == twice[:2]


def test_a_name_that_fits_several_sources_is_refused() -> None:
    saved = saved_query(sources=(source(A, 0), source(B, 1)))
    program = starting(sources=(reads(A, 0), reads(B, 1, uid="b")))
    with pytest.raises(UsageError, match="fits more than one source") as error:
        reset(program, saved, names=["FileSource"])
    assert error.value.hint == f"name one of: 0 {A}, 1 {B} (uid 'b'); with --reset-source"
    other = saved_query(key="p")
    with pytest.raises(UsageError, match="a number in each of the queries"):
        reset(program, saved, other, names=["1"])
    assert reset(program, saved, other, names=["b"]).reset == {1}


def test_a_name_that_fits_nothing_is_refused_when_all_queries_are_known() -> None:
    saved = saved_query(sources=(source(A, 0),))
    one = starting(sources=(reads(A, 0),))
    two = starting(name="two", sources=(reads(B, 0, uid="b"),))
    assert reset(one, saved, names=["b"]).positions is None  # it may be another query's
    check_reset(["b", A, "0"], [one, two])
    for name in ("nope", "7", ""):
        with pytest.raises(UsageError, match="the program has no source") as error:
            check_reset([name], [one, two])
        assert error.value.hint.endswith(f"its sources: 0 {A}, 0 {B} (uid 'b')")


def test_a_uid_that_is_a_number_is_a_uid() -> None:
    sources = (reads(A, 0), reads(B, 1, uid="0"))
    assert reset_entries(["0"], starting(sources=sources), ["q", "b"]) == {1}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("q/0", {0}),
        (f"q/{A}", {0}),
        ("q/in", {0}),
        ("b/in", set()),  # another query's, though q reads a path with that in it
        ("q/b/in", {0}),
        ("q/in/b", {1}),  # a uid as it is
        ("c/in", set()),
    ],
)
def test_a_name_with_its_query(name: str, found: set[int]) -> None:
    sources = (reads("FileSource[/a/b/in]", 0), reads(B, 1, uid="q/in/b"))
    if name == f"q/{A}":
        sources = (reads(A, 0), reads(B, 1))
    assert reset_entries([name], starting(sources=sources), ["q", "b"]) == found


def test_sources_that_are_not_known_cannot_start_afresh() -> None:
    plain = saved_query(key=None, sources=None)
    with pytest.raises(Incompatible, match="what the checkpoint's query reads is unknown"):
        reset(starting(sources=(reads(A),)), plain, names=["0"])


def test_a_reset_settles_a_conflict_of_positions() -> None:
    def saved(name: str, word: str, offset: str) -> SavedQueryFacts:
        sources = (source(A, query=name, offset=offset),)
        return saved_query(old(word, query=name), key=name, sources=sources)

    program = starting(new("x", 0), new("y", 1), name="both", sources=(reads(A, 0, feeds=(0, 1)),))
    found = reset(program, saved("one", "x", "5"), saved("two", "y", "9"), names=[A])
    assert entries(found) == [None]


def test_inputs_of_a_join_are_checked_also_where_a_source_starts_afresh() -> None:
    saved = saved_query(
        old("pairs", kind="symmetricHashJoin"),
        sources=(
            replace(source(A, 0), inputs=((0, 0),)),
            replace(source(B, 1), inputs=((0, 1),)),
        ),
    )
    program = starting(
        new("pairs", kind="symmetricHashJoin"),
        sources=(
            replace(reads(B, 0, feeds=(0,)), inputs=((0, 0),)),
            replace(reads(A, 1, feeds=(0,)), inputs=((0, 1),)),
        ),
    )
    taken = {0: saved.operators[0]}
    found = reset(program, saved, names=[A, B])
    with pytest.raises(Incompatible, match="the state holds the rows of each input"):
        check_inputs(program, saved, taken, found)
