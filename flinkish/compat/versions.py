"""Parsing of versions as users, build systems and Spark itself write them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flinkish.compat.model import FLINK, FRAMEWORKS, SPARK, Version
from flinkish.errors import UsageError

_NUMBER = r"(0|[1-9][0-9]{0,3})"
#: An optional name, ``v``, line, patch (``x``: any), and the suffix of a build or a vendor.
_VERSION = re.compile(
    rf"(?:(?:apache[-_ ])?(?P<name>[a-z]+)[-_ ])?v?{_NUMBER}\.{_NUMBER}(?:\.(?:{_NUMBER}|x|\*))?"
    r"(?:[-.+_][a-z0-9][a-z0-9.+_-]*|(?:a|b|rc|dev|preview)[0-9]+)?",
    re.IGNORECASE,
)
_NAMES = {"spark": SPARK, "pyspark": SPARK, "flink": FLINK, "pyflink": FLINK}


def parse_version(text: str, framework: str, known: Sequence[str] = ()) -> Version:
    """Parse ``1.8``, ``1.8.x``, ``1.8.2``, ``v4.3.0``, ``4.3.0-SNAPSHOT``, ``spark-3.5.9``.

    Suffixes of builds and vendors do not affect the state format and are dropped. A line that no
    table has is still a valid version; ``known`` are the table's lines, for the error's hint.
    Raises UsageError if the text is not a version, or names another framework.
    """
    hint = f"give a version such as {known[-1]} or {known[-1]}.0" if known else ""
    if known:
        hint += f"; the table knows {', '.join(known)}"
    match = _VERSION.fullmatch(text.strip())
    name = (match["name"] or framework).lower() if match else framework
    if match is None or name not in _NAMES:
        raise UsageError(f"{text!r} is not a version of {framework}", hint=hint)
    if _NAMES[name] != framework:
        other = next(one for one in FRAMEWORKS if one == _NAMES[name])
        raise UsageError(
            f"{text!r} is a version of {other}, not of {framework}",
            hint=f"ask for the other table with --framework {other}",
        )
    major, minor, patch = match.group(2, 3, 4)
    return Version(f"{major}.{minor}", None if patch is None else int(patch))
