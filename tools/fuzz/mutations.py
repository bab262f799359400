"""Inputs made of real ones: as damage, chance or malice would. Each is a function of its seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

#: Numbers at which readers go wrong.
INTEGERS = (
    *(0, 1, 2, -1, -2, 127, 128, 255, 256, 32767, 65535, 65536, 10_000_000),
    *((1 << 24), (1 << 31) - 1, -(1 << 31), (1 << 32) - 1, (1 << 62), (1 << 63) - 1),
)
#: What may stand where JSON has a value.
TOKENS = (
    *(b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"-Infinity", b"[]", b"{}", b'""', b"[[]]"),
    *(b"9" * 18, b"9" * 30, b"9" * 5000, b'"../../bait/victim"', b'"/etc/passwd"', b"1.5"),
    *(b"[" * 300, b"[" * 100_000, b'{"a":' * 3000, b'"\\ud800"', b'"\\u0000"', b'"a/../../b"'),
    *('"²"'.encode(), b'"' + b"x" * 5000 + b'"', b"[null]", b'[{"a":1}]', b'{"type":"struct"}'),
)
#: What may stand anywhere.
BYTES = (
    *(b"\x00" * 8, b"\xff" * 8, b"\n", b"v1\n", b"v9\n", b"../", b"\x1b]0;x\x07", b"Obj\x01"),
    *(
        "²".encode(),
        b"\xc3\x28",
        b"\x80" * 12,
        b"\xff" * 9 + b"\x01",
        b"\x00" * 4096,
        b"PK\x03\x04",
    ),
)
_NUMBER = re.compile(rb"\d+")
_VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null|\[\]|\{\}')

_Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def mutated(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds, changed a few times."""
    data = chance.choice(seeds)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        data = chance.choice(_MUTATIONS)(chance, data, seeds)
    return data


def _flip(chance: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _set(chance: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF, 0x20))]) + data[at + 1 :]


def _cut(chance: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _behead(chance: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[chance.randrange(len(data) + 1) :]


def _splice(chance: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    other = chance.choice(seeds)
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


def _part(chance: random.Random, data: bytes) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.choice((1, 2, 4, 8, 16, 64, 1000)))


def _remove(chance: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _part(chance, data)
    return data[:start] + data[end:]


def _double(chance: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _part(chance, data)
    return data[:end] + data[start:end] * chance.choice((1, 2, 100)) + data[end:]


def _number(chance: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """A binary number in place of what is there, of any size and order of bytes, or a varint."""
    value, at = chance.choice(INTEGERS), chance.randrange(len(data) + 1)
    if chance.random() < 0.4:
        rest = (value << 1) ^ (value >> 63)
        made = bytearray()
        while rest > 0x7F:
            made.append(rest & 0x7F | 0x80)
            rest >>= 7
        made.append(rest)
        return data[:at] + bytes(made) + data[at + chance.choice((1, 1, len(made))) :]
    size = chance.choice((1, 2, 4, 8))
    order: str = chance.choice(("big", "little"))
    raw = (value & ((1 << 8 * size) - 1)).to_bytes(size, "big")
    return data[:at] + (raw if order == "big" else raw[::-1]) + data[at + size :]


def _digits(chance: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Another number in place of one in a text."""
    found = list(_NUMBER.finditer(data, 0, 1 << 16))
    if not found:
        return data
    place = chance.choice(found)
    made = str(chance.choice((*INTEGERS, 10**18, 10**40))).encode()
    return data[: place.start()] + made + data[place.end() :]


def _value(chance: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Another value in place of one in JSON."""
    found = list(_VALUE.finditer(data, 0, 1 << 16))
    if not found:
        return data
    place = chance.choice(found)
    return data[: place.start()] + chance.choice(TOKENS) + data[place.end() :]


def _insert(chance: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(BYTES + TOKENS[:20]) + data[at:]


_MUTATIONS: tuple[_Mutation, ...] = (
    *(_flip, _flip, _set, _cut, _behead, _splice, _remove, _double),
    *(_number, _number, _digits, _value, _value, _value, _insert),
)
