"""Whether a query may start where it is about to: as a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from flinkish.errors import ConsentNeeded
from flinkish.messages.calls import KnownWriter
from flinkish.restore.plan.sinks import SinkMode, SinkStatus
from flinkish.restore.plan.starts import (
    Agreed,
    Beginning,
    EarlierRun,
    agreed_mode,
    is_another_directory,
    is_read_again,
    judge_start,
    judge_writers,
)

NEW = Beginning("q")
OWN = Beginning("q", checkpoint="/own", committed=4, planned=5)
FILES = SinkStatus("parquet", "/out", 5)
AHEAD = EarlierRun("job", "a" * 32, 7, "/elsewhere")
STALE = "checkpoint-stale"
WRITTEN = EarlierRun("job", "a" * 32, 7, "the delta table /t")
AGAIN = replace(WRITTEN, checkpoint="its kafka sink", to_table=False)


@pytest.mark.parametrize(
    ("mode", "again", "agreed"),
    [
        ("rebase", True, None),
        (
            "rebase",
            False,
            "rebase",
        ),  # of a job that starts again, but this query for the first time
        ("accept", True, "accept"),
        (None, False, None),
    ],
)
def test_what_was_agreed_to_holds_for_a_query_that_has_yet_to_begin(
    mode: SinkMode | None, again: bool, agreed: SinkMode | None
) -> None:
    assert agreed_mode(mode, again=again) == agreed


@pytest.mark.parametrize(
    ("begins", "position", "more", "reason"),
    [
        (NEW, None, {}, None),
        (NEW, replace(FILES, newest_batch=None), {}, None),
        (NEW, replace(FILES, newest_batch=0), {}, "sink-ahead"),
        (NEW, replace(FILES, newest_batch=None, unreadable="no host"), {}, "unreadable"),
        (NEW, replace(FILES, newest_batch=None, unreadable="no host"), {"ahead": AHEAD}, STALE),
        (NEW, FILES, {"mode": "rebase"}, 5),
        (NEW, replace(FILES, has_files=False), {}, 5),
        (OWN, replace(FILES, newest_batch=6, has_files=False), {}, "sink-ahead"),
        (OWN, replace(FILES, newest_batch=6), {"mode": "rebase"}, "sink-ahead"),
        (NEW, FILES, {"mode": "accept"}, "agreed"),
        (replace(NEW, stateful=True), FILES, {"mode": "accept"}, "sink-ahead"),
        (OWN, FILES, {}, None),  # a planned batch that the sink has is run again, and skipped
        (OWN, replace(FILES, newest_batch=6), {}, "sink-ahead"),
        (replace(OWN, planned=None, committed=None), FILES, {}, "sink-ahead"),
        (OWN, FILES, {"ahead": AHEAD}, "checkpoint-stale"),
        (OWN, None, {"ahead": AHEAD, "mode": "accept"}, "checkpoint-stale"),
        (NEW, None, {"written": WRITTEN}, "table-written"),
        (NEW, None, {"written": WRITTEN, "mode": "rebase"}, "agreed"),
        (NEW, None, {"written": WRITTEN, "named": False}, "table-written"),
        (NEW, None, {"written": AGAIN}, "sink-written"),
        (NEW, None, {"written": AGAIN, "mode": "accept"}, "sink-written"),
        (NEW, None, {"written": AGAIN, "mode": "rebase"}, "agreed"),
        (NEW, None, {"written": AGAIN, "named": False}, "agreed"),
    ],
)
def test_starts(
    begins: Beginning, position: SinkStatus | None, more: dict[str, Any], reason: str | int | None
) -> None:
    found = judge_start(begins, position, stands=AHEAD, **more)
    if reason is None:
        assert found is None
    elif reason == "unreadable":
        assert isinstance(found, Agreed)
        assert found.reason == "sink-unreadable"
        assert "the batches of the parquet sink /out are unknown: no host" in found.text
    elif isinstance(reason, int) or reason == "agreed":
        assert isinstance(found, Agreed)
        assert found.rebase_to == (reason if isinstance(reason, int) else None)
    else:
        assert isinstance(found, ConsentNeeded)
        assert found.data["reasons"] == [reason]
        assert "flinkish run --name job --resume" in found.hint


@pytest.mark.parametrize(
    ("begins", "position", "reached", "is_said"),
    [
        (NEW, replace(FILES, newest_batch=0), 0, True),
        (NEW, FILES, 0, False),  # another run has written what follows
        (OWN, replace(FILES, newest_batch=6), 6, False),
    ],
)
def test_a_run_that_was_ended_in_its_first_batch_goes_on_in_place(
    begins: Beginning, position: SinkStatus, reached: int, is_said: bool
) -> None:
    found = judge_start(begins, position, begun=replace(AHEAD, batch=reached))
    assert isinstance(found, ConsentNeeded)
    assert (f"flinkish restart {AHEAD.job_id}" in found.hint) == is_said


@pytest.mark.parametrize(
    ("begins", "ways", "others"),
    [
        # In a checkpointLocation of its own the query would start with batch 0, too.
        (NEW, ["another path"], ["-s /own", "checkpointLocation", "remove"]),
        (OWN, ["-s /own --sink-ahead rebase", "another path"], ["checkpointLocation", "remove"]),
        (replace(OWN, committed=None, planned=None), ["remove /own"], ["-s /own"]),
        (replace(OWN, committed=None, planned=0), [], ["remove", "-s /own"]),
    ],
)
def test_the_ways_that_lead_on(begins: Beginning, ways: list[str], others: list[str]) -> None:
    found = judge_start(begins, replace(FILES, newest_batch=6))
    assert isinstance(found, ConsentNeeded)
    assert all(way in found.hint for way in ways), found.hint
    assert not any(other in found.hint for other in others), found.hint


@pytest.mark.parametrize(
    ("begins", "position", "more", "other"),
    [
        (NEW, None, {"written": WRITTEN}, ["another table"]),
        (NEW, None, {"written": AGAIN}, []),
        (OWN, FILES, {"ahead": AHEAD}, []),  # a query is stale whatever it writes to
        (OWN, replace(FILES, newest_batch=6), {"ahead": AHEAD}, []),
    ],
)
def test_another_place_is_offered_where_it_helps(
    begins: Beginning, position: SinkStatus | None, more: dict[str, Any], other: list[str]
) -> None:
    found = judge_start(begins, position, **more)
    assert isinstance(found, ConsentNeeded)
    assert [each for each in ("another path", "another table") if each in found.hint] == other


@pytest.mark.parametrize(
    ("signature", "options", "again"),
    [
        ("file[/in]", {}, True),
        ("delta[/in]", {}, True),
        ("rate[rowsPerSecond=7]", {}, False),
        ("rate-micro-batch", {}, False),
        ("textsocket[host=a]", {}, False),
        ("MemoryStream[value#1]", {}, False),
        ("kafka[subscribe=a]", {}, False),
        ("kafka[subscribe=a]", {"startingOffsets": "Latest"}, False),
        ("kafka[subscribe=a]", {"startingoffsets": "earliest"}, True),
        ("kafka[subscribe=a]", {"startingOffsets": '{"a":{"0":3}}'}, True),
        ("kafka[subscribe=a]", {"startingTimestamp": "1000"}, True),
    ],
)
def test_what_a_source_gives_again(signature: str, options: dict[str, str], again: bool) -> None:
    assert is_read_again(signature, options) is again


WRITER = KnownWriter("b" * 32, "orig", "RUNNING", "seen", "/out")
AWAY = replace(WRITER, elsewhere=True, last_batch=5, last_batch_end="2026-01-01T00:10:00Z")
ENDED = datetime(2026, 1, 1, 0, 10, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("writer", "newest", "written", "is_another"),
    [
        (AWAY, None, None, True),
        (AWAY, 4, ENDED, True),  # batch 5 would be there
        (AWAY, 5, ENDED, False),
        (AWAY, 9, ENDED + 3.0, False),  # it has gone on since it was heard of
        (AWAY, 9, ENDED - 3.0, False),  # a clock is not so exact
        (AWAY, 9, ENDED - 100.0, True),  # its batch 5 was written later than all that is there
        (AWAY, 9, None, False),
        (replace(AWAY, last_batch_end=None), 9, ENDED - 100.0, False),
        (replace(AWAY, last_batch=None), 4, ENDED - 100.0, False),
        (replace(AWAY, last_batch=None), None, None, False),  # its first batch may be running
        (replace(AWAY, elsewhere=False), 4, ENDED, False),
        (replace(AWAY, place="s3://b/out"), 4, ENDED, False),
        (replace(AWAY, is_table=True), 4, ENDED, False),
    ],
)
def test_a_local_path_of_another_host(
    writer: KnownWriter, newest: int | None, written: float | None, is_another: bool
) -> None:
    sink = replace(FILES, newest_batch=newest, written=written)
    assert is_another_directory(writer, sink) is is_another
    assert not is_another_directory(writer, replace(sink, newest_batch=None, unreadable="denied"))


@pytest.mark.parametrize(
    ("writer", "same_job", "mode", "newest", "asks"),
    [
        (WRITER, (), None, 3, True),
        (WRITER, (), "rebase", 3, True),
        (replace(WRITER, place="/other"), (), None, 3, False),
        (replace(WRITER, elsewhere=True), (), None, 3, True),
        (replace(WRITER, elsewhere=True), (), None, None, True),
        (AWAY, (), None, None, False),
        (replace(WRITER, is_table=True), (), None, 3, False),  # pipelines may share a table
        (replace(WRITER, is_table=True), ("b" * 32,), None, 3, True),
        (replace(WRITER, is_table=True), ("b" * 32,), "rebase", 3, False),
    ],
)
def test_writers(
    writer: KnownWriter, same_job: tuple[str, ...], mode: Any, newest: int | None, asks: bool
) -> None:
    sink = replace(FILES, newest_batch=newest)
    plan = judge_writers(sink, "/out", [writer], same_job, mode)
    assert (plan is not None and plan.blocks) is asks
    if plan is not None:
        assert "job orig" in plan.text
        assert "flinkish stop bbbb" in plan.advice
        assert ("another directory on its host" in plan.advice) is writer.elsewhere


def test_commands_in_advice_quote_names_and_paths() -> None:
    begins = replace(OWN, checkpoint="/my ckpt")
    refused = judge_start(begins, replace(FILES, newest_batch=9), stands=replace(AHEAD, name="a b"))
    assert isinstance(refused, ConsentNeeded)
    assert "flinkish run --name 'a b' --resume" in refused.hint
    assert "-s '/my ckpt' --sink-ahead rebase" in refused.hint


def test_a_batch_that_is_only_planned_is_not_resumed_after() -> None:
    begins = Beginning("q", checkpoint="/own", planned=0)
    assert begins.describe() == "query 'q' would start with batch 0 again, as planned in /own"
    assert OWN.describe() == "query 'q' would resume after batch 4 of /own"
