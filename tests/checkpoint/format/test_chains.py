"""Which files make up a state version, by their names."""

from __future__ import annotations

import pytest

from flinkish.checkpoint.format.chains import (
    Chain,
    find_chain,
    find_chain_by_lineage,
    find_known_files,
    parse_lineage,
    write_lineage,
)
from flinkish.checkpoint.format.errors import MissingStateFile
from flinkish.checkpoint.format.names import HDFS, ROCKSDB, VersionedFile, state_files_among


def files(*names: str) -> list[VersionedFile]:
    return state_files_among(names)


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
    assert list(find_chain(files(*names), version, HDFS).files) == chain


@pytest.mark.parametrize(
    ("names", "version", "missing"),
    [
        (["1.delta", "3.delta"], 3, "2.delta"),
        (["1.delta", "2.delta"], 3, "3.delta"),
        (["4.delta", "5.snapshot"], 3, "3.delta"),  # trimmed: only later versions
        ([], 1, "1.delta"),
        (["2.snapshot", "4.delta"], 4, "3.delta"),
        (["2.delta"], 2, "1.delta"),  # the cut named 2.delta, which is there
        (["1_id.delta"], 1, "1.delta"),
    ],
)
def test_hdfs_chain_names_what_is_missing(names: list[str], version: int, missing: str) -> None:
    with pytest.raises(MissingStateFile) as caught:
        find_chain(files(*names), version, HDFS)
    assert caught.value.file == missing


def test_rocksdb_chain() -> None:
    chain = find_chain(files("1.zip", "2.zip", "3.zip"), 2, ROCKSDB)
    assert (chain.snapshot, chain.changes, chain.name) == ("2.zip", (), "2.zip")
    chain = find_chain(files("1.changelog", "2.changelog"), 2, ROCKSDB)
    assert (chain.snapshot, chain.files) == (None, ("1.changelog", "2.changelog"))
    assert chain.name == "2.changelog"
    names = ("2.zip", "2.changelog", "3.changelog", "4.changelog", "4.zip")
    chain = find_chain(files(*names), 3, ROCKSDB)
    assert (chain.snapshot, chain.changes) == ("2.zip", ("3.changelog",))
    with pytest.raises(MissingStateFile, match=r"^7\.zip: version 7 needs it"):
        find_chain(files("8.zip"), 7, ROCKSDB)


IDS = {3: frozenset({"c", "z"}), 2: frozenset({"b"}), 1: frozenset({"a"})}


def test_ids_choose_among_attempts() -> None:
    names = files(
        "1_a.changelog", "2_b.changelog", "2_failed.changelog", "3_c.changelog", "4_d.zip"
    )
    chain = find_known_files(names, 3, IDS)
    assert set(chain.files) == {"1_a.changelog", "2_b.changelog", "3_c.changelog"}
    assert chain.exact


def test_ids_stop_at_the_newest_archive() -> None:
    names = files("1_a.changelog", "2_b.changelog", "2_b.zip", "3_c.changelog", "2_failed.zip")
    chain = find_known_files(names, 3, IDS)
    assert chain.files == ("2_b.zip", "3_c.changelog")
    assert chain.archives == ("2_b.zip",)


def test_ids_below_the_oldest_commit_keep_every_file() -> None:
    names = files("1_a.zip", "1_x.changelog", "2_b.changelog", "2_y.changelog", "3_c.changelog")
    chain = find_known_files(names, 3, {3: IDS[3]})
    assert set(chain.files) == {f.name for f in names}
    assert chain.archives == ("1_a.zip",)
    assert not chain.exact


@pytest.mark.parametrize("known", range(1, 7))
def test_what_is_carried_with_fewer_commits_gives_the_same(known: int) -> None:
    """A savepoint has one commit, and is compared with the checkpoint it was taken from."""
    ids = {v: frozenset({f"id{v}"}) for v in range(1, 7)}
    present = files(*(f"{v}_id{v}.changelog" for v in ids), "4_failed.changelog", "2_failed.zip")
    chain = find_known_files(present, 6, ids)
    newest = {v: found for v, found in ids.items() if v > 6 - known}
    assert find_known_files(files(*chain.files), 6, newest).files == chain.files


def test_ids_after_a_switch_from_plain_names() -> None:
    names = files("1.zip", "2.zip", "3_c.changelog", "2_failed.zip")
    chain = find_known_files(names, 3, {3: IDS[3], 2: frozenset(), 1: frozenset()})
    assert chain.files == ("2.zip", "3_c.changelog")


def test_a_file_of_before_the_switch_does_not_hide_the_batch_that_was_run_again() -> None:
    """Batch 2 was not committed when the query was killed, and was run again with ids."""
    names = files("2.zip", "3.zip", "3_c.changelog", "4_d.changelog")
    ids = {4: frozenset({"d"}), 3: frozenset({"c"}), 2: frozenset[str]()}
    chain = find_known_files(names, 4, ids)
    assert chain.files == ("2.zip", "3_c.changelog", "4_d.changelog")


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
    with pytest.raises(MissingStateFile):
        find_known_files(files(*names), 3, ids)


LINEAGE = ((2, "b"), (3, "c"))


def by_lineage(names: str, lineage: tuple[tuple[int, str], ...] | None = LINEAGE) -> Chain:
    return find_chain_by_lineage(files(*names.split()), 4, "d", lambda _: lineage)


def test_a_lineage_chooses_among_attempts() -> None:
    alone = by_lineage("4_d.zip 4_d.changelog")
    assert alone == Chain("4_d.zip", ())
    chain = by_lineage("2_b.zip 2_x.zip 3_c.changelog 3_x.changelog 3_x.zip 4_d.changelog")
    assert chain == Chain("2_b.zip", ("3_c.changelog", "4_d.changelog"))


@pytest.mark.parametrize("lineage", [LINEAGE, (), None])
def test_a_lineage_goes_on_with_plain_names(lineage: tuple[tuple[int, str], ...] | None) -> None:
    names = "1.zip 2.changelog 3.changelog 2_b.changelog 3_c.changelog 4_d.changelog"
    changes = ("2_b.changelog", "3_c.changelog") if lineage else ("2.changelog", "3.changelog")
    assert by_lineage(names, lineage) == Chain("1.zip", (*changes, "4_d.changelog"))


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ("2_b.zip 3_c.changelog 4_x.changelog", "4_d.changelog"),
        ("2_b.zip 3_x.changelog 4_d.changelog", "3_c.changelog"),
        ("3_c.changelog 4_d.changelog 2_x.zip", "2_b.changelog"),
        ("2_b.changelog 3_c.changelog 4_d.changelog", "1.changelog"),
    ],
)
def test_a_file_of_the_lineage_that_is_missing_is_named(names: str, missing: str) -> None:
    with pytest.raises(MissingStateFile) as caught:
        by_lineage(names)
    assert caught.value.file == missing


def test_lineages() -> None:
    text = b'[{"version":2,"checkpointUniqueId":"b"},{"version":3,"checkpointUniqueId":"c"}]'
    assert parse_lineage(text) == LINEAGE
    assert write_lineage(LINEAGE).encode() == text
    for bad in (b"", b"7", b"[1]", b'[{"version":2}]', text.replace(b"3", b"4")):
        with pytest.raises(ValueError, match="lineage of a changelog"):
            parse_lineage(bad)
