"""Which checkpoint a query goes on in when its job is started again, or is restored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime.earlier_runs import EarlierRun, run_of
from flinkish.driver.runtime.query_setup import Prepared, Preparer
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import ConsentNeeded
from flinkish.messages.plan import QueryRow, RestorePlan
from flinkish.messages.queries import QueryStatus

CONF = SimpleNamespace(get=lambda *_: None)
SESSION = SimpleNamespace(
    conf=CONF, _jsc=SimpleNamespace(hadoopConfiguration=lambda: SimpleNamespace(get=lambda _: ""))
)
WRITER = SimpleNamespace(_spark=SESSION)
RESTORED = RestorePlan(queries=(QueryRow("query-1", batch_id=4), QueryRow("query-2", batch_id=4)))


class NoPlan:
    """In place of the planning, which asks Spark."""

    def plan_to_run(self, *_: Any) -> tuple[None, list[str]]:
        return None, []


class Restoring:
    """In place of the restorer: each query is restored at batch 4."""

    def settings_for(self, _: str) -> dict[str, str]:
        return {}

    def restore(self, *_: Any) -> Any:
        return SimpleNamespace(batch_id=4, notes=(), plan=None, typed={})


def preparer(*earlier: EarlierRun, restorer: Any = None) -> Preparer:
    runs = {run.name: run for run in earlier}
    return Preparer("/root/job", NoPlan(), restorer, list, runs)  # type: ignore[arg-type]


def prepare(job: Preparer, own: str | None, name: str | None = None) -> Prepared:
    options = {} if own is None else {"checkpointlocation": own}
    facts = WriterFacts(options=options, query_name=name)
    return job.prepare(job.name_of(facts, SESSION), WRITER, facts)


def run(name: str, checkpoint: str, own: str, **more: Any) -> EarlierRun:
    return run_of(QueryStatus(name, f"id-{name}", "r", checkpoint, own_location=own, **more))


def test_unnamed_queries_in_another_order_have_their_own_checkpoints() -> None:
    places = {"query-1": "/chk/orders", "query-2": "/chk/clicks"}
    job = preparer(*(run(n, at, at) for n, at in places.items()))
    for written in ("/chk/clicks", "file:///chk/orders/"):
        found = prepare(job, written)
        assert found.location == f"file://{written.removeprefix('file://').rstrip('/')}"
    assert prepare(job, "/chk/clicks").name == "query-2", "started again"
    assert prepare(job, "/chk/new").name == "query-3"


def failed(name: str, writer: Any, path: str) -> Any:
    """An unnamed query of the job that has failed."""
    facts = WriterFacts(format="parquet", path=path)
    return SimpleNamespace(
        name=name, generated_name=True, facts=facts, writer=writer, jsq=None, own=None
    )


def test_of_failed_unnamed_queries_each_continues_as_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_jvm, "error_of", lambda _: "the broker is down")
    writers = [object(), object()]
    queries = [failed("query-1", writers[0], "/a"), failed("query-2", writers[1], "/b")]
    job = Preparer("/root/job", NoPlan(), None, lambda: queries)  # type: ignore[arg-type]
    new = WriterFacts(format="parquet", path="/c")
    assert job.name_of(new, SESSION, writers[1]) == "query-2"
    assert job.name_of(new, SESSION, writers[0]) == "query-1"
    assert job.name_of(WriterFacts(format="parquet", path="/b"), SESSION, object()) == "query-2"
    with pytest.raises(ConsentNeeded, match="'query-1', 'query-2'; it may continue any of them"):
        job.name_of(new, SESSION, object())
    queries.pop()
    assert job.name_of(new, SESSION, object()) == "query-1"


def test_a_query_without_a_location_takes_no_other_s_checkpoint() -> None:
    job = preparer(run("query-1", "/chk/a", "/chk/a"), run("query-2", "/root/job/query-2", ""))
    assert prepare(job, None).location == "file:///root/job/query-2"
    assert prepare(job, "/chk/a").location == "file:///chk/a"


def test_restored_unnamed_queries_are_known_by_what_the_program_wrote() -> None:
    job = preparer(
        run("query-1", "/root/job/query-1", "rel/orders", plan=RESTORED),
        run("query-2", "/root/job/query-2", "rel/clicks", plan=RESTORED),
    )
    assert prepare(job, "rel/clicks").location == "file:///root/job/query-2"
    assert prepare(job, "rel/orders").location == "file:///root/job/query-1"


@pytest.mark.parametrize("own", ["/chk/monday", ""])
def test_an_unnamed_query_that_may_be_another_is_refused(own: str) -> None:
    job = preparer(run("query-1", own or "/root/job/query-1", own))
    with pytest.raises(ConsentNeeded, match="would resume as 'query-1'") as refused:
        prepare(job, "/chk/tuesday")
    assert "queryName" in str(refused.value.hint)


def test_a_named_query_goes_on_wherever_its_location_is_by_now() -> None:
    job = preparer(run("q", "/chk/monday", "/chk/monday"))
    found = prepare(job, "/chk/tuesday", "q")
    assert found.location == "file:///chk/monday"
    assert found.own == "/chk/tuesday"
    again = prepare(job, "/chk/tuesday/", "q")
    assert again.location == "file:///chk/monday", "the program starts it again"


def test_a_restored_query_does_not_lend_its_checkpoint_to_another_of_its_name() -> None:
    job = preparer(restorer=Restoring())
    first = prepare(job, "/chk/orders", "load")
    assert (first.restored_batch, first.location) == (4, "file:///root/job/load")
    assert prepare(job, "/chk/orders", "load").location == first.location
    with pytest.raises(ConsentNeeded, match="has resumed a query with /chk/orders"):
        prepare(job, "/chk/clicks", "load")
