"""Text in a checkpoint's files: version lines, JSON as Jackson writes it, Java's strings.

Files are untrusted, so JSON is parsed with a limit on its depth.
"""

from __future__ import annotations

import json
import re
import struct
from typing import Any, Final

from flinkish.checkpoint.format.errors import (
    CannotWrite,
    CheckpointFormatError,
    UnsupportedCheckpointFormat,
)

#: Largest nesting depth of JSON: enough for schemas of some sixty nested structs.
MAX_DEPTH: Final = 200
#: Most bytes that ``DataOutput.writeUTF`` can write.
MAX_UTF: Final = 0xFFFF

#: A string may lack its end: it is then the rest of the text, and not searched for other strings.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")
_LONE = re.compile("[\ud800-\udfff]")
_VERSION = re.compile(rb"v([1-9][0-9]{0,8})")


def parse_json(text: bytes | str) -> Any:
    """Parse a JSON text; ValueError if it is not JSON, or nested beyond ``MAX_DEPTH``."""
    try:
        decoded = text if isinstance(text, str) else text.decode()
        if decoded.count("[") + decoded.count("{") > MAX_DEPTH and _depth(decoded) > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        return json.loads(decoded)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _depth(text: str) -> int:
    deepest = depth = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in "]}":
            depth -= 1
    return deepest


def parse_object(data: bytes, name: str, start: int = 0) -> dict[str, Any]:
    """Parse a JSON object that begins at the byte ``start`` of the file ``name``.

    Raises CheckpointFormatError, with the offset of the fault if JSON's parser names one.
    """
    try:
        parsed = parse_json(data)
    except json.JSONDecodeError as error:
        at = start + len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
        raise CheckpointFormatError(name, at, f"not JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        at = start + error.start
        raise CheckpointFormatError(name, at, "the file is not UTF-8 text") from error
    except ValueError as error:
        raise CheckpointFormatError(name, start, f"not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise CheckpointFormatError(name, start, "not a JSON object")
    return parsed


def split_version(data: bytes, name: str, what: str) -> tuple[int, int]:
    """Parse the first line of a file: ``v1`` or ``v2``, as in all of Spark's logs.

    Returns the version, and the offset of the content after the line. Spark reads this line with
    ``MetadataVersionUtil``, and has only ever written these two versions. ``what`` is the kind of
    file, for errors, such as ``log``.

    Raises UnsupportedCheckpointFormat for a newer version, and CheckpointFormatError if there is no
    version, or nothing follows.
    """
    if not data:
        raise CheckpointFormatError(name, 0, "the file ends too early: it is empty")
    head, newline, _ = data.partition(b"\n")
    match = _VERSION.fullmatch(head)
    if match is None:
        text = head[:20].decode("utf-8", "replace")
        raise CheckpointFormatError(name, 0, f"the first line is {text!r}, not a version")
    version = int(match[1])
    if version > 2:
        reason = f"{what} version v{version} is newer than v2, the newest known"
        raise UnsupportedCheckpointFormat(name, 0, reason)
    if not newline:
        raise CheckpointFormatError(name, len(data), "the file ends too early")
    return version, len(head) + 1


def spark_json(value: Any) -> str:
    """Return compact JSON as Spark writes it: non-ASCII stays, escapes have capital hex digits."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _ESCAPE.sub(lambda m: "\\u" + m[1][1:].upper() if len(m[1]) > 1 else m[0], text)


def json_bytes(value: Any) -> bytes:
    """Return the JSON of :func:`spark_json` in UTF-8; unpaired surrogates are escaped."""
    return _LONE.sub(lambda m: f"\\u{ord(m[0]):04X}", spark_json(value)).encode()


def write_utf(text: str) -> bytes:
    """Return the bytes of Java's ``DataOutput.writeUTF``; CannotWrite beyond ``MAX_UTF`` bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    points = struct.unpack(f">{len(units) // 2}H", units)
    data = b"".join(
        b"\xc0\x80" if p == 0 else chr(p).encode("utf-8", "surrogatepass") for p in points
    )
    if len(data) > MAX_UTF:
        raise CannotWrite(f"a text of {len(data)} bytes is too long for Java's writeUTF")
    return struct.pack(">H", len(data)) + data


def decode_modified_utf8(data: bytes) -> str:
    """Decode Java's modified UTF-8: NUL is two bytes, a character above U+FFFF a surrogate pair.

    Raises UnicodeError.
    """
    text = data.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
