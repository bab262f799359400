"""What a user may write as a uid or as a uid hash, and the id a uid stands for.

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
    """``uid`` itself; raises InvalidUid unless it is a string of at least one character."""
    if not isinstance(uid, str):
        raise InvalidUid(
            f"An operator uid must be a string. Found: {uid!r}", hint='write uid("a-name")'
        )
    if not uid:
        raise InvalidUid("Empty string operator uid is not allowed")
    return uid


def check_uid_hash(uid_hash: object) -> str:
    """``uid_hash`` in lower case; raises InvalidUid unless it is a string of 32 hex digits."""
    if isinstance(uid_hash, str) and len(uid_hash) == 32 and _HEX.issuperset(uid_hash):
        return uid_hash.lower()
    raise InvalidUid(
        "Node hash must be a 32 character String that describes a hex code. "
        f"Found: {uid_hash if isinstance(uid_hash, str) else repr(uid_hash)}",
        hint="take the operator id from: flinkish savepoint show PATH",
    )


def uid_to_operator_id(uid: str) -> str:
    """The operator id (32 hex digits) of an operator with this uid, whatever the hasher.

    As in Java, half a surrogate pair is encoded as ``?`` and two halves side by side as the one
    character they are. Not checked: the empty string has an id too (all zeros, as in Flink).
    """
    joined = uid.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return murmur3_128(joined.encode("utf-8", "replace")).hex()


def derived_uid(uid: str, occurrence: int) -> str:
    """The uid of the ``occurrence``-th (1, 2, ...) place of one DataFrame in a query's plan.

    A DataFrame used twice (union or join with itself) brings its uid into the plan twice, each
    place with state of its own. The first keeps the uid, later ones are ``uid#2``, ``uid#3`` ...
    """
    return uid if occurrence == 1 else f"{uid}#{occurrence}"


def distinguish(tags: Iterable[tuple[Hashable, str] | None]) -> list[str | None]:
    """The uid of each operator, given in traversal order, with later occurrences told apart.

    A tag is (token of the ``uid()`` call, uid), or None where the operator has no uid. The same
    token again is the same call seen a second time and gets a derived uid. The same uid under
    another token is the user's mistake: it stays as it is, and the hasher refuses it.
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
