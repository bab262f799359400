"""Check uids and uid hashes, and compute the operator id of a uid.

Rules and messages are Flink's: ``StreamGraphHasherV2.generateUserSpecifiedHash``,
``Transformation.setUidHash`` and, for the empty uid, the job graph generator of Flink 2.
"""

from __future__ import annotations

import string
from collections.abc import Hashable, Iterable

from flinkish.errors import InvalidUid
from flinkish.operators.murmur3_128 import murmur3_128

_HEX = frozenset(string.hexdigits)


def check_uid(uid: object) -> str:
    """Return ``uid``; raise InvalidUid unless it is a string of at least one character."""
    if not isinstance(uid, str):
        raise InvalidUid(
            f"An operator uid must be a string. Found: {uid!r}", hint='write uid("a-name")'
        )
    if not uid:
        raise InvalidUid("Empty string operator uid is not allowed")
    return uid


def check_uid_hash(uid_hash: object) -> str:
    """Return ``uid_hash`` in lower case; raise InvalidUid unless it has exactly 32 hex digits."""
    if isinstance(uid_hash, str) and len(uid_hash) == 32 and _HEX.issuperset(uid_hash):
        return uid_hash.lower()
    raise InvalidUid(
        "Node hash must be a 32 character String that describes a hex code. "
        f"Found: {uid_hash if isinstance(uid_hash, str) else repr(uid_hash)}",
        hint="take the operator id from: flinkish savepoint show PATH",
    )


def uid_to_operator_id(uid: str) -> str:
    """Return the operator id (32 hex digits) of an operator with this uid, for every hasher.

    As in Java, an unpaired surrogate is encoded as ``?``, and a surrogate pair as its character.
    There is no check: the empty string has an id too (all zeros, as in Flink).
    """
    joined = uid.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return murmur3_128(joined.encode("utf-8", "replace")).hex()


def derived_uid(uid: str, occurrence: int) -> str:
    """Return the uid of the ``occurrence``-th (1, 2, ...) use of one DataFrame in a query's plan.

    A DataFrame used twice (union or join with itself) brings its uid into the plan twice, each time
    with state of its own. The first keeps the uid, later ones are ``uid#2``, ``uid#3`` ...
    """
    return uid if occurrence == 1 else f"{uid}#{occurrence}"


def distinguish(tags: Iterable[tuple[Hashable, str] | None]) -> list[str | None]:
    """Return the uid of each operator, in traversal order, with derived uids for later occurrences.

    A tag is (token of the ``uid()`` call, uid), or None where the operator has no uid. The same
    token again is the same call in a second place, and gets a derived uid. The same uid under
    another token is the user's mistake: it stays unchanged, and the hasher refuses it.
    """
    seen: dict[tuple[Hashable, str], int] = {}
    uids: list[str | None] = []
    for tag in tags:
        if tag is None:
            uids.append(None)
            continue
        seen[tag] = seen.get(tag, 0) + 1
        uids.append(derived_uid(tag[1], seen[tag]))
    return uids
