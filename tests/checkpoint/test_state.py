from __future__ import annotations

import io
import zipfile

import pytest

from flinkish.checkpoint import state
from tests.support.checkpoints.handwritten import archive


def files(*names: str) -> list[state.VersionedFile]:
    return state.versions(names)


def test_names() -> None:
    assert state.parse_name("12.delta") == state.VersionedFile("12.delta", 12, "delta")
    parsed = state.parse_name("3_ab-cd.changelog")
    assert parsed == state.VersionedFile("3_ab-cd.changelog", 3, "changelog", "ab-cd")
    for other in ("12", "12.delta.crc", "x.delta", "_a.zip", "3_.zip", "3.sst", "12.tmp", ".delta"):
        assert state.parse_name(other) is None


@pytest.mark.parametrize(
    ("names", "version", "chain"),
    [
        (["1.delta", "2.delta", "3.delta"], 2, ["1.delta", "2.delta"]),
        (["2.snapshot", "2.delta", "3.delta", "4.delta"], 3, ["2.snapshot", "3.delta"]),
        (["2.snapshot", "3.delta"], 2, ["2.snapshot"]),
        (
            ["1.delta", "2.delta", "2.snapshot", "3.delta", "4.snapshot"],
            3,
            ["2.snapshot", "3.delta"],
        ),
        (["9.snapshot"], 9, ["9.snapshot"]),
        (["10.delta", "9.snapshot", "1.delta"], 10, ["9.snapshot", "10.delta"]),
    ],
)
def test_hdfs_chain(names: list[str], version: int, chain: list[str]) -> None:
    assert list(state.hdfs_chain(files(*names), version).files) == chain


@pytest.mark.parametrize(
    ("names", "version", "missing"),
    [
        (["1.delta", "3.delta"], 3, "2.delta"),
        (["1.delta", "2.delta"], 3, "3.delta"),
        (["4.delta", "5.snapshot"], 3, "3.delta"),  # trimmed: only later versions
        ([], 1, "1.delta"),
        (["2.snapshot", "4.delta"], 4, "3.delta"),
        (["1_id.delta"], 1, "1.delta"),
    ],
)
def test_hdfs_chain_names_what_is_missing(names: list[str], version: int, missing: str) -> None:
    with pytest.raises(state.MissingVersion) as caught:
        state.hdfs_chain(files(*names), version)
    assert caught.value.args == (missing,)


def test_rocksdb_chain() -> None:
    chain = state.rocksdb_chain(files("1.zip", "2.zip", "3.zip"), 2)
    assert (chain.files, chain.archives) == (("2.zip",), ("2.zip",))
    chain = state.rocksdb_chain(files("1.changelog", "2.changelog"), 2)
    assert (chain.files, chain.archives) == (("1.changelog", "2.changelog"), ())
    names = ("2.zip", "2.changelog", "3.changelog", "4.changelog", "4.zip")
    chain = state.rocksdb_chain(files(*names), 3)
    assert (chain.files, chain.archives) == (("2.zip", "3.changelog"), ("2.zip",))


IDS = {3: frozenset({"c", "z"}), 2: frozenset({"b"}), 1: frozenset({"a"})}


def test_ids_choose_among_attempts() -> None:
    names = files(
        "1_a.changelog", "2_b.changelog", "2_failed.changelog", "3_c.changelog", "4_d.zip"
    )
    chain = state.rocksdb_chain_by_id(names, 3, IDS)
    assert set(chain.files) == {"1_a.changelog", "2_b.changelog", "3_c.changelog"}
    assert chain.exact


def test_ids_stop_at_the_newest_archive() -> None:
    names = files("1_a.changelog", "2_b.changelog", "2_b.zip", "3_c.changelog", "2_failed.zip")
    chain = state.rocksdb_chain_by_id(names, 3, IDS)
    assert chain.files == ("2_b.zip", "3_c.changelog")
    assert chain.archives == ("2_b.zip",)


def test_ids_below_the_oldest_commit_keep_every_file() -> None:
    names = files("1_a.zip", "1_x.changelog", "2_b.changelog", "2_y.changelog", "3_c.changelog")
    chain = state.rocksdb_chain_by_id(names, 3, {3: IDS[3]})
    assert set(chain.files) == {f.name for f in names}
    assert chain.archives == ("1_a.zip",)
    assert not chain.exact


@pytest.mark.parametrize("known", range(1, 7))
def test_what_is_carried_with_fewer_commits_gives_the_same(known: int) -> None:
    """A savepoint has one commit, and is compared with the checkpoint it was taken from."""
    ids = {v: frozenset({f"id{v}"}) for v in range(1, 7)}
    present = files(*(f"{v}_id{v}.changelog" for v in ids), "4_failed.changelog", "2_failed.zip")
    chain = state.rocksdb_chain_by_id(present, 6, ids)
    newest = {v: found for v, found in ids.items() if v > 6 - known}
    assert state.rocksdb_chain_by_id(files(*chain.files), 6, newest).files == chain.files


def test_ids_after_a_switch_from_plain_names() -> None:
    names = files("1.zip", "2.zip", "3_c.changelog", "2_failed.zip")
    chain = state.rocksdb_chain_by_id(names, 3, {3: IDS[3], 2: frozenset(), 1: frozenset()})
    assert chain.files == ("2.zip", "3_c.changelog")


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (["3_other.changelog", "2_b.changelog"], IDS),
        (["3_c.changelog", "2_failed.changelog", "1_a.changelog"], IDS),
        (["3_c.changelog"], {3: IDS[3]}),
        (["3_c.changelog"], {2: IDS[2]}),
    ],
)
def test_ids_missing(names: list[str], ids: dict[int, frozenset[str]]) -> None:
    with pytest.raises(state.MissingVersion):
        state.rocksdb_chain_by_id(files(*names), 3, ids)


def test_archive_references() -> None:
    found = state.archive_references(io.BytesIO(archive(["000008-a.sst", "000009-b.sst"])))
    assert found == ("SSTs/000008-a.sst", "SSTs/000009-b.sst")


def zipped(metadata: str | None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("CURRENT", "x")
        if metadata is not None:
            file.writestr("metadata", metadata)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 nothing",
        archive(["a.sst"])[:-30],
        zipped(None),
        zipped("v1\nnot json"),
        zipped("v1\n[]"),
        zipped('v1\n{"sstFiles":[{}]}'),
        zipped('v1\n{"sstFiles":[{"dfsSstFileName":"../../x"}]}'),
        zipped('v1\n{"sstFiles":[{"dfsSstFileName":".."}]}'),
    ],
)
def test_damaged_archives(data: bytes) -> None:
    with pytest.raises(state.ArchiveError):
        state.archive_references(io.BytesIO(data))


def test_archive_logs() -> None:
    text = 'v1\n{"sstFiles":[],"logFiles":[{"dfsLogFileName":"000004-x.log"}]}'
    assert state.archive_references(io.BytesIO(zipped(text))) == ("logs/000004-x.log",)
