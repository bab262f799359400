"""The verdict for one operator, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.messages.plan import StateVerdict
from flinkish.operators.state_semantics import ONLY, Initial, StateSemantics
from flinkish.restore.origin.restore_inputs import NewOperator, SavedOperator, SavedQueryFacts
from flinkish.restore.plan.judging import (
    FOR_THE_ENGINE,
    OperatorJudgement,
    advice_for,
    ask,
    judge_operator,
    refuse,
)
from tests.restore.plan.test_schema_compatibility import columns, struct
from tests.support.restore.query_builders import (
    AGG,
    DEDUP,
    Operator,
    changed,
    new,
    old,
    saved_query,
)


def _stores(value: str) -> tuple[StoreInfo, ...]:
    return (StoreInfo("default", struct("k string"), struct(value)),)


def _meaning(*sums: str) -> StateSemantics:
    begin = {ONLY: (Initial(0),) * len(sums)}
    return StateSemantics({ONLY: columns("k")}, {ONLY: columns(*sums)}, initial=begin)


def saved(value: str = "a long", *sums: str, ordinal: int = 0, query: str = "q") -> SavedOperator:
    operator = old("agg", ordinal, AGG, query=query)
    return changed(operator, stores=_stores(value), meaning=_meaning(*(sums or ("sum(v)",))))


def starting(value: str = "a long", *sums: str, ordinal: int = 0) -> NewOperator:
    operator = new("agg", ordinal, AGG)
    return changed(operator, stores=_stores(value), meaning=_meaning(*(sums or ("sum(v)",))))


def without_keys(operator: Operator) -> Operator:
    """Global limits have a void key, session windows without other keys only their start."""
    stores = (
        StoreInfo("default", struct(""), struct("a long")),
        StoreInfo("limit", struct("key void"), struct("count long")),
        StoreInfo("session", struct("sessionStartTime timestamp"), struct("a long")),
    )
    return changed(operator, stores=stores)


ALWAYS_NULLABLE = "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled"
BASE = saved_query(saved())
OTHER = saved_query(key="other")
CASES: dict[
    str, tuple[NewOperator, SavedOperator | None, SavedQueryFacts | None, int | None, str]
] = {
    "the same": (starting(), saved(), BASE, None, "as-is same-state"),
    "nothing saved": (starting(), None, BASE, None, "new no-state"),
    "another ordinal": (starting(ordinal=2), saved(), BASE, None, "renumbered other-ordinal"),
    "another query": (starting(), saved(query="p"), BASE, None, "renumbered other-query"),
    "no base": (starting(), saved(), None, None, "renumbered other-ordinal"),
    "another kind": (
        changed(starting(), kind=DEDUP),
        saved(),
        BASE,
        None,
        "incompatible other-kind",
    ),
    "kind not known": (starting(), changed(saved(), kind=None), BASE, None, "as-is same-state"),
    "other sum": (
        starting("a long", "sum(w)"),
        saved(),
        BASE,
        None,
        "migrate column-replaced",
    ),
    "sum added": (
        starting("a long, b long", "sum(v)", "sum(w)"),
        saved(),
        BASE,
        None,
        "migrate column-added",
    ),
    "as many partitions": (starting(), saved(), BASE, 2, "as-is same-state"),
    "more partitions": (starting(), saved(), BASE, 4, "rescale partitions-changed"),
    "one partition of keys": (
        starting(),
        changed(saved(), partitions=1),
        BASE,
        4,
        "rescale partitions-changed",
    ),
    "one partition without keys is nobody's choice": (
        without_keys(starting()),
        without_keys(changed(saved(), partitions=1)),
        BASE,
        4,
        "as-is same-state",
    ),
    "rewritten for another Spark": (
        starting(),
        replace(saved(), rewritten="rewritten for Spark 3.5.9: something"),
        BASE,
        4,
        "migrate spark-version",
    ),
    "what cannot be comes before that": (
        starting("a string"),
        replace(saved(), rewritten="rewritten for Spark 3.5.9: something"),
        BASE,
        None,
        "incompatible type-changed",
    ),
    "migrating comes before rescaling": (
        starting("a double"),
        saved(),
        BASE,
        4,
        "migrate type-widened",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: str) -> None:
    operator, taken, base, partitions, expected = CASES[case]
    plan = judge_operator(operator, taken, base, partitions)
    assert f"{plan.verdict.value} {plan.reason}" == expected
    assert plan.taken is taken
    refused = plan.verdict in (
        StateVerdict.INCOMPATIBLE,
        StateVerdict.MIGRATE,
        StateVerdict.RESCALE,
    )
    assert bool(plan.advice) == refused
    assert (refuse([plan]) is not None) == refused


def test_a_refusal_names_every_operator_that_is_stuck_and_why() -> None:
    plans = [
        judge_operator(starting(), saved(), BASE),
        judge_operator(starting("a string"), saved(), BASE),
        judge_operator(starting("a double"), saved(), BASE),
    ]
    error = refuse(plans)
    assert error is not None
    assert error.data["reasons"] == ["type-changed", "type-widened"]
    assert "`sum(v)` was long and is now string" in error.message
    assert "the state must be rewritten" in error.message
    assert error.hint == plans[1].advice


def test_what_an_executor_can_carry_out_is_not_refused() -> None:
    def plans(*verdicts: StateVerdict) -> list[OperatorJudgement]:
        return [OperatorJudgement(starting(), v, saved(), evolution={}) for v in verdicts]

    both = plans(StateVerdict.MIGRATE, StateVerdict.RESCALE)
    assert refuse(both, {StateVerdict.MIGRATE, StateVerdict.RESCALE}) is None
    error = refuse(both, {StateVerdict.MIGRATE})
    assert error is not None
    assert "rescaled" in error.message
    assert refuse(plans(StateVerdict.INCOMPATIBLE), set(StateVerdict)) is not None
    assert refuse(plans(StateVerdict.NEW, StateVerdict.DROPPED, StateVerdict.RENUMBERED)) is None


def test_state_whose_columns_are_not_known_is_not_rewritten() -> None:
    """Two sums are both called `sum` in the state of an aggregation: names say too little there."""
    nobodys = changed(saved(), meaning=None)
    for taken, why in (
        (nobodys, "a savepoint of the unchanged program, taken with this flinkish, records it"),
        (
            replace(saved(), rewritten="for Spark 3.5.9", regrouped=True),
            "first restore the unchanged program",
        ),
    ):
        error = refuse([judge_operator(starting("a double"), taken, BASE)], FOR_THE_ENGINE)
        assert error is not None
        assert why in error.message


def test_what_old_keys_will_lack_needs_the_consent_of_the_operator() -> None:
    more = starting("a long, b long", "sum(v)", "sum(w)")
    plans = [judge_operator(starting(), saved(), BASE), judge_operator(more, saved(), BASE)]
    assert refuse(plans, FOR_THE_ENGINE) is None
    error = ask(plans, ["another"])
    assert error is not None
    assert (error.code, error.data) == (5, {"uid": "agg", "reasons": ["column-added"]})
    assert "`sum(w)` starts at the restore for existing keys" in error.message
    assert error.hint is not None
    assert error.hint.startswith("agree with --accept-partial agg, or ")
    assert advice_for(plans[1], FOR_THE_ENGINE) == error.hint
    for name in ("agg", more.name, more.lookup_ids[0]):
        assert ask(plans, [name]) is None
        assert advice_for(plans[1], FOR_THE_ENGINE, [name]) == ""
    fewer = judge_operator(starting(), saved("a long, b long", "sum(v)", "sum(w)"), BASE)
    assert (fewer.verdict, ask([fewer], ())) == (StateVerdict.MIGRATE, None)


def test_a_rewrite_for_another_spark_is_carried_out_for_any_operator() -> None:
    """Its program keeps the same state."""
    taken = replace(saved(), rewritten="rewritten for Spark 3.5.9: something")
    plan = judge_operator(starting(), taken, BASE)
    assert refuse([plan], FOR_THE_ENGINE) is None
    assert advice_for(plan, FOR_THE_ENGINE) == ""
    error = refuse([plan])
    assert error is not None
    assert "rewritten for Spark 3.5.9: something" in error.message
    assert "install flinkish[engine]" in error.hint


def test_state_evolves_in_the_pass_that_rewrites_it_for_another_spark() -> None:
    taken = replace(saved(), rewritten="rewritten for Spark 3.5.9: something")
    plan = judge_operator(starting("a double"), taken, BASE)
    assert (plan.verdict, plan.reason) == (StateVerdict.MIGRATE, "type-widened")
    assert plan.evolution is not None
    assert plan.text.endswith("; rewritten for Spark 3.5.9: something")
    assert refuse([plan], FOR_THE_ENGINE) is None


@pytest.mark.parametrize(
    ("value", "pinned", "refused"),
    [
        ("a long", None, False),  # of 4.3, gone on with on an older Spark, and back
        ("a long", "true", False),
        ("a long", "false", False),
        ("a long, b long!", None, True),
        ("a long, b long!", "true", False),
    ],
)
def test_what_may_be_null_is_asked_of_schemas_that_tell_it(
    value: str, pinned: str | None, refused: bool
) -> None:
    names = ["count(1)", "count(v)"][: value.count("long")]
    pins = {} if pinned is None else {ALWAYS_NULLABLE: pinned}
    taken = saved(value, *names)
    program = starting(value.replace("a long", "a long!"), *names)
    plan = judge_operator(program, taken, replace(saved_query(taken), pins=pins))
    assert (plan.reason == "nullability-narrowed") == refused
    assert (plan.verdict is StateVerdict.AS_IS) != refused


def test_a_wider_nullability_needs_a_new_schema_only_where_spark_writes_one() -> None:
    """Formats that keep schemas by version (join format 3 on, transformWithState) do not."""
    strict = {"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": False}]}
    wide = {"type": "struct", "fields": [{"name": "k", "type": "long", "nullable": True}]}

    def plan(kind: str, version: str) -> OperatorJudgement:
        saved = changed(old("x", kind=kind), stores=(StoreInfo("default", strict, strict),))
        program = changed(new("x", kind=kind), stores=(StoreInfo("default", wide, wide),))
        pins = {"spark.sql.streaming.join.stateFormatVersion": version}
        return judge_operator(program, saved, replace(saved_query(saved), pins=pins))

    for kind, version in ((AGG, "3"), ("symmetricHashJoin", "2")):
        found = plan(kind, version)
        assert (found.verdict, found.new_schema) == (StateVerdict.AS_IS, True)
    for kind, version in (("transformWithStateExec", "2"), ("symmetricHashJoin", "3")):
        assert plan(kind, version).verdict is StateVerdict.MIGRATE
    refused = refuse([plan("symmetricHashJoin", "3")], frozenset(StateVerdict))
    assert refused is not None
    assert (
        "a savepoint of the unchanged program, taken with this flinkish, records it"
        in refused.message
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("transformWithStateInPandasExec", "n long"),  # nothing else changes
        ("applyInPandasWithState", "n long, m long"),
    ],
)
def test_a_key_that_may_be_null_gets_its_schema_where_the_state_is_rewritten(
    kind: str, value: str
) -> None:
    strict = StoreInfo("default", struct("k long!"), struct("n long"))
    wide = StoreInfo("default", struct("k long"), struct(value))
    taken = changed(old("x", kind=kind), stores=(strict,))
    plan = judge_operator(changed(new("x", kind=kind), stores=(wide,)), taken, saved_query(taken))
    assert plan.verdict is StateVerdict.MIGRATE
    assert plan.evolution is not None
    evolved = plan.evolution["default"]
    assert (evolved.key, evolved.key_places) == (struct("k long"), (0,))
    assert evolved.value == (struct(value) if value != "n long" else None)
