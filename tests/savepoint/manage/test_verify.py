from __future__ import annotations

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.checkpoint.format.names import CANONICAL
from flinkish.engine.migration.checkpoint_migration import rewrite_checkpoint
from flinkish.engine.migration.migration_planner import TargetState
from flinkish.engine.stores.files import LocalDirectory
from flinkish.errors import Corrupt, UnsupportedFormat, UsageError
from flinkish.messages.requests import SavepointSummary
from flinkish.operators.identity import OperatorFacts
from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.directory.sharing import measure
from flinkish.savepoint.format.contents import (
    FORMAT_CANONICAL,
    FORMAT_NATIVE,
    FileRecord,
    QuerySource,
    SavepointJob,
)
from flinkish.savepoint.format.metadata import MetadataWriter
from flinkish.savepoint.format.reader import BadFile, check_files, open_savepoint
from flinkish.savepoint.manage import verify as verify_module
from flinkish.savepoint.manage.deep_check import wrong_count
from flinkish.savepoint.manage.verify import LEVELS, Verification
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.savepoint.conftest import Taking
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.checkpoints.recorded import NAMES, unpack
from tests.support.engine.inline_spark import InlineContext
from tests.support.savepoint.small_savepoints import JOB_ID, header, make_savepoint, operator, query


def verify(path: str, level: str = "full") -> Verification:
    return verify_module.verify(open_savepoint(path), level, SilentSavepointReporter())


@pytest.fixture
def info(likeness: CheckpointLikeness, take: Taking) -> SavepointSummary:
    return take(likeness.root)


def data_files(info: SavepointSummary) -> list[Path]:
    return sorted(
        path for path in Path(info.path).rglob("*") if path.is_file() and path.name != "_metadata"
    )


def rewrite(path: Path, data: bytes) -> None:
    """Another content at the same place; a link's other names keep theirs."""
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize("level", ["quick", "full"])
def test_whole(info: SavepointSummary, level: str) -> None:
    found = verify(info.path, level)
    assert found.ok
    assert (found.bad, found.unexpected, found.rows) == ((), (), None)
    assert found.files == info.files


def test_every_kind_of_damage_in_every_file_is_found(info: SavepointSummary) -> None:
    """One file at a time: a bit, the last byte, a missing file, a swapped one."""
    files = data_files(info)
    chance = random.Random(7)
    for path in files:
        data = path.read_bytes()
        bit = chance.randrange(len(data) * 8)
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        others = [o.read_bytes() for o in files if o.stat().st_size == len(data)]
        swapped = next((other for other in others if other != data), data[::-1] + b"x")
        name = str(path.relative_to(info.path))
        for content, reason in (
            (bytes(flipped), "does not have its recorded digest"),
            (data[:-1], f"has {len(data) - 1} bytes instead of {len(data)}"),
            (swapped, ""),
            (None, "is missing"),
        ):
            if content is None:
                path.unlink()
            else:
                rewrite(path, content)
            (bad,) = verify(info.path).bad
            assert bad.path == name
            assert reason in bad.reason
            if path.exists():
                rewrite(path, data)
            else:
                path.write_bytes(data)
    assert verify(info.path).ok


def test_quick_sees_names_and_sizes_only(info: SavepointSummary) -> None:
    first, second, *_ = data_files(info)
    data = first.read_bytes()
    rewrite(first, data[:-1] + bytes([data[-1] ^ 1]))
    assert verify(info.path, "quick").ok
    second.unlink()
    (bad,) = verify(info.path, "quick").bad
    assert bad.reason == "is missing"


def test_the_error_names_the_first_ones(info: SavepointSummary) -> None:
    files = data_files(info)
    for path in files:
        path.unlink()
    error = verify(info.path).error()
    assert isinstance(error, Corrupt)
    assert (error.code, error.data["bad_files"]) == (15, len(files))
    assert error.message.count("is missing") == 3
    assert f"and {len(files) - 3} more of {len(files)}" in error.message


def test_files_too_many_are_a_note(info: SavepointSummary) -> None:
    Path(info.path, "mine.txt").write_text("x")
    Path(info.path, "0-query_0/state/0/0/99.delta").write_text("x")
    os.makedirs(f"{info.path}/extra/deep")
    Path(info.path, "extra/deep/file").write_text("x")
    os.makedirs(f"{info.path}/_refs")
    Path(info.path, "_refs/savepoint-x").write_text("")
    found = verify(info.path)
    assert found.ok
    assert found.unexpected == (
        "mine.txt",
        "0-query_0/state/0/0/99.delta",
        "extra/deep/file",
    )


def test_unknown_forms(tmp_path: Path, info: SavepointSummary) -> None:
    with pytest.raises(UsageError):
        verify(info.path, "thorough")
    path = make_savepoint(str(tmp_path), 1)
    with MetadataWriter(path, header(1), [query()]) as metadata:
        metadata.add(FileRecord(0, "metadata", 10, "blake9:00"))
        metadata.commit()
    assert verify(path, "quick").ok
    with pytest.raises(UnsupportedFormat, match="digest of unknown form"):
        verify(path)


# shared files


@pytest.fixture
def sharing(tmp_path: Path) -> tuple[SavepointSummary, SavepointSummary]:
    """Two savepoints of one state on storage without links."""
    checkpoint = CheckpointLikeness(tmp_path / "checkpoint", backend="rocksdb").run_to(4)

    def take() -> SavepointSummary:
        return write_savepoint(
            f"memory://verify{tmp_path}",
            SavepointJob(JOB_ID, "job"),
            [QuerySource("q", str(checkpoint.root))],
            trigger="savepoint",
            reporter=SilentSavepointReporter(),
        )

    return take(), take()


def test_shared_files_are_followed(sharing: tuple[SavepointSummary, SavepointSummary]) -> None:
    first, second = (open_savepoint(info.path) for info in sharing)
    assert second.holders == (storage.base_name(first.path),)
    assert verify(second.path).ok
    record = next(record for record in second.iter_files() if record.held is not None)
    location = second.locate_file(record)
    storage.write_bytes(location, b"?" * record.size)
    (bad,) = verify(second.path).bad
    assert bad.path == location
    assert not verify(first.path).ok
    storage.remove_file(*storage.split(location))
    (bad,) = verify(second.path, "quick").bad
    assert bad.reason == "is missing"


def test_own_and_shared_bytes_on_storage_without_links(
    sharing: tuple[SavepointSummary, SavepointSummary],
) -> None:
    first, second = (open_savepoint(info.path) for info in sharing)
    mine, other = measure(second), measure(first)
    held = sum(record.size for record in second.iter_files() if record.held is not None)
    assert 0 < held == mine.shared_bytes == other.shared_bytes
    assert mine.own_bytes + mine.shared_bytes == second.bytes
    assert other.own_bytes + other.shared_bytes == first.bytes
    assert (mine.holders, mine.users) == ((storage.base_name(first.path),), ())
    assert (other.holders, other.users) == ((), (storage.base_name(second.path),))
    # What is its own is what disposing of it frees.
    assert dispose(first.path, dry_run=True).bytes == other.own_bytes


def test_own_and_shared_bytes_of_links(
    info: SavepointSummary, likeness: CheckpointLikeness, tmp_path: Path
) -> None:
    import shutil

    savepoint = open_savepoint(info.path)
    linked = sum(p.stat().st_size for p in data_files(info) if p.stat().st_nlink > 1)
    assert measure(savepoint).shared_bytes == linked > 0
    shutil.rmtree(likeness.root)
    space = measure(savepoint)
    assert (space.own_bytes, space.shared_bytes) == (savepoint.bytes, 0)


# deep


def take_plain(
    root: Path, *operators: OperatorFacts, format_: str = FORMAT_NATIVE
) -> SavepointSummary:
    return write_savepoint(
        f"{root}-savepoints",
        SavepointJob(JOB_ID, "job"),
        [QuerySource("q", str(root), operators=operators)],
        trigger="offline",
        reporter=SilentSavepointReporter(),
        full=True,
        format_=format_,
    )


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_real_state_are_decoded_and_counted(name: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    found = verify(take_plain(root).path, "deep")
    assert found.bad == ()
    assert found.unread == ()
    assert found.rows is not None
    assert found.rows > 0


def test_a_count_that_does_not_hold(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    rows = verify(take_plain(root).path, "deep").rows
    assert rows is not None
    right, wrong = (take_plain(root, OperatorFacts(0, rows=rows + more)) for more in (0, 1))
    assert verify(right.path, "deep").ok
    (bad,) = verify(wrong.path, "deep").bad
    assert bad.path == "0-q/state/0"
    assert bad.reason == f"has {rows} rows instead of the {rows + 1} recorded"


def test_a_count_that_does_not_hold_in_a_canonical_one(tmp_path: Path) -> None:
    root, canonical = unpack("spark43-hdfs-agg", tmp_path), tmp_path / "canonical"
    rows = verify(take_plain(root).path, "deep").rows
    assert rows is not None
    directories = LocalDirectory(str(root)), LocalDirectory(str(canonical))
    rewrite_checkpoint(InlineContext(), *directories, TargetState(backend=CANONICAL))
    for more in (0, 1):
        facts = OperatorFacts(0, rows=rows + more)
        found = verify(take_plain(canonical, facts, format_=FORMAT_CANONICAL).path, "deep")
        reason = f"has {rows} rows instead of the {rows + 1} recorded"
        assert found.bad == (BadFile("0-q/state/0", reason),) * more
        assert found.rows == rows


def test_a_file_whose_digest_holds_and_whose_rows_do_not(tmp_path: Path) -> None:
    """Damaged before the savepoint was taken: only decoding finds it."""
    root = unpack("spark43-hdfs-agg", tmp_path)
    before = open_savepoint(take_plain(root).path)
    used = [record.path for record in before.iter_files() if record.path.endswith(".delta")]
    delta = root / max(used, key=lambda path: (root / path).stat().st_size)
    data = bytearray(delta.read_bytes())
    data[len(data) // 2] ^= 0xFF
    rewrite(delta, bytes(data))
    (delta.parent / f".{delta.name}.crc").unlink(missing_ok=True)
    info = take_plain(root)
    assert verify(info.path).ok
    (bad,) = verify(info.path, "deep").bad
    assert bad.path == f"0-q/{delta.relative_to(root)}"
    assert "cannot be decoded" in bad.reason


def test_counts_are_compared_where_spark_had_counted() -> None:
    one = operator(rows=12)
    saved = query("q", one)
    assert wrong_count(one, saved, {"default": 12}) is None
    assert wrong_count(one, saved, {"default": 11}) == "has 11 rows instead of the 12 recorded"
    unknown = operator(rows=None)
    assert wrong_count(unknown, saved, {"default": 5}) is None
    zero = operator(rows=0)
    assert wrong_count(zero, saved, {"default": 5}) is not None
    assert wrong_count(zero, replace(saved, backend="rocksdb"), {"default": 5}) is None
    stores = tuple(
        replace(one.state.stores[0], name=f"{side}-{kind}")
        for side in ("left", "right")
        for kind in ("keyToNumValues", "keyWithIndexToValue")
    )
    join = replace(one, state=replace(one.state, stores=stores))
    counts = {store.name: 6 for store in stores}
    assert wrong_count(join, saved, counts) is None
    assert wrong_count(join, saved, {**counts, "left-keyWithIndexToValue": 5}) is not None
    first = replace(one.state.stores[0], name="a")
    several = replace(one, state=replace(one.state, stores=(first,)))
    assert wrong_count(several, saved, {"a": 1}) is None


def test_every_level_has_its_word(info: SavepointSummary) -> None:
    assert LEVELS == ("quick", "full", "deep")


def test_a_savepoint_without_one_of_its_partitions(
    take: Taking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the missing partition had been taken for the single one of a global limit."""
    root = unpack("spark43-hdfs-agg", tmp_path)
    shutil.rmtree(root / "state/0/1")
    with monkeypatch.context() as older:
        rule = "flinkish.checkpoint.format.operator_files.expected_partitions"
        older.setattr(rule, lambda *known: known[-1])
        path = take(root).path
    for level in LEVELS:
        [bad] = verify(path, level).bad
        assert bad.path.endswith("/state/0/1")
        assert bad.reason == "is missing: the state has 1 of 2 partitions"
    with pytest.raises(Corrupt, match="1 of 2 partitions"):
        check_files(open_savepoint(path))
