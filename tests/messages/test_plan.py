"""The document of a restore plan: its keys in their order, and what is read of older ones."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from flinkish.errors import Corrupt
from flinkish.messages.codec import decode_fields, encode_fields
from flinkish.messages.plan import (
    Check,
    HistoryShift,
    KeptQueryId,
    Move,
    OperatorOrigin,
    OperatorRow,
    PinRow,
    QueryRow,
    Refusal,
    RestoreOutcome,
    RestorePlan,
    SinkRow,
    SourceOrigin,
    SourceRow,
    SparkLimitation,
    SparkVersions,
    StateChange,
    StateVerdict,
)

PLAN = RestorePlan(
    "consent-needed",
    5,
    queries=(
        QueryRow(
            "q",
            "consent-needed",
            origin="old",
            from_batch=3,
            batch_id=4,
            query_id=KeptQueryId(True, "goes on"),
            history=HistoryShift(0, True),
            writes={"format": "kafka", "path": None, "table": None},
            notes=("a note",),
            refusal=Refusal("no", "do", "consent-needed"),
        ),
    ),
    operators=(
        OperatorRow(
            *("q", "aggregate", "u", "aa", "stateStoreSave", 0, "migrate", False),
            *("added", "a text", "an advice", 120, 2048),
            origin=OperatorOrigin("old", 1, "u", 2),
            changes=(StateChange("default", StateVerdict.MIGRATE, "added", "a text"),),
        ),
    ),
    sources=(
        SourceRow(
            *("q", "in", "kafka[subscribe=a]", 0, "set", "set-offsets", "a text", "", None, 3),
            *('{"a":{"0":2}}', (Move("a", 0, 5, 2, repeated=3),)),
            origin=SourceOrigin("old", 0, '{"a":{"0":5}}'),
        ),
    ),
    sinks=(SinkRow("q", "delta", "/out", 9, 2, "rollback", "sink-ahead", "a text"),),
    pins=(PinRow("q", "spark.k", "a key", "1", "2", "pinned", "a text"),),
    checks=(
        Check("spark-version", RestoreOutcome.OK, "a text"),
        Check("kafka-sink", RestoreOutcome.WARNING, "a text", batches=None, query="q"),
    ),
)
#: As the driver of a job writes it into the registry.
DOCUMENT = (
    '{"verdict":"consent-needed","exit_code":5,"queries":[{"name":"q","verdict":"consent-needed",'
    '"from":"old","from_batch":3,"batch_id":4,"query_id":{"keep":true,"reason":"goes on"},'
    '"history":{"shift":0,"keep":true},"writes":{"format":"kafka","path":null,"table":null},'
    '"notes":["a note"],"refusal":{"message":"no","hint":"do","id":"consent-needed"}}],'
    '"operators":[{"query":"q","name":"aggregate","uid":"u","operator_id":"aa",'
    '"kind":"stateStoreSave","ordinal":0,"verdict":"migrate","executable":false,'
    '"reason":"added","text":"a text","advice":"an advice","rows":120,"bytes":2048,'
    '"from":{"query":"old","ordinal":1,"uid":"u","partitions":2},"changes":[{"store":"default",'
    '"verdict":"migrate","reason":"added","text":"a text","advice":"","partial":false}]}],'
    '"sources":[{"query":"q","uid":"in","signature":"kafka[subscribe=a]","entry":0,'
    '"verdict":"set","reason":"set-offsets","text":"a text","advice":"","lost_rows":null,'
    '"repeated_rows":3,"set_to":"{\\"a\\":{\\"0\\":2}}","moves":[{"topic":"a","partition":0,'
    '"before":5,"after":2,"skipped":0,"repeated":3}],'
    '"from":{"query":"old","entry":0,"offset":"{\\"a\\":{\\"0\\":5}}"}}],'
    '"sinks":[{"query":"q","format":"delta","path":"/out","newest_batch":9,"rollback_to":2,'
    '"verdict":"rollback","reason":"sink-ahead","text":"a text","advice":""}],'
    '"pins":[{"query":"q","key":"spark.k","name":"a key","pinned":"1","asked":"2",'
    '"verdict":"pinned","text":"a text","advice":""}],'
    '"checks":[{"id":"spark-version","outcome":"ok","text":"a text","advice":""},'
    '{"id":"kafka-sink","outcome":"warning","text":"a text","advice":"","batches":null,'
    '"query":"q"}]}'
)


def test_the_document_has_its_keys_in_their_order() -> None:
    assert json.dumps(encode_fields(PLAN), separators=(",", ":")) == DOCUMENT
    assert decode_fields(RestorePlan, json.loads(DOCUMENT)) == PLAN


@pytest.mark.parametrize(
    ("about", "head", "tail"),
    [
        ({"savepoint": "/sp"}, ["savepoint", "version"], ["complete"]),
        (
            {"savepoint": None, "job_id": "j", "name": "n", "state": "RUNNING"},
            ["savepoint", "version"],
            ["complete", "job_id", "name", "state"],
        ),
    ],
)
def test_what_a_check_adds(about: dict[str, str | None], head: list[str], tail: list[str]) -> None:
    versions = SparkVersions("4.0.0", None, "ok", (SparkLimitation("a", "b"),))
    plan = replace(PLAN, version=versions, complete=True, **about)  # type: ignore[arg-type]
    document = encode_fields(plan)
    parts = ["queries", "operators", "sources", "sinks", "pins", "checks"]
    assert list(document) == ["verdict", "exit_code", *head, *parts, *tail]
    assert document["version"] == {
        "from": "4.0.0",
        "to": None,
        "verdict": "ok",
        "limitations": [{"id": "a", "text": "b"}],
    }
    assert decode_fields(RestorePlan, json.loads(json.dumps(document))) == plan


def test_what_an_older_flinkish_did_not_write_has_its_default() -> None:
    older = {"queries": [{"name": "q", "from": "q", "from_batch": 3}]}
    plan = decode_fields(RestorePlan, older)
    assert plan == RestorePlan(queries=(QueryRow("q", origin="q", from_batch=3),))
    assert plan.query("q") == plan.queries[0]
    assert plan.query("r") is None


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        ({"verdict": "well"}, r"RestorePlan\.verdict"),
        ({"queries": [{"name": "q", "origin": "q"}]}, r"queries\[0\] has an unknown key 'origin'"),
        ({"operators": ["u"]}, r"RestorePlan\.operators\[0\]"),
        ({"sources": [{"query": "q", "from": {"entry": "0"}}]}, r"sources\[0\]\.from\.entry"),
    ],
)
def test_what_is_no_plan_is_refused(damage: dict[str, object], place: str) -> None:
    with pytest.raises(Corrupt, match=place):
        decode_fields(RestorePlan, damage)
