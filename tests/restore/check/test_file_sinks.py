"""Which batches a file sink has, by its log."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.restore.check.file_sinks import file_sink_status
from flinkish.restore.plan.sinks import SinkStatus
from flinkish.storage.stores import forget_stores
from tests.support.servers.hdfs import HdfsServer
from tests.support.servers.s3 import S3Server


def position(format_: str | None, path: str | None) -> SinkStatus | None:
    return file_sink_status(format_, path, storage)


# File sinks.


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        ([], None),
        (["0", "1", "2"], 2),
        (["9.compact", "10", "8"], 10),
        (["9.compact", "19.compact"], 19),
        ([".3.0aa1.tmp", ".3.crc", "2", "x.compact", "_temporary"], 2),
    ],
)
@pytest.mark.parametrize("format_", ["parquet", "JSON", None])
def test_the_newest_batch_of_a_file_sink(
    tmp_path: Path, names: list[str], newest: int | None, format_: str | None
) -> None:
    log = tmp_path / "a b" / "_spark_metadata"
    log.mkdir(parents=True)
    for name in names:
        (log / name).write_text("v1\n")
    for path in (str(log.parent), f"file:{log.parent}", f"file://{log.parent}"):
        found = position(format_, path)
        assert found is not None
        assert (found.newest_batch, found.by_query_id, found.unreadable) == (newest, False, None)


@pytest.mark.parametrize(
    ("entries", "has_files"),
    [
        ({"0": "v1", "1": "v1\n"}, False),
        ({"0": "v1\n{}", "1": "v1"}, True),
        ({"8": "v1\n{}", "9.compact": "v1", "10": "v1"}, False),
        ({"9.compact": "v1\n{}\n{}", "10": "v1"}, True),
        ({}, True),
    ],
)
def test_a_log_without_files_is_told(
    tmp_path: Path, entries: dict[str, str], has_files: bool
) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    for name, text in entries.items():
        (tmp_path / "_spark_metadata" / name).write_text(text)
    found = position("json", str(tmp_path))
    assert found is not None
    assert found.has_files is has_files


@pytest.mark.servers
def test_a_file_sink_on_s3(moto_s3: S3Server) -> None:
    with moto_s3.configured():
        place = f"{moto_s3.create_bucket('sinks')}/{uuid.uuid4().hex}"
        for name in ("9.compact", "10"):
            storage.write_bytes(f"{place}/_spark_metadata/{name}", b"v1")
        for path in (place, place.replace("s3://", "s3a://")):
            found = position("parquet", path)
            assert found is not None
            assert (found.newest_batch, found.unreadable) == (10, None)
        empty = position("parquet", f"{place}/nothing")
        assert empty is not None
        assert (empty.newest_batch, empty.unreadable) == (None, None)


@pytest.mark.servers
@pytest.mark.deep
def test_a_file_sink_on_hdfs(hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in hdfs.environment().items():
        monkeypatch.setenv(name, value)
    forget_stores()
    place = f"{hdfs.url}/sinks/{uuid.uuid4().hex}"
    for name in ("9.compact", "10"):
        storage.write_bytes(f"{place}/_spark_metadata/{name}", b"v1")
    for path, newest in ((place, 10), (f"{place}/nothing", None)):
        found = position("parquet", path)
        assert found is not None
        assert (found.newest_batch, found.unreadable) == (newest, None)
    forget_stores()


def test_a_sink_without_path_or_log_says_nothing(tmp_path: Path) -> None:
    assert position("parquet", None) is None
    for format_ in ("kafka", "console", "foreachBatch", "noop"):
        assert position(format_, str(tmp_path)) is None
    empty = position("csv", str(tmp_path / "not there"))
    assert empty is not None
    assert (empty.newest_batch, empty.unreadable) == (None, None)


@pytest.mark.parametrize(
    "path", ["hdfs:///user/x/out", "dbfs:/out", "wasbs://c@acct/out", "hdfs://nn/a?b", "file:out"]
)
def test_a_place_that_only_spark_knows_is_not_readable_from_here(path: str) -> None:
    found = position("parquet", path)
    assert found is not None
    assert (found.path, found.newest_batch) == (path, None)
    assert found.unreadable


def test_a_sink_elsewhere_is_not_readable_from_here() -> None:
    found = position("orc", "adl9://store/out")
    assert found is not None
    assert (
        found.unreadable == "cannot open adl9://store/out/_spark_metadata: Protocol not known: adl9"
    )
