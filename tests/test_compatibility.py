"""docs/compatibility.md: every row of "Which version reads whose" has tests, named here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flinkish.annotations import experimental, public, public_evolving

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "compatibility.md"
#: Row -> who proves its two columns, of an earlier and of a later flinkish.
PROVED_BY = {
    "savepoint": (
        "driver/test_state_pairs.py::test_the_verdict",
        "savepoint/format/test_metadata.py::test_newer_version_and_unknown_feature",
    ),
    "canonical state": (
        "engine/stores/test_canonical.py::test_there_and_back_is_what_it_was",
        "engine/test_avro_damage.py::test_foreign_and_newer_files_are_refused",
    ),
    "registry": (
        "registry/test_sqlite.py::test_an_older_schema_is_brought_forward",
        "registry/test_sqlite.py::test_a_newer_schema_is_refused",
    ),
    "records in the registry, messages between jobs and commands": (
        "messages/test_launch.py::test_a_registry_has_a_document_of_version_1",
        "messages/test_launch.py::test_a_launch_of_a_newer_flinkish_is_refused",
    ),
    "plan file of `check -o`": (
        "client/test_planfile.py::test_a_plan_of_another_form_or_with_holes_is_a_usage_error",
        "client/test_planfile.py::test_a_plan_of_another_form_or_with_holes_is_a_usage_error",
    ),
    "JSON document": (
        "tools/test_apicheck.py::test_what_scripts_rely_on_is_guarded",
        "messages/test_json_schema.py::test_what_the_codec_writes_is_accepted_and_nothing_else",
    ),
    "command line": (
        "tools/test_apicheck.py::test_what_scripts_rely_on_is_guarded",
        "cli/test_usage.py::test_a_mistake_is_one_line_and_exit_2",
    ),
}


def rows() -> list[str]:
    _, _, table = PAGE.read_text("utf-8").partition("## Which version reads whose")
    return list(re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE))[2:]


def test_every_row_is_proved() -> None:
    assert rows() == list(PROVED_BY)


@pytest.mark.parametrize("test", sorted({test for both in PROVED_BY.values() for test in both}))
def test_who_proves_a_row_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"\ndef {name}(" in (TESTS / path).read_text("utf-8")


def test_the_annotations_do_nothing() -> None:
    class Thing:
        pass

    for annotation in (public, public_evolving, experimental):
        assert annotation(Thing) is Thing
        assert annotation(rows) is rows
