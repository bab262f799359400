"""What drivers tell of their queries, as documents that lie in a registry."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from flinkish.errors import RegistryError
from flinkish.messages.codec import decode, encode
from flinkish.messages.plan import RestorePlan
from flinkish.messages.queries import OperatorStatus, QueryFacts, QueryStatus
from flinkish.registry import rows

#: Documents of version 1.
STATUS_DOCUMENT = (
    '{"version":1,"name":"q","query_id":"id","run_id":"run","checkpoint_dir":"/cp",'
    '"active":true,"batch_id":3,"watermark":"w","input_rows_per_second":2.5,"processed_rows_per_second":null,"state_rows":4,'
    '"operators":[{"ordinal":0,"kind":"stateStoreSave","uid":"u","operator_id":"aa","rows":4}],'
    '"error":null,"notes":["n"],"plan":{"verdict":"ok","exit_code":0,"queries":[],'
    '"operators":[],"sources":[],"sinks":[],"pins":[],"checks":[]},"own_location":""}'
)
FACTS_DOCUMENT = (
    '{"version":1,"run_id":"run","sources":[{"uid":"lines"}],"sink":{"format":"parquet"},'
    '"operators":[{"ordinal":0}],"python_version":"3.11.9","problem":null}'
)
STATUS = QueryStatus(
    "q",
    "id",
    "run",
    "/cp",
    batch_id=3,
    watermark="w",
    input_rows_per_second=2.5,
    state_rows=4,
    operators=(OperatorStatus(0, "stateStoreSave", "u", "aa", 4),),
    notes=("n",),
    plan=RestorePlan(),
)
FACTS = QueryFacts("run", ({"uid": "lines"},), {"format": "parquet"}, ({"ordinal": 0},), "3.11.9")


@pytest.mark.parametrize(
    ("document", "written"), [(STATUS, STATUS_DOCUMENT), (FACTS, FACTS_DOCUMENT)]
)
def test_a_registry_has_documents_of_version_1(document: object, written: str) -> None:
    assert json.dumps(encode(document), separators=(",", ":")) == written
    assert decode(type(document), json.loads(written)) == document


def test_what_a_query_waits_for_comes_back() -> None:
    waiting = replace(STATUS, waits_for_input=True, trigger_interval=60.0)
    assert decode(QueryStatus, encode(waiting)) == waiting


def test_the_end_of_a_batch_is_written_when_there_is_one() -> None:
    ended = replace(STATUS, last_batch_end="2026-11-23T10:00:01.500Z")
    assert decode(QueryStatus, json.loads(json.dumps(encode(ended)))) == ended


def test_a_damaged_row_names_the_place() -> None:
    with pytest.raises(RegistryError, match=r"damaged row of a query: .*batch_id is "):
        rows.query_of({"status": STATUS_DOCUMENT.replace('"batch_id":3', '"batch_id":"3"')})
