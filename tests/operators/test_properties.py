"""What generated ids do not depend on, on random graphs and on random edits of the recorded ones.

The shape of a graph (sources in their order, edges in their order, what keeps state) is all that v3
looks at; v2 also sees chains and uids. Adding stateless steps is in :mod:`.test_hasher`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flinkish.operators import golden
from flinkish.operators.graph import OperatorGraph, connect
from flinkish.operators.hasher import HasherVersion, generated_v3, hash_v2, hash_v3
from flinkish.operators.identity import identify
from tests.operators.test_hasher import Parts, parts
from tests.support.operator_graphs import flip, hash_graph, recorded

fast = settings(max_examples=60, deadline=None)
ROOT = Path(__file__).parents[2]


def every_id(graph: OperatorGraph) -> dict[int, tuple[str, str, str]]:
    """All three ids of every operator, by key."""
    return {
        key: (found.operator_id_v2, found.operator_id_v3, found.generated_v3)
        for key, found in identify(graph).items()
    }


def v3_ids(graph: OperatorGraph) -> dict[int, tuple[str, str]]:
    """Both v3 ids of every operator, by key."""
    generated = generated_v3(graph)
    return {key: (found, generated[key]) for key, found in hash_v3(graph).items()}


# names: of operators, and so of columns, which graphs know by nothing else


@fast
@given(parts(), st.data())
def test_no_id_depends_on_names_kinds_or_places(graph_parts: Parts, data: st.DataObject) -> None:
    graph = connect(*graph_parts)
    text = st.text(max_size=8)
    renamed = OperatorGraph(
        tuple(
            replace(
                node,
                name=data.draw(text),
                kind=data.draw(text),
                location=data.draw(st.none() | text),
            )
            for node in graph
        )
    )
    assert every_id(renamed) == every_id(graph)


# the order of dictionaries and of lists that have none


@fast
@given(parts(), st.randoms())
def test_no_id_depends_on_the_order_of_the_nodes(graph_parts: Parts, chance: random.Random) -> None:
    graph = connect(*graph_parts)
    nodes, sources = list(graph.nodes), list(graph.sources)
    chance.shuffle(nodes)
    chance.shuffle(sources)
    shuffled = OperatorGraph(tuple(nodes), tuple(sources))
    assert every_id(shuffled) == every_id(graph)
    assert list(every_id(shuffled)) == [node.key for node in nodes], "in the order of the nodes"


@fast
@given(parts(), st.data())
def test_no_id_depends_on_keys_that_keep_the_sources_in_order(
    graph_parts: Parts, data: st.DataObject
) -> None:
    """The keys of all but the sources change places at random, among themselves and with them."""
    graph = connect(*graph_parts)
    keys = st.integers(-(2**40), 2**40)
    drawn = data.draw(st.lists(keys, min_size=len(graph), max_size=len(graph), unique=True))
    mine = sorted(drawn[: len(graph.sources)])
    inner = [node.key for node in graph if node.key not in graph.sources]
    new = dict(
        zip([*sorted(graph.sources), *inner], [*mine, *drawn[len(mine) :]], strict=True),
    )
    moved = OperatorGraph(
        tuple(
            replace(
                node,
                key=new[node.key],
                in_edges=tuple(new[key] for key in node.in_edges),
                out_edges=tuple(replace(e, target=new[e.target]) for e in node.out_edges),
            )
            for node in graph
        )
    )
    assert every_id(moved) == {new[key]: ids for key, ids in every_id(graph).items()}


def shuffled(value: Any, chance: random.Random) -> Any:
    """JSON with the fields of every object in another order; lists keep theirs."""
    if isinstance(value, dict):
        fields = [(name, shuffled(field, chance)) for name, field in value.items()]
        chance.shuffle(fields)
        return dict(fields)
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


entries = st.sampled_from(recorded()["graphs"])


@fast
@given(entries, st.randoms())
def test_flinks_ids_come_out_of_a_file_in_any_order(
    entry: Mapping[str, Any], chance: random.Random
) -> None:
    other = shuffled(entry, chance)
    for unordered in (other["nodes"], other["source_ids"]):
        chance.shuffle(unordered)
    expected = {n["id"]: n["expected_operator_id"] for n in entry["nodes"]}
    graph = golden.read_graph(other)
    assert hash_v2(graph) == expected
    assert hash_v3(graph) == hash_v3(golden.read_graph(entry))


def test_no_id_depends_on_the_seed_of_pythons_hashes() -> None:
    """A set of texts has another order in each process; that of the ids may not follow it."""
    script = (
        "from tests.support.operator_graphs import graphs\n"
        "from flinkish.operators.identity import identify\n"
        "print([identify(graph) for graph in graphs().values()])\n"
        "print(set(map(str, range(50))))\n"
    )
    lines = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        lines.append(done.stdout.splitlines())
    (ids, texts), (same_ids, other_texts) = lines
    assert ids == same_ids
    assert texts != other_texts, "the seed made no difference: nothing was tested"


# what v3 leaves out


@fast
@given(parts(), st.data())
def test_chains_are_in_v2_and_not_in_v3(graph_parts: Parts, data: st.DataObject) -> None:
    graph = connect(*graph_parts)
    ends = [(node, i) for node in graph for i in range(len(node.out_edges))]
    flipped = graph
    for node, position in data.draw(st.lists(st.sampled_from(ends))) if ends else ():
        flipped = flip(flipped, node.key, position)
    assert v3_ids(flipped) == v3_ids(graph)
    chained = {
        node.key: sum(edge.chainable for edge in flipped.by_key[node.key].out_edges)
        - sum(edge.chainable for edge in node.out_edges)
        for node in graph
        if node.uid is None
    }
    same = hash_v2(flipped) == hash_v2(graph)
    assert same == (not any(chained.values())), "v2 counts the chains of operators without uid"


@fast
@given(parts(), st.data())
def test_uids_of_others_are_not_in_generated_v3_ids(
    graph_parts: Parts, data: st.DataObject
) -> None:
    graph = connect(*graph_parts)
    named = OperatorGraph(
        tuple(
            replace(n, uid=data.draw(st.none() | st.sampled_from([f"new-{n.key}", f"x/{n.key}"])))
            for n in graph
        )
    )
    assert generated_v3(named) == generated_v3(graph)
    assert {n.key: hash_v3(named)[n.key] for n in named if n.uid is None} == {
        n.key: generated_v3(graph)[n.key] for n in named if n.uid is None
    }


@fast
@given(parts(), st.data())
def test_user_hashes_and_for_v2_state_are_in_no_id(graph_parts: Parts, data: st.DataObject) -> None:
    graph = connect(*graph_parts)
    hashes = st.none() | st.binary(min_size=16, max_size=16).map(bytes.hex)
    hashed = OperatorGraph(tuple(replace(node, uid_hash=data.draw(hashes)) for node in graph))
    for version in HasherVersion:
        assert hash_graph(hashed, version) == hash_graph(graph, version)
    turned = OperatorGraph(tuple(replace(node, stateful=not node.stateful) for node in graph))
    assert hash_v2(turned) == hash_v2(graph)


@fast
@given(entries, st.data())
def test_flinks_programs_with_other_parallelism_and_partitioners(
    entry: Mapping[str, Any], data: st.DataObject
) -> None:
    """What Flink derives chains from: neither hasher looks at it, v3 not at the chains either."""
    words = st.sampled_from(["FORWARD", "REBALANCE", "HASH", "RESCALE", "BROADCAST"])
    other = shuffled(entry, random.Random(0))
    other["chaining_enabled"] = data.draw(st.booleans())
    for node in other["nodes"]:
        node.update(parallelism=data.draw(st.integers(1, 128)), name=data.draw(st.text(max_size=5)))
        for edge in node["out_edges"]:
            edge["partitioner"] = data.draw(words)
    graph = golden.read_graph(entry)
    assert every_id(golden.read_graph(other)) == every_id(graph)
    for node in other["nodes"]:
        for edge in node["out_edges"]:
            edge["chainable"] = data.draw(st.booleans())
    assert v3_ids(golden.read_graph(other)) == v3_ids(graph)
