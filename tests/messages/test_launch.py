"""How a job is launched, as documents: those of today, and those that lie in a registry."""

from __future__ import annotations

import json

import pytest

from flinkish.errors import Corrupt, RegistryError, UnsupportedFormat
from flinkish.messages.codec import decode, encode
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import RestorePlan
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry import rows
from flinkish.registry.jobs import JobRecord, JobState

#: The first version of the document.
DOCUMENT = (
    '{"version":1,"application":"/jobs/app.py","arguments":["--date","2026-01-01"],"module":null,'
    '"master":"local[2]","spark_home":"/opt/spark","python":"python3","client_python":null,'
    '"py_files":["/jobs/a.zip"],"archives":[],"jars":[],"packages":[],'
    '"conf":{"spark.sql.shuffle.partitions":"5"},"secret_arguments":["******"],'
    '"options":{"client.timeout":"10 min"},"working_directory":"/jobs",'
    '"restore":{"path":"/sp/savepoint-1","options":{"allow_non_restored":true,'
    '"claim_mode":"claim","uid_map":[["a","b"]],"reset_sources":["flights"],'
    '"sink_ahead":"rebase"},"parallelism":5,"expected":{"verdict":"ok","exit_code":0,'
    '"queries":[],"operators":[],"sources":[],"sinks":[],"pins":[],"checks":[]}}}'
)
LAUNCH = Launch(
    "/jobs/app.py",
    arguments=("--date", "2026-01-01"),
    master="local[2]",
    spark_home="/opt/spark",
    python="python3",
    py_files=("/jobs/a.zip",),
    conf={"spark.sql.shuffle.partitions": "5"},
    options={"client.timeout": "10 min"},
    working_directory="/jobs",
    restore=RestoreSpec(
        "/sp/savepoint-1",
        RestoreOptions(
            allow_non_restored=True,
            claim_mode="claim",
            uid_map=(("a", "b"),),
            reset_sources=("flights",),
            sink_ahead="rebase",
        ),
        parallelism=5,
        expected=RestorePlan(),
    ),
    secret_arguments=("******",),
)
JOB = JobRecord("ab" * 16, "flights", JobState.RUNNING, 1.7e9, LAUNCH)


def row(launch: str) -> dict[str, object]:
    values = dict.fromkeys(rows.JOB_COLUMNS.split(", "))
    return {**values, **rows.job_values(JOB), "launch": launch}


def test_a_launch_comes_back_as_it_was() -> None:
    assert decode(Launch, json.loads(json.dumps(encode(LAUNCH)))) == LAUNCH
    assert rows.job_of(row(str(rows.job_values(JOB)["launch"]))) == JOB


def test_a_registry_has_a_document_of_version_1() -> None:
    assert json.dumps(encode(LAUNCH), separators=(",", ":")) == DOCUMENT
    assert rows.job_of(row(DOCUMENT)) == JOB


def test_a_launch_of_a_newer_flinkish_is_refused() -> None:
    newer = json.dumps({**json.loads(DOCUMENT), "version": 2, "new": 1})
    with pytest.raises(UnsupportedFormat, match="made by a newer flinkish"):
        rows.job_of(row(newer))


def test_a_damaged_row_names_the_place() -> None:
    damaged = DOCUMENT.replace('"claim_mode"', '"fork":"no","claim_mode"')
    with pytest.raises(RegistryError) as found:
        rows.job_of(row(damaged))
    assert found.value.message == (
        "the registry has a damaged row of a job: "
        "Launch.restore.options.fork is 'no', where true or false is expected"
    )


def test_a_restore_needs_its_path_and_nothing_else() -> None:
    assert decode(RestoreSpec, {"version": 1, "path": "/sp"}) == RestoreSpec("/sp")
    with pytest.raises(Corrupt, match="RestoreSpec lacks the key 'path'"):
        decode(RestoreSpec, {"version": 1, "options": {"fork": True}})


@pytest.mark.parametrize(
    ("application", "name"),
    [
        ("/jobs/app.py", "app"),
        ("/jobs/rides/spark-pipeline.yml", "rides"),
        ("/jobs/rides/spark-pipeline.yaml", "rides"),
        ("/jobs/rides/spark-pipeline.py", "spark-pipeline"),
        ("/jobs/rides/nightly.yml", "nightly"),
        ("/spark-pipeline.yml", "spark-pipeline"),
    ],
)
def test_a_job_is_called_like_its_program(application: str, name: str) -> None:
    assert Launch(application).default_name == name
