"""Tables of Iceberg: snapshots read as commits, and tables that real Sparks have written."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.connectors.iceberg import IcebergPosition
from flinkish.connectors.table_commits import TableCommit
from flinkish.driver.connectors import iceberg as iceberg_tables
from flinkish.driver.connectors.iceberg import IcebergTable, commit_of, is_path
from tests.support import venvs
from tests.support.driver import iceberg
from tests.support.servers import jars

PROGRAM = Path(iceberg.__file__).with_name("iceberg_program.py")


def snapshot(number: int, operation: str, **summary: str) -> dict[str, Any]:
    return {"snapshot-id": number, "summary": {"operation": operation, **summary}}


def test_a_batch_is_known_by_its_query_and_number() -> None:
    summary = {"spark.sql.streaming.queryId": "q", "spark.sql.streaming.epochId": "7"}
    assert commit_of(snapshot(5, "append", **summary)) == TableCommit(5, "append", "q", 7)
    assert commit_of(snapshot(6, "overwrite", **summary)) == TableCommit(6, "overwrite", "q", 7)


def test_only_replacing_files_keeps_the_rows() -> None:
    words = ("append", "delete", "overwrite", "replace")
    assert [commit_of(snapshot(1, w)).keeps_rows for w in words] == [False, False, False, True]


def test_a_snapshot_of_another_hand_is_read_with_care() -> None:
    assert commit_of({"snapshot-id": "9"}) == TableCommit(9, "unknown")
    odd = {"spark.sql.streaming.queryId": "q", "spark.sql.streaming.epochId": "-1"}
    assert commit_of(snapshot(3, "append", **odd)) == TableCommit(3, "append")


def test_what_replaces_all_rows() -> None:
    records = {"total-records": "5", "added-records": "5", "deleted-records": "9"}
    assert commit_of(snapshot(1, "overwrite", **records)).replaces_rows
    assert commit_of(snapshot(1, "delete", **{"total-records": "0"})).replaces_rows
    assert not commit_of(snapshot(1, "delete", **{"total-records": "1"})).replaces_rows
    assert not commit_of(snapshot(1, "append", **records)).replaces_rows


def test_what_has_a_slash_is_a_path() -> None:
    assert is_path("/a/b")
    assert is_path("s3a://bucket/t")
    assert not is_path("catalog.db.t")


def fake_session(snapshots: list[dict[str, Any]]) -> Any:
    """A session with one table, whose snapshots each continue the one before."""
    known = {each["snapshot-id"]: _Snapshot(each) for each in snapshots}
    for before, each in itertools.pairwise(snapshots):
        each["parent-snapshot-id"] = before["snapshot-id"]
    table = SimpleNamespace(
        name=lambda: "/out/t",
        uuid=lambda: "id",
        properties=dict,
        currentSnapshot=lambda: known[snapshots[-1]["snapshot-id"]],
        snapshot=known.get,
    )
    tables = SimpleNamespace(load=lambda place: table)
    packages = SimpleNamespace(
        SnapshotParser=SimpleNamespace(toJson=lambda snapshot: json.dumps(snapshot.record)),
        hadoop=SimpleNamespace(HadoopTables=lambda configuration: tables),
    )
    state = SimpleNamespace(newHadoopConf=lambda: None)
    return SimpleNamespace(
        _jvm=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(iceberg=packages))),
        _jsparkSession=SimpleNamespace(sessionState=lambda: state),
    )


@dataclass(frozen=True)
class _Snapshot:
    record: dict[str, Any]

    def snapshotId(self) -> int:
        return int(self.record["snapshot-id"])


def test_a_batch_or_a_position_before_many_commits_of_others_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(iceberg_tables, "_HISTORY", 3)
    own = {"spark.sql.streaming.queryId": "q", "spark.sql.streaming.epochId": "7"}
    others = [snapshot(number, "append", **{"added-records": "2"}) for number in range(2, 12)]
    table = IcebergTable(fake_session([snapshot(1, "append", **own), *others]), "/out/t")
    assert table.read("q").newest_batch == 7
    assert table.read("not yet").newest_batch is None
    answer = table.answer(IcebergPosition(1, 0), {})
    assert (answer.ancestor, answer.whole, len(answer.since)) == (True, True, 10)
    assert [commit.version for commit in table.history()] == [9, 10, 11]


@pytest.fixture(scope="module", params=["3.5.9", "4.0.5", "4.1.4"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the program has found, by step, on each Spark that Iceberg is there for."""
    spark = request.param
    directory = tmp_path_factory.mktemp(f"iceberg{spark}")
    try:
        python = venvs.interpreter(spark)
        given = iceberg.settings(spark, directory / "wh")
    except (venvs.Unavailable, jars.Unavailable) as error:
        pytest.skip(f"needs {error}")
    given |= {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    given |= {"spark.sql.shuffle.partitions": "2"}  # expiring snapshots shuffles twice
    words = [word for key, value in given.items() for word in ("--conf", f"{key}={value}")]
    environment = {
        **os.environ,
        "PYTHONPATH": str(venvs.CHECKOUT),
        "PYSPARK_SUBMIT_ARGS": " ".join(["--master local[2]", *words, "pyspark-shell"]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [python, str(PROGRAM), str(directory)],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    steps = [json.loads(line.removeprefix("FOUND ")) for line in lines]
    return {step["step"]: step for step in steps}


pytestmark = pytest.mark.timeout(1200)
real = [pytest.mark.spark, pytest.mark.matrix]


class TestOnRealSparks:
    pytestmark = real

    def test_a_table_without_snapshots(self, found: Any) -> None:
        step = found["empty"]
        assert step["exists"]
        assert not found["missing"]["exists"]
        assert (step["reading"]["version"], step["reading"]["newest_batch"]) == (None, None)
        assert step["commits"] == []

    def test_the_name_of_a_table_is_known_in_both_forms(self, found: Any) -> None:
        places = found["places"]
        assert places["table"] == places["named"]
        assert places["table"]["format"] == "iceberg"
        assert places["table"]["path"].endswith("/wh/db/t")
        assert found["no name"]["error"] == "TableError"

    def test_the_batches_of_a_query(self, found: Any) -> None:
        step = found["written"]
        batches = [(c["query_id"], c["batch_id"], c["operation"]) for c in step["commits"]]
        assert batches == [(step["query_id"], n, "append") for n in range(4)]
        reading = step["reading"]
        assert (reading["newest_batch"], step["other"]) == (3, None)
        assert reading["version"] == step["commits"][-1]["version"]
        assert step["by_path"]

    def test_what_a_savepoint_records(self, found: Any) -> None:
        versions = [commit["version"] for commit in found["written"]["commits"]]
        recorded = found["facts"]["facts"]
        assert [recorded[n][0]["table_version"] for n in ("1", "3")] == [versions[1], versions[3]]
        assert recorded["1"][0]["table_id"] == found["written"]["reading"]["table_id"]
        assert recorded["1"][0]["provider"] == "iceberg"
        assert recorded["1"][1] == ""

    def test_a_compaction_keeps_rows_and_batches(self, found: Any) -> None:
        step = found["compacted"]
        assert (step["newest"], step["last"]["keeps_rows"]) == (3, True)
        assert step["last"]["operation"] == "replace"

    def test_a_table_goes_back(self, found: Any) -> None:
        assert found["rolled back"]["newest"] == 1
        assert found["rolled back"]["rows"] == [0, 1]
        assert found["no snapshot"]["message"]

    def test_what_was_undone_is_known_and_can_come_back(self, found: Any) -> None:
        step = found["forward"]
        assert step["since"] == [True, True, False, False]
        assert (step["newest"], step["rows"]) == (3, [0, 1, 2, 3])

    def test_a_table_that_others_wrote_to_does_not_go_back(self, found: Any) -> None:
        assert found["others"]["version"] is None
        assert "others have written to it since" in found["others"]["why"]

    def test_expired_snapshots_are_said(self, found: Any) -> None:
        assert found["expired"]["error"] == "TableError"
        assert "were expired" in found["expired"]["message"]
        assert found["left"] == {"step": "left", "rows": [0, 1, 100], "commits": 1}

    def test_batches_on_a_branch_are_not_known(self, found: Any) -> None:
        assert found["branch exists"]["exists"]
        for step in ("branch", "audited branch"):
            assert "to the branch x, for which Iceberg does not look up" in found[step]["message"]
        assert found["no such branch"]["error"] is None

    @pytest.mark.parametrize(
        ("step", "finding", "error"),
        [
            ("all read", None, None),
            ("rows wait", ["table-lag", "note"], None),
            ("deleted", ["table-overwrite", "incompatible"], "Cannot process overwrite"),
            (
                "overwritten",
                ["table-overwrite", "incompatible"],
                "Cannot process overwrite snapshot",
            ),
            ("a file deleted", ["table-delete", "incompatible"], "Cannot process delete snapshot"),
            ("source expired", ["snapshot-gone", "consent-needed"], "was expired or removed"),
            ("brought back", ["snapshot-not-current", "consent-needed"], "parentId"),
            ("made again", ["table-recreated", "consent-needed"], None),
            ("made again with rows", ["snapshot-gone", "consent-needed"], "expired or removed"),
        ],
    )
    def test_what_a_source_meets_is_what_spark_does(
        self, found: Any, step: str, finding: list[str] | None, error: str | None
    ) -> None:
        what = found[step]
        assert what["found"][:1] == ([] if finding is None else [finding])
        assert what["spark"] is None if error is None else error in what["spark"], what

    def test_the_table_and_the_options_of_a_source_are_in_its_plan(self, found: Any) -> None:
        relations = found["relations"]
        assert relations["name"]["table"] == relations["table"]["table"] == "ice.db.s"
        assert relations["path"]["table"].endswith("/wh/db/s")
        for relation in (relations["name"], relations["path"], relations["table"]):
            assert relation["options"] == {"streaming-skip-delete-snapshots": "true"}
