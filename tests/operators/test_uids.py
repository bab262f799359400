from __future__ import annotations

import pytest

from flinkish.errors import InvalidUid
from flinkish.operators.uids import (
    check_uid,
    check_uid_hash,
    derived_uid,
    distinguish,
    murmur3_128,
    uid_to_operator_id,
)
from tests.support.operator_graphs import recorded


def test_every_recorded_uid() -> None:
    wrong = [u for u in recorded()["uids"] if uid_to_operator_id(u["uid"]) != u["operator_id"]]
    assert wrong == []
    assert len(recorded()["uids"]) == 50


def test_surrogates_are_encoded_as_java_does() -> None:
    # Java: "\ud83d".getBytes(UTF_8) is "?"; a pair of halves is one character.
    assert uid_to_operator_id("a\ud83db") == uid_to_operator_id("a?b")
    assert uid_to_operator_id("\ude80\ud83d") == uid_to_operator_id("??")
    assert uid_to_operator_id("\ud83d\ude80") == uid_to_operator_id("\U0001f680")


@pytest.mark.parametrize("uid", ["", None, 7, b"x"])
def test_what_cannot_be_a_uid(uid: object) -> None:
    with pytest.raises(InvalidUid) as caught:
        check_uid(uid)
    assert caught.value.code == 2
    assert caught.value.hint


def test_uid_as_given() -> None:
    assert check_uid(" trail ") == " trail "


@pytest.mark.parametrize("given", ["", "abc", "z" * 32, "0" * 31, "0" * 33, "\u0660" * 32, None])
def test_malformed_hash_says_what_flink_says(given: object) -> None:
    with pytest.raises(InvalidUid, match="must be a 32 character String that describes a hex code"):
        check_uid_hash(given)


def test_hash_in_upper_case_is_accepted() -> None:
    assert check_uid_hash("ABCDEF0123456789" * 2) == "abcdef0123456789" * 2


def test_one_dataframe_used_twice_gets_derived_uids() -> None:
    tags = [
        ("call 1", "dedup"),
        None,
        ("call 2", "other"),
        ("call 1", "dedup"),
        ("call 1", "dedup"),
    ]
    assert distinguish(tags) == ["dedup", None, "other", "dedup#2", "dedup#3"]
    assert derived_uid("dedup", 1) == "dedup"


def test_the_same_uid_from_two_calls_stays_a_duplicate() -> None:
    assert distinguish([("call 1", "x"), ("call 2", "x")]) == ["x", "x"]


@pytest.mark.parametrize(
    ("text", "h1", "h2"),
    [
        # From the tests of github.com/spaolacci/murmur3 (h1 and h2 as numbers).
        ("", 0x0000000000000000, 0x0000000000000000),
        ("hello", 0xCBD8A7B341BD9B02, 0x5B1E906A48AE1D19),
        ("hello, world", 0x342FAC623A5EBC8E, 0x4CDCBC079642414D),
        ("19 Jan 2038 at 3:14:07 AM", 0xB89E5988B737AFFC, 0x664FC2950231B2CB),
        ("The quick brown fox jumps over the lazy dog.", 0xCD99481F9EE902C9, 0x695DA1A38987B6E7),
    ],
)
def test_published_vectors(text: str, h1: int, h2: int) -> None:
    expected = h1.to_bytes(8, "little") + h2.to_bytes(8, "little")
    assert murmur3_128(text.encode()) == expected


def test_smhasher_verification_value() -> None:
    """SMHasher's own check: a hash over the hashes of 256 keys under 256 seeds."""
    hashes = b"".join(murmur3_128(bytes(range(i)), seed=256 - i) for i in range(256))
    assert int.from_bytes(murmur3_128(hashes)[:4], "little") == 0x6384BA69
