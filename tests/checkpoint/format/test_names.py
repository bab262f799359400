"""Names of a checkpoint's files: only what Spark writes is taken for a number or a version."""

from __future__ import annotations

import pytest

from flinkish.checkpoint.format.names import (
    COUNTS,
    MAX_NUMBER,
    VersionedFile,
    is_canonical,
    numbers_among,
    parse_name,
    schema_batch,
    state_files_among,
)


def test_state_files() -> None:
    assert parse_name("12.delta") == VersionedFile("12.delta", 12, "delta")
    parsed = parse_name("3_ab-cd.changelog")
    assert parsed == VersionedFile("3_ab-cd.changelog", 3, "changelog", "ab-cd")
    for other in ("12", "12.delta.crc", "x.delta", "_a.zip", "3_.zip", "3.sst", "12.tmp", ".delta"):
        assert parse_name(other) is None


@pytest.mark.parametrize(
    "name", ["007.delta", "1_a b.zip", "1_a.b.zip", "٣.delta", "9" * 40 + ".zip"]
)
def test_names_that_spark_never_writes(name: str) -> None:
    assert parse_name(name) is None
    assert state_files_among([name, "7.delta"]) == [VersionedFile("7.delta", 7, "delta")]


def test_batch_numbers_ignore_everything_else() -> None:
    names = ["10", "2", ".2.crc", "3.compact", "x", "٣", "7.tmp"]
    assert numbers_among(names) == [2, 10]
    enormous = [str(MAX_NUMBER), str(MAX_NUMBER + 1), "9" * 5000, "007", "-1", "²"]
    assert numbers_among(enormous) == [MAX_NUMBER]


def test_canonical_state_has_no_files_of_spark() -> None:
    assert is_canonical(["default.avro"])
    assert is_canonical([COUNTS])
    assert not is_canonical([])
    assert not is_canonical(["default.avro", "1.delta"])


def test_the_batch_of_a_schema_file() -> None:
    assert schema_batch("default/12_ab-cd") == 12
    assert schema_batch("0/_metadata/schema") == -1
