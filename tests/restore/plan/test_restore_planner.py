"""The plan of a whole restore, its rows and its text; what a driver looks up is given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from flinkish.checkpoint.format.logs import MAX_WATERMARK_MS
from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.connectors.files.reading import FileReading
from flinkish.connectors.kafka.connector import kafka_answer
from flinkish.connectors.kafka.reading import Available, BrokerAnswer
from flinkish.connectors.source_plan import FileMove
from flinkish.connectors.sources import NewSource, SavedSource, SourceAnswer
from flinkish.errors import ConsentNeeded, Incompatible, UsageError
from flinkish.messages.plan import (
    Check,
    HistoryShift,
    Move,
    OperatorOrigin,
    OperatorRow,
    QueryRow,
    Refusal,
    RestoreOutcome,
    RestorePlan,
    SinkRow,
    SourceRow,
    StateVerdict,
)
from flinkish.messages.restore_options import RestoreOptions
from flinkish.operators.state_semantics import (
    ONLY,
    TIME_ZONE,
    Column,
    Dependence,
    StateSemantics,
)
from flinkish.registry.jobs import JobState
from flinkish.restore.origin.restore_inputs import (
    NewOperator,
    NewQuery,
    NewSink,
    SavedOperator,
    SavedQueryFacts,
)
from flinkish.restore.origin.restore_origin import RestorableQuery, RestoreOrigin
from flinkish.restore.plan.decisions import QueryPlan
from flinkish.restore.plan.document import compare_with_expected, merged, with_checks, with_earlier
from flinkish.restore.plan.history import HistoryPlan
from flinkish.restore.plan.non_restored_state import taken_before
from flinkish.restore.plan.plan_text import findings, plan_lines, plan_rows, verdict_line
from flinkish.restore.plan.query_id import OtherRun, QueryIdentity
from flinkish.restore.plan.query_restore import PlanningSettings, QueryRestore, StateRewrite
from flinkish.restore.plan.restore_planner import RestorePlanner
from flinkish.restore.plan.sinks import SinkMode, SinkPlan
from flinkish.restore.plan.starts import Agreed
from flinkish.restore.recipe import EmptyState, OriginCheckpoint, Recipe, TakenSource
from tests.support.restore.query_builders import (
    AGG,
    DEDUP,
    changed,
    new,
    old,
    reads,
    saved_query,
    source,
    starting,
)


@dataclass
class Facts:
    """A world in which everything is known."""

    runs: tuple[OtherRun, ...] = ()
    sink_plan: SinkPlan | None = None
    checks: tuple[Check, ...] = ()
    answer: BrokerAnswer = field(default_factory=BrokerAnswer)
    reading: FileReading | None = None
    #: Why no checkpoint can be made of a recipe, by the batch to which it is rebased.
    impossible: dict[int | None, Incompatible] = field(default_factory=dict)

    starts: ConsentNeeded | Agreed | None = None
    #: The newest batch that a run has begun under another query id.
    elsewhere: int | None = None

    def begun_elsewhere(self, offer: RestorableQuery) -> int | None:
        return self.elsewhere

    def materialisation(self, offer: RestorableQuery, recipe: Recipe) -> Incompatible | None:
        return self.impossible.get(recipe.rebase_to)

    def runs_under_other_ids(self, query_id: str) -> Sequence[OtherRun]:
        return ()

    def other_runs(self, query_id: str) -> Sequence[OtherRun]:
        assert query_id.startswith("id of ")
        return self.runs

    def sink(
        self,
        new: NewQuery,
        offer: RestorableQuery,
        recipe: Recipe,
        identity: QueryIdentity,
        mode: SinkMode | None,
        others: Sequence[RestorableQuery] = (),
    ) -> SinkPlan | None:
        return self.sink_plan

    def start(self, new: NewQuery, mode: SinkMode | None) -> ConsentNeeded | Agreed | None:
        return self.starts

    def input_files(
        self, new: NewQuery, offer: RestorableQuery, plan: QueryPlan, moved: Collection[int]
    ) -> Sequence[Check]:
        return self.checks

    def source(
        self,
        new: NewQuery,
        source: NewSource,
        saved: SavedSource,
        offer: RestorableQuery,
        at_ms: int | None = None,
    ) -> SourceAnswer | None:
        if source.signature.startswith("kafka["):
            return kafka_answer(source, saved, self.answer)
        return self.reading


#: A sink that has two batches more than the saved query.
AHEAD = SinkPlan(
    *("parquet", "/out", 9, "ahead", "sink-ahead", "it has batch 9", "rebase"),
    permit=("rebase",),
)


def offers(*queries: SavedQueryFacts) -> RestoreOrigin:
    return RestoreOrigin(
        {
            query.key: RestorableQuery(
                query,
                OriginCheckpoint(f"/saved/{query.key}", (), query.batch_id),
                f"id of {query.key}",
                pins=query.pins,
            )
            for query in queries
        },
        is_savepoint=True,
    )


def column(name: str, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": "long", "nullable": nullable, "metadata": {}}


def with_store(operator: Any, *columns: str) -> Any:
    """The operator (saved or new) with a state of these columns."""
    struct = {"type": "struct", "fields": [column(name) for name in columns]}
    key = {"type": "struct", "fields": [column("k")]}
    return changed(operator, stores=(StoreInfo("default", key, struct),))


def aggregation(word: str, *columns: str) -> tuple[SavedOperator, NewOperator]:
    return with_store(old(word, kind=AGG), *columns), with_store(new(word, kind=AGG), *columns)


AS_SAVED = PlanningSettings()
MIGRATING = PlanningSettings(executors=frozenset({StateVerdict.MIGRATE}))


def planner_of(
    *saved: SavedQueryFacts,
    facts: Facts | None = None,
    settings: PlanningSettings = AS_SAVED,
    **options: Any,
) -> RestorePlanner:
    return RestorePlanner(offers(*saved), RestoreOptions(**options), facts or Facts(), settings)


def test_a_plain_checkpoint_is_continued_once_also_by_a_job_that_is_started_again() -> None:
    first = planner_of(saved_query(key=None))
    begun = first.restore_plan_of(first.plan(starting(name="q"), {}))
    for planner in (
        first,
        RestorePlanner(
            offers(saved_query(key=None)),
            RestoreOptions(),
            Facts(),
            before=taken_before({"q": begun}),
        ),
    ):
        other = planner.plan(starting(name="other"), {})
        assert other.plan is not None
        assert other.plan.base is None, "it would skip what only the first has read"


def test_everything_is_as_it_was() -> None:
    before, now = aggregation("sums", "sum")
    planner = planner_of(saved_query(before, sources=(source("file[in]"),)))
    restore = planner.plan(starting(now, sources=(reads("file[in]"),)), {})
    assert restore.refusal is None
    assert restore.recipe is not None
    assert restore.recipe.batch_id == 7
    assert restore.identity is not None
    assert restore.identity.keep
    plan = planner.restore_plan(complete=True)
    assert (plan.verdict, plan.exit_code) == ("ok", 0)
    (op,) = plan.operators
    assert (op.uid, op.kind, op.verdict, op.reason) == (*("sums", AGG, "as-is", "same-state"),)
    assert (op.executable, op.rows, op.bytes) == (True, 120, 2048)
    assert op.origin == OperatorOrigin("q", 0, "sums", 2)
    assert [(s.signature, s.verdict) for s in plan.sources] == [("file[in]", "as-is")]
    assert verdict_line(plan) == "verdict: ok: the savepoint can be restored"


@pytest.mark.parametrize(
    ("reason", "added", "takes"),
    [
        ("sink-has-planned", False, True),
        ("sink-not-ahead", False, False),  # the batch is computed
        ("sink-has-planned", True, False),  # with other state than it has written
    ],
)
def test_the_state_of_a_planned_batch_is_taken_where_the_sink_has_it(
    reason: str, added: bool, takes: bool
) -> None:
    before, now = aggregation("sums", "sum")
    sink = SinkPlan("parquet", "/out", 8, "as-is", reason, "it has batch 8")
    planner = planner_of(saved_query(before), facts=Facts(sink_plan=sink))
    offer = planner.offers.by_key["q"]
    origin = replace(offer.origin, planned_state=("state/0/0/9.delta",))
    planner.offers = replace(planner.offers, by_key={"q": replace(offer, origin=origin)})
    program = starting(now, new("more", 1)) if added else starting(now)
    restore = planner.plan(program, {1: EmptyState(2)})
    assert restore.recipe is not None, restore.refusal
    assert restore.recipe.takes_planned_state is takes


def test_a_changed_setting_is_asked_about_and_accepted() -> None:
    def zoned(operator: Any, zone: str) -> Any:
        settings = (Dependence(TIME_ZONE, zone, "key `k`", "hour(ts)"),)
        meaning = StateSemantics({ONLY: (Column("k", "hour(ts)"),)}, settings=settings)
        return changed(operator, meaning=meaning)

    before, now = aggregation("sums", "sum")
    saved, query = saved_query(zoned(before, "UTC")), starting(zoned(now, "Asia/Tokyo"))
    planner = planner_of(saved)
    planner.plan(query, {})
    plan = planner.restore_plan(complete=True)
    assert (plan.verdict, plan.exit_code) == ("consent-needed", 5)
    (op,) = plan.operators
    assert (op.verdict, op.reason) == ("consent-needed", "settings-changed")
    said = "sums [settings-changed]: continue with"
    assert any(line.startswith(said) for line in plan_lines(plan))
    agreed = planner_of(saved, accept_partial=("sums",))
    assert agreed.plan(query, {}).refusal is None
    assert agreed.restore_plan(complete=True).operators[0].verdict == "as-is"


def test_files_that_were_moved_get_their_new_paths() -> None:
    reading = FileReading("new", 1, outside=1, moved=1, move=FileMove("file:///a", "file:///b"))
    saved = saved_query(sources=(source("file[old]"),))
    query = starting(sources=(reads("file[new]"),))
    refused = planner_of(saved, facts=Facts(reading=reading)).plan(query, {})
    assert isinstance(refused.refusal, ConsentNeeded)
    assert "--set-offsets 'file[new]=moved'" in (refused.refusal.hint or "")
    target = (("file[new]", "moved"),)
    moved = planner_of(saved, facts=Facts(reading=reading), set_offsets=target).plan(query, {})
    assert moved.recipe is not None
    assert moved.recipe.sources == (TakenSource(0, 0, "0", "0", move=("file:///a", "file:///b")),)
    # Another directory with new files only: Spark must not be asked for the newest batch.
    other = planner_of(saved, facts=Facts(reading=replace(reading, moved=0))).plan(query, {})
    assert other.recipe is not None
    assert other.recipe.sources == (TakenSource(0, 0, "0", "0"),)


@pytest.mark.parametrize(
    ("saved", "reading", "options"),
    [
        (saved_query(sources=(source("file[/in]"),)), FileReading("/in", 10, outside=4), {}),
        (saved_query(sources=(source("file[/in]"),)), None, {}),  # it could not be read
        (saved_query(sources=None), None, {}),
        (saved_query(sources=()), None, {}),
        (saved_query(sources=(source("file[/in]"),)), None, {"reset_sources": ("f",)}),
        (saved_query(sources=(source("file[/in]", uid="g"),)), None, {}),
        (saved_query(sources=(source("file[/in]"),), key="other"), None, {}),
    ],
)
def test_a_fork_is_asked_whether_it_may_remove_input_whatever_is_known_of_its_position(
    saved: SavedQueryFacts, reading: FileReading | None, options: dict[str, Any]
) -> None:
    removes = replace(reads("file[/in]", uid="f"), options={"cleanSource": "delete"})
    query = starting(sources=(removes,))
    left = replace(offers(saved), complete=saved.sources != ())  # it lacks a query of its job

    def plan(**more: Any) -> QueryRestore:
        given = RestoreOptions(**options, **more, allow_non_restored=True)
        return RestorePlanner(left, given, Facts(reading=reading), AS_SAVED).plan(query, {})

    refusal = plan(fork=True).refusal
    assert isinstance(refusal, ConsentNeeded)
    assert "start the fork with cleanSource=off" in (refusal.hint or "")
    agreed = plan(fork=True, accept_lost_rows=True)
    assert agreed.refusal is None
    assert [check.id for check in agreed.checks].count("files-cleaned") == 1
    assert plan().refusal is None


def test_what_a_kafka_sink_gets_again_is_in_the_plan() -> None:
    runs = (OtherRun("j1", JobState.FINISHED, 9),)
    planner = planner_of(saved_query(old("sums")), facts=Facts(runs=runs))
    query = replace(starting(new("sums")), sink=NewSink("kafka"))
    restore = planner.plan(query, {})
    plan = planner.restore_plan(complete=True)
    assert plan.exit_code == 0
    (found,) = (check for check in plan.checks if check.id == "kafka-sink")
    assert (found.outcome, found.batches, found.query) == ("warning", 2, "q")
    assert any("2 batches, 8 to 9, is written again" in note for note in restore.notes)
    assert any("warning [kafka-sink]: query 'q'" in line for line in plan_lines(plan))


def test_a_state_that_needs_the_engine_is_refused_until_there_is_one() -> None:
    before, _ = aggregation("sums", "sum")
    _, now = aggregation("sums", "sum", "most")
    planner = planner_of(saved_query(before))
    refusal = planner.plan(starting(now), {}).refusal
    assert isinstance(refusal, Incompatible)
    assert "gained" in refusal.message
    plan = planner.restore_plan(complete=True)
    assert (plan.verdict, plan.exit_code) == ("incompatible", 4)
    (op,) = plan.operators
    assert (op.verdict, op.reason, op.executable) == (
        "incompatible",
        "column-added",
        False,
    )

    kind = "applyInPandasWithState"
    before, now = changed(before, kind=kind), changed(now, kind=kind)
    engine = planner_of(saved_query(before), settings=MIGRATING)
    restore = engine.plan(starting(now), {})
    assert restore.refusal is None
    assert restore.rewrite is not None
    assert restore.rewrite.partitions is None
    (values,) = restore.rewrite.evolutions[0].values()
    assert values.value == now.node.stores[0].value_schema
    assert engine.restore_plan(complete=True).operators[0].executable


def test_another_parallelism_is_for_the_engine() -> None:
    before, now = aggregation("sums", "sum")
    able = PlanningSettings(4, executors=frozenset({StateVerdict.RESCALE}))
    restore = planner_of(saved_query(before), settings=able).plan(starting(now), {})
    assert restore.refusal is None
    assert restore.rewrite == StateRewrite(4)
    as_many = replace(able, parallelism=2)
    same = planner_of(saved_query(before), settings=as_many).plan(starting(now), {})
    assert (same.refusal, same.rewrite) == (None, None)


@pytest.mark.parametrize(("stateful", "verdict"), [(True, "rescale"), (False, "pinned")])
def test_only_a_query_with_state_is_said_to_be_rescaled(stateful: bool, verdict: str) -> None:
    before, now = aggregation("sums", "sum")
    saved = saved_query(before) if stateful else saved_query()
    saved = replace(saved, pins={"spark.sql.shuffle.partitions": "2"})
    able = PlanningSettings(4, executors=frozenset({StateVerdict.RESCALE}))
    program = starting(now) if stateful else starting()
    restore = planner_of(saved, settings=able).plan(program, {})
    assert restore.refusal is None
    assert [pin.verdict for pin in restore.pins] == [verdict]
    assert (restore.rewrite is not None) is stateful


def test_what_nobody_takes_needs_consent() -> None:
    saved = saved_query(old("kept"), old("gone", 1))
    for allowed, verdict, code in ((False, "consent-needed", 5), (True, "ok", 0)):
        planner = planner_of(saved, allow_non_restored=allowed)
        planner.plan(starting(new("kept")), {})
        plan = planner.restore_plan(complete=True)
        assert (plan.verdict, plan.exit_code) == (verdict, code)
        dropped = plan.operators[1]
        assert (dropped.uid, dropped.verdict, dropped.executable) == (
            *("gone", "dropped", allowed),
        )
        assert bool(dropped.advice) is not allowed


def test_the_gravest_verdict_of_several_queries_counts() -> None:
    planner = planner_of(
        saved_query(old("a", query="one"), key="one"),
        saved_query(old("b", query="two"), key="two"),
    )
    planner.plan(starting(new("a"), name="one"), {})
    planner.plan(starting(new("b", kind=AGG), name="two"), {})
    plan = planner.restore_plan(complete=True)
    assert [(q.name, q.verdict) for q in plan.queries] == [
        ("one", "ok"),
        ("two", "incompatible"),
    ]
    assert plan.exit_code == 4
    assert plan.operators[1].reason == "other-kind"


def test_a_refusal_that_is_no_operators_is_shown_all_the_same() -> None:
    """Two operators want one state: there is no row to say it."""
    planner = planner_of(saved_query(old("x"), old("y", 1)))
    program = starting(new("x", uid_hash=new("y").lookup_ids[0]), new("y", 1))
    assert planner.plan(program, {}).refusal is not None
    plan = planner.restore_plan(complete=True)
    assert plan.verdict == "incompatible"
    assert plan.operators == ()  # nothing is dropped: nobody knows yet who takes what
    assert any("both take the state" in line for line in plan_lines(plan))


def test_a_program_without_queries_leaves_everything_behind() -> None:
    planner = planner_of(saved_query(old("x")))
    plan = planner.restore_plan(complete=True)
    assert plan.verdict == "consent-needed"
    assert [(op.uid, op.verdict) for op in plan.operators] == [("x", "dropped")]


@pytest.mark.parametrize(("was", "signature"), [("file[in]", "kafka[a]"), ("socket[x]",) * 2])
def test_sources_that_cannot_be_gone_on_with_need_consent(was: str, signature: str) -> None:
    before = source(was, uid="in")
    planner = planner_of(saved_query(old("x"), sources=(before,)))
    restore = planner.plan(starting(new("x"), sources=(reads(signature, uid="in"),)), {})
    assert isinstance(restore.refusal, ConsentNeeded)
    assert restore.refusal.hint.endswith(": --reset-source in")
    plan = planner.restore_plan(complete=True)
    assert (plan.verdict, plan.exit_code) == ("consent-needed", 5)
    reset = planner_of(saved_query(old("x"), sources=(before,)), reset_sources=("in",))
    restore = reset.plan(starting(new("x"), sources=(reads(signature, uid="in"),)), {})
    assert restore.refusal is None
    assert reset.restore_plan(complete=True).verdict == "ok"  # it is left behind on purpose


def test_what_a_kafka_broker_has_decides() -> None:
    signature = "kafka[subscribe=a]"
    saved = saved_query(old("x"), sources=(source(signature, uid="in", offset='{"a":{"0":5}}'),))

    def planned(fail: str, answer: BrokerAnswer, **options: Any) -> RestorePlanner:
        planner = planner_of(saved, facts=Facts(answer=answer), **options)
        given = {"subscribe": "a", "failOnDataLoss": fail}
        program = replace(reads(signature, uid="in"), options=given)
        planner.plan(starting(new("x"), sources=(program,)), {})
        return planner

    expired = BrokerAnswer({"a": {0: Available(8, 20)}})
    for fail in ("true", "false"):
        plan = planned(fail, expired).restore_plan(complete=True)
        assert (plan.verdict, plan.exit_code) == ("consent-needed", 5)
        assert (plan.sources[0].reason, plan.sources[0].lost_rows) == (*("rows-expired", 3),)
    agreed = planned("false", expired, accept_lost_rows=True)
    plan = agreed.restore_plan(complete=True)
    assert (plan.verdict, [check.id for check in plan.checks]) == (
        *("ok", ["rows-expired", "kafka-lag"]),
    )
    assert any("up to 3 rows of topic a" in note for note in agreed.queries[0].notes)
    missing = planned("false", BrokerAnswer({}), accept_lost_rows=True).restore_plan(complete=True)
    assert (missing.verdict, missing.exit_code) == ("incompatible", 4)
    silent = planned("true", BrokerAnswer(None, "--offline")).restore_plan(complete=True)
    assert silent.verdict == "ok"
    note = "note [broker-not-asked]: source 'in': no answer from the broker: --offline"
    assert note in plan_lines(silent)


def test_a_source_gets_other_offsets() -> None:
    one, two = "kafka[subscribe=a]", "kafka[subscribe=b]"
    saved = saved_query(
        old("x"),
        sources=(
            source(one, 0, uid="in", offset='{"a":{"0":5}}'),
            source(two, 1, offset='{"b":{"0":1}}'),
        ),
    )
    program = starting(
        new("x"),
        sources=(
            replace(reads(one, 0, uid="in"), options={"subscribe": "a"}),
            replace(reads(two, 1), options={"subscribe": "b"}),
        ),
    )
    answer = BrokerAnswer({"a": {0: Available(0, 9)}, "b": {0: Available(0, 9)}})

    def planned(**options: Any) -> RestorePlanner:
        planner = planner_of(saved, facts=Facts(answer=answer), **options)
        planner.plan(program, {})
        return planner

    target = '{"a":{"0":2}}'
    asked = planned(set_offsets=(("in", target),)).queries[0]
    assert isinstance(asked.refusal, ConsentNeeded)
    assert "3 of a-0, 5 to 2" in asked.refusal.message
    assert asked.refusal.data["reasons"] == ["set-offsets"]
    agreed = planned(set_offsets=(("in", target),), accept_repeated_rows=True)
    (restore,) = agreed.queries
    assert restore.recipe is not None
    assert restore.recipe.sources == (
        TakenSource(0, 0, "0", "0", '{"a":{"0":2}}'),
        TakenSource(0, 1, "1", "1"),
    )
    plan = agreed.restore_plan(complete=True)
    assert [(s.verdict, s.set_to) for s in plan.sources] == [
        *(("set", '{"a":{"0":2}}'), ("as-is", None)),
    ]
    assert plan.sources[0].moves == (Move("a", 0, before=5, after=2, repeated=3),)
    assert any("is set to the offsets that were given" in note for note in restore.notes)
    assert any("set" in row and "in" in row for row in plan_rows(plan))

    for names, options in ((("in", "in"), {}), (("in",), {"reset_sources": ("in",)})):
        with pytest.raises(UsageError, match="named twice"):
            planned(set_offsets=tuple((name, target) for name in names), **options)
    with pytest.raises(UsageError, match="fits more than one source"):
        planned(set_offsets=(("kafka", target),))
    empty = planner_of(saved_query(old("y"), key="other"), set_offsets=(("in", target),))
    refusal = empty.plan(replace(program, operators=()), {}).refusal
    assert isinstance(refusal, Incompatible)
    assert "no saved offsets" in refusal.message


@pytest.mark.parametrize(
    ("operator", "target", "watermark", "checks"),
    [
        ("x", None, 1_000, ["late-rows"]),
        ("x", '{"a":{"0":0}}', 1_000, ["late-rows"]),
        ("x", '{"a":{"0":9}}', 1_000, []),
        ("x", '{"a":{"0":5}}', 1_000, []),
        ("x", None, 0, []),
        ("x", None, MAX_WATERMARK_MS, ["drained"]),
        ("y", None, 1_000, []),  # without state and position there is no watermark either
        ("y", '{"a":{"0":0}}', 1_000, []),
        ("y", None, MAX_WATERMARK_MS, []),
    ],
)
def test_rows_before_the_watermark_that_stays_are_late(
    operator: str, target: str | None, watermark: int, checks: list[str]
) -> None:
    topic = "kafka[subscribe=a]"
    reading = source(topic, uid="in", offset='{"a":{"0":5}}')
    saved = replace(saved_query(old("x"), sources=(reading,)), watermark_ms=watermark)
    reset: dict[str, Any] = {"reset_sources": ("in",)}
    moved: dict[str, Any] = {"set_offsets": (("in", target),)}
    planner = planner_of(
        saved,
        facts=Facts(answer=BrokerAnswer({"a": {0: Available(0, 9)}})),
        accept_lost_rows=True,
        accept_repeated_rows=True,
        **(reset if target is None else moved),
    )
    reader = replace(reads(topic, uid="in", feeds=(0,)), options={"subscribe": "a"})
    program = starting(new(operator), sources=(reader,))
    restore = planner.plan(program, {0: EmptyState(2)})
    assert restore.refusal is None
    about = [check for check in restore.checks if check.id in ("late-rows", "drained")]
    assert [check.id for check in about] == checks
    assert all("stays at 1970-01-01 00:00:01" in c.text for c in about if c.id == "late-rows")


@pytest.mark.parametrize(
    ("base", "giver", "mode", "ids"),
    [
        (None, {"watermark_ms": MAX_WATERMARK_MS}, "append", ["drained"]),
        (1_000, {"watermark_ms": MAX_WATERMARK_MS}, "append", []),  # the slower one counts
        (MAX_WATERMARK_MS, {"watermark_ms": 1_000}, "append", []),
        (None, {"sink": {"async_progress": True}}, "append", ["state-mode"]),
        (None, {"sink": {"format": "memory"}}, "append", ["state-mode"]),
        (1_000, {"sink": {"format": "csv"}, "watermark_ms": 1_000}, "complete", ["output-mode"]),
    ],
)
def test_a_query_that_gives_state_to_another_is_checked_as_if_it_continued_alone(
    base: int | None, giver: dict[str, Any], mode: str, ids: list[str]
) -> None:
    q = replace(saved_query(old("a")), sink={"output_mode": mode}, watermark_ms=base)
    r = replace(saved_query(old("b", query="r", kind=AGG), key="r"), **giver)
    program = starting(new("a"), new("b", 1, kind=AGG))
    restore = planner_of(q, r).plan(replace(program, sink=NewSink(output_mode=mode)), {})
    assert [check.id for check in restore.checks] == ids
    assert isinstance(restore.refusal, Incompatible) is (
        ids[:1] in (["state-mode"], ["output-mode"])
    )


def test_a_query_that_the_savepoint_does_not_have_is_judged_as_a_fresh_start() -> None:
    refusal = ConsentNeeded("its sink has batch 9", reasons=["sink-ahead"])
    planner = planner_of(saved_query(old("x")), facts=Facts(starts=refusal))
    plan = planner.plan(replace(starting(new("y")), name="other"), {})
    assert plan.refusal is refusal
    assert planner.restore_plan_of(plan).exit_code == 5
    planner = planner_of(saved_query(old("x")), facts=Facts(starts=Agreed("dropped, as accepted")))
    plan = planner.plan(replace(starting(new("y")), name="other"), {})
    assert plan.refusal is None
    assert "dropped, as accepted" in plan.notes


def test_a_sink_that_is_ahead_is_refused_and_a_rebase_carried_out() -> None:
    planner = planner_of(saved_query(old("x")), facts=Facts(sink_plan=AHEAD))
    restore = planner.plan(starting(new("x")), {})
    assert restore.refusal is not None
    assert restore.refusal.code == 5
    assert restore.refusal.message == "it has batch 9"
    assert restore.refusal.hint == AHEAD.advice
    plan = planner.restore_plan(complete=True)
    assert (plan.sinks[0].verdict, plan.exit_code) == ("ahead", 5)
    agreed = replace(AHEAD, verdict="rebase", rebase_to=9)
    planner = planner_of(saved_query(old("x")), facts=Facts(sink_plan=agreed))
    restore = planner.plan(starting(new("x")), {})
    assert restore.recipe is not None
    assert restore.recipe.batch_id == 9


def test_a_sink_that_no_option_can_help_is_incompatible() -> None:
    """Canonical state cannot be brought to the sink's batch."""
    source = offers(saved_query(old("x")))
    canonical = {key: replace(each, canonical=True) for key, each in source.by_key.items()}
    planner = RestorePlanner(
        replace(source, by_key=canonical),
        RestoreOptions(),
        Facts(sink_plan=AHEAD),
        MIGRATING,
    )
    refusal = planner.plan(starting(new("x")), {}).refusal
    assert isinstance(refusal, Incompatible)
    assert "it has batch 9; the savepoint is canonical" in refusal.message
    assert "--sink-ahead" not in refusal.message + refusal.hint


def test_one_source_before_states_of_different_positions_needs_consent() -> None:
    planner = planner_of(
        *(
            saved_query(
                old(word, query=key), key=key, sources=(source("file[in]", query=key, offset=word),)
            )
            for word, key in (("x", "one"), ("y", "two"))
        )
    )
    both = (reads("file[in]", feeds=(0, 1)),)
    restore = planner.plan(starting(new("x"), new("y", 1), name="both", sources=both), {})
    assert isinstance(restore.refusal, ConsentNeeded)
    assert restore.refusal.hint.endswith(": --reset-source 'file[in]'")
    assert planner.restore_plan(complete=True).exit_code == 5


def test_a_name_that_does_not_say_what_is_meant_is_no_plan() -> None:
    saved = saved_query(old("x"), sources=(source("file[a]"), source("file[b]", 1)))
    planner = planner_of(saved, reset_sources=("file",))
    program = starting(new("x"), sources=(reads("file[a]"), reads("file[b]", 1)))
    with pytest.raises(UsageError, match=r"'file', .*, fits more than one source"):
        planner.plan(program, {})
    planner = planner_of(
        saved_query(old("x", query="one"), key="one"),
        saved_query(old("x", query="two"), key="two"),
        uid_map=(("x", "z"),),
    )
    with pytest.raises(UsageError, match="several operators of the savepoint are named 'x'"):
        planner.plan(starting(new("z"), name="other"), {})


def test_other_runs_of_the_query_give_it_a_new_id() -> None:
    facts = Facts(runs=(OtherRun("j", JobState.RUNNING, 8),))
    planner = planner_of(saved_query(old("x")), facts=facts)
    restore = planner.plan(starting(new("x")), {})
    assert restore.identity is not None
    assert not restore.identity.keep


@pytest.mark.parametrize(
    ("runs", "fork", "goes_back", "in_use", "batches"),
    [
        ((OtherRun("j", JobState.CANCELED, 12),), False, True, False, 6),
        ((OtherRun("j", JobState.CANCELED, 12),), True, False, False, 6),
        ((OtherRun("j", JobState.RUNNING, 12),), False, False, True, None),
        ((OtherRun("j", JobState.FINISHED, 7),), False, True, False, 0),
    ],
)
def test_a_renamed_query_goes_back_as_its_state_does(
    runs: tuple[OtherRun, ...], fork: bool, goes_back: bool, in_use: bool, batches: int | None
) -> None:
    planner = planner_of(saved_query(old("x")), facts=Facts(runs=runs), fork=fork)
    program = starting(new("x"), name="renamed")
    program = replace(program, sink=replace(program.sink, format="kafka"))
    restore = planner.plan(program, {})
    identity = QueryIdentity(
        False, "its state comes from query 'q'", goes_back, in_use, may_keep=False
    )
    assert restore.identity == identity
    assert [check.batches for check in restore.checks] == [batches]


def test_all_queries_that_a_query_goes_on_from_may_have_written_its_rows() -> None:
    @dataclass
    class OneWentOn(Facts):
        def other_runs(self, query_id: str) -> Sequence[OtherRun]:
            return self.runs if query_id == "id of two" else ()

    saved = [saved_query(old(u, query=k), key=k) for u, k in (("x", "one"), ("y", "two"))]
    planner = planner_of(*saved, facts=OneWentOn((OtherRun("j", JobState.FINISHED, 9),)))
    program = starting(new("x"), new("y", 1), name="both")
    program = replace(program, sink=replace(program.sink, format="kafka"))
    restore = planner.plan(program, {})
    assert [(check.id, check.batches) for check in restore.checks] == [("kafka-sink", 2)]


def test_a_query_without_a_row_says_what_happens_to_it() -> None:
    planner = planner_of(saved_query(key="other"), allow_non_restored=True)
    planner.plan(starting(name="fresh"), {})
    lines = plan_lines(planner.restore_plan(complete=True))
    assert "query 'fresh' is not in the savepoint: starts empty" in lines


def test_checks_of_the_whole_restore_come_first_and_count() -> None:
    planner = planner_of(saved_query(old("x")))
    planner.plan(starting(new("x")), {})
    plan = planner.restore_plan(complete=True)
    refused = with_checks(plan, [Check("spark-version", RestoreOutcome.REFUSED, "no", "go back")])
    assert (refused.verdict, refused.exit_code) == ("incompatible", 4)
    assert refused.checks[0].id == "spark-version"
    assert "incompatible [spark-version]: no" in plan_lines(refused)
    warned = with_checks(plan, [Check("spark-version", RestoreOutcome.WARNING, "who knows")])
    assert warned.verdict == "ok"
    two = replace(warned, queries=(QueryRow("q"), QueryRow("r")))
    assert "warning [spark-version]: who knows" in plan_lines(two)


def test_plans_of_single_queries_make_one() -> None:
    planner = planner_of(
        saved_query(old("a", query="one"), key="one"),
        saved_query(old("b", query="two"), key="two"),
    )
    first = planner.restore_plan_of(planner.plan(starting(new("a"), name="one"), {}))
    second = planner.restore_plan_of(planner.plan(starting(new("b"), name="two"), {}))
    both = merged([first, second])
    assert both is not None
    assert [op.uid for op in both.operators] == ["a", "b"]
    whole = planner.restore_plan(complete=True)
    assert merged([first, whole]) == whole
    assert merged([]) is None


def test_a_driver_that_is_started_again_keeps_the_rows_of_what_was_restored_before_it() -> None:
    saved = [
        saved_query(old(uid, query=name), key=name)
        for uid, name in (("a", "one"), ("b", "two"), ("c", "gone"))
    ]
    first = planner_of(*saved)
    one = first.restore_plan_of(first.plan(starting(new("a"), name="one"), {}))
    planner = RestorePlanner(
        offers(*saved),
        RestoreOptions(allow_non_restored=True),
        Facts(),
        before=taken_before({"one": one}),
    )
    two = planner.restore_plan_of(planner.plan(starting(new("b"), name="two"), {}))
    whole = with_earlier(planner.restore_plan(complete=True), [one, two])
    assert whole.complete
    assert {row.name for row in whole.queries} == {"one", "two"}
    assert sorted((op.uid, op.verdict) for op in whole.operators) == [
        ("a", "as-is"),
        ("b", "as-is"),
        ("c", "dropped"),
    ]
    assert with_earlier(whole, [one, two]) == whole


def test_a_plan_that_has_changed_is_noticed() -> None:
    def plan(*operators: NewOperator) -> RestorePlan:
        planner = planner_of(saved_query(old("a"), old("b", 1)))
        return planner.restore_plan_of(planner.plan(starting(*operators), {2: EmptyState(2)}))

    shown = plan(new("a"), new("b", 1))
    assert compare_with_expected(shown, None, "q") is None
    assert compare_with_expected(shown, shown, "q") is None
    error = compare_with_expected(plan(new("a", 1), new("b", 0)), shown, "q")
    assert error is not None
    assert error.code == 4
    assert compare_with_expected(plan(new("a")), shown, "q") is not None
    assert compare_with_expected(plan(new("a"), new("b", 1), new("c", 2)), shown, "q") is not None


@pytest.mark.parametrize(
    ("sink", "differs"),
    [
        (NewSink("parquet", "/out/a", place="/out/a"), False),
        (NewSink("parquet", "file:/out/a", place="/out/a"), False),
        (NewSink("parquet", "/out/b", place="/out/b"), True),
        (NewSink("json", "/out/a", place="/out/a"), True),
        (NewSink("kafka"), True),
    ],
)
def test_another_output_than_the_planned_one_is_noticed(sink: NewSink, differs: bool) -> None:
    def plan(sink: NewSink) -> RestorePlan:
        planner = planner_of(saved_query(old("a")))
        return planner.restore_plan_of(planner.plan(replace(starting(new("a")), sink=sink), {}))

    shown = plan(NewSink("parquet", "/out/a", place="/out/a"))
    error = compare_with_expected(plan(sink), shown, "q")
    assert (error is not None) == differs
    assert error is None or error.message.endswith("its outputs have changed")


def test_a_plan_that_costs_more_than_the_one_seen_is_noticed() -> None:
    def plan(
        end: int = 100, run: int | None = None, where: str | None = None, begin: int = 0
    ) -> RestorePlan:
        runs = () if run is None else (OtherRun("j1", JobState.CANCELED, run, run),)
        planner = planner_of(
            saved_query(old("a"), sources=(source("kafka[subscribe=a]", offset='{"a":{"0":90}}'),)),
            facts=Facts(answer=BrokerAnswer({"a": {0: Available(begin, end)}}), runs=runs),
            set_offsets=() if where is None else (("kafka[subscribe=a]", where),),
            accept_lost_rows=True,
        )
        options = {"subscribe": "a", "failOnDataLoss": "false"}
        read = replace(reads("kafka[subscribe=a]", feeds=(0,)), options=options)
        query = starting(new("a"), sources=(read,))
        query = replace(query, sink=replace(query.sink, format="kafka"))
        return planner.restore_plan_of(planner.plan(query, {}))

    def changed(now: RestorePlan, then: RestorePlan) -> str:
        error = compare_with_expected(now, then, "q")
        return "" if error is None else error.message.partition("its ")[2]

    assert changed(plan(1000, where="latest"), plan(where="latest")) == "sources have changed"
    assert changed(plan(1000), plan()) == ""
    assert changed(plan(run=50), plan()) == "query ids have changed"
    assert changed(plan(), plan(run=50)) == ""
    assert changed(plan(run=60), plan(run=50)) == "repeated batches have changed"
    assert changed(plan(begin=95), plan()) == "lost rows have changed"
    assert changed(plan(), plan(begin=95)) == ""
    row = replace(plan().sources[0], lost_rows=5)
    then = replace(plan(), sources=(row,))
    now = replace(plan(), sources=(replace(row, lost_rows=6),))
    assert changed(now, then) == "lost rows have changed"
    assert changed(then, now) == ""


@pytest.mark.parametrize(
    ("now", "then", "is_more"),
    [
        ([2, 3], [3], True),  # another saved query repeats batches as well
        ([3], [], True),
        ([3], [2, 3], True),  # perhaps of the second query
        ([2], [2, 3], False),
        ([], [3], False),
        ([None, 1], [None], True),
        ([4], [None], False),
        ([None], [4], True),
    ],
)
def test_batches_of_every_saved_query_count(
    now: Sequence[int | None], then: Sequence[int | None], is_more: bool
) -> None:
    def plan(batches: Sequence[int | None]) -> RestorePlan:
        found = [Check("k", RestoreOutcome.WARNING, "", batches=n, query="q") for n in batches]
        return RestorePlan(checks=tuple(found))

    assert (compare_with_expected(plan(now), plan(then), "q") is not None) == is_more


@pytest.mark.parametrize(
    ("now", "then", "is_more"),
    [(5, 0, True), (None, 5, True), (5, None, False), (None, None, False)],
)
def test_a_number_of_rows_that_has_become_unknown_may_be_higher(
    now: int | None, then: int | None, is_more: bool
) -> None:
    def plan(rows: int | None) -> RestorePlan:
        return RestorePlan(sources=(SourceRow("q", "in", reason="topics-gone", lost_rows=rows),))

    assert (compare_with_expected(plan(now), plan(then), "q") is not None) == is_more


def test_the_text_has_a_row_for_everything_and_the_advice_below() -> None:
    planner = planner_of(saved_query(old("kept", kind=DEDUP), old("gone", 1)))
    planner.plan(starting(new("kept", 3), new("fresh", 1, kind=AGG)), {1: EmptyState(2)})
    plan = planner.restore_plan(complete=True)
    assert [(row[1], row[3]) for row in plan_rows(plan)] == [
        ("kept", "renumbered"),
        ("fresh", "new"),
        ("gone", "dropped"),
    ]
    lines = plan_lines(plan)
    assert lines[0].split() == ["QUERY", "WHAT", "KIND", "VERDICT", "STATE", "WHY"]
    assert "120 rows  operator 0 is now 3" in lines[1]
    assert lines[-1].startswith("gone [no-operator]: use -n")


def test_a_function_in_foreach_batch_is_told_what_is_run_again() -> None:
    before, now = aggregation("sums", "sum")
    saved = replace(saved_query(before), sink={"format": "foreachBatch", "history_shift": 1 << 40})
    starts = replace(starting(now), sink=replace(starting(now).sink, format="foreachBatch"))
    planner = planner_of(saved)
    assert planner.plan(starts, {}).history == HistoryPlan(1 << 40, True)
    plan = planner.restore_plan(complete=True)
    assert plan.queries[0].history == HistoryShift(1 << 40, keep=True)
    assert [(one.id, one.outcome) for one in plan.checks] == [("foreach-batch", "ok")]

    gone_on = Facts(runs=(OtherRun("j", JobState.FINISHED, 9),))
    restore = planner_of(saved, facts=gone_on).plan(starts, {})
    assert restore.history is not None
    assert not restore.history.kept
    assert restore.history.shift >= (1 << 40) + (1 << 32)
    (note,) = restore.notes
    assert "the input of up to 2 batches after batch 7" in note
    renamed = planner_of(saved, facts=Facts(elsewhere=9)).plan(starts, {})
    assert renamed.history is not None
    assert not renamed.history.kept
    assert "another run has processed under another query id" in renamed.notes[0]
    # Of another sink nothing is said, and the numbers go on all the same.
    other = planner_of(saved, facts=gone_on).plan(starting(now), {})
    assert other.checks == ()
    assert other.history is not None
    assert not other.history.kept


@pytest.mark.parametrize(
    ("format", "went_on", "planned", "text"),
    [
        ("foreachBatch", 12, False, "the input of up to 5 batches after batch 7"),
        ("foreachBatch", 7, True, "batch 8, which had been started"),
        ("foreachBatch", 7, False, None),
        ("kafka", 12, False, None),  # its rows are not the function's
    ],
)
def test_a_function_whose_query_is_merged_into_another_is_told_what_is_run_again(
    format: str, went_on: int, planned: bool, text: str | None
) -> None:
    @dataclass
    class OneWentOn(Facts):
        def other_runs(self, query_id: str) -> Sequence[OtherRun]:
            return self.runs if query_id == "id of r" else ()

    q = replace(saved_query(old("a")), sink={"format": "foreachBatch"})
    r = replace(saved_query(old("b", query="r"), key="r"), sink={"format": format})
    planner = planner_of(q, r, facts=OneWentOn((OtherRun("j", JobState.FINISHED, went_on),)))
    if planned:
        offer = planner.offers.by_key["r"]
        offer = replace(offer, origin=replace(offer.origin, files=("offsets/7", "offsets/8")))
        planner.offers = replace(planner.offers, by_key={**planner.offers.by_key, "r": offer})
    program = replace(starting(new("a"), new("b", 1)), sink=NewSink("foreachBatch"))
    (check,) = planner.plan(program, {}).checks
    assert check.id == "foreach-batch"
    if text is None:
        assert "no batch runs again; its function continues after history batch 7" in check.text
        assert "merged" not in check.text
    else:
        assert f"foreachBatch, and query 'r' is merged into it: {text}" in check.text
        assert check.outcome is RestoreOutcome.NOTE


@pytest.mark.parametrize(("reset", "kept"), [((), True), (("b",), False)])
def test_a_planned_batch_that_loses_the_part_of_a_source_gets_another_history_number(
    reset: tuple[str, ...], kept: bool
) -> None:
    one, two = "file[/a]", "file[/b]"
    saved = saved_query(old("x"), sources=(source(one, 0, uid="a"), source(two, 1, uid="b")))
    planner = planner_of(saved, reset_sources=reset)
    offer = planner.offers.by_key["q"]
    origin = replace(offer.origin, files=("offsets/7", "offsets/8"))
    planner.offers = replace(planner.offers, by_key={"q": replace(offer, origin=origin)})
    program = starting(new("x"), sources=(reads(one, 0, uid="a"), reads(two, 1, uid="b")))
    restore = planner.plan(program, {})
    assert restore.recipe is not None, restore.refusal
    assert restore.recipe.replays_planned
    assert restore.history is not None
    assert restore.history.kept is kept


@pytest.mark.parametrize(("rebase_to", "batch"), [(None, 50), (40, 50), (60, 60)])
def test_a_batch_that_is_replayed_in_a_merged_query_keeps_its_history_number(
    rebase_to: int | None, batch: int
) -> None:
    q = saved_query(old("a"), sources=(source("file[/a]"),))
    r = saved_query(old("b", query="r"), key="r", batch=50)
    sink = SinkPlan("parquet", "/out", rebase_to, "rebase", "sink-ahead", "", rebase_to=rebase_to)
    planner = planner_of(q, r, facts=Facts(sink_plan=sink))
    offer = planner.offers.by_key["q"]
    offer = replace(offer, origin=replace(offer.origin, files=("offsets/7", "offsets/8")))
    planner.offers = replace(planner.offers, by_key={**planner.offers.by_key, "q": offer})
    program = starting(new("a"), new("b", 1), sources=(reads("file[/a]", feeds=(0,)),))
    restore = planner.plan(program, {})
    assert restore.recipe is not None, restore.refusal
    assert (restore.recipe.replays_planned, restore.recipe.batch_id) == (True, batch)
    assert restore.history == HistoryPlan(7 - batch, True)


@pytest.mark.parametrize(("sink", "batch"), [(None, None), (AHEAD, AHEAD.newest_batch)])
def test_what_cannot_be_made_is_refused_before_a_consent_is_asked_for(
    sink: SinkPlan | None, batch: int | None
) -> None:
    cannot = Incompatible("it cannot be made", reasons=["state-lineage"])
    facts = Facts(sink_plan=sink, impossible={batch: cannot})
    plan = planner_of(saved_query(old("sums")), facts=facts).plan(starting(new("sums")), {})
    assert plan.refusal is cannot
    assert plan.recipe is None


@pytest.mark.parametrize("verdict", ["migrate", "rescale"])
def test_a_refusal_is_told_where_no_row_explains_it(verdict: str) -> None:
    why = Refusal("the savepoint is canonical", "convert it", "incompatible")
    rewritten = OperatorRow("q", "x", verdict=verdict, reason="r", text="t", advice="omit -p")
    sink = SinkRow("q", "parquet", "/out", verdict="unreadable", reason="s", advice="look")
    plan = RestorePlan(
        *("incompatible", 4),
        queries=(QueryRow("q", "incompatible", refusal=why),),
        operators=(rewritten,),
        sinks=(sink,),
    )
    told = ["query 'q': the savepoint is canonical", "  convert it"]
    assert plan_lines(plan)[-2:] == told
    stuck = replace(plan, operators=(replace(rewritten, verdict="incompatible"),))
    assert not any("canonical" in line for line in plan_lines(stuck)), "its row explains it"


def test_a_consent_that_a_check_asks_for_is_told_once() -> None:
    why = Refusal("query 'q': rows are left out", "agree", "consent-needed")
    check = Check("left-out", RestoreOutcome.CONSENT, "rows are left out", "agree", query="q")
    query = QueryRow("q", "consent-needed", refusal=why)
    plan = RestorePlan("consent-needed", 5, queries=(query,), checks=(check,))
    assert sum("rows are left out" in line for line in plan_lines(plan)) == 1


def test_what_one_query_needs_has_not_the_outcome_of_another() -> None:
    rows = (
        OperatorRow("q", "x", verdict="migrate", reason="gained", advice="let it be rewritten"),
        OperatorRow("r", "y", verdict="incompatible", reason="lost", advice="keep it"),
        OperatorRow("r", "z", verdict="dropped", reason="gone", advice="use -n"),
    )
    queries = (QueryRow("q"), QueryRow("r", "incompatible", refusal=Refusal("", "", "")))
    plan = RestorePlan("incompatible", 4, queries=queries, operators=rows)
    assert [(each.reason, each.outcome.value) for each in findings(plan)] == [
        ("gained", "warning"),
        ("lost", "incompatible"),
        ("gone", "consent-needed"),
    ]


def test_state_of_a_plain_checkpoint_is_not_called_dropped_when_its_query_is_refused() -> None:
    unnamed = old("x", named=False, ids=False, query=None)
    planner = planner_of(saved_query(unnamed, key=None, sources=None))
    assert planner.plan(starting(new("a"), new("b", 1)), {}).refusal is not None
    assert planner.restore_plan(complete=True).operators == ()


def test_state_of_a_plain_checkpoint_that_nobody_takes_has_no_name_and_needs_none() -> None:
    unnamed = old("x", named=False, ids=False, query=None)
    planner = planner_of(saved_query(unnamed, key=None, sources=None))
    plan = planner.restore_plan(complete=True)
    (row,) = plan.operators
    assert (row.verdict, row.advice) == ("dropped", "use -n to drop it")
    assert plan_rows(plan)[0][0] == "-"
    (asked,) = findings(replace(plan, queries=(QueryRow("q"), QueryRow("r"))))
    assert asked.who == "operator 0"
    assert planner.non_restored().error().hint.startswith("use -n")
