"""Which files a file source leaves out for their age, has forgotten, or finds cleaned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from flinkish.connectors.files.ages import (
    AgedFile,
    age_before,
    archive_to_list,
    file_ages,
    max_age_of,
)
from flinkish.connectors.files.connector import FILES
from flinkish.connectors.files.reading import Cleaned, FileAges, FileReading
from flinkish.connectors.offsets import parse_target
from flinkish.connectors.source_plan import SourcePlan
from flinkish.messages.plan import RestoreOutcome
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from tests.support.restore.query_builders import reads, source

IN = "file[in]"
SAME = SourcePlan(reads(IN), source(IN), "as-is", "same-source", "goes on")
DAY = 86_400_000
WEEK = 7 * DAY


@pytest.mark.parametrize(
    ("options", "age"),
    [
        ({}, WEEK),
        ({"maxfileage": "1h"}, 3_600_000),
        ({"maxfileage": "90000"}, 90_000),
        ({"maxfileage": "9" * 5000 + "us"}, WEEK),
        ({"maxfileage": "40D"}, 40 * DAY),
        ({"maxfileage": "soon"}, WEEK),  # Spark refuses it
        ({"latestfirst": "true"}, WEEK),
        ({"latestfirst": "TRUE", "maxfilespertrigger": "1", "maxfileage": "1h"}, None),
        ({"latestfirst": "true", "maxbytespertrigger": "1"}, None),
        ({"latestfirst": "false", "maxfilespertrigger": "1"}, WEEK),
    ],
)
def test_the_age_of_files_that_are_left_out(options: Mapping[str, str], age: int | None) -> None:
    assert max_age_of(options) == age


def read(*days: float, batch: int = 0) -> list[AgedFile]:
    """Return files of the log that were ``days`` old."""
    return [AgedFile(f"r{n}", int((100 - age) * DAY), batch) for n, age in enumerate(days)]


def there(*days: float) -> list[AgedFile]:
    return [AgedFile(f"t{n}", int((100 - age) * DAY)) for n, age in enumerate(days)]


@pytest.mark.parametrize(
    ("found", "now", "before", "ages"),
    [
        # The newest first until the savepoint, a file a batch; the oldest first from then on.
        (there(0, 3, 8, 30), WEEK, None, FileAges(2, 0, 31, WEEK)),
        (there(0, 3, 8, 30), 40 * DAY, None, FileAges(0, 0, 1, 40 * DAY)),
        (there(0, 3, 8, 30), None, None, FileAges()),
        # What was left out before too is not lost by the restore.
        (there(3, 8, 30), WEEK, 10 * DAY, FileAges(1, 0, 9, WEEK)),
        (there(8, 30), WEEK, WEEK, FileAges(0, 0, 1, WEEK)),
    ],
)
def test_files_that_wait_and_are_too_old(
    found: list[AgedFile], now: int | None, before: int | None, ages: FileAges
) -> None:
    assert file_ages(read(0), found, now, before) == ages


def test_files_that_were_read_and_have_a_new_time_are_read_again_where_they_are_forgotten() -> None:
    copied = [AgedFile(f"r{n}", 100 * DAY) for n in range(3)]
    assert file_ages(read(0, 6, 30), copied, WEEK, None) == FileAges(0, 1, 31, WEEK)
    assert file_ages(read(0, 6, 30), read(0, 6, 30), WEEK, None).forgotten == 0


def test_the_age_that_held_before_is_recorded_or_shown_by_the_log() -> None:
    newest_first = [*read(0), *read(30, batch=1)]
    assert age_before(newest_first, {"maxfileage": "1d"}, WEEK) == DAY
    assert age_before(newest_first, None, WEEK) is None
    assert age_before([*read(30), *read(0, batch=1)], None, WEEK) == WEEK
    assert age_before(read(30, 0), None, WEEK) == WEEK, "of one batch"


@pytest.mark.parametrize(
    ("own", "saved", "listed"),
    [
        ("/old", None, "/old"),
        ("/old", "/old", "/old"),
        ("/old", "/old/2026", "/old/2026"),
        ("/old", "/older", "/old"),
        ("/old", "/old/../etc", "/old"),
        ("/old", "s3a://theirs/old", "/old"),
        (None, "/home", None),
    ],
)
def test_a_savepoint_does_not_decide_which_directory_is_listed(
    own: str | None, saved: str | None, listed: str | None
) -> None:
    assert archive_to_list(own, saved) == listed


def test_an_archive_that_only_the_savepoint_names_is_named_and_not_listed() -> None:
    reading = FileReading("in", files=1, cleaned=Cleaned("archive", unlisted="/home"))
    row = FILES.judge(SAME, reading, None, NO_OPTIONS)
    (check,) = row.checks
    assert (row.verdict, check.id, check.outcome) == (
        "as-is",
        "files-cleaned",
        RestoreOutcome.WARNING,
    )
    assert "in /home, which this program does not name" in check.text


FORK = RestoreOptions(fork=True)


@pytest.mark.parametrize(
    ("mode", "options", "verdict"),
    [
        ("delete", FORK, "consent-needed"),
        ("Archive", FORK, "consent-needed"),
        ("delete", replace(FORK, accept_lost_rows=True), "as-is"),
        ("off", FORK, "as-is"),
        ("delete", NO_OPTIONS, "as-is"),
    ],
)
def test_a_fork_that_removes_the_input_of_its_job_needs_consent(
    mode: str, options: RestoreOptions, verdict: str
) -> None:
    new = replace(reads(IN), options={"cleanSource": mode})
    row = FILES.judge_fork(replace(SAME, new=new), [source(IN)], options)
    assert row.verdict == verdict
    assert [check.id for check in row.checks] == ["files-cleaned"] * options.accept_lost_rows
    if verdict != "as-is":
        assert (row.reason, "files below in that it has read" in row.text) == (
            "files-cleaned",
            True,
        )


@pytest.mark.parametrize(
    ("own", "read", "shares"),
    [
        ("/in", ["/in"], True),
        ("/in", ["/old", "/in"], True),  # of another query or source
        ("/in", ["/old"], False),
        ("/in", ["/in2"], False),
        ("/in", None, True),
        ("/in", [], False),
        ("/in/*/x", ["/in/a"], True),
        ("/in/2026", ["/in"], True),
        ("in", ["/w/in"], True),  # the working directory is not known
        ("in", ["other"], False),
        ("s3a://b/in", ["s3://b/in"], True),
        ("s3a://test/in", ["s3a://b/in"], False),
        ("hdfs://nn:8020/in", ["/in"], True),  # perhaps of the default file system
        ("hdfs://nn:8020/in", ["/old"], False),
    ],
)
def test_a_fork_may_remove_what_no_query_of_its_job_reads(
    own: str, read: list[str] | None, shares: bool
) -> None:
    new = replace(reads(f"file[{own}]"), options={"cleanSource": "delete"})
    saved = None if read is None else [source(f"file[{path}]") for path in read]
    assert FILES.judge_fork(replace(SAME, new=new), saved, FORK).blocks is shares
    assert not FILES.judge_fork(replace(SAME, new=new), [source("rate[]")], FORK).blocks


@pytest.mark.parametrize("offset", [None, '{"logOffset":0}'])
def test_another_position_brings_no_removed_file_back(offset: str | None) -> None:
    """Neither a source that starts from scratch nor one with other offsets reads such files."""
    row = replace(SAME, saved=source(IN, offset='{"logOffset":3}'))
    target = None if offset is None else parse_target(offset)
    if target is None:
        row = replace(row, verdict="reset", reason="reset-source")
    cleaned = Cleaned("delete", gone_on=9)
    reading = FileReading("in", files=0, ages=FileAges(2, 1, 31, WEEK), cleaned=cleaned)
    agreed = RestoreOptions(accept_repeated_rows=True, accept_lost_rows=True)
    found = FILES.judge(row, reading, target, agreed)
    assert [check.id for check in found.checks] == ["files-cleaned"]
    if target is None:
        assert found.verdict == "reset"
        asked = FILES.judge(row, reading, target, replace(agreed, accept_lost_rows=False))
        assert (asked.verdict, asked.reason) == ("consent-needed", "files-cleaned")


@pytest.mark.parametrize(
    ("reading", "reason", "agreed", "words"),
    [
        (
            FileReading("in", files=1, ages=FileAges(2, 0, 31, WEEK)),
            "files-too-old",
            RestoreOptions(accept_lost_rows=True),
            [
                "2 files below in are older than the program's maxFileAge, 7 days before the",
                "set maxFileAge=31d in the program; or agree: --accept-lost-rows",
            ],
        ),
        (
            FileReading("in", files=1, ages=FileAges(0, 1, 31, WEEK)),
            "files-forgotten",
            RestoreOptions(accept_repeated_rows=True),
            [
                "1 file already read is older in its log than maxFileAge, 7 days before the",
                "but newer on disk now: Spark has forgotten it and reads it again",
                "or agree: --accept-repeated-rows",
            ],
        ),
        (
            FileReading("in", files=1, cleaned=Cleaned("archive", 3, "file:///old")),
            "files-cleaned",
            RestoreOptions(accept_lost_rows=True),
            [
                "3 files not read before the savepoint are in the archive file:///old",
                "move back below in what no earlier checkpoint of the job has read; or agree: --",
            ],
        ),
        (
            FileReading("in", files=1, cleaned=Cleaned("delete", gone_on=8)),
            "files-cleaned",
            RestoreOptions(accept_lost_rows=True),
            ["another run has continued to batch 8", "put these files back below in"],
        ),
    ],
)
def test_a_loss_is_the_users_choice(
    reading: FileReading, reason: str, agreed: RestoreOptions, words: list[str]
) -> None:
    asked = FILES.judge(SAME, reading, None, NO_OPTIONS)
    assert (asked.verdict, asked.reason) == ("consent-needed", reason)
    for each in words:
        assert each in f"{asked.text} {asked.advice}"
    row = FILES.judge(SAME, reading, None, agreed)
    (check,) = row.checks
    assert (row.verdict, check.id, check.outcome) == ("as-is", reason, RestoreOutcome.WARNING)
