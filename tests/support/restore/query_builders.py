"""Short ways to write saved and starting queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from flinkish.checkpoint.operators import StateOnDisk
from flinkish.connectors.sources import NewSource, SavedSource
from flinkish.operators.identity import OperatorFacts, OperatorIdentity, PlannedNode
from flinkish.operators.uids import murmur3_128
from flinkish.restore.origin.restore_inputs import (
    NewOperator,
    NewQuery,
    SavedOperator,
    SavedQueryFacts,
)

AGG, DEDUP = "stateStoreSave", "dedupe"


def id_of(word: str, hasher: str = "v3") -> str:
    """Any 32 hex digits that stand for a word."""
    return murmur3_128(f"{hasher} {word}".encode()).hex()


def old(
    word: str,
    ordinal: int = 0,
    kind: str | None = DEDUP,
    *,
    query: str | None = "q",
    named: bool = True,
    ids: bool = True,
) -> SavedOperator:
    """A saved operator; ``word`` is its uid (``named``), or stands for its place in the plan."""
    identity = OperatorIdentity(
        uid=word if named else None,
        operator_id_v2=id_of(word, "v2") if ids else None,
        operator_id_v3=id_of(word) if ids else None,
    )
    return SavedOperator(
        StateOnDisk(ordinal, kind, partitions=2, bytes=2048, files=4),
        OperatorFacts(ordinal, kind, identity, rows=120),
        query,
    )


def new(
    word: str,
    ordinal: int = 0,
    kind: str = DEDUP,
    *,
    named: bool = True,
    was: str = "",
    uid_hash: str | None = None,
    hasher: str = "v3",
) -> NewOperator:
    """An operator of a starting query; ``was`` stands for its place, the id without its uid."""
    own = id_of(word, hasher)
    return NewOperator(
        PlannedNode(ordinal, kind),
        name=word,
        lookup_ids=(own,) if uid_hash is None else (uid_hash, own),
        generated_id=id_of(was or f"place of {word}"),
        uid=word if named else None,
    )


Operator = TypeVar("Operator", bound=SavedOperator | NewOperator)


def changed(operator: Operator, **parts: Any) -> Operator:
    """The operator with other parts of its state, its facts or its node."""
    of_facts = {name: parts.pop(name) for name in ("meaning", "rows") if name in parts}
    if isinstance(operator, SavedOperator):
        state, facts = replace(operator.state, **parts), replace(operator.facts, **of_facts)
        return replace(operator, state=state, facts=facts)
    own = {name: parts.pop(name) for name in ("serializers",) if name in parts}
    return replace(operator, node=replace(operator.node, **parts, **of_facts), **own)


def source(
    signature: str,
    entry: int = 0,
    *,
    query: str = "q",
    uid: str | None = None,
    offset: str | None = None,
    directory: str | None = None,
    place: str | None = None,
) -> SavedSource:
    """A saved source; ``place`` stands for its place in the plan."""
    word = uid or place or f"{query} {entry}"
    return SavedSource(
        query,
        entry,
        directory or str(entry),
        offset or f'{{"logOffset":{entry}}}',
        OperatorIdentity(uid, None, id_of(word, "v2"), id_of(word)),
        signature,
    )


def reads(
    signature: str,
    entry: int = 0,
    *,
    uid: str | None = None,
    uid_hash: str | None = None,
    feeds: tuple[int, ...] = (),
    directory: str | None = None,
) -> NewSource:
    """A source of a starting query."""
    own = id_of(uid or f"new {entry}")
    ids = (own,) if uid_hash is None else (uid_hash, own)
    return NewSource(entry, directory or str(entry), signature, ids, uid, feeds)


def saved_query(
    *operators: SavedOperator,
    key: str | None = "q",
    batch: int = 7,
    sources: tuple[SavedSource, ...] | None = (),
) -> SavedQueryFacts:
    """A saved query."""
    return SavedQueryFacts(key, batch, operators, sources)


def starting(
    *operators: NewOperator, name: str = "q", sources: tuple[NewSource, ...] = ()
) -> NewQuery:
    """A starting query."""
    return NewQuery(
        name,
        tuple(replace(operator, query=name) for operator in operators),
        tuple(replace(source, query=name) for source in sources),
    )
