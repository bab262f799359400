"""Operator ids: 16-byte hashes, written as 32 hex digits, that link state to its operator.

v2 is Flink's ``StreamGraphHasherV2``, bit for bit. v3 is flinkish's own, and is independent of
chaining, as Flink's proposal "StreamGraphHasherV3" is. Notation: ``H`` is murmur3_128 with seed 0
(see :mod:`flinkish.operators.uids`), ``int(n)`` is n as 4 little-endian bytes (two's
complement), ``+`` joins bytes, and ``int(n) * k`` is ``int(n)`` repeated k times.

**Both.** An operator with a uid has the id ``H(UTF-8 of the uid)``, whatever surrounds it.

**Traversal.** Fill a queue (FIFO) with the sources, keys ascending, each marked visited. Poll an
operator. If it must wait for its inputs and one of them is not hashed yet, unmark it and continue
(a later input queues it again). Otherwise hash it, then queue and mark the targets of its out-edges
that are not marked, in out-edge order.

**Fold.** ``fold(h, [a, b, ...])``: for each id in turn, for each of the 16 bytes,
``h[i] = (h[i] * 37 mod 256) xor id[i]``.

**v2.** Operators without uid wait for their inputs, operators with uid do not. With n = the number
of operators hashed so far (including those with a uid), an operator without uid has the id
``fold(H(int(n) * (1 + number of chainable out-edges)), ids of the inputs in in-edge order)``.

**v3.** Generated ids are those of v2 without three influences: the chainable out-edges, the uids,
and the operators that keep no state. Precisely:

1. *Anchors* are the sources and the stateful operators; all others are *passing*. The skeleton of
   the graph has only the anchors. An anchor's inputs in the skeleton are, for each of its in-edges
   in order: the input itself if that is an anchor, else the anchors that reach that input only
   through passing operators, each once, in the order of a depth-first search along the in-edges.
   Its outputs are the anchors found in the same way along the out-edges, each once.
2. Traverse the skeleton; every operator waits for its inputs (uids play no part). The n-th anchor
   hashed (from 0) has the generated id ``fold(H(int(n)), generated ids of its inputs)``.
3. Traverse the whole graph in the same way. The m-th passing operator hashed (from 0) has the
   generated id ``fold(H(int(m) + int(-1)), generated ids of its inputs)``.
4. Whenever a generated id is the id of a uid of the graph or an id generated before, ``int(-1)`` is
   appended to the bytes given to H until the id is new, so generated ids never collide.
5. An operator's id is that of its uid where it has one, else its generated id.

Tested consequences: parallelism, repartitioning, chains, names of operators and columns, and the
order in which the graph lists its nodes never change an id. Stateless operators may be added,
removed and reordered without changing the generated id of an operator with state. Giving an
operator a uid, or changing a uid, changes no other operator's id. Without chains, uids and
stateless operators v3 equals v2. As in v2, generated ids are positional: adding a source or a
stateful operator changes the ids after it; uids avoid that. Generated ids are unique only within
one graph: two queries each have a first source, with the same generated id.

**User hashes** (``uid_hash``, Flink's ``setUidHash``) replace no id: state is written under the ids
above; a restore looks up the given hash first.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from enum import Enum
from typing import Any

from flinkish.errors import DuplicateUid, HashCollision
from flinkish.operators.graph import OperatorGraph, OperatorNode
from flinkish.operators.uids import check_uid_hash, murmur3_128, uid_to_operator_id

_FOLD_FACTOR = 37


class HasherVersion(str, Enum):
    """Values of ``execution.stream-graph-hasher.version``."""

    V2 = "v2"
    V3 = "v3"


def hash_v2(graph: OperatorGraph) -> dict[int, str]:
    """Return Flink's ids (module docstring); raise DuplicateUid or HashCollision."""
    ids = _uid_ids(graph)
    named = frozenset(ids)
    inputs = {node.key: node.in_edges for node in graph}
    outputs = {node.key: [edge.target for edge in node.out_edges] for node in graph}
    for position, key in enumerate(_hashing_order(graph.sources, inputs, outputs, named)):
        if key not in named:
            node = graph.by_key[key]
            chainable = sum(edge.chainable for edge in node.out_edges)
            base = murmur3_128(_int(position) * (1 + chainable))
            ids[key] = _fold(base, (ids[source] for source in node.in_edges))
    _refuse_collisions(graph, ids)
    return {node.key: ids[node.key].hex() for node in graph}


def hash_v3(graph: OperatorGraph) -> dict[int, str]:
    """Return the v3 ids (module docstring); raise DuplicateUid or HashCollision for uids only."""
    generated = generated_v3(graph)
    uids = _uid_ids(graph)
    return {
        node.key: uids[node.key].hex() if node.key in uids else generated[node.key]
        for node in graph
    }


def generated_v3(graph: OperatorGraph) -> dict[int, str]:
    """Return the v3 ids as if no operator had a uid: the ids of state from before the uids.

    Raises DuplicateUid or HashCollision for repeated uids; generated ids never collide.
    """
    uids = _uid_ids(graph)
    _refuse_collisions(graph, uids)
    taken = set(uids.values())
    ids: dict[int, bytes] = {}

    def assign(key: int, start: bytes, inputs: Iterable[int]) -> None:
        folded = [ids[source] for source in inputs]
        id_ = _fold(murmur3_128(start), folded)
        while id_ in taken:
            start += _int(-1)
            id_ = _fold(murmur3_128(start), folded)
        taken.add(id_)
        ids[key] = id_

    anchors, inputs, outputs = _skeleton(graph)
    for n, key in enumerate(_hashing_order(graph.sources, inputs, outputs)):
        assign(key, _int(n), inputs[key])
    inputs = {node.key: node.in_edges for node in graph}
    outputs = {node.key: [edge.target for edge in node.out_edges] for node in graph}
    order = _hashing_order(graph.sources, inputs, outputs)
    for m, key in enumerate(key for key in order if key not in anchors):
        assign(key, _int(m) + _int(-1), inputs[key])
    return {node.key: ids[node.key].hex() for node in graph}


def user_hashes(graph: OperatorGraph) -> dict[int, str]:
    """Return the given uid hashes by key, in lower case (Flink: ``StreamGraphUserHashHasher``).

    Raises InvalidUid if a hash is not 32 hex digits. Duplicates are not checked here.
    """
    return {node.key: check_uid_hash(node.uid_hash) for node in graph if node.uid_hash is not None}


def _uid_ids(graph: OperatorGraph) -> dict[int, bytes]:
    return {
        node.key: bytes.fromhex(uid_to_operator_id(node.uid))
        for node in graph
        if node.uid is not None
    }


def _refuse_collisions(graph: OperatorGraph, ids: Mapping[int, bytes]) -> None:
    owners: dict[bytes, int] = {}
    for key in sorted(ids):
        if ids[key] in owners:
            raise collision(graph.by_key[owners[ids[key]]], graph.by_key[key])
        owners[ids[key]] = key


def collision(one: OperatorNode, two: OperatorNode) -> DuplicateUid | HashCollision:
    """Return the error for two operators (of one graph or two queries) with one operator id."""
    who = f"operators {one.describe()} and {two.describe()}"
    facts: dict[str, Any] = {
        "operators": [one.name, two.name],
        "locations": [one.location, two.location],
    }
    if one.uid is None and two.uid is None:
        return HashCollision(f"Hash collision on the generated ids of {who}", **facts)
    uid = two.uid if two.uid is not None else one.uid
    kind = DuplicateUid if one.uid == two.uid else HashCollision
    return kind(
        # Flink's two sentences, then what Flink leaves out.
        f'Hash collision on user-specified ID "{uid}". Most likely cause is a non-unique ID. '
        "Please check that all IDs specified via `uid(String)` are unique. "
        f"It stands for {who}",
        uid=uid,
        **facts,
    )


def _hashing_order(
    sources: Iterable[int],
    inputs: Mapping[int, Sequence[int]],
    outputs: Mapping[int, Sequence[int]],
    impatient: Set[int] = frozenset(),
) -> list[int]:
    """Return the traversal order (module docstring); ``impatient`` nodes do not wait for inputs."""
    queue = deque(sorted(sources))
    visited = set(queue)
    hashed: dict[int, None] = {}
    while queue:
        key = queue.popleft()
        if key not in impatient and any(source not in hashed for source in inputs[key]):
            visited.discard(key)
            continue
        hashed[key] = None
        for target in outputs[key]:
            if target not in visited:
                visited.add(target)
                queue.append(target)
    return list(hashed)


def _skeleton(
    graph: OperatorGraph,
) -> tuple[frozenset[int], dict[int, Sequence[int]], dict[int, Sequence[int]]]:
    """Return the anchors, and their inputs and outputs with passing operators left out."""
    anchors = frozenset(node.key for node in graph if node.stateful or not node.in_edges)
    order = graph.topological
    above = _nearest(order, anchors, lambda key: graph.by_key[key].in_edges)
    below = _nearest(
        order[::-1], anchors, lambda key: [edge.target for edge in graph.by_key[key].out_edges]
    )
    inputs: dict[int, Sequence[int]] = {}
    outputs: dict[int, Sequence[int]] = {}
    for key in anchors:
        node = graph.by_key[key]
        inputs[key] = [anchor for source in node.in_edges for anchor in above[source]]
        outputs[key] = _once(anchor for edge in node.out_edges for anchor in below[edge.target])
    return anchors, inputs, outputs


def _nearest(
    order: Iterable[int], anchors: Set[int], neighbours: Callable[[int], Iterable[int]]
) -> dict[int, Sequence[int]]:
    """Return the nearest anchors of each node, each once, in the order met; for an anchor, itself.

    ``order`` lists a node's ``neighbours`` before the node.
    """
    nearest: dict[int, Sequence[int]] = {}
    for key in order:
        nearest[key] = (
            [key] if key in anchors else _once(a for near in neighbours(key) for a in nearest[near])
        )
    return nearest


def _once(values: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(values))


def _int(value: int) -> bytes:
    return struct.pack("<i", value)


def _fold(base: bytes, inputs: Iterable[bytes]) -> bytes:
    folded = base
    for other in inputs:
        folded = bytes(
            (mine * _FOLD_FACTOR & 0xFF) ^ its for mine, its in zip(folded, other, strict=True)
        )
    return folded
