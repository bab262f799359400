"""MurmurHash3, the 128-bit variant for 64-bit machines, byte for byte as Guava and Flink use it.

Source: Austin Appleby's public domain ``MurmurHash3_x64_128`` (SMHasher); the byte order of the
result is that of Guava's ``Hashing.murmur3_128().hashBytes(x).asBytes()``: h1, then h2, both
little-endian. Flink's operator ids are such 16 bytes, written as 32 hex digits.

None of flinkish's dependencies has it, and operator ids need a few dozen short hashes a job.
"""

from __future__ import annotations

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
