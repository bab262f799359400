"""The file of a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.errors import UsageError
from flinkish.messages.restore_options import RestoreOptions
from flinkish.messages.upgrades import Health
from flinkish.upgrade.fleet_file import parse_fleet


def test_an_entry_says_what_is_other() -> None:
    table = {
        "defaults": {"spark-home": "/opt/spark-4.3", "conf": {"spark.a": "1"}, "timeout": "2m"},
        "upgrade": [
            {
                "job": "rides-*",
                "to": "v2/rides.py",
                "args": ["in", "out"],
                "conf": {"spark.b": "2"},
                "uid-map": {"old": "new"},
                "parallelism": 8,
                "accept-lost-rows": True,
                "set-offsets": {"in": "earliest", "other": '{"a": {"0": 1}}'},
                "accept-repeated-rows": True,
                "offline": True,
                "health-batches": 0,
                "health-timeout": "30s",
            },
            {"job": "other", "timeout": "1h", "args": [], "reset-sources": ["a"]},
        ],
    }
    entries = parse_fleet(table, "/srv/fleet")
    assert [each.pattern for each in entries] == ["rides-*", "other"]
    first, second = (each.version for each in entries)
    assert first.changes.program.application == "/srv/fleet/v2/rides.py"
    assert first.changes.working_directory == "/srv/fleet"
    assert first.changes.program.arguments == ("in", "out")
    assert first.changes.program.conf == {"spark.a": "1", "spark.b": "2"}
    assert first.changes.program.spark_home == second.changes.program.spark_home == "/opt/spark-4.3"
    assert (first.restore.uid_map, first.changes.parallelism) == ((("old", "new"),), 8)
    assert (first.restore.accept_lost_rows, first.restore.offline) == (True, True)
    assert (second.restore.accept_lost_rows, second.restore.offline) == (False, False)
    assert first.restore.set_offsets == (("in", "earliest"), ("other", '{"a":{"0":1}}'))
    assert first.restore.accept_repeated_rows
    assert second.restore == RestoreOptions(reset_sources=("a",))
    assert (first.changes.drops_arguments, second.changes.drops_arguments) == (False, True)
    assert first.health == Health(0, 30.0)
    assert (first.timeout, second.timeout) == (120.0, 3600.0)
    assert (second.changes.program.application, second.changes.working_directory) == (None, None)
    assert second.health == Health()


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ({}, "no [[upgrade]]"),
        (
            {"upgrade": [{"job": "a", "set-offsets": {"in": "offsets.json"}}]},
            "does not specify offsets",
        ),
        ({"upgrade": []}, "no [[upgrade]]"),
        ({"upgrade": [{"to": "x.py"}]}, "number 1 has no job"),
        ({"upgrade": [{"job": "a"}, {"job": "b", "too": "x"}]}, "number 2 has the unknown key"),
        ({"upgrade": [{"job": "a", "args": "in out"}]}, "args of [[upgrade]] number 1"),
        ({"upgrade": [{"job": "a", "args": [1]}]}, "args of [[upgrade]] number 1"),
        ({"upgrade": [{"job": "a", "parallelism": True}]}, "parallelism of"),
        ({"upgrade": [{"job": "a", "conf": {"spark.x": 1}}]}, "conf of"),
        ({"upgrade": [{"job": "a", "conf": 1}]}, "conf of [[upgrade]] number 1 is 1"),
        ({"upgrade": [{"job": "a"}], "defaults": {"conf": "x"}}, "conf of [defaults] is 'x'"),
        ({"upgrade": [{"job": "a", "uid-map": {"x": "n", "y": "n"}}]}, "one new uid twice"),
        ({"upgrade": [{"job": "a", "uid-map": {"x": ""}}]}, "uid-map of [[upgrade]] number 1"),
        ({"upgrade": [{"job": "a", "map-path": {"/x": ""}}]}, "map-path of [[upgrade]] number 1"),
        ({"upgrade": [{"job": "a", "map-path": {"hdfs:/x": "/y"}}]}, "map-path of [[upgrade]]"),
        ({"upgrade": [{"job": "a", "parallelism": 0}]}, "parallelism of [[upgrade]] number 1 is 0"),
        ({"upgrade": [{"job": "a", "health-batches": -1}]}, "health-batches of"),
        ({"upgrade": [{"job": "a", "savepoint-path": "file:x"}]}, "savepoint-path of"),
        ({"upgrade": [{"job": "a", "sink-ahead": "x"}]}, "sink-ahead of"),
        ({"upgrade": [{"job": "a"}], "defaults": {"job": "b"}}, "[defaults] names a job"),
        ({"upgrade": [{"job": "a"}], "defaults": 5}, "defaults is not a table"),
        ({"upgrade": [{"job": "a"}], "default": {}}, "unknown table or key 'default'"),
        ({"upgrade": [{"job": ""}]}, "job of [[upgrade]] number 1 is empty"),
        ({"upgrade": [{"job": "a", "savepoint-path": " "}]}, "savepoint-path of"),
        ({"upgrade": [{"job": "a"}, {"job": "b"}, {"job": "a"}]}, "number 1 and number 3 are both"),
    ],
)
def test_a_wrong_file_is_told_where(table: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_fleet(table, "/srv")
    assert what in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("venv/bin/python", "/srv/fleet/venv/bin/python"),
        ("/opt/bin/python", "/opt/bin/python"),
        ("python3.11", "python3.11"),
    ],
)
def test_the_drivers_interpreter_is_found_from_the_file(written: str, meant: str) -> None:
    (entry,) = parse_fleet({"upgrade": [{"job": "a", "pyclientexec": written}]}, "/srv/fleet")
    assert entry.version.changes.program.client_python == meant


def test_the_executors_interpreter_is_found_from_the_file_if_it_is_there(tmp_path: Path) -> None:
    """Else it is in an archive, which is unpacked where an executor runs."""
    there = tmp_path / "venv/bin/python"
    there.parent.mkdir(parents=True)
    there.touch()

    def meant(written: str) -> str | None:
        (entry,) = parse_fleet({"upgrade": [{"job": "a", "pyexec": written}]}, str(tmp_path))
        return entry.version.changes.program.python

    assert meant("venv/bin/python") == str(there)
    assert meant("./env/bin/python") == "./env/bin/python"
    assert meant("python3.11") == "python3.11"


def test_mapped_paths_start_at_the_file() -> None:
    """From cron the working directory is another one."""
    moved = {"data/in": "/new", "/old": "s3a://bucket/old"}
    (entry,) = parse_fleet({"upgrade": [{"job": "a", "map-path": moved}]}, "/srv/fleet")
    assert entry.version.restore.path_map == (
        ("/srv/fleet/data/in", "/new"),
        ("/old", "s3://bucket/old"),
    )


@pytest.mark.parametrize("key", ["timeout", "health-timeout"])
def test_a_wrong_duration(key: str) -> None:
    """It is said where it is."""
    with pytest.raises(UsageError, match=rf"{key} of \[\[upgrade\]\] number 1: 'soon' is not"):
        parse_fleet({"upgrade": [{"job": "a", key: "soon"}]}, "/srv")


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("sp/daily", "/srv/fleet/sp/daily"),
        ("../sp", "/srv/sp"),
        ("/data/sp", "/data/sp"),
        ("s3://bucket/sp", "s3://bucket/sp"),
        ("file:///data/sp", "/data/sp"),
    ],
)
def test_savepoints_go_where_the_file_says_seen_from_it(written: str, target: str) -> None:
    (entry,) = parse_fleet({"upgrade": [{"job": "a", "savepoint-path": written}]}, "/srv/fleet")
    assert entry.version.target == target
