from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.errors import DuplicateUid, HashCollision, InvalidUid
from flinkish.operators.graph import Edge, OperatorGraph, OperatorNode, connect
from flinkish.operators.hasher import HasherVersion, hash_v2, hash_v3
from flinkish.operators.identity import OperatorIdentity, identify
from flinkish.operators.render import digraph, dot, tree
from flinkish.operators.uids import uid_to_operator_id

V2, V3 = HasherVersion.V2, HasherVersion.V3


def program(**changes: dict[str, str | None]) -> OperatorGraph:
    operators = [
        OperatorNode(1, "flights", "file source"),
        OperatorNode(2, "dedup", "deduplicate", stateful=True, location="app.py:7"),
        OperatorNode(3, "count", "aggregate", stateful=True, location="app.py:9"),
        OperatorNode(4, "out", "sink"),
    ]
    operators = [replace(o, **changes.get(o.name, {})) for o in operators]  # type: ignore[arg-type]
    return connect(operators, [Edge(1, 2), Edge(2, 3), Edge(3, 4, chainable=True)])


def test_all_ids_of_an_operator() -> None:
    graph = program(count={"uid": "per-carrier", "uid_hash": "AB" * 16})
    found = identify(graph)[3]
    assert found.uid == "per-carrier"
    assert found.operator_id(V2) == found.operator_id(V3) == uid_to_operator_id("per-carrier")
    assert found.lookup_ids(V3) == ("ab" * 16, found.operator_id_v3)
    assert found.generated_v3 == hash_v3(program())[3]
    dedup = identify(graph)[2]
    assert dedup.operator_id_v2 == hash_v2(graph)[2]
    assert dedup.lookup_ids(V2) == (dedup.operator_id_v2,)


def test_its_own_id_as_hash_is_no_collision() -> None:
    own = hash_v3(program())[3]
    assert identify(program(count={"uid_hash": own}))[3].lookup_ids(V3) == (own,)


def test_duplicate_uid_names_both() -> None:
    with pytest.raises(DuplicateUid) as caught:
        identify(program(dedup={"uid": "x"}, count={"uid": "x"}))
    assert caught.value.code == 4
    assert 'Hash collision on user-specified ID "x"' in caught.value.message
    assert '"dedup" (stateful deduplicate, app.py:7)' in caught.value.message
    assert '"count" (stateful aggregate, app.py:9)' in caught.value.message


def test_different_uids_with_one_id() -> None:
    with pytest.raises(HashCollision, match=r'"dedup".*"count"'):
        identify(program(dedup={"uid": "?"}, count={"uid": "\ud83d"}))


@pytest.mark.parametrize("change", [{"uid": ""}, {"uid_hash": "abc"}])
def test_malformed(change: dict[str, str | None]) -> None:
    with pytest.raises(InvalidUid):
        identify(program(count=change))


def test_one_hash_for_two_operators() -> None:
    with pytest.raises(DuplicateUid, match=r'"dedup".*"count"'):
        identify(program(dedup={"uid_hash": "ab" * 16}, count={"uid_hash": "AB" * 16}))


@pytest.mark.parametrize("hasher", [hash_v2, hash_v3])
def test_a_hash_that_is_another_operators_id(hasher: object) -> None:
    assert callable(hasher)
    taken = hasher(program())[2]
    with pytest.raises(HashCollision, match=r'"count".*is the operator id of "dedup"'):
        identify(program(count={"uid_hash": taken}))
    # With a uid, "dedup" keeps its state elsewhere, and the hash is free.
    identify(program(count={"uid_hash": taken}, dedup={"uid": "d"}))


def test_tree() -> None:
    graph = program(dedup={"uid": "d"})
    ids = hash_v3(graph)
    assert list(tree(graph, identify(graph), V3)) == [
        f'"out" (sink) id={ids[4]}',
        f'`-- "count" (stateful aggregate, app.py:9) id={ids[3]}',
        f'  `-= "dedup" (stateful deduplicate, app.py:7) uid=d id={ids[2]}',
        f'    `-= "flights" (file source) id={ids[1]}',
    ]


def test_tree_of_branches_draws_a_shared_operator_once() -> None:
    names = ["source", "left", "right", "join"]
    operators = [OperatorNode(key, name) for key, name in enumerate(names)]
    graph = connect(operators, [Edge(0, 1), Edge(0, 2), Edge(1, 3), Edge(2, 3)])
    lines = [line.partition(" id=")[0] for line in tree(graph, identify(graph), V3)]
    assert lines == [
        '"join" (operator)',
        '|-= "left" (operator)',
        '| `-= "source" (operator)',
        '`-= "right" (operator)',
        '  `-= "source" (operator) (see above)',
    ]


def test_dot() -> None:
    text = dot(program(dedup={"uid": 'a"b'}), identify(program()), V2, "q")
    assert '\n    "q/2" [shape=box, label="dedup\\ndeduplicate\\nuid a\\"b\\n' in text
    assert '\n    "q/2" -> "q/3" [style=dashed];\n    "q/3" -> "q/4";\n  }' in text


def test_the_nodes_of_two_queries_have_names_of_their_own() -> None:
    graphs = [dot(program(), identify(program()), V2, name) for name in ("one", 'the "other"')]
    text = digraph(graphs)
    assert text.count("digraph") == 1
    nodes = [line.split(" [")[0] for line in text.splitlines() if "shape=" in line]
    assert len(nodes) == len(set(nodes)) == 2 * len(list(program()))
    assert text.count("{") == text.count("}")


def test_what_a_savepoint_keeps_has_the_id_of_the_hasher_that_writes() -> None:
    count = identify(program())[3]
    v2, v3 = count.operator_id_v2, count.operator_id_v3
    assert v2 != v3
    assert count.under(V2) == OperatorIdentity(None, v2, v2, v3)
    assert count.under(V3) == OperatorIdentity(None, v3, v2, v3)
