"""Pinned settings that the new program wants otherwise."""

from __future__ import annotations

import pytest

from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.restore.plan.pins import asked_provider, formats_for, pin_rows

PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STATE = "org.apache.spark.sql.execution.streaming.state."
PINS = {PARTITIONS: "200", PROVIDER: STATE + "HDFSBackedStateStoreProvider"}


@pytest.mark.parametrize(
    ("settings", "partitions", "expected"),
    [
        ({}, None, []),
        ({PARTITIONS: "200"}, None, []),
        (
            {PARTITIONS: "64"},
            None,
            ["shuffle partitions: pinned 200, requested 64: stays as pinned"],
        ),
        ({PARTITIONS: "64"}, 64, ["shuffle partitions: pinned 200, requested 64: rescale"]),
        ({PARTITIONS: "64"}, 200, []),
        ({}, 64, ["shuffle partitions: pinned 200, requested 64: rescale"]),
        (
            {PROVIDER: STATE + "RocksDBStateStoreProvider"},
            None,
            [
                "state backend: pinned HDFSBackedStateStoreProvider, requested "
                "RocksDBStateStoreProvider: stays as pinned"
            ],
        ),
        ({"spark.sql.other": "1"}, None, []),
    ],
)
def test_differences(settings: dict[str, str], partitions: int | None, expected: list[str]) -> None:
    assert [pin.text for pin in pin_rows("q", PINS, settings, partitions)] == expected


@pytest.mark.parametrize(
    ("asked", "provider", "verdicts"),
    [
        (None, None, []),
        (STATE + "HDFSBackedStateStoreProvider", None, []),
        (STATE + "RocksDBStateStoreProvider", STATE + "RocksDBStateStoreProvider", ["migrate"]),
        ("com.example.OwnStateStoreProvider", None, ["pinned"]),
    ],
)
def test_canonical_state_is_written_for_the_backend_of_the_session(
    asked: str | None, provider: str | None, verdicts: list[str]
) -> None:
    settings = {} if asked is None else {PROVIDER: asked}
    assert asked_provider(PINS, settings) == provider
    found = pin_rows("q", PINS, settings, None, canonical=True)
    assert [pin.verdict for pin in found] == verdicts
    assert [pin.verdict for pin in pin_rows("q", PINS, settings, None)] == ["pinned"] * len(
        verdicts
    )


@pytest.mark.parametrize(
    ("asked", "join_format", "formats"),
    [
        ("HDFSBackedStateStoreProvider", "3", {PIN_JOIN_FORMAT: "2"}),
        ("HDFSBackedStateStoreProvider", "4", {PIN_JOIN_FORMAT: "2"}),
        *[("HDFSBackedStateStoreProvider", "2", {}), ("RocksDBStateStoreProvider", "4", {})],
    ],
)
def test_joins_get_a_format_that_the_backend_can_have(
    asked: str, join_format: str, formats: dict[str, str]
) -> None:
    pins = {PROVIDER: STATE + "RocksDBStateStoreProvider", PIN_JOIN_FORMAT: join_format}
    settings = {PROVIDER: STATE + asked, PIN_JOIN_FORMAT: "2"}
    provider = asked_provider(pins, settings)
    assert formats_for(provider, pins) == formats
    texts = [pin.text for pin in pin_rows("q", pins, settings, None, canonical=True)]
    said = f"state format of joins: pinned {join_format}, requested 2: migrate"
    assert (said in texts) == bool(formats)


def test_only_what_was_asked_for_has_to_be_carried_out() -> None:
    (asked,) = pin_rows("q", PINS, {}, 64)
    (set_by_program,) = pin_rows("q", PINS, {PARTITIONS: "64"}, None)
    assert (asked.verdict, set_by_program.verdict) == ("rescale", "pinned")
    assert "-p 200" in asked.advice
    (without_state,) = pin_rows("q", PINS, {}, 64, rescales=False)
    assert without_state.verdict == "pinned"
    assert without_state.text == "shuffle partitions: pinned 200, requested 64: stays as pinned"
    assert "-p" in set_by_program.advice


def test_a_truth_value_may_be_written_in_any_case() -> None:
    assert pin_rows("q", {"spark.x": "true"}, {"spark.x": "TRUE"}, None) == ()
