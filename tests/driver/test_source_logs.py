"""The log of a file source after restores: Spark's own log writes it, and reads all of it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from flinkish.checkpoint.format.logs import source_log_entries
from flinkish.restore.materialize.source_logs import SourceFiles, files_at
from tests.support.examples import attempt

pytestmark = pytest.mark.spark


class SparksLog:
    """Spark's ``FileStreamSourceLog`` on a directory, as a query that starts there has it."""

    def __init__(self, spark: Any, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._jvm = spark._jvm
        self._version = tuple(int(part) for part in spark.version.split(".")[:2])
        self._gateway = spark._sc._gateway
        self._log = self._new("FileStreamSourceLog", 1, spark._jsparkSession, str(directory))

    def _class(self, name: str) -> Any:
        package = "org.apache.spark.sql.execution.streaming"
        moved = self._version >= (4, 1)
        return self._jvm.java.lang.Class.forName(f"{package}{'.runtime' * moved}.{name}")

    def _new(self, name: str, *values: Any) -> Any:
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, len(values))
        for index, value in enumerate(values):
            arguments[index] = value
        return self._class(name).getConstructors()[0].newInstance(arguments)

    def append(self, number: int) -> None:
        entry = self._class("FileStreamSource$FileEntry")
        entries = self._jvm.java.lang.reflect.Array.newInstance(entry, 1)
        long = self._jvm.java.lang.Long.valueOf
        values = f"file:///in/{number}", long("1"), long(str(number))
        entries[0] = self._new("FileStreamSource$FileEntry", *values)
        assert self._log.add(number, entries)

    def files(self) -> list[str]:
        return sorted(str(each.path()) for each in self._log.allFiles())


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir() if not path.name.startswith(".")]


def restored(old: Path, new: Path, limit: int, *, planned: bool) -> SourceFiles:
    """Cut the log of a query that has planned another batch, or none, and write it anew."""
    kept = set(source_log_entries(names(old), limit)[0])
    if planned:
        kept |= set(source_log_entries(names(old), limit + 1)[0])
    found = files_at(sorted(kept), json.dumps({"logOffset": limit}), lambda n: _read(old, n))
    new.mkdir()
    for name in found.kept:
        (new / name).write_bytes(_read(old, name))
    for name, content in found.written.items():
        (new / name).write_bytes(content)
    return found


def _read(directory: Path, name: str) -> bytes:
    return (directory / name).read_bytes()


@pytest.mark.parametrize(
    ("positions", "planned"),
    [
        ((18, 38), True),
        pytest.param((22, 50), False, marks=pytest.mark.deep),
        *(
            pytest.param(positions, planned, marks=pytest.mark.deep)
            for positions in (
                (8, 9, 10, 19, 38, 39, 40),
                (46, 60, 93, 142),
                (18, 28, 29, 58, 118),
            )
            for planned in (False, True)
        ),
    ],
)
def test_restored_again_and_again(
    spark: Any, tmp_path: Path, positions: tuple[int, ...], planned: bool
) -> None:
    """A log whose compacted entries are all but one left out is compacted at other distances."""
    at = tmp_path / "start"
    done = 0
    for position in positions:
        log = SparksLog(spark, at)
        assert log.files() == sorted(f"file:///in/{n}" for n in range(done))
        for number in range(done, position + 1 + planned):
            log.append(number)
        done = position + 1
        found = restored(at, tmp_path / str(position), position, planned=planned)
        assert found.written == {}, "the entries stand as Spark wrote them"
        at = tmp_path / str(position)
    log = SparksLog(spark, at)
    for number in range(done, done + 25):
        log.append(number)
    assert SparksLog(spark, at).files() == sorted(f"file:///in/{n}" for n in range(done + 25))


@pytest.mark.parametrize(
    "compact",
    [39, *(pytest.param(n, marks=pytest.mark.deep) for n in (-1, 2, 9, 19, 29, 48, 59, 65))],
)
def test_an_only_compacted_entry(spark: Any, tmp_path: Path, compact: int) -> None:
    """Spark reads what is made of it, however long it is."""
    old = tmp_path / "old"
    old.mkdir()
    entries = ({"path": f"file:///in/{n}", "timestamp": 1, "batchId": n} for n in range(99))
    line = [json.dumps(each) for each in entries]
    if compact >= 0:
        text = "\n".join(["v1", *(line[n] for n in range(compact + 1))])
        (old / f"{compact}.compact").write_text(text)
    for limit in range(max(compact, 0), compact + 33, 3):
        for n in range(compact + 1, limit + 1):
            (old / str(n)).write_text("\n".join(["v1", line[n]]))
        expected = sorted(f"file:///in/{n}" for n in range(limit + 1))
        read = attempt(SparksLog(spark, old).files, Py4JJavaError)
        assert read == expected or ".compact doesn't exist" in str(read)
        new = tmp_path / str(limit)
        found = restored(old, new, limit, planned=False)
        assert bool(found.written) is (read != expected)
        assert SparksLog(spark, new).files() == expected
