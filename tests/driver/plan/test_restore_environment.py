"""What a planner in a driver looks up; the sink of a running job is ahead of any cut of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from flinkish.connectors.table_commits import TableCommit, TableReading
from flinkish.driver.connectors import sinks
from flinkish.driver.plan.restore_environment import (
    DriverRestoreEnvironment,
    has_path_of,
)
from flinkish.driver.plan.writer_settings import qualified
from flinkish.errors import ConsentNeeded, Corrupt
from flinkish.messages.calls import JobOrigin, KnownWriter
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.registry.jobs import JobState
from flinkish.restore.origin.restore_inputs import NewQuery, NewSink
from flinkish.restore.origin.restore_origin import RestorableQuery, open_job, open_path
from flinkish.restore.plan.query_id import OtherRun, QueryIdentity
from flinkish.restore.plan.sinks import SinkMode, SinkPlan
from flinkish.restore.plan.starts import Agreed
from flinkish.restore.recipe import OriginCheckpoint, Recipe, TakenState
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.checkpoints.recorded import unpack
from tests.support.restore.query_builders import saved_query

KEPT = QueryIdentity(True, "the job it comes from ended with this batch")


def session_with(default: str, relative: Mapping[str, str] = MappingProxyType({})) -> Any:
    """A session with a default file system, which qualifies these relative paths."""
    hadoop = SimpleNamespace(get=lambda _: default)
    system = SimpleNamespace(
        makeQualified=lambda path: SimpleNamespace(toString=lambda: relative[path])
    )

    class JavaPath(str):
        def getFileSystem(self, _: object) -> SimpleNamespace:
            return system

    packages = SimpleNamespace(hadoop=SimpleNamespace(fs=SimpleNamespace(Path=JavaPath)))
    return SimpleNamespace(
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop),
        _jvm=SimpleNamespace(org=SimpleNamespace(apache=packages)),
    )


def judged(
    tmp_path: Path,
    sink_at: int,
    *,
    running: bool = True,
    writes_to: str = "out",
    writers: tuple[KnownWriter, ...] = (),
) -> SinkPlan:
    """The plan of a job at batch 3 that has gone on to 5, and planned 6; its sink is at ``out``."""
    checkpoint = CheckpointLikeness(tmp_path / "c", retain=9).run_to(3)
    facts = QueryFacts("run", sink={"format": "parquet", "path": "out"})
    job = JobOrigin(
        *("j", running, (QueryStatus("q", "id", "run", str(checkpoint.root)),)),
        facts={"q": facts},
        working_directory=str(tmp_path),
    )
    (offer,) = open_job(job).by_key.values()
    checkpoint.run_to(5)
    checkpoint.plan(6)
    log = tmp_path / writes_to / "_spark_metadata"
    log.mkdir(parents=True)
    (log / str(sink_at)).touch()
    sink = NewSink("parquet", str(tmp_path / writes_to))
    found = DriverRestoreEnvironment(lambda _: (), writers=lambda: writers).sink(
        NewQuery("q", sink=sink, session=session_with("file:///")),
        offer,
        Recipe((offer.origin,)),
        KEPT,
        None,
    )
    assert found is not None
    return found


@pytest.mark.parametrize("sink_at", [4, 5, 6])
def test_a_running_jobs_own_sink_is_not_ahead(tmp_path: Path, sink_at: int) -> None:
    plan = judged(tmp_path, sink_at)
    assert (plan.verdict, plan.reason) == ("as-is", "sink-of-running-job")
    assert plan.newest_batch == sink_at


def test_further_than_the_job_is_ahead(tmp_path: Path) -> None:
    assert judged(tmp_path, 7).verdict == "ahead"


def test_another_sink_is_ahead(tmp_path: Path) -> None:
    assert judged(tmp_path, 4, writes_to="other").verdict == "ahead"


def test_the_sink_of_a_job_that_has_ended_is_ahead(tmp_path: Path) -> None:
    assert judged(tmp_path, 4, running=False).verdict == "ahead"


def test_a_sink_that_another_job_writes_to(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    writer = KnownWriter("b" * 32, "orig", "RUNNING", "q", str(tmp_path / "out"))
    plan = judged(tmp_path, 3, running=False, writes_to="link", writers=(writer,))
    assert (plan.blocks, plan.reason, plan.permit) == (True, "sink-in-use", ())
    assert "job orig" in plan.text


@pytest.mark.parametrize(("mode", "asks"), [(None, True), ("accept", False), ("rebase", False)])
def test_a_query_that_the_savepoint_does_not_have(
    tmp_path: Path, mode: SinkMode | None, asks: bool
) -> None:
    new = NewQuery("q", sink=NewSink("csv", str(tmp_path)))
    environment = DriverRestoreEnvironment(lambda _: ())
    assert environment.start(new, mode) is None, "a new output"
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "9.compact").touch()
    assert isinstance(environment.start(new, mode), ConsentNeeded) is asks


@pytest.mark.parametrize(
    ("committed", "sink_at", "asks"), [(3, 3, False), (3, 4, True), (None, 3, True)]
)
def test_a_query_that_goes_on_in_its_own_checkpoint(
    tmp_path: Path, committed: int | None, sink_at: int, asks: bool
) -> None:
    """And that the savepoint does not have: it begins where its checkpoint is."""
    if committed is not None:
        CheckpointLikeness(tmp_path / "own").run_to(committed)
    (tmp_path / "out/_spark_metadata").mkdir(parents=True)
    (tmp_path / "out/_spark_metadata" / str(sink_at)).write_text("v1\n{}")
    own = f"file:{tmp_path}/own"
    query = NewQuery("q", sink=NewSink("csv", str(tmp_path / "out")), checkpoint=own)
    found = DriverRestoreEnvironment(lambda _: ()).start(query, None)
    assert isinstance(found, ConsentNeeded) is asks, found
    if asks and committed is not None:
        assert "would resume after batch 3" in str(found)


def test_a_start_that_cannot_be_judged_is_noted(tmp_path: Path) -> None:
    environment = DriverRestoreEnvironment(lambda _: ())
    for query in (
        NewQuery("q", sink=NewSink("csv", "wasbs://c@acct/out")),
        NewQuery("q", sink=NewSink("csv", str(tmp_path)), checkpoint="wasbs://c@acct/own"),
    ):
        found = environment.start(query, None)
        assert isinstance(found, Agreed)
        assert found.reason == "sink-unreadable"
        assert "wasbs://" in found.text


HDFS = "hdfs://nn:8020"


@pytest.mark.parametrize(
    ("path", "default", "expected"),
    [
        ("hdfs:///out", HDFS, f"{HDFS}/out"),
        ("hdfs:/out", f"{HDFS}/", f"{HDFS}/out"),
        ("hdfs://other/out", HDFS, "hdfs://other/out"),
        ("/out", HDFS, f"{HDFS}/out"),
        ("dbfs:/out", HDFS, "dbfs:/out"),
        ("dbfs:/out", "file:///", "dbfs:/out"),
        ("hdfs:///out", "", "hdfs:///out"),
        ("file:/out", HDFS, "file:/out"),
        ("s3a://bucket/out", HDFS, "s3a://bucket/out"),
        ("/a/10:30", "file:///", "/a/10:30"),
    ],
)
def test_a_path_gets_the_host_of_the_default_file_system(
    path: str, default: str, expected: str
) -> None:
    assert qualified(path, session_with(default)) == expected


def test_a_relative_path_starts_where_hadoop_says() -> None:
    """In the working directory of the default file system, not in its root."""
    session = session_with(HDFS, {"out/a": f"{HDFS}/user/me/out/a"})
    assert qualified("out/a", session) == f"{HDFS}/user/me/out/a"
    for no_path in ("", "out:a"):
        assert qualified(no_path, session) == no_path


@pytest.mark.parametrize(("saved", "is_same"), [("/out", True), ("out", True), ("/other", False)])
def test_a_saved_path_is_compared_as_spark_takes_it(saved: str, is_same: bool) -> None:
    """It is recorded as the program wrote it, without the default file system."""
    session = session_with(HDFS, {"out": f"{HDFS}/out"})
    sink = NewSink("delta", f"{HDFS}/out")
    assert has_path_of({"format": "delta", "path": saved}, sink, session) is is_same


def test_a_link_leads_to_the_same_sink(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    assert judged(tmp_path, 4, writes_to="link").reason == "sink-of-running-job"


def test_a_planned_batch_of_a_running_job_is_not_replayed(tmp_path: Path) -> None:
    checkpoint = CheckpointLikeness(tmp_path / "c").run_to(3)
    checkpoint.plan(4)
    job = JobOrigin("j", True, (QueryStatus("q", "id", "run", str(checkpoint.root)),))
    (live,) = open_job(job).by_key.values()
    (tmp_path / "out/_spark_metadata").mkdir(parents=True)
    (tmp_path / "out/_spark_metadata/4").touch()
    query = NewQuery("q", sink=NewSink("parquet", str(tmp_path / "out")))
    reasons = []
    for offer in (live, replace(live, live=False)):
        plan = DriverRestoreEnvironment(lambda _: ()).sink(
            query, offer, Recipe((offer.origin,)), KEPT, None
        )
        assert plan is not None
        reasons.append(plan.reason)
    assert reasons == ["sink-ahead-state", "sink-has-planned"]


@pytest.mark.parametrize(
    ("wrote", "reason"),
    [
        ({"path": "out"}, "sink-has-planned"),
        ({"path": "another"}, "sink-ahead"),
        ({"table": "t"}, "sink-has-planned"),  # it may be that place
        ({}, "sink-has-planned"),
    ],
)
def test_a_planned_batch_is_not_taken_for_one_of_another_place(
    tmp_path: Path, wrote: dict[str, str], reason: str
) -> None:
    checkpoint = CheckpointLikeness(tmp_path / "c").run_to(3)
    checkpoint.plan(4)
    job = JobOrigin(
        *("j", False, (QueryStatus("q", "id", "run", str(checkpoint.root)),)),
        facts={"q": QueryFacts("run", sink={"format": "parquet", **wrote})},
        working_directory=str(tmp_path),
    )
    (offer,) = open_job(job).by_key.values()
    (tmp_path / "out/_spark_metadata").mkdir(parents=True)
    (tmp_path / "out/_spark_metadata/4").touch()
    plan = DriverRestoreEnvironment(lambda _: ()).sink(
        NewQuery("q", sink=NewSink("parquet", str(tmp_path / "out"))),
        offer,
        Recipe((offer.origin,), states={}),
        KEPT,
        None,
    )
    assert plan is not None
    assert plan.reason == reason


@pytest.mark.parametrize(
    ("base", "other", "of_other", "newest", "reason"),
    [
        (10, 50, False, 10, "sink-not-ahead"),
        (10, 50, False, 40, "sink-ahead"),  # numbers that the query does not use again
        (10, 50, True, 50, "sink-not-ahead"),
        (10, 5, True, 8, "sink-ahead"),
        (10, 5, False, 11, "sink-ahead-state"),
    ],
)
def test_the_sink_of_a_merged_query_has_the_batches_of_the_query_that_wrote_to_it(
    tmp_path: Path, base: int, other: int, of_other: bool, newest: int, reason: str
) -> None:
    log = tmp_path / "out/_spark_metadata"
    log.mkdir(parents=True)
    (log / str(newest)).write_text('v1\n{"path":"file:///out/a","size":1}')
    paths = ("another", "out") if of_other else ("out", "another")
    wrote = [{"path": str(tmp_path / path)} for path in paths]
    plan = merged_sink(NewSink("parquet", str(tmp_path / "out")), (base, other), wrote)
    assert plan.reason == reason


def merged_sink(
    sink: NewSink,
    batches: tuple[int, int],
    saved_sinks: Sequence[Mapping[str, Any]],
    identity: QueryIdentity = KEPT,
) -> SinkPlan:
    """The plan of the query q, into which the query r is merged, both saved at these batches."""
    offers = [
        RestorableQuery(
            replace(saved_query(key=key, batch=batch), sink=saved),
            OriginCheckpoint(key, (), batch),
            f"id of {key}",
        )
        for key, batch, saved in zip(("q", "r"), batches, saved_sinks, strict=True)
    ]
    origins = tuple(offer.origin for offer in offers)
    plan = DriverRestoreEnvironment(lambda _: ()).sink(
        NewQuery("q", sink=sink, session=session_with("file:///")),
        offers[0],
        Recipe(origins, states={0: TakenState(0, 0), 1: TakenState(1, 0)}),
        identity,
        None,
        offers[1:],
    )
    assert plan is not None
    return plan


class Table:
    """A table with the commits of these queries and batches."""

    def __init__(self, *commits: tuple[str, int]) -> None:
        self.commits = [
            TableCommit(version, "STREAMING UPDATE", f"id of {key}", batch, is_first=version == 0)
            for version, (key, batch) in enumerate(commits)
        ]

    def exists(self) -> bool:
        return True

    def read(self, query_id: str) -> TableReading:
        batches = [c.batch_id for c in self.commits if c.query_id == query_id]
        newest = max((batch for batch in batches if batch is not None), default=None)
        return TableReading("t", len(self.commits) - 1, newest, True, computes_skipped=False)

    def history(
        self, version: int | None = None, *, back_to: int | None = None
    ) -> list[TableCommit]:
        return self.commits

    def roll_back(self, version: int) -> None:
        raise NotImplementedError


def test_the_table_of_a_merged_query_can_go_back_whatever_its_next_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table(("r", 50), ("q", 10), ("q", 40))
    monkeypatch.setitem(sinks._OPEN, "delta", lambda place, session: table)
    went_on = QueryIdentity(False, "job j went on to batch 40", goes_back=True)
    plan = merged_sink(NewSink("delta", "/out"), (10, 50), [{"table_id": "t"}, {}], went_on)
    assert (plan.reason, plan.permit) == ("sink-ahead", ("rebase", "rollback"))


@pytest.mark.parametrize(
    ("newest", "identity", "reason"),
    [
        (5, KEPT, "sink-shared"),  # r had written before: as-is
        (6, KEPT, "sink-shared"),  # the planned batch of r, which is not kept
        (40, QueryIdentity(False, "renamed", goes_back=True, may_keep=False), "sink-shared"),
        (40, QueryIdentity(False, "requested by --fork"), "sink-shared"),
    ],
)
def test_what_a_merged_query_has_written_after_its_saved_batch_is_asked_about(
    monkeypatch: pytest.MonkeyPatch, newest: int, identity: QueryIdentity, reason: str
) -> None:
    """Under its own query id; the query into which it is merged has written nothing since."""
    commits = [("r", 4), ("q", 10), *(("r", batch) for batch in range(5, newest + 1))]
    monkeypatch.setitem(sinks._OPEN, "delta", lambda place, session: Table(*commits))
    plan = merged_sink(NewSink("delta", "/out"), (10, 5), [{}, {}], identity)
    assert plan.reason == reason
    asks = newest > 5 and "fork" not in identity.reason
    assert plan.permit == (("accept",) if asks else ())
    assert (
        f"batches 6 to {newest} of query 'r' (merged into this query): input that" in plan.text
    ) is asks


def test_logs_of_a_running_job_that_are_trimmed_are_no_damage(tmp_path: Path) -> None:
    root = unpack("spark43-ids-join", tmp_path)
    [offer] = open_path(str(root)).by_key.values()
    environment = DriverRestoreEnvironment(lambda _: ())
    raised = Recipe((offer.origin,), rebase_to=offer.origin.batch_id + 3)
    refusal = environment.materialisation(offer, raised)
    assert refusal is not None
    assert refusal.data["reasons"] == ["state-lineage"]
    assert environment.materialisation(offer, Recipe((offer.origin,))) is None
    (root / f"offsets/{offer.origin.batch_id}").unlink()
    with pytest.raises(Corrupt, match="is missing"):
        environment.materialisation(offer, raised)
    assert environment.materialisation(replace(offer, live=True), raised) is None


@pytest.mark.parametrize(
    ("own", "elsewhere", "gone_on"), [(20, None, None), (20, 15, 15), (30, 50, 30)]
)
def test_runs_that_have_gone_on(own: int, elsewhere: int | None, gone_on: int | None) -> None:
    """Under another query id, the number of a batch does not tell which files it has read."""
    offer = RestorableQuery(saved_query(batch=20), OriginCheckpoint("/c", (), 20), "id")
    environment = DriverRestoreEnvironment(
        lambda _: [OtherRun("a", JobState.FINISHED, own)], read_elsewhere={"id": elsewhere}.get
    )
    assert environment._gone_on(offer) == gone_on
    assert environment._gone_on(replace(offer, live=True)) is None
