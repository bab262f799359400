"""What requests ask for and give, as documents that lie in a registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinkish.errors import RegistryError, UnsupportedFormat
from flinkish.messages.codec import encode
from flinkish.messages.launch import Launch
from flinkish.messages.requests import (
    Arguments,
    CancelArguments,
    LeftOut,
    RequestResult,
    SavedQuery,
    SavepointArguments,
    SavepointSummary,
)
from flinkish.registry import rows
from flinkish.registry.job_registry import Registry, new_job_id
from flinkish.registry.jobs import JobRecord, JobState, RequestKind, RequestState, arguments_for

SAVED = SavepointSummary(
    path="/sp/savepoint-ababab-0",
    job_id="j",
    created=1.5,
    format="native",
    bytes=10,
    files=2,
    duration=0.5,
    queries=(SavedQuery("q", 3, "qid"),),
    shared_files=0,
    moved_bytes=0,
)
#: Documents of version 1, without their version.
DOCUMENTS = [
    (
        "savepoint",
        '{"target":"/sp","format":"native","timeout":600.0,"full":false}',
        SavepointArguments("/sp", timeout=600.0),
    ),
    (
        "stop",
        '{"target":"s3://b/sp","format":"canonical","timeout":60.0,"full":true}',
        SavepointArguments("s3://b/sp", "canonical", 60.0, full=True),
    ),
    (
        "cancel",
        '{"target":"/sp","format":"native","timeout":600.0,"full":false}',
        CancelArguments("/sp", timeout=600.0),
    ),
    (
        "cancel",
        '{"target":null,"format":"native","timeout":600.0,"full":false}',
        CancelArguments(timeout=600.0),
    ),
    (
        "savepoint",
        '{"target":"/sp","format":"native","offline":true,"full":false}',
        SavepointArguments("/sp", offline=True),
    ),
]


def row(kind: str, arguments: str) -> dict[str, object]:
    values: dict[str, object] = dict.fromkeys(rows.REQUEST_COLUMNS.split(", "))
    return {**values, "kind": kind, "state": "PENDING", "created": 1.0, "arguments": arguments}


def of_version_1(document: str) -> str:
    return '{"version":1,' + document[1:]


@pytest.mark.parametrize(("kind", "document", "arguments"), DOCUMENTS)
def test_arguments_are_documents_of_version_1(
    kind: str, document: str, arguments: Arguments
) -> None:
    written = of_version_1(document)
    assert json.dumps(encode(arguments), separators=(",", ":")) == written
    assert rows.request_of(row(kind, written)).arguments == arguments


@pytest.mark.parametrize("kind", ["savepoint", "stop"])
def test_only_a_cancel_goes_without_a_target(kind: str) -> None:
    with pytest.raises(RegistryError, match="target is None, where text is"):
        rows.request_of(row(kind, '{"version":1,"target":null}'))
    assert rows.request_of(row("cancel", '{"version":1,"target":null}')).savepoint is None


def test_arguments_are_those_of_the_kind(tmp_path: Path) -> None:
    assert arguments_for(RequestKind.CANCEL, None) == CancelArguments()
    assert arguments_for(RequestKind.STOP, "/sp", full=True) == SavepointArguments("/sp", full=True)
    with Registry.open(str(tmp_path / "registry.db")) as registry:
        job = JobRecord(new_job_id(), "job", JobState.RUNNING, 1.0, Launch("/a.py"))
        registry.add_job(job)
        with pytest.raises(TypeError, match="a stop has no CancelArguments"):
            registry.submit(job.job_id, RequestKind.STOP, CancelArguments("/sp"))


def test_the_savepoint_of_a_cancel() -> None:
    cancel = CancelArguments("/sp", "canonical", 5.0, full=True)
    assert cancel.savepoint == SavepointArguments("/sp", "canonical", 5.0, full=True)


RESULTS = [
    (
        '{"savepoint":{"path":"/sp/savepoint-ababab-0","job_id":"j","created":1.5,'
        '"format":"native","bytes":10,"files":2,"duration":0.5,"queries":[{"name":"q",'
        '"batch_id":3,"query_id":"qid"}],"trigger":"savepoint","request_id":null,'
        '"disposed":null,"shared_files":0,"moved_bytes":0},"stop_method":"quiesce",'
        '"left_out":[{"query":"c4","reason":"it ended"}]}',
        RequestResult(SAVED, "quiesce", (LeftOut("c4", "it ended"),)),
    ),
    ('{"savepoint":null,"stop_method":"kill"}', RequestResult(stop_method="kill")),
]


@pytest.mark.parametrize(("document", "result"), RESULTS)
def test_results_are_documents_of_version_1(document: str, result: RequestResult) -> None:
    written = of_version_1(document)
    assert json.dumps(encode(result), separators=(",", ":")) == written
    arguments = of_version_1('{"target":"/sp"}')
    values = {**row("stop", arguments), "state": "COMPLETED", "result": written}
    assert rows.request_of(values).result == result


def test_a_request_of_a_newer_flinkish_fails_and_holds_up_no_other(tmp_path: Path) -> None:
    with Registry.open(str(tmp_path / "registry.db")) as registry:
        job = JobRecord(new_job_id(), "job", JobState.RUNNING, 1.0, Launch("/a.py"))
        registry.add_job(job)
        newer, ours = (
            registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
            for _ in range(2)
        )
        registry._database.write(
            lambda tx: tx.execute(
                "UPDATE flinkish_requests SET arguments = :a WHERE request_id = :id",
                a=json.dumps({"version": 2, "where": "/sp"}),
                id=newer.request_id,
            )
        )
        claimed = registry.claim(job.job_id)
        assert claimed is not None
        assert claimed.request_id == ours.request_id
        assert registry.claim(job.job_id) is None
        (state,) = registry._database.read(
            "SELECT state, error FROM flinkish_requests WHERE request_id = :id",
            {"id": newer.request_id},
        )
        assert state["state"] == RequestState.FAILED.value
        assert json.loads(state["error"])["id"] == UnsupportedFormat.id
