"""What becomes of typed state in a restore: the verdict, the columns, the next savepoint."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.errors import Corrupt, FlinkishError
from flinkish.messages.plan import StateVerdict
from flinkish.operators.state_semantics import StateSemantics
from flinkish.restore.plan.judging import FOR_THE_ENGINE, OperatorJudgement, judge_operator, refuse
from flinkish.restore.plan.state_evolution import StoreEvolution
from flinkish.restore.plan.typed_state import TypedStateRules, restored_meaning
from flinkish.state import AvroSerializer, TypeSerializer, serializer_of, write_snapshot
from flinkish.state.declared import to_text
from tests.restore.plan.test_schema_compatibility import struct
from tests.state.test_snapshots import frame
from tests.support.restore.query_builders import changed, new, old, saved_query

GROUP, TRANSFORM = "applyInPandasWithState", "transformWithStateInPySparkExec"
RULES = TypedStateRules(modules=("flinkish", "tests"))


@dataclass
class Stats:
    """A state."""

    n: int


@dataclass
class MoreStats:
    """The same with a field more."""

    n: int
    total: float = 0.0


LONG = serializer_of(int)
OLD = AvroSerializer('{"type": "record", "name": "S", "fields": [{"name": "n", "type": "int"}]}')
WIDE = AvroSerializer(
    '{"type": "record", "name": "S", "fields": [{"name": "n", "type": "double"}]}'
)
TEXT = AvroSerializer('{"type": "record", "name": "S", "fields": [{"name": "n", "type": "bytes"}]}')


def group(*names: str) -> tuple[StoreInfo, ...]:
    """The store of a function on groups, with a column for each state."""
    listed = [{"name": name, "type": "binary", "nullable": True, "metadata": {}} for name in names]
    state = {"type": "struct", "fields": listed}
    value = {
        "type": "struct",
        "fields": [{"name": "groupState", "type": state, "nullable": True, "metadata": {}}],
    }
    return (StoreInfo("default", struct("k string"), value),)


def variables(ttl: bool, *names: str) -> tuple[StoreInfo, ...]:
    """The column families of a processor."""
    value = struct("value binary")
    if ttl:
        nested = [{"name": "value", "type": value, "nullable": True, "metadata": {}}]
        value = {"type": "struct", "fields": [*nested, *struct("ttlExpirationMs long")["fields"]]}
    return tuple(
        StoreInfo(name, struct("k string"), value) for name in (*names, "$rowCounter_seen")
    )


def text(serializer: TypeSerializer[Any]) -> str:
    return to_text(write_snapshot(serializer.snapshot_configuration()))


def judge(
    before: Mapping[str, TypeSerializer[Any] | tuple[str, ...]],
    after: Mapping[str, TypeSerializer[Any]],
    kind: str = GROUP,
    *,
    eager: bool = True,
    ttl: bool = False,
) -> OperatorJudgement:
    def stores(names: Mapping[str, Any]) -> tuple[StoreInfo, ...]:
        columns = [name for name in names if "#" not in name]
        return group(*columns) if kind == GROUP else variables(ttl, *columns)

    snapshots = {
        name: each if isinstance(each, tuple) else (text(each),) for name, each in before.items()
    }
    saved = changed(
        old("per-key", 0, kind),
        stores=stores(before),
        meaning=StateSemantics(serializers=snapshots),
    )
    starting = changed(new("per-key", 0, kind), stores=stores(after), serializers=after)
    return judge_operator(starting, saved, saved_query(saved), rules=replace(RULES, is_eager=eager))


def test_a_state_of_the_same_type() -> None:
    found = judge({"stats": OLD}, {"stats": OLD})
    assert (found.verdict, found.changes) == (StateVerdict.AS_IS, ())
    assert found.typed["stats"].snapshots == (write_snapshot(OLD.snapshot_configuration()),)


@pytest.mark.parametrize(
    ("kind", "ttl", "store", "path"),
    [
        (GROUP, False, "default", ("groupState", "stats")),
        (TRANSFORM, False, "stats", ("value",)),
        (TRANSFORM, True, "stats", ("value", "value")),
    ],
)
def test_values_are_written_again_where_they_are(
    kind: str, ttl: bool, store: str, path: tuple[str, ...]
) -> None:
    found = judge({"stats": OLD, "n": LONG}, {"stats": WIDE, "n": LONG}, kind, ttl=ttl)
    assert found.verdict is StateVerdict.MIGRATE
    assert found.executable(FOR_THE_ENGINE)
    assert found.evolution is not None
    (rewrite,) = found.evolution[store].recodes.items()
    assert rewrite[0] == path
    assert rewrite[1](b"\0" + OLD.serialize({"n": 7})) == b"\0" + WIDE.serialize({"n": 7})
    assert set(found.evolution) == {store}


def test_without_the_engine_lazy_is_the_way_out() -> None:
    error = refuse([judge({"stats": OLD}, {"stats": WIDE})])
    assert error is not None
    assert "flinkish[engine]" in error.message
    assert "-D state.migration=lazy" in (error.hint or "")
    assert refuse([judge({"stats": OLD}, {"stats": WIDE}, eager=False)]) is None


def test_lazily_nothing_is_rewritten_and_both_snapshots_stay() -> None:
    found = judge({"stats": OLD}, {"stats": WIDE}, eager=False)
    assert found.verdict is StateVerdict.AS_IS
    assert [change.reason for change in found.changes] == ["typed-state-lazy"]
    meaning = StateSemantics(serializers={"stats": (text(WIDE),)})
    kept = restored_meaning(meaning, found.typed)
    assert kept.serializers == {"stats": (text(OLD), text(WIDE))}
    # The next restore, eager: both become one.
    again = judge(kept.serializers, {"stats": WIDE})
    assert again.verdict is StateVerdict.MIGRATE
    assert restored_meaning(meaning, again.typed).serializers == {"stats": (text(WIDE),)}


def test_a_change_of_type_names_field_state_and_operator() -> None:
    floats = AvroSerializer(
        '{"type": "record", "name": "S", "fields": [{"name": "n", "type": "float"}]}'
    )
    found = judge({"stats": floats}, {"stats": TEXT})
    assert found.verdict is StateVerdict.INCOMPATIBLE
    assert "the state stats of the operator per-key" in found.text
    assert "n: float -> bytes" in found.text
    error = refuse([found], FOR_THE_ENGINE)
    assert error is not None
    assert error.data["reasons"] == ["typed-state-incompatible"]


def test_a_class_that_is_another() -> None:
    found = judge({"stats": serializer_of(Stats)}, {"stats": serializer_of(MoreStats)})
    assert found.verdict is StateVerdict.INCOMPATIBLE
    assert "tests.restore.plan.test_typed_state:Stats" in found.text


def test_keys_of_a_map_stay_as_they_are() -> None:
    found = judge({"tens": LONG, "tens#key": OLD}, {"tens": LONG, "tens#key": WIDE}, TRANSFORM)
    assert found.verdict is StateVerdict.INCOMPATIBLE
    assert "the keys of the map would be written differently" in found.text
    assert "the state tens of the operator per-key" in found.text


def test_a_state_that_nobody_knows_the_bytes_of() -> None:
    starting = changed(new("per-key", 0, GROUP), stores=group("stats"), serializers={"stats": LONG})
    plain = changed(old("per-key", 0, GROUP), stores=group("stats"))
    judged = judge_operator(starting, plain, saved_query(plain), rules=RULES)
    assert judged.verdict is StateVerdict.INCOMPATIBLE
    assert judged.reason == "typed-state-unknown"


def test_a_state_that_is_new() -> None:
    found = judge({"stats": OLD}, {"stats": OLD, "n": LONG}, TRANSFORM)
    assert found.verdict is StateVerdict.AS_IS
    assert set(found.typed) == {"stats"}


#: Bad snapshots, the kind of error, and what it names.
MISSING = frame(name="tests.state.programs:Nowhere")
BAD: dict[str, tuple[bytes, type[FlinkishError] | None, str]] = {
    "bytes": (b"\x01\xff", Corrupt, "is damaged"),
    "version": (frame(version=9), None, "version 9"),
    "class": (MISSING, None, "no class Nowhere"),
    "module": (frame(name="os.path:Snapshot"), None, "os.path:Snapshot"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_snapshot_names_state_operator_and_class(case: str) -> None:
    data, kind, said = BAD[case]
    if kind is None:
        found = judge({"stats": (to_text(data),)}, {"stats": LONG})
        assert found.verdict is StateVerdict.INCOMPATIBLE
        message = found.text
    else:
        with pytest.raises(kind) as raised:
            judge({"stats": (to_text(data),)}, {"stats": LONG})
        message = raised.value.message
    assert said in message
    assert "the state stats of the operator per-key" in message


def test_no_base64() -> None:
    with pytest.raises(Corrupt, match="not base64"):
        judge({"stats": ("%",)}, {"stats": LONG})


def test_state_of_a_function_on_groups_in_state_format_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its columns are not in a column of their own."""

    def columns(*names: str) -> tuple[StoreInfo, ...]:
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in [*((name, "binary") for name in names), ("timeoutTimestamp", "long")]
        ]
        return (StoreInfo("default", struct("k string"), {"type": "struct", "fields": fields}),)

    monkeypatch.setattr(sys.modules[__name__], "group", columns)
    found = judge({"stats": OLD}, {"stats": WIDE})
    assert found.evolution is not None
    assert set(found.evolution["default"].recodes) == {("stats",)}


def test_rewriting_and_other_columns_at_once() -> None:
    """A state less: the column goes, and the other one is rewritten in the same pass."""
    found = judge({"gone": LONG, "stats": OLD}, {"stats": WIDE})
    assert found.verdict is StateVerdict.MIGRATE
    assert found.evolution is not None
    evolution = found.evolution["default"]
    assert isinstance(evolution, StoreEvolution)
    assert evolution.value == group("stats")[0].value_schema
    assert set(evolution.recodes) == {("groupState", "stats")}
