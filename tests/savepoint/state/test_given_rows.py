"""A savepoint with other rows in some of its states, made from recorded checkpoints."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.client.savepoints import Savepoint
from flinkish.client.state import first_rows, open_state
from flinkish.errors import Corrupt, Incompatible, UsageError
from flinkish.savepoint.format.reader import open_savepoint
from flinkish.savepoint.state.given_rows import with_rows
from tests.support.checkpoints.saved import save


def rows(path: str, state: str) -> list[dict[str, Any]]:
    shown = Savepoint.open(path).rows(state, 10_000)
    return [{"key": row["key"], "value": row["value"]} for row in shown]


def files_of(path: str, query: str) -> dict[str, bytes]:
    opened = open_savepoint(path)
    (record,) = (each for each in opened.queries if each.name == query)
    root, number = Path(opened.query_root(record)), opened.queries.index(record)
    return {f.path: (root / f.path).read_bytes() for f in opened.iter_files() if f.query == number}


def test_other_rows_and_the_rest_as_it_was(tmp_path: Path) -> None:
    old = save(tmp_path, "hdfs-agg", "rocksdb-tws", "ids-zip-dedup")
    window = {"start": "2024-01-01T00:04:00.000000Z", "end": "2024-01-01T00:06:00.000000Z"}
    agg = [{"key": {"window": window, "k": "new"}, "value": {"sum": 2**40, "count": 2}}]
    count = [{"key": {"k": "new"}, "value": {"n": 7}}]
    keys = [
        {"key": {"k": f"k{n}", "v": n}, "value": {"__dummy__": None}} for n in range(50)
    ]  # state files with unique ids, which the commit log has
    given = {"hdfs-agg": agg, "rocksdb-tws/count": count, "ids-zip-dedup": keys}
    new = with_rows(open_savepoint(old), given, str(tmp_path / "made"))
    assert rows(new.path, "hdfs-agg") == agg
    assert rows(new.path, "rocksdb-tws/count") == count
    assert rows(new.path, "rocksdb-tws/values") == rows(old, "rocksdb-tws/values")
    assert sorted(rows(new.path, "ids-zip-dedup"), key=str) == sorted(keys, key=str)
    made = Savepoint.open(new.path)
    assert made.verify("deep").ok
    counted = {op.uid: op.facts.rows for query in made.queries for op in query.operators}
    assert counted["hdfs-agg"] == 1
    assert made.header.job == Savepoint.open(old).header.job
    assert [q.batch_id for q in made.queries] == [q.batch_id for q in Savepoint.open(old).queries]
    assert Savepoint.open(old).verify("deep").ok
    assert len(rows(old, "hdfs-agg")) == 5
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == [Path(new.path).name]


def test_queries_without_other_rows_keep_their_files(tmp_path: Path) -> None:
    old = save(tmp_path, "hdfs-agg", "ids-join")
    new = with_rows(open_savepoint(old), {"hdfs-agg": []}, str(tmp_path / "made"))
    assert files_of(new.path, "query ids-join") == files_of(old, "query ids-join")
    assert rows(new.path, "hdfs-agg") == []


@pytest.mark.parametrize("name", ["ids-join", "changelog-join3"])
def test_the_rows_of_a_join_are_counted_as_spark_counts_them(tmp_path: Path, name: str) -> None:
    old = save(tmp_path, name)
    opened = open_savepoint(old)
    [operator] = opened.queries[0].operators
    given = {
        f"{name}/{store.name}": first_rows(
            open_state(opened, f"{name}/{store.name}", raw=True), 10_000
        ).rows
        for store in operator.state.stores
    }
    new = with_rows(opened, given, str(tmp_path / "made"))
    [made] = open_savepoint(new.path).queries[0].operators
    buffered = [rows for state, rows in given.items() if state.endswith("-keyWithIndexToValue")]
    known = None if name == "changelog-join3" else sum(map(len, buffered))
    assert made.facts.rows == known
    assert Savepoint.open(new.path).verify("deep").ok


@pytest.mark.parametrize(("spark", "line"), [("4.0.1", b"v2"), ("4.1.0", b"v1"), (None, b"v1")])
def test_the_new_state_is_for_the_spark_of_the_savepoint(
    tmp_path: Path, spark: str | None, line: bytes
) -> None:
    opened = open_savepoint(save(tmp_path, "ids-zip-dedup"))
    header = replace(opened.header, job=replace(opened.header.job, spark_version=spark))
    given = {"ids-zip-dedup": [{"key": {"k": "a", "v": 1}, "value": {"__dummy__": None}}]}
    new = with_rows(replace(opened, header=header), given, str(tmp_path / "made"))
    [archive, *_] = Path(new.path).rglob("*.zip")
    with zipfile.ZipFile(archive) as file:
        assert file.read("metadata").splitlines()[0] == line


@pytest.mark.parametrize(
    ("states", "error", "message"),
    [
        ({"other": []}, UsageError, "no operator 'other'"),
        ({"rocksdb-tws/other": []}, Incompatible, "no state 'other'"),
        ({"rocksdb-tws": []}, Incompatible, "several states"),
        (
            {"rocksdb-tws/count": [{"key": {"k": "a"}, "value": {"m": 1}}]},
            Incompatible,
            "row 0 for the state 'count': value must have the fields n, but is {'m': 1}",
        ),
        (
            {"rocksdb-tws/count": [{"key": {"k": "a"}, "value": {"n": 1}}] * 2},
            Incompatible,
            "repeat",
        ),
        ({"rocksdb-tws/count": [], "0/count": []}, UsageError, "'0/count' is given twice"),
    ],
)
def test_rows_that_do_not_fit(
    tmp_path: Path, states: dict[str, Any], error: type[Exception], message: str
) -> None:
    old = save(tmp_path, "rocksdb-tws")
    with pytest.raises(error) as refused:
        with_rows(open_savepoint(old), states, str(tmp_path / "made"))
    assert message in str(refused.value)
    assert list(tmp_path.glob("made/*")) == []


def test_a_file_that_is_not_as_it_was_saved_names_its_query(tmp_path: Path) -> None:
    old = save(tmp_path, "hdfs-agg", "ids-join")
    opened = open_savepoint(old)
    [record] = [query for query in opened.queries if query.name == "query ids-join"]
    path = next(Path(opened.query_root(record)).glob("state/**/*.zip"))
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Corrupt, match=r"query ids-join: .*zip"):
        with_rows(open_savepoint(old), {"hdfs-agg": []}, str(tmp_path / "made"))
