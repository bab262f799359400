"""Published vectors of MurmurHash3_x64_128."""

from __future__ import annotations

import pytest

from flinkish.operators.murmur3_128 import murmur3_128


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
