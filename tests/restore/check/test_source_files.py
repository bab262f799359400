"""Input files that are gone, on checkpoints with the logs of a file source."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.errors import Corrupt
from flinkish.restore.check.source_files import SourceFileCheck, missing_files
from flinkish.restore.materialize.source_logs import ReadFile, compacted_until, read_files
from flinkish.restore.recipe import OriginCheckpoint
from tests.support.restore.query_builders import source
from tests.support.servers.s3 import S3Server


class Saved:
    """A checkpoint at batch 3 whose file sources have read one file a batch."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.input = root / "in put"  # Spark writes it with an escape
        self.input.mkdir()

    def file(self, number: int, *, there: bool = True) -> str:
        path = self.input / f"{number}.json"
        if there:
            path.write_text("{}")
        return path.as_uri()

    def log(self, directory: str, name: str, *entries: tuple[str, int], time: int = 1) -> None:
        lines = [json.dumps({"path": p, "timestamp": time, "batchId": b}) for p, b in entries]
        path = self.root / "checkpoint/sources" / directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["v1", *lines]))

    def offsets(self, batch: int, *lines: str, time: int = 0) -> None:
        path = self.root / "checkpoint/offsets" / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["v1", json.dumps({"batchTimestampMs": time}), *lines]))

    def origin(self) -> OriginCheckpoint:
        root = self.root / "checkpoint"
        (root / "commits").mkdir(exist_ok=True)
        (root / "commits/3").write_text("v1\n{}")
        files = tuple(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
        return OriginCheckpoint(str(root), files, 3)


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)


def at(number: int) -> str:
    return json.dumps({"logOffset": number})


def test_files_of_the_planned_batch_are_severe_and_others_a_note(saved: Saved) -> None:
    names = [saved.file(n, there=n not in {1, 4}) for n in range(6)]
    saved.log("0", "2.compact", *((names[n], n) for n in range(3)))
    saved.log("0", "3", (names[3], 3), ("s3a://b/x", 3))  # no request is made for it
    saved.log("0", "4", (names[4], 4), (names[5], 4), ("nowhere://b/x", 4))
    saved.offsets(3, at(3))
    saved.offsets(4, at(4))
    (check,) = missing_files(saved.origin())
    gone = str(saved.input / "4.json")
    assert check == SourceFileCheck(0, "0", (gone,), planned=2, read=4, read_gone=1, elsewhere=2)
    assert check.warnings() == [
        "source 0: 1 of 2 files of the batch that is replayed are gone, so their rows will be "
        f"missing: {gone}"
    ]
    assert check.notes() == [
        "source 0: 1 of 4 files read already are gone; they are not read again",
        "source 0: 2 input files on remote storage were not looked for",
    ]


@pytest.mark.servers
def test_files_on_s3(saved: Saved, moto_s3: S3Server) -> None:
    """The directory of a planned file is listed, also for those that were read before."""
    with moto_s3.configured():
        place = f"{moto_s3.create_bucket('inputs')}/{uuid.uuid4().hex}"
        for number in (1, 4):
            storage.write_bytes(f"{place}/in put/{number}.json", b"{}")
        names = [f"{place.replace('s3://', 's3a://')}/in%20put/{n}.json" for n in range(6)]
        read = [(names[n], n) for n in range(3)]
        saved.log("0", "2.compact", *read, (f"{place}/old/0.json", 0))
        saved.log("0", "3", (names[3], 3))
        saved.log("0", "4", (names[4], 4), (names[5], 4))
        saved.offsets(3, at(3))
        saved.offsets(4, at(4))
        (check,) = missing_files(saved.origin())
    gone = (f"{place}/in put/5.json",)
    assert check == SourceFileCheck(0, "0", gone, planned=2, read=4, read_gone=3, elsewhere=1)


@pytest.mark.parametrize("kept", [0, 1])
def test_sources_that_start_from_scratch_are_not_looked_at(saved: Saved, kept: int) -> None:
    """The lines of an offset log of version 1 have no names but their numbers."""
    for entry in (0, 1):
        saved.log(str(entry), "0", (saved.file(10 * entry), 0))
        saved.log(str(entry), "1", (saved.file(10 * entry + 1, there=False), 1))
    saved.offsets(3, at(0), at(0))
    saved.offsets(4, at(1), at(1))
    (check,) = missing_files(saved.origin(), [source("", entry=kept, directory=str(kept))])
    assert check.planned_gone == (str(saved.input / f"{10 * kept + 1}.json"),)


def test_without_a_planned_batch_nothing_is_severe(saved: Saved) -> None:
    saved.log("0", "0", (saved.file(0, there=False), 0))
    saved.offsets(3, at(0))
    (check,) = missing_files(saved.origin())
    assert (check.warnings(), check.read, check.read_gone) == ([], 1, 1)


def test_a_source_first_read_in_the_planned_batch_and_one_that_is_no_file_source(
    saved: Saved,
) -> None:
    saved.log("1", "0", (saved.file(0, there=False), 0))
    saved.offsets(3, '{"topic":{"0":1}}', "-")
    saved.offsets(4, '{"topic":{"0":2}}', at(0))
    (check,) = missing_files(saved.origin())
    assert (check.entry, check.planned, len(check.planned_gone), check.read) == (1, 1, 1, 0)


def test_the_planned_entry_may_be_compacted(saved: Saved) -> None:
    names = [saved.file(n, there=n != 2) for n in range(3)]
    saved.log("0", "2.compact", *((names[n], n) for n in range(3)))
    saved.offsets(3, at(1))
    saved.offsets(4, at(2))
    (check,) = missing_files(saved.origin())
    assert (check.planned, check.read) == (1, 2)
    assert check.planned_gone == (str(saved.input / "2.json"),)


def test_files_in_a_log_that_must_be_merged_are_looked_for(saved: Saved) -> None:
    for n in range(11):  # Spark needs a compacted entry before the 11th
        saved.log("0", str(n), (saved.file(n, there=n != 4), n))
    saved.offsets(3, at(10))
    (check,) = missing_files(saved.origin())
    assert (check.read, check.read_gone) == (11, 1)


def test_files_of_a_position_before_the_only_compacted_entry_are_looked_for(saved: Saved) -> None:
    saved.log("0", "9.compact", *((saved.file(n, there=n != 4), n) for n in range(10)))
    saved.offsets(3, at(8))
    (check,) = missing_files(saved.origin())
    assert (check.read, check.read_gone) == (9, 1)


def test_a_dataframe_used_twice_is_looked_at_once(saved: Saved) -> None:
    saved.log("0", "0", (saved.file(0), 0))
    saved.log("1", "0", (saved.file(1, there=False), 0))
    saved.offsets(3, at(0), at(0), at(0))
    sources = [source("file[/x]", n, directory=d) for n, d in enumerate("001")]
    found = missing_files(saved.origin(), sources)
    assert [(c.entry, c.read, c.read_gone) for c in found] == [(0, 1, 0), (2, 1, 1)]


def test_many_files_are_named_shortly() -> None:
    (line,) = SourceFileCheck(0, "0", tuple("abcde"), planned=9).warnings()
    assert line.endswith("a, b, c and 2 more")


def test_a_damaged_log_is_an_error(saved: Saved) -> None:
    saved.log("0", "0", (saved.file(0), 0))
    (saved.root / "checkpoint/sources/0/0").write_text('v1\n{"path":')
    saved.offsets(3, at(0))
    with pytest.raises(Corrupt, match="not an entry of a file source's log"):
        missing_files(saved.origin())
    saved.offsets(3, at(1))
    with pytest.raises(Corrupt, match="is missing"):
        missing_files(saved.origin())


def test_reading_an_entry() -> None:
    data = b'v1\n{"path":"file:///a%20b","timestamp":5,"batchId":3}\n{"path":"p","batchId":4}'
    assert read_files(data, "3") == [
        ReadFile("file:///a%20b", 3, 5),
        ReadFile("p", 4),
    ]
    assert compacted_until(data, "9.compact", 3) == data.rpartition(b"\n")[0]
    with pytest.raises(ValueError, match="the first line"):
        read_files(b"{}\n", "3")
