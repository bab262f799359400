"""Check uids and uid hashes, and compute the operator id of a uid.

Rules and messages are Flink's: ``StreamGraphHasherV2.generateUserSpecifiedHash``,
``Transformation.setUidHash`` and, for the empty uid, the job graph generator of Flink 2.

The hash is MurmurHash3's 128-bit variant for 64-bit machines, byte for byte as Guava and Flink use
it. Source: Austin Appleby's public domain ``MurmurHash3_x64_128`` (SMHasher); the byte order of the
result is that of Guava's ``Hashing.murmur3_128().hashBytes(x).asBytes()``: h1, then h2, both
little-endian. Flink's operator ids are such 16 bytes, written as 32 hex digits.

The hash is written in Python here, because no dependency of flinkish provides it, and a job needs
only a few dozen short hashes.
"""

from __future__ import annotations

import string
from collections.abc import Hashable, Iterable

from flinkish.errors import InvalidUid

_MASK = 0xFFFFFFFFFFFFFFFF
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_BLOCK = 16


def murmur3_128(data: bytes, seed: int = 0) -> bytes:
    """Return the 16-byte hash of ``data``; ``seed`` is an unsigned 32-bit number (Flink: 0)."""
    h1 = h2 = seed
    whole = len(data) - len(data) % _BLOCK
    for start in range(0, whole, _BLOCK):
        k1 = int.from_bytes(data[start : start + 8], "little")
        k2 = int.from_bytes(data[start + 8 : start + _BLOCK], "little")
        h1 ^= _mix_k1(k1)
        h1 = (_rotate(h1, 27) + h2) & _MASK
        h1 = (h1 * 5 + 0x52DCE729) & _MASK
        h2 ^= _mix_k2(k2)
        h2 = (_rotate(h2, 31) + h1) & _MASK
        h2 = (h2 * 5 + 0x38495AB5) & _MASK
    # The tail is a block padded with zeros; a zero k leaves its h as it is.
    h1 ^= _mix_k1(int.from_bytes(data[whole : whole + 8], "little"))
    h2 ^= _mix_k2(int.from_bytes(data[whole + 8 :], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1 = _finalise(h1)
    h2 = _finalise(h2)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return h1.to_bytes(8, "little") + h2.to_bytes(8, "little")


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _mix_k1(k: int) -> int:
    return (_rotate((k * _C1) & _MASK, 31) * _C2) & _MASK


def _mix_k2(k: int) -> int:
    return (_rotate((k * _C2) & _MASK, 33) * _C1) & _MASK


def _finalise(h: int) -> int:
    h ^= h >> 33
    h = (h * 0xFF51AFD7ED558CCD) & _MASK
    h ^= h >> 33
    h = (h * 0xC4CEB9FE1A85EC53) & _MASK
    return h ^ (h >> 33)


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
    with state of its own. The first use keeps the uid, later uses get ``uid#2``, ``uid#3`` ...
    """
    return uid if occurrence == 1 else f"{uid}#{occurrence}"


def distinguish(tags: Iterable[tuple[Hashable, str] | None]) -> list[str | None]:
    """Return the uid of each operator, in traversal order, with derived uids for later occurrences.

    A tag is (token of the ``uid()`` call, uid), or None where the operator has no uid. If a token
    occurs again, the DataFrame of that call is used again, and this use gets a derived uid. The
    same uid under another token is the user's mistake: it stays, and the hasher refuses it.
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
