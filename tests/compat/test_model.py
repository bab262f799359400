"""Versions as people write them."""

from __future__ import annotations

import pytest

from flinkish.compat.model import Version, parse_version
from flinkish.errors import UsageError


@pytest.mark.parametrize(
    ("text", "framework", "line", "patch"),
    [
        ("1.8", "flink", "1.8", None),
        ("1.8.x", "flink", "1.8", None),
        ("1.8.X", "flink", "1.8", None),
        ("1.8.*", "flink", "1.8", None),
        ("1.8.2", "flink", "1.8", 2),
        ("1.10", "flink", "1.10", None),
        ("1.18.0", "flink", "1.18", 0),
        ("v4.3.0", "spark", "4.3", 0),
        ("V4.3", "spark", "4.3", None),
        ("4.3.0-SNAPSHOT", "spark", "4.3", 0),
        ("1.18-SNAPSHOT", "flink", "1.18", None),
        ("4.0.0-preview2", "spark", "4.0", 0),
        ("4.1.0rc1", "spark", "4.1", 0),
        ("4.1.0.dev3", "spark", "4.1", 0),
        ("3.5.9-amzn-1", "spark", "3.5", 9),
        ("3.5.0+build.7", "spark", "3.5", 0),
        ("spark-3.5.9", "spark", "3.5", 9),
        ("spark-3.5.9-bin-hadoop3", "spark", "3.5", 9),
        ("apache-spark-4.0.5", "spark", "4.0", 5),
        ("pyspark-4.1.4", "spark", "4.1", 4),
        ("flink-1.8.2", "flink", "1.8", 2),
        ("Flink 1.8", "flink", "1.8", None),
        (" 3.5 ", "spark", "3.5", None),
        ("9.9", "spark", "9.9", None),
    ],
)
def test_a_version(text: str, framework: str, line: str, patch: int | None) -> None:
    assert parse_version(text, framework) == Version(line, patch)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "4", "v4", "x", "1.x", "1..8", ".8", "1.8.", "1.08", "-1.8", "1.8x", "1.8 2"),
        *("latest", "1.8.2/../x", "1,8", "storm-1.8", "\u0661.\u0668", "1.12345"),
    ],
)
def test_no_version(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_version(text, "spark", ["3.5", "4.3"])
    assert caught.value.message == f"{text!r} is not a version of spark"
    assert caught.value.hint == ("give a version such as 4.3 or 4.3.0; the table knows 3.5, 4.3")


@pytest.mark.parametrize(
    ("text", "framework", "other"),
    [("spark-3.5.9", "flink", "spark"), ("flink-1.8", "spark", "flink")],
)
def test_a_version_of_something_else(text: str, framework: str, other: str) -> None:
    with pytest.raises(UsageError, match=f"is a version of {other}, not of {framework}") as caught:
        parse_version(text, framework)
    assert f"--framework {other}" in caught.value.hint


def test_a_version_is_shown_without_what_was_not_said() -> None:
    assert [str(Version("1.8")), str(Version("1.8", 0))] == ["1.8", "1.8.0"]
