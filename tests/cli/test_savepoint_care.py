"""``savepoint list|show|diff|verify|prune|import|unlock`` on savepoints that lie on storage."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest

from flinkish.cli import command_index
from flinkish.cli.commands.savepoint_show import _kafka
from flinkish.errors import SavepointNotFound
from flinkish.messages.codec import encode_fields
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import QueryRow, RestorePlan
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import (
    RequestResult,
    SavedQuery,
    SavepointArguments,
    SavepointSummary,
)
from flinkish.messages.results import PartitionOffset
from flinkish.registry.jobs import JobRecord, JobState, RequestKind
from flinkish.registry.liveness import process_ref
from flinkish.savepoint.directory.leases import Kind, Lease
from tests.cli.conftest import ROOT, Command
from tests.support.savepoint.small_savepoints import JOB_ID, make_savepoint
from tests.support.servers.kafka import KafkaServer
from tests.support.terminal import answer

OTHER = "fedcba9876543210" * 2
WORDS = sorted(command_index.SUB_WORDS["savepoint"])
NOON = 1_768_464_000.0  # 2026-01-15T08:00:00Z


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "sp")


def damage(path: str) -> None:
    metadata = Path(path, "_metadata")
    metadata.write_bytes(metadata.read_bytes()[:60])


def unfinished(place: str, age: float = 7200) -> str:
    path = f"{place}/savepoint-012345-0123456789ab"
    os.makedirs(path)
    Path(path, "file").write_bytes(b"12345")
    for each in (f"{path}/file", path):
        os.utime(each, (time.time() - age,) * 2)
    return path


def add_job(cli: Command, restore: RestoreSpec | None = None, job_id: str = JOB_ID) -> None:
    """A running job (its driver is this process)."""
    cli.ok("list")
    with cli.registry() as registry:
        registry.add_job(
            JobRecord(
                job_id=job_id,
                name="job",
                state=JobState.INITIALIZING,
                start_time=time.time(),
                launch=Launch(application="/a.py", restore=restore),
                supervisor=process_ref(),
            )
        )


def end_job(cli: Command, job_id: str = JOB_ID) -> None:
    with cli.registry() as registry:
        registry.transition(job_id, JobState.FAILED, "over")


# list


def test_list(cli: Command, place: str) -> None:
    old, new = make_savepoint(place, NOON - 60), make_savepoint(place, NOON, job_id=OTHER)
    rows = cli.ok("savepoint", "list", place, "--json").json()["savepoints"]
    assert [row["path"] for row in rows] == [new, old]
    assert {
        "job_id": OTHER,
        "job_name": "job",
        "created": "2026-01-15T08:00:00.000Z",
        "trigger": "savepoint",
        "spark_version": "4.3.0",
        "queries": [{"name": "counts", "batch_id": 4}],
        "bytes": 10,
        "files": 1,
        "state": "complete",
        "error": None,
    }.items() <= rows[0].items()
    text = cli.ok("savepoint", "list", place).out.splitlines()
    assert text[0].split() == [
        *("CREATED", "(UTC)", "JOB", "NAME", "BY", "SPARK", "QUERIES", "SIZE", "STATE", "PATH")
    ]
    assert text[1].split() == [
        *("2026-01-15", "08:00:00", "fedcba", "job", "savepoint", "4.3.0"),
        *("counts", "at", "4", "10", "B", "complete", new),
    ]
    assert cli.ok("savepoint", "list", place, "-q").out.splitlines() == [new, old]


def test_list_shows_what_is_damaged_and_counts_what_is_unfinished(cli: Command, place: str) -> None:
    good, bad = make_savepoint(place, 1), make_savepoint(place, 2)
    damage(bad)
    unfinished(place)
    # Its files are not read, which would take long on remote storage.
    Path(good, "0-counts/metadata").write_bytes(b"other text")
    result = cli.ok("savepoint", "list", place)
    assert [line.split()[-2:] for line in result.out.splitlines()[1:]] == [
        ["complete", good],
        ["damaged", bad],
    ]
    assert "is damaged" in result.err
    assert "1 unfinished" in result.err
    assert "prune --garbage" in result.err
    rows = cli.ok("savepoint", "list", place, "--json").json()["savepoints"]
    assert rows[1]["error"]["id"] == "corrupt"
    assert cli.ok("savepoint", "list", place, "-q").out == good + "\n"


def test_list_tells_what_cannot_be_read_from_what_is_damaged(
    cli: Command, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, secret = make_savepoint(place, 2), make_savepoint(place, 1)
    opened = os.open

    def refuse(path: Any, *rest: Any, **options: Any) -> int:
        if str(path).startswith(secret):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, *rest, **options)

    monkeypatch.setattr(os, "open", refuse)
    rows = cli.ok("savepoint", "list", place, "--json").json()["savepoints"]
    assert [(row["path"], row["state"]) for row in rows] == [
        (good, "complete"),
        (secret, "unreadable"),
    ]


def test_list_tells_what_is_not_whole_a_link_and_a_time_in_the_future(
    cli: Command, place: str
) -> None:
    wrong, good, bare = make_savepoint(place, 4e9), make_savepoint(place, 1), f"{place}/bare"
    os.makedirs(bare)
    shutil.copy(f"{good}/_metadata", bare)
    os.symlink(os.path.basename(good), f"{place}/latest")
    os.utime(f"{wrong}/_metadata", (0, 0))  # the file's time is unknown
    result = cli.ok("savepoint", "list", place)
    assert [line.split()[-2:] for line in result.out.splitlines()[1:]] == [
        ["damaged", bare],
        ["->", good],
        ["complete", good],
        ["complete", wrong],
    ]
    assert f"{bare}: the savepoint {bare} is damaged: 0-counts/metadata is missing" in result.err
    assert f"warning: {wrong} is dated 2096-10-02T07:06:40.000Z" in result.err
    rows = cli.ok("savepoint", "list", place, "--json").json()["savepoints"]
    assert [(row["state"], row["leads_to"]) for row in rows] == [
        ("damaged", None),
        ("link", good),
        ("complete", None),
        ("complete", None),
    ]
    assert cli.ok("savepoint", "list", place, "-q").out.splitlines() == [good, wrong]


def test_list_of_the_configured_directory_and_of_the_registry(
    cli: Command, place: str, tmp_path: Path
) -> None:
    path = make_savepoint(place, NOON)
    key = f"-Dexecution.checkpointing.savepoint-dir={place}"
    assert cli.ok("savepoint", "list", "-q", key).out == path + "\n"
    assert cli.ok("savepoint", "list", "-q").out == ""
    cli.ok("savepoint", "import", path)
    gone = str(tmp_path / "gone")
    with cli.registry() as registry:
        queries = (SavedQuery("q", 3, "id"),)
        registry.add_savepoint(
            SavepointSummary(gone, OTHER, NOON + 1, "native", 7, 2, 0.1, queries)
        )
    rows = cli.ok("savepoint", "list", "--json").json()["savepoints"]
    assert [(row["path"], row["state"], row["bytes"]) for row in rows] == [
        (gone, "missing", 7),
        (path, "complete", 10),
    ]
    assert rows[0]["queries"] == [{"name": "q", "batch_id": 3}]
    assert cli.ok("savepoint", "list", "--registry", "-q", key).out == path + "\n"
    assert cli("savepoint", "list", "--registry", place).code == 2


def test_list_of_nothing(cli: Command, tmp_path: Path) -> None:
    assert cli("savepoint", "list", str(tmp_path / "missing"), "--json").error()["code"] == 11
    assert "No savepoints in" in cli.ok("savepoint", "list", str(tmp_path)).err
    key = f"-Dexecution.checkpointing.savepoint-dir={tmp_path}/to-come"
    assert cli.ok("savepoint", "list", "--json", key).json()["savepoints"] == []


# show and diff


#: Two topics, as Spark writes them into the offset log.
KAFKA = '{"orders":{"1":2,"0":5},"clicks":{"0":1}}'


def test_show_has_kafka_offsets_by_partition(cli: Command, place: str) -> None:
    plain = make_savepoint(place, NOON)
    assert "PARTITION  OFFSET" not in cli.ok("savepoint", "show", plain).out
    path = make_savepoint(place, NOON, offsets=(KAFKA,))
    text = cli.ok("savepoint", "show", path).out
    assert [line.split() for line in text.splitlines() if line.startswith("  orders")] == [
        ["orders", "0", "5"],
        ["orders", "1", "2"],
    ]
    (query,) = cli.ok("savepoint", "show", path, "--json").json()["savepoint"]["queries"]
    assert [(each["topic"], each["partition"], each["offset"]) for each in query["kafka"]] == [
        ("clicks", 0, 1),
        ("orders", 0, 5),
        ("orders", 1, 2),
    ]
    twice = make_savepoint(
        place, NOON, offsets=(KAFKA, KAFKA), source=[{"signature": "kafka[a]"}, {"uid": "in"}]
    )
    assert "1       2  kafka[a]" in cli.ok("savepoint", "show", twice).out


def test_lag_needs_a_broker_and_a_position(cli: Command, place: str) -> None:
    path = make_savepoint(place, NOON, offsets=(KAFKA,))
    for words in (["--lag"], ["--bootstrap-server", "h:1"]):
        refused = cli("savepoint", "show", path, *words)
        assert refused.code == 2
        assert "--lag --bootstrap-server HOST:PORT" in refused.err
    both = ("--lag", "--bootstrap-server", "no port:x")
    assert cli("savepoint", "show", make_savepoint(place, NOON), *both).code == 2
    refused = cli("savepoint", "show", path, *both, "--json")
    assert (refused.code, refused.out) == (16, "")
    assert '"id": "broker"' in refused.err


@pytest.mark.parametrize(
    ("lag", "note", "says"),
    [
        (1, "", "lag        5 rows at most"),
        (None, "not on the broker", "lag        4 rows at most, without 1 partition whose lag"),
        (None, "beyond the end", "lag        4 rows at most, without 1 partition whose lag"),
    ],
)
def test_the_sum_of_lags_names_what_it_leaves_out(lag: int | None, note: str, says: str) -> None:
    partitions = (
        PartitionOffset(0, None, "orders", 0, 5, begin=0, end=9, lag=4),
        PartitionOffset(0, None, "orders", 1, 2, lag=lag, note=note),
    )
    *_, line = _kafka([encode_fields(each) for each in partitions])
    assert line.strip().removesuffix(" is unknown") == says


@pytest.mark.servers
def test_lag_is_what_the_broker_has_behind_the_offsets(
    cli: Command, place: str, kafka: KafkaServer
) -> None:
    kafka.make_topic("lag-orders", 2)
    kafka.write("lag-orders", 0, [(1_000 + n, b"row") for n in range(9)])
    offsets = '{"lag-orders":{"0":5},"lag-gone":{"0":1}}'
    path = make_savepoint(place, NOON, offsets=(offsets,))
    words = ("savepoint", "show", path, "--lag", "--bootstrap-server", kafka.bootstrap)
    lines = [line.split() for line in cli.ok(*words).out.splitlines()]
    assert ["lag-gone", "0", "1", "-", "-", "-", "not", "on", "the", "broker"] in lines
    assert ["lag-orders", "0", "5", "0", "9", "4"] in lines
    assert ["lag-orders", "1", "-", "0", "0", "0", "new"] in lines
    assert ["lag", "4", "rows", "at", "most,", "without"] in [line[:6] for line in lines]
    (query,) = cli.ok(*words, "--json").json()["savepoint"]["queries"]
    assert [each["lag"] for each in query["kafka"]] == [None, 4, 0]


def test_show_says_what_is_shared(cli: Command, place: str) -> None:
    holder = make_savepoint(place, 1)
    name = os.path.basename(holder)
    path = make_savepoint(place, 2, held=f"{name}/0-counts/metadata")
    document = cli.ok("savepoint", "show", path, "--json").json()["savepoint"]
    assert {
        "relocatable": False,
        "holders": [name],
        "own_bytes": 0,
        "shared_bytes": 10,
        "bytes": 10,
        "program": None,
        "restored_from": None,
    }.items() <= document.items()
    text = cli.ok("savepoint", "show", path).out
    assert f"relocatable  no (shares files with {name})" in text
    assert "10 B: 0 B own, 10 B shared" in text
    assert "relocatable  yes" in cli.ok("savepoint", "show", holder).out


def test_diff(cli: Command, place: str) -> None:
    a, b = make_savepoint(place, NOON), make_savepoint(place, NOON + 1, job_id=OTHER)
    document = cli.ok("savepoint", "diff", a, b, "--json").json()
    assert (document["a"], document["b"], document["equal"]) == (a, b, False)
    assert [fact["name"] for fact in document["header"]] == ["job_id", "created"]
    text = cli.ok("savepoint", "diff", a, b).out
    assert f"a  {a}" in text
    assert "query counts: same" in text
    assert OTHER in text
    assert cli.ok("savepoint", "diff", a, b, "-q").out == "different\n"
    assert cli("savepoint", "diff", "--exit-code", a, b).code == 1
    shutil.copytree(a, f"{place}/copy")
    assert "no differences" in cli.ok("savepoint", "diff", "--exit-code", a, f"{place}/copy").out
    assert cli("savepoint", "diff", a, place, "--json").error()["code"] == 11


# verify


def test_verify(cli: Command, place: str) -> None:
    good, bad = make_savepoint(place, 1), make_savepoint(place, 2)
    assert "is intact: 1 file, 10 B (full)" in cli.ok("savepoint", "verify", good).out
    file = Path(bad, "0-counts/metadata")
    file.write_bytes(b"012345678?")
    assert cli.ok("savepoint", "verify", "--level", "quick", bad, "-q").out == bad + "\n"
    result = cli("savepoint", "verify", bad)
    assert result.code == 15
    assert "0-counts/metadata does not have its recorded digest" in result.err
    result = cli("savepoint", "verify", good, bad, f"{place}/none", "--json")
    assert result.code == 15
    whole, damaged, missing = result.json()["savepoints"]
    assert whole["ok"]
    assert damaged["bad"] == [
        {"path": "0-counts/metadata", "reason": "does not have its recorded digest"}
    ]
    assert missing["error"]["id"] == "savepoint-not-found"
    assert '"code": 15' in result.err


def test_verify_of_several_with_one_missing_is_partial(cli: Command, place: str) -> None:
    good = make_savepoint(place, 1)
    assert cli("savepoint", "verify", f"{place}/none").code == 11
    assert cli("savepoint", "verify", good, f"{place}/none").code == 3
    Path(good, "mine.txt").touch()
    assert (
        "1 file not belonging to the savepoint: mine.txt" in cli.ok("savepoint", "verify", good).err
    )


# import


def test_import(cli: Command, place: str) -> None:
    first, second = make_savepoint(place, 1), make_savepoint(place, 2, job_id=OTHER)
    assert cli.ok("savepoint", "import", first).out.startswith("Imported 1 savepoint; 0 already")
    document = cli.ok("savepoint", "import", place, first, "--json").json()
    assert document["new"] == 1
    assert {(s["path"], s["new"]) for s in document["savepoints"]} == {
        (first, False),
        (second, True),
    }
    assert cli.ok("savepoint", "import", place, "-q").out == ""
    with cli.registry() as registry:
        records = registry.savepoints()
        assert [record.path for record in records] == [first, second]
        assert records[1].job_id == OTHER
        assert records[1].queries[0].batch_id == 4
        registry.mark_disposed(first)
    assert cli.ok("savepoint", "import", place, "-q").out == first + "\n"


def test_import_takes_a_savepoint_once_whatever_leads_to_it(
    cli: Command, place: str, tmp_path: Path
) -> None:
    path = make_savepoint(place, 1)
    os.symlink(path, f"{place}/latest")
    os.symlink(place, tmp_path / "way")
    assert cli.ok("savepoint", "import", f"{place}/latest", "-q").out == path + "\n"
    again = cli.ok("savepoint", "import", place, f"{tmp_path}/way", "--json").json()
    assert again["new"] == 0
    # The registry is told what is gone, by whatever path that was removed.
    make_savepoint(place, 2)
    os.unlink(f"{place}/latest")
    cli.ok("savepoint", "prune", f"{tmp_path}/way", "--keep-last", "1", "--yes")
    with cli.registry() as registry:
        assert registry.savepoints() == []


def test_import_of_what_cannot_be_read(cli: Command, place: str, tmp_path: Path) -> None:
    good, bad = make_savepoint(place, 1), make_savepoint(place, 2)
    damage(bad)
    result = cli("savepoint", "import", place, "--json")
    assert result.code == 3
    assert result.json()["failed"][0]["path"] == bad
    assert result.json()["new"] == 1
    assert cli("savepoint", "import", bad).code == 15
    assert cli("savepoint", "import", str(tmp_path / "missing")).code == 11
    both = cli("savepoint", "import", bad, str(tmp_path / "missing")).err
    assert f"2 paths could not be imported; the first: {bad} could not be imported: " in both
    assert cli.ok("savepoint", "list", "-q").out == good + "\n"


# prune


def test_prune(cli: Command, place: str) -> None:
    paths = [make_savepoint(place, NOON + n) for n in range(3)]
    cli.ok("savepoint", "import", place)
    planned = cli.ok("savepoint", "prune", place, "--keep-last", "1", "--dry-run", "--json").json()
    assert [(s["path"], s["keep"], s["removed"]) for s in planned["savepoints"]] == [
        (paths[2], True, False),
        (paths[1], False, False),
        (paths[0], False, False),
    ]
    assert planned["savepoints"][0]["reasons"] == ["newest", "last 1"]
    refused = cli("savepoint", "prune", place, "--keep-last", "1", "--json")
    assert refused.error()["id"] == "consent-needed"
    assert len(os.listdir(place)) == 3
    result = cli.ok("savepoint", "prune", place, "--keep-daily", "1", "--yes")
    assert "kept: newest, daily 2026-01-15 UTC" in result.out
    assert [line.split()[0] for line in result.out.splitlines()[1:]] == [
        *("keep", "removed", "removed")
    ]
    assert os.listdir(place) == [os.path.basename(paths[2])]
    with cli.registry() as registry:
        assert [record.path for record in registry.savepoints()] == [paths[2]]
    # Nothing to do needs no agreement.
    assert cli.ok("savepoint", "prune", place, "--keep-last", "1", "-q").out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "policy is empty"),
        (["--keep-last", "1", "--retain", "3"], "--keep-last and --retain: 1, 3"),
        (["--keep-within", "1d", "--max-age", "7d"], "--keep-within and --max-age: 1d, 7d"),
        (["--keep-last", "0"], "0 is not in the range"),
        (["--keep-within", "soon"], "--keep-within: 'soon' is not a duration"),
        (["--keep-within", "7"], "--keep-within: '7' has no unit"),
        (["--keep-within", "1m"], "--keep-within: '1m' may be minutes or months"),
        (["--max-age", "7 M "], "--keep-within: '7 M ' may be minutes or months"),
        (["--max-age", " 7.5 "], "--keep-within: ' 7.5 ' has no unit"),
    ],
)
def test_prune_by_no_policy_is_refused(
    cli: Command, place: str, words: list[str], message: str
) -> None:
    make_savepoint(place, 1)
    error = cli("savepoint", "prune", "--yes", "--json", place, *words).error()
    assert error["code"] == 2
    assert message in error["message"]


def test_prune_leaves_what_a_running_job_was_restored_from(cli: Command, place: str) -> None:
    old, _new = make_savepoint(place, 1), make_savepoint(place, 2)
    add_job(cli, RestoreSpec(old), OTHER)
    prune = ("savepoint", "prune", place, "--keep-last", "1", "--yes", "--json")

    def kept() -> dict[str, Any]:
        return {s["path"]: s["reasons"] for s in cli.ok(*prune).json()["savepoints"]}

    why = "job job (fedcba) was restored from it and has no commit of its own yet"
    assert kept()[old] == [why], "no query has started yet"
    plan = RestorePlan(queries=(QueryRow("counts", from_batch=4, batch_id=6),))
    status = QueryStatus("counts", "id", "run", "/c", batch_id=6, plan=plan)
    with cli.registry() as registry:
        registry.heartbeat(OTHER, [status])
    assert kept()[old] == [why], "it stands where it was restored to"
    with cli.registry() as registry:
        registry.heartbeat(OTHER, [QueryStatus("counts", "id", "run", "/c", batch_id=7, plan=plan)])
    assert kept()[old] == []
    assert not os.path.exists(old)
    end_job(cli, OTHER)


def test_what_a_job_never_began_with_is_not_disposed_of_without_a_word(
    cli: Command, place: str
) -> None:
    savepoint = make_savepoint(place, 1)
    add_job(cli, RestoreSpec(savepoint), OTHER)
    end_job(cli, OTHER)
    why = "job job (fedcba) ended before it had started from it"
    assert why in cli("savepoint", "-d", savepoint).err
    assert os.path.exists(savepoint)
    assert why in cli.ok("savepoint", "-d", savepoint, "--yes").err
    assert not os.path.exists(savepoint)


def test_prune_forgets_a_job_that_is_over(cli: Command, place: str) -> None:
    old, _new = make_savepoint(place, 1), make_savepoint(place, 2)
    add_job(cli, RestoreSpec(old), OTHER)
    with cli.registry() as registry:
        registry.transition(OTHER, JobState.CREATED)
        registry.transition(OTHER, JobState.RUNNING)
    end_job(cli, OTHER)
    cli.ok("savepoint", "prune", place, "--keep-last", "1", "--yes")
    assert not os.path.exists(old)


def test_prune_garbage(cli: Command, place: str) -> None:
    good = make_savepoint(place, 1)
    left = unfinished(place)
    add_job(cli)
    with cli.registry() as registry:
        request = registry.submit(JOB_ID, RequestKind.SAVEPOINT, SavepointArguments(place))
    planned = cli.ok("savepoint", "prune", "--garbage", place, "--yes", "--json").json()
    assert planned["savepoints"] == []
    assert [(g["path"], g["reason"]) for g in planned["garbage"]] == [(left, "it is being written")]
    with cli.registry() as registry:
        registry.complete(request.request_id, RequestResult())
    assert cli("savepoint", "prune", "--garbage", place).code == 5
    assert os.path.exists(left)
    assert cli.ok("savepoint", "prune", "--garbage", place, "--yes", "-q").out == left + "\n"
    assert os.listdir(place) == [os.path.basename(good)]
    end_job(cli)


def test_prune_waits_for_no_writer(cli: Command, place: str) -> None:
    for n in range(2):
        make_savepoint(place, n)
    words = ("savepoint", "prune", place, "--keep-last", "1", "--yes", "--json")
    with Lease.take(place, Kind.WRITE, owner="me@elsewhere", job_id=OTHER):
        error = cli(*words).error()
    assert (error["id"], error["code"]) == ("locked", 12)
    assert "me@elsewhere" in error["message"]


def test_prune_of_what_is_not_there(cli: Command, tmp_path: Path, place: str) -> None:
    words = ("savepoint", "prune", "--keep-last", "1", "--yes")
    assert cli(*words, str(tmp_path / "missing")).code == 11
    assert not (tmp_path / "missing").exists()
    path = make_savepoint(place, 1)
    assert cli(*words, path).code == 2
    assert os.path.exists(path)


def test_prune_asks_on_a_terminal(cli: Command, place: str) -> None:
    for n in range(2):
        make_savepoint(place, n)
    command = [sys.executable, "-m", "flinkish", "savepoint", "prune", place, "--keep-last", "1"]
    question = r"Remove 1 savepoint \(10 B\) in .*\[y/N\] "
    for reply, code, count in (("n", 5, 2), ("y", 0, 1)):
        assert answer(command, {"PYTHONPATH": str(ROOT)}, question, reply) == code
        assert len(os.listdir(place)) == count


# unlock


def test_unlock(cli: Command, place: str) -> None:
    missing = cli("savepoint", "unlock", place)
    assert missing.code == SavepointNotFound.code
    assert f"directory {place} does not exist" in missing.err
    os.makedirs(place)
    assert "Nobody holds" in cli.ok("savepoint", "unlock", place).out
    assert cli("savepoint", "unlock", "--json").error()["id"] == "no-savepoint-directory"
    with Lease.take(place, Kind.WRITE, owner="me@h", job_id=JOB_ID) as lease:
        (row,) = cli.ok("savepoint", "unlock", place, "--json").json()["leases"]
        assert {
            "lease_id": lease.record.lease_id,
            "owner": "me@h",
            "pid": os.getpid(),
            "stale": False,
            "removed": False,
        }.items() <= row.items()
        assert "alive" in cli.ok("savepoint", "unlock", place).out
        assert cli("savepoint", "unlock", place, "--force").code == 5
        dry = cli.ok("savepoint", "unlock", place, "--force", "--dry-run")
        assert "would be removed" in dry.out
        assert os.listdir(f"{place}/_locks") == [lease.record.lease_id]
        gone = cli.ok("savepoint", "unlock", place, "--force", "--yes", "-q").out
        assert gone == lease.record.lease_id + "\n"
        assert not os.path.exists(f"{place}/_locks")


def test_unlock_removes_stale_ones_without_asking(cli: Command, place: str) -> None:
    import json

    os.makedirs(place)
    with Lease.take(place, Kind.WRITE, owner="me@h", job_id=JOB_ID) as lease:
        file = Path(place, "_locks", lease.record.lease_id)
        file.write_text(json.dumps({**json.loads(file.read_text()), "refreshed": 5.0}))
        os.utime(file, (5.0, 5.0))
        result = cli.ok("savepoint", "unlock", place)
        assert "stale" in result.out
        assert "removed" in result.out
        assert not file.exists()


def test_unlock_says_of_a_damaged_lock_how_to_remove_it_while_it_is_there(
    cli: Command, place: str
) -> None:
    os.makedirs(f"{place}/_locks")
    file = Path(place, "_locks", "some-file")
    file.write_text("no lock")
    for words in ([], ["-q"], ["--force", "--dry-run"]):
        (warning,) = cli.ok("savepoint", "unlock", place, *words).err.splitlines()
        assert "_locks/some-file is damaged" in warning, words
        assert f"flinkish savepoint unlock --force --yes {place}" in warning, words
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "500"}
    unlock = [sys.executable, "-m", "flinkish", "savepoint", "unlock", place, "--force"]
    question = r"Remove 1 lock of .* whose owners may be active \(the damaged some-file\)\?"
    assert answer(unlock, environment, question, "n") == 5
    gone = cli.ok("savepoint", "unlock", place, "--force", "--yes").err
    assert "is damaged" in gone
    assert "--force" not in gone


# all of them


@pytest.mark.parametrize("word", WORDS)
def test_help_and_common_options(cli: Command, word: str) -> None:
    text = cli.ok("savepoint", word, "--help").out
    assert f"Usage: flinkish savepoint {word}" in text
    assert "Exit codes: 0 ok, 1 failed, 2 usage" in " ".join(text.split())
    command = command_index.load(f"savepoint {word}")
    assert command is not None
    spellings = {s for p in command.params if isinstance(p, click.Option) for s in p.opts}
    assert {"-D", "--json", "-q", "--quiet", "--debug"} <= spellings


def test_the_words_are_completed(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def offered(line: str) -> set[str]:
        words = line.split(" ")
        monkeypatch.setenv("_FLINKISH_COMPLETE", "fish_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(words[:-1]))
        monkeypatch.setenv("COMP_CWORD", words[-1])
        rows = [row for row in cli().out.splitlines() if row]
        found = {row.split(",", 1)[1].split("\t")[0] for row in rows}
        monkeypatch.delenv("_FLINKISH_COMPLETE")
        return found

    assert offered("flinkish savepoint ") == set(WORDS)
    assert offered("flinkish savepoint ver") == {"verify"}
    assert offered("flinkish stop ver") == set()
    assert offered("flinkish savepoint verify --level ") == {"quick", "full", "deep"}
    assert "--keep-last" in offered("flinkish savepoint prune --keep-l")
