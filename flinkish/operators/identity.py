"""The identity of operators in savepoints and restores, with its rules checked.

A savepoint records an operator's ids under both hashers, so that a restore can use either and a job
can move from v2 to v3. Only ids of the same hasher are compared (a requested v3 id with stored v3
ids), because one id may stand for different operators under the two hashers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.errors import DuplicateUid, HashCollision
from flinkish.operators.graph import OperatorGraph, OperatorNode
from flinkish.operators.hasher import (
    HasherVersion,
    generated_v3,
    hash_v2,
    hash_v3,
    user_hashes,
)
from flinkish.operators.state_semantics import StateSemantics
from flinkish.operators.uids import check_uid


@dataclass(frozen=True)
class OperatorIdentity:
    """The identity of an operator in savepoints and restores; unknown parts are None.

    Attributes
    ----------
    uid
        The user's name for it.
    operator_id
        The id under which its state was written: one of the two ids below.
    operator_id_v2, operator_id_v3
        Its ids under both hashers, 32 hex digits each.
    """

    uid: str | None = None
    operator_id: str | None = None
    operator_id_v2: str | None = None
    operator_id_v3: str | None = None


#: The identity of an unknown operator.
UNKNOWN = OperatorIdentity()


class Identified:
    """Base class of objects with an ``identity``; its fields are attributes of the object too."""

    identity: OperatorIdentity

    @property
    def uid(self) -> str | None:
        """The user's name for it."""
        return self.identity.uid

    @property
    def operator_id(self) -> str | None:
        """The id under which its state was written."""
        return self.identity.operator_id

    @property
    def operator_id_v2(self) -> str | None:
        """Its id under the hasher v2."""
        return self.identity.operator_id_v2

    @property
    def operator_id_v3(self) -> str | None:
        """Its id under the hasher v3."""
        return self.identity.operator_id_v3


def identity_of(data: Mapping[str, Any]) -> OperatorIdentity:
    """Return the identity that is stored in the fields of an operator or a source."""
    return OperatorIdentity(**{each.name: data.get(each.name) for each in fields(OperatorIdentity)})


@dataclass(frozen=True)
class OperatorFacts(Identified):
    """Facts about an operator that the driver knows and the checkpoint does not contain.

    Attributes
    ----------
    kind
        Spark's name for the operator, which a checkpoint of Spark 3.5 lacks.
    state_digest
        Digest of all rows as the engine last wrote them, independent of their partitions.
    """

    ordinal: int
    kind: str | None = None
    identity: OperatorIdentity = UNKNOWN
    rows: int | None = None
    meaning: StateSemantics | None = None
    state_digest: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data of what does not change while the query runs: all but ``rows``."""
        meaning = None if self.meaning is None else self.meaning.to_json()
        return {
            "ordinal": self.ordinal,
            "kind": self.kind,
            **asdict(self.identity),
            "meaning": meaning,
            "state_digest": self.state_digest,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> OperatorFacts:
        """Convert the result of :meth:`to_json` back."""
        meaning = data.get("meaning")
        return OperatorFacts(
            data["ordinal"],
            data.get("kind"),
            identity_of(data),
            meaning=None if meaning is None else StateSemantics.from_json(meaning),
            state_digest=data.get("state_digest"),
        )


@dataclass(frozen=True)
class PlannedNode:
    """A stateful node of a planned query, as Spark will run it.

    Attributes
    ----------
    ordinal, kind
        Spark's ``operatorId``, and its name for the operator (``stateStoreSave`` ...).
    partitions, stores, meaning
        The state that it will keep.
    files
        The metadata and schemas that Spark 4.x writes below ``state/<ordinal>`` while it plans, by
        relative path; empty on 3.5. Paths inside the files are those of the planning directory.
    """

    ordinal: int
    kind: str
    partitions: int = 0
    stores: tuple[StoreInfo, ...] = ()
    meaning: StateSemantics = field(default_factory=StateSemantics)
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeIdentity:
    """The ids of one operator of a program (32 hex digits each), with its node.

    Attributes
    ----------
    generated_v3
        The v3 id that the operator would have without its uid. Under this id a restore finds state
        that was written before the program had uids.
    user_hash
        The uid hash, if any.
    """

    node: OperatorNode
    operator_id_v2: str
    operator_id_v3: str
    generated_v3: str
    user_hash: str | None = None

    @property
    def uid(self) -> str | None:
        """The user's name for it."""
        return self.node.uid

    def operator_id(self, version: HasherVersion) -> str:
        """Return the id under which state is written with this hasher."""
        return self.operator_id_v2 if version is HasherVersion.V2 else self.operator_id_v3

    def under(self, version: HasherVersion) -> OperatorIdentity:
        """Return the identity that a savepoint records when state is written with this hasher."""
        return OperatorIdentity(
            self.uid, self.operator_id(version), self.operator_id_v2, self.operator_id_v3
        )

    def lookup_ids(self, version: HasherVersion) -> tuple[str, ...]:
        """Return the ids to look up at a restore until one matches: the user hash, then the id.

        Flink: ``StateAssignmentOperation`` (user-defined operator id, then the generated one).
        """
        own = self.operator_id(version)
        return (own,) if self.user_hash in (None, own) else (str(self.user_hash), own)


def identify(graph: OperatorGraph) -> dict[int, NodeIdentity]:
    """Return the identity of every operator, by key, in the order of ``graph.nodes``.

    Raises InvalidUid for an empty uid or a malformed uid hash, DuplicateUid if two operators have
    the same uid or uid hash, and HashCollision if two operators have the same id. HashCollision is
    also raised if a uid hash is the id of another stateful operator, because the operator with the
    hash would take the other's state at the next restore.
    """
    for node in graph:
        if node.uid is not None:
            check_uid(node.uid)
    hashes = user_hashes(graph)
    v2, v3, generated = hash_v2(graph), hash_v3(graph), generated_v3(graph)
    _refuse_shared_hashes(graph, hashes)
    for ids in (v2, v3):
        _refuse_foreign_hashes(graph, hashes, ids)
    return {
        node.key: NodeIdentity(
            node, v2[node.key], v3[node.key], generated[node.key], hashes.get(node.key)
        )
        for node in graph
    }


def _refuse_shared_hashes(graph: OperatorGraph, hashes: dict[int, str]) -> None:
    # Flink accepts a shared uid hash, and both operators then request the same state.
    owners: dict[str, OperatorNode] = {}
    for key in sorted(hashes):
        node = graph.by_key[key]
        other = owners.setdefault(hashes[key], node)
        if other is not node:
            raise DuplicateUid(
                f"The uid hash {hashes[key]} is given to operators {other.describe()} "
                f"and {node.describe()}",
                hint="a state can go to only one operator: remove the hash from one of them",
                operators=[other.name, node.name],
            )


def _refuse_foreign_hashes(
    graph: OperatorGraph, hashes: dict[int, str], ids: dict[int, str]
) -> None:
    stateful = {ids[node.key]: node for node in graph if node.stateful}
    for key in sorted(hashes):
        node, owner = graph.by_key[key], stateful.get(hashes[key])
        if owner is not None and owner is not node:
            raise HashCollision(
                f"The uid hash {hashes[key]} of operator {node.describe()} is the operator id "
                f"of {owner.describe()}",
                hint=f'give "{owner.name}" a uid, so that its id changes',
                operators=[node.name, owner.name],
            )
