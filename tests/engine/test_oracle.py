"""The engine finds the rows that Spark's own reader of state finds, byte by byte."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flinkish.engine.rows.encodings import split_key, split_value
from flinkish.engine.stores.store_rows import count_rows, read_store
from tests.support.engine.case_programs import run_program
from tests.support.engine.local_stores import Store, stores
from tests.support.engine.state_reader_oracle import LIVE, RECORDED, REWRITTEN, Read

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """All cases, run once in one JVM of their own: where they are, and what Spark found."""
    work = tmp_path_factory.mktemp("oracle")
    return work, run_program("state_reader_oracle", work, timeout=850)


@pytest.mark.parametrize("case", [*LIVE, *RECORDED])
def test_rows_are_those_of_sparks_reader(oracle: tuple[Path, dict[str, Any]], case: str) -> None:
    work, results = oracle
    assert not isinstance(results[case], dict), results[case]["error"]
    found = list(stores(work / case))
    reads = LIVE[case].reads if case in LIVE else RECORDED[case]
    for read, rows in zip(reads, results[case], strict=True):
        chosen = [s for s in found if (s.operator, s.name) == (read.operator, read.store)]
        ours = Counter(row for store in chosen for row in comparable(store, read))
        assert ours == Counter((row[0], tuple(row[1]), row[2]) for row in rows), read
        assert ours, "a store without rows proves nothing"


def comparable(store: Store, read: Read) -> list[tuple[int, tuple[str, ...], str]]:
    """Our rows of a store, checked against its schemas, as the oracle writes its own."""
    result: list[tuple[int, tuple[str, ...], str]] = []
    assert store.shapes
    for block in read_store(store.files, store.shapes):
        if block.family != read.family:
            continue
        assert block.family in store.shapes
        for key, value in zip(block.keys, block.values, strict=True):
            encoder = store.shapes[block.family].encoder
            keys = split_key(key, encoder) if block.framed else (key,)
            for row in split_value(value) if block.framed else [value]:
                if read.kind == "count":
                    result.append((store.partition, (), ""))
                else:
                    texts = tuple(part.hex() for part in keys)
                    result.append((store.partition, texts, row.hex()))
    return result


@pytest.mark.parametrize("case", REWRITTEN)
def test_spark_reads_what_the_engine_wrote(oracle: tuple[Path, dict[str, Any]], case: str) -> None:
    """State files of ours in place of Spark's: its reader finds the same rows."""
    _, results = oracle
    assert not isinstance(results[case], dict), results[case]["error"]
    source = results[REWRITTEN[case][0]]
    for ours, theirs in zip(results[case], source, strict=True):
        assert ours
        assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize("case", ["rocksdb-tws", "rocksdb-ttl", "ids-zip-agg"])
def test_counts_are_those_spark_recorded(oracle: tuple[Path, dict[str, Any]], case: str) -> None:
    for store in stores(oracle[0] / case):
        counts = count_rows(store.files, store.shapes)
        assert counts.recorded is not None
        assert counts.total == counts.recorded
