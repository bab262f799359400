"""What the hashers promise about any graph, on random ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkish.errors import DuplicateUid
from flinkish.operators.graph import Edge, OperatorGraph, OperatorNode, connect
from flinkish.operators.hasher import (
    HasherVersion,
    generated_v3,
    hash_v2,
    hash_v3,
)
from flinkish.operators.uids import uid_to_operator_id
from tests.support.operator_graphs import hash_graph

fast = settings(max_examples=60, deadline=None)
Parts = tuple[list[OperatorNode], list[Edge]]


@st.composite
def parts(draw: st.DrawFn, *, max_size: int = 9) -> Parts:
    """Operators and edges of a random acyclic graph; node 0 is a source, all lead somewhere."""
    size = draw(st.integers(1, max_size))
    operators, edges = [], []
    for key in range(size):
        uid = draw(st.none() | st.none() | st.just(f"uid-{key}"))
        stateful = draw(st.booleans())
        operators.append(OperatorNode(key * 10, f"op {key}", uid=uid, stateful=stateful))
        if key and draw(st.integers(0, 3)):
            for source in draw(st.lists(st.integers(0, key - 1), min_size=1, max_size=3)):
                edges.append(Edge(source * 10, key * 10, draw(st.booleans())))
    return operators, draw(st.permutations(edges))


def anchors(graph: OperatorGraph) -> list[int]:
    return [node.key for node in graph if node.stateful or not node.in_edges]


@fast
@given(parts())
def test_every_operator_has_an_id_of_its_own(graph_parts: Parts) -> None:
    graph = connect(*graph_parts)
    for version in HasherVersion:
        ids = hash_graph(graph, version)
        assert list(ids) == [node.key for node in graph]
        assert len(set(ids.values())) == len(graph)
        for node in graph:
            assert len(bytes.fromhex(ids[node.key])) == 16
            if node.uid is not None:
                assert ids[node.key] == uid_to_operator_id(node.uid)


@fast
@given(parts(), st.data())
def test_order_of_nodes_and_all_names_do_not_matter(
    graph_parts: Parts, data: st.DataObject
) -> None:
    graph = connect(*graph_parts)
    shuffled = data.draw(st.permutations(graph.nodes))
    renamed = tuple(
        replace(n, name=data.draw(st.text()), kind=data.draw(st.text()), location=None)
        for n in shuffled
    )
    for version in HasherVersion:
        assert hash_graph(OperatorGraph(renamed), version) == hash_graph(graph, version)


@fast
@given(parts(), st.integers(1, 1000))
def test_the_value_of_keys_does_not_matter(graph_parts: Parts, step: int) -> None:
    operators, edges = graph_parts
    moved = connect(
        [replace(o, key=o.key * step - 7) for o in operators],
        [replace(e, source=e.source * step - 7, target=e.target * step - 7) for e in edges],
    )
    for version in HasherVersion:
        ids = hash_graph(connect(operators, edges), version)
        assert list(hash_graph(moved, version).values()) == list(ids.values())


@fast
@given(parts(), st.data())
def test_v3_does_not_see_chains(graph_parts: Parts, data: st.DataObject) -> None:
    operators, edges = graph_parts
    size = len(edges)
    flags = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    other = [replace(edge, chainable=flag) for edge, flag in zip(edges, flags, strict=True)]
    assert hash_v3(connect(operators, other)) == hash_v3(connect(operators, edges))


@fast
@given(parts(), st.data())
def test_v3_ids_of_state_survive_stateless_operators(
    graph_parts: Parts, data: st.DataObject
) -> None:
    """One more stateless step (a projection, a filter, a repartition) on any edge or at any end."""
    operators, edges = graph_parts
    before = connect(operators, edges)
    key = 1000 + data.draw(st.integers(0, 3))
    grown = [*operators, OperatorNode(key, "step")]
    on_an_edge = data.draw(st.booleans())
    if edges and on_an_edge:
        position = data.draw(st.integers(0, len(edges) - 1))
        cut = edges[position]
        edges = list(edges)
        edges[position : position + 1] = [Edge(cut.source, key), Edge(key, cut.target)]
    else:
        end = data.draw(st.sampled_from(operators)).key
        edges = [*edges, Edge(end, key)]
    after = connect(data.draw(st.permutations(grown)), edges)
    old, new = hash_v3(before), hash_v3(after)
    assert {k: new[k] for k in anchors(before)} == {k: old[k] for k in anchors(before)}


@fast
@given(parts(), st.data())
def test_v3_naming_an_operator_changes_no_other_id(graph_parts: Parts, data: st.DataObject) -> None:
    operators, edges = graph_parts
    position = data.draw(st.integers(0, len(operators) - 1))
    before = hash_v3(connect(operators, edges))
    generated = generated_v3(connect(operators, edges))
    renamed = list(operators)
    renamed[position] = replace(operators[position], uid=data.draw(st.sampled_from(["new", None])))
    after = connect(renamed, edges)
    key = operators[position].key
    assert {**hash_v3(after), key: before[key]} == before
    assert generated_v3(after) == generated


def test_v3_swapping_stateless_steps_changes_no_id_of_state() -> None:
    source, first, second = (OperatorNode(k, n) for k, n in enumerate(["source", "map", "filter"]))
    count = OperatorNode(3, "count", stateful=True)
    one = connect([source, first, second, count], [Edge(0, 1), Edge(1, 2), Edge(2, 3)])
    two = connect([source, first, second, count], [Edge(0, 2), Edge(2, 1), Edge(1, 3)])
    assert (hash_v3(one)[0], hash_v3(one)[3]) == (hash_v3(two)[0], hash_v3(two)[3])


def test_v3_sees_the_order_of_inputs_and_where_state_stands() -> None:
    operators = [OperatorNode(k, f"n{k}", stateful=True) for k in range(3)]
    left_right = hash_v3(connect(operators, [Edge(0, 2), Edge(1, 2)]))
    right_left = hash_v3(connect(operators, [Edge(1, 2), Edge(0, 2)]))
    chain = hash_v3(connect(operators, [Edge(0, 1), Edge(1, 2)]))
    assert len({left_right[2], right_left[2], chain[2]}) == 3


@pytest.mark.parametrize("number", range(4))
def test_v3_gives_way_to_a_uid_whose_bytes_are_its_own_input(number: int) -> None:
    """Without step 4 of the definition, this uid would have the id of the n-th source."""
    clash = number.to_bytes(4, "little").decode()
    sources = [OperatorNode(key, f"s{key}") for key in range(number + 1)]
    plain = hash_v3(connect(sources, []))
    assert plain[number] == uid_to_operator_id(clash)
    named = hash_v3(connect([*sources, OperatorNode(99, "named", uid=clash)], []))
    assert named[99] == plain[number]
    assert named[number] not in plain.values()


@pytest.mark.parametrize("version", HasherVersion)
def test_duplicate_uids_are_refused(version: HasherVersion) -> None:
    operators = [OperatorNode(1, "a", uid="x"), OperatorNode(2, "b", uid="x")]
    with pytest.raises(DuplicateUid, match=r'"a".*"b"') as caught:
        hash_graph(connect(operators, [Edge(1, 2)]), version)
    assert caught.value.data["operators"] == ["a", "b"]


def test_large_graphs_take_no_recursion_and_no_explosion() -> None:
    """400 stateless diamonds in a row hold 2**400 paths; 5,000 steps are a deep chain."""
    edges = []
    for top in range(0, 1200, 3):
        edges += [Edge(top, top + 1), Edge(top, top + 2), Edge(top + 1, top + 3)]
        edges += [Edge(top + 2, top + 3)]
    operators = [OperatorNode(key, "n", stateful=key == 1200) for key in range(1201)]
    assert len(hash_v3(connect(operators, edges))) == 1201
    chain = [OperatorNode(key, "n", stateful=True) for key in range(5000)]
    line = connect(chain, [Edge(key, key + 1) for key in range(4999)])
    assert hash_v3(line) == hash_v2(line)
