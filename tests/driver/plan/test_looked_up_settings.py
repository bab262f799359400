"""The settings that readers and writers of text look up, and what decimals depend on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from flinkish.driver.plan.looked_up_settings import LookedUp, fractions, parsing, writing
from flinkish.operators.state_semantics import IGNORE_NULL_FIELDS, TIME_PARSER

QUOTED_NULL = "spark.sql.legacy.nullValueWrittenAsQuotedEmptyStringCsv"
BINARY = "spark.sql.binaryOutputStyle"
JSON_FALLBACK = "spark.sql.legacy.json.enableDateTimeParsingFallback"
CSV_FALLBACK = "spark.sql.legacy.csv.enableDateTimeParsingFallback"


@pytest.mark.parametrize(
    ("format", "options", "given", "found"),
    [
        ("json", {}, {}, {TIME_PARSER: ("CORRECTED", False), JSON_FALLBACK: ("true", False)}),
        (
            "csv",
            {"dateformat": "yyyy/MM/dd"},
            {},
            {TIME_PARSER: ("CORRECTED", True), CSV_FALLBACK: ("false", False)},
        ),
        (
            "csv",
            {"timestampformat": "yyyy"},
            {TIME_PARSER: "LEGACY"},
            {TIME_PARSER: ("LEGACY", True), CSV_FALLBACK: ("true", False)},
        ),
        (
            "json",
            {},
            {JSON_FALLBACK: "false"},
            {TIME_PARSER: ("CORRECTED", False), JSON_FALLBACK: ("false", False)},
        ),
        (
            "json",
            {"enabledatetimeparsingfallback": "true"},
            {},
            {TIME_PARSER: ("CORRECTED", False)},
        ),
        ("xml", {}, {}, {TIME_PARSER: ("CORRECTED", False)}),
    ],
)
def test_what_the_parsing_of_moments_depends_on(
    format: str,
    options: Mapping[str, str],
    given: Mapping[str, str],
    found: Mapping[str, tuple[str, bool]],
) -> None:
    session = {TIME_PARSER: "CORRECTED", **given}.get
    listed = parsing(format, options, session, moments=True)
    assert {each.setting: (each.value, each.certain) for each in listed} == found
    assert list(parsing(format, options, session, moments=False)) == []


@pytest.mark.parametrize(
    ("format", "options", "parts", "found"),
    [
        ("json", {}, {}, []),
        ("json", {}, {"nulls": True}, [LookedUp(IGNORE_NULL_FIELDS, "true")]),
        ("json", {"ignorenullfields": "false"}, {"nulls": True}, []),
        ("json", {}, {"moments": True}, [LookedUp(TIME_PARSER, "LEGACY", certain=False)]),
        ("xml", {"dateformat": "d"}, {"moments": True}, [LookedUp(TIME_PARSER, "LEGACY")]),
        ("csv", {}, {"nulls": True}, [LookedUp(QUOTED_NULL, "false")]),
        ("csv", {"nullvalue": "-"}, {"nulls": True}, []),
        ("csv", {}, {"binary": True}, [LookedUp(BINARY, "HEX_DISCRETE")]),
        ("json", {}, {"binary": True}, []),  # always Base64
    ],
)
def test_what_the_writing_of_text_depends_on(
    format: str, options: Mapping[str, str], parts: Mapping[str, bool], found: list[LookedUp]
) -> None:
    session = {IGNORE_NULL_FIELDS: "true", TIME_PARSER: "LEGACY", QUOTED_NULL: "false"}.get
    assert list(writing(format, options, session, **parts)) == found


@pytest.mark.parametrize(
    ("name", "one", "other", "digits"),
    [
        # As Spark 3.5.9 and 4.3.0 show them.
        ("Multiply", (38, 18), (38, 18), (6, 36)),
        ("Divide", (38, 18), (38, 18), (6, 18)),
        ("Add", (38, 18), (38, 18), (17, 18)),
        ("Divide", (20, 2), (20, 2), (18, 20)),
        ("Divide", (10, 2), (10, 2), (13, 13)),
        ("Multiply", (38, 2), (10, 2), (4, 4)),  # too many digits, and no fraction to give up
        ("Subtract", (10, 2), (12, 4), (4, 4)),
    ],
)
def test_the_digits_of_a_decimal(
    name: str, one: tuple[int, int], other: tuple[int, int], digits: tuple[int, int]
) -> None:
    assert fractions(name, one, other) == digits
