"""Checkpoints made of several, or with other sources, on the recorded ones: which files, and what
is in the logs. That Spark resumes them is tested in tests/driver."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.checkpoint.cut import read_cut
from flinkish.errors import Corrupt, Incompatible
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.materialize.state_files import empty_snapshot
from flinkish.restore.recipe import (
    EmptyState,
    FreshSource,
    OriginCheckpoint,
    Recipe,
    TakenSource,
    TakenState,
)
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.checkpoints.recorded import unpack
from tests.support.restore.recipes import (
    content,
    forget_checksums,
    header,
    lines,
    make,
    older,
    rewrite,
    state_of,
)

# Sources and batches.


def both_sources(*places: int) -> tuple[TakenSource, ...]:
    return tuple(TakenSource(0, n, str(n), str(at)) for at, n in enumerate(places))


def test_reordered_sources_and_a_fresh_one(tmp_path: Path) -> None:
    """A planned batch is replayed with the same ranges."""
    root = unpack("spark35-hdfs-join", tmp_path)
    for number, offset in ((4, 3), (5, 4)):
        rewrite(
            str(root),
            f"offsets/{number}",
            f'\n{{"logOffset":{number}}}',
            f'\n{{"logOffset":{offset}}}',
        )
        head, _ = (root / f"offsets/{number}").read_text().rsplit("\n", 1)
        (root / f"offsets/{number}").write_text(f'{head}\n{{"logOffset":{offset + 1}}}')
    cut = read_cut(str(root), 4)
    assert (cut.planned_batch, cut.offsets) == (5, ('{"logOffset":3}', '{"logOffset":4}'))
    swapped = both_sources(1, 0)
    files = make(tmp_path / "new", cut, sources=(*swapped, FreshSource()))
    assert lines(files["offsets/4"]) == ['{"logOffset":4}', '{"logOffset":3}', "-"]
    assert lines(files["offsets/5"]) == ['{"logOffset":5}', '{"logOffset":4}', "-"]
    assert files["offsets/3"] == files["offsets/4"]
    old = content(cut, *cut.files)
    for number in (4, 5):
        assert header(files[f"offsets/{number}"]) == header(old[f"offsets/{number}"])
    assert files["commits/4"] == old["commits/4"]
    logs = {path: data for path, data in files.items() if path.startswith("sources/")}
    assert logs == {
        **{f"sources/0/{n}.compact": old[f"sources/1/{n}.compact"] for n in (2, 5)},
        **{f"sources/1/{name}": old[f"sources/0/{name}"] for name in ("2.compact", "3", "4")},
    }
    assert sorted(files) == sorted(
        [*logs, "metadata", "commits/4", "offsets/3", "offsets/4", "offsets/5"]
        + [path for path in cut.files if path.startswith("state/")]
    )


def test_one_of_two_sources(tmp_path: Path) -> None:
    cut = read_cut(str(unpack("spark43-ids-join", tmp_path)))
    files = make(tmp_path / "new", cut, states={}, sources=(TakenSource(0, 1, "1", "0"),))
    assert sorted(p for p in files if not p.startswith(("offsets/", "commits/"))) == [
        "metadata",
        "sources/0/2.compact",
        "sources/0/5.compact",
    ]
    assert lines(files["offsets/6"]) == ['{"logOffset":5}']
    assert header(files["commits/6"])["stateUniqueIds"] == {}


def test_a_dataframe_used_twice_has_two_lines_and_one_directory(tmp_path: Path) -> None:
    cut = read_cut(str(unpack("spark43-hdfs-agg", tmp_path)))
    twice = (TakenSource(0, 0, "0", "0"), TakenSource(0, 0, "0", "0"))
    files = make(tmp_path / "new", cut, sources=twice)
    assert lines(files["offsets/6"]) == ['{"logOffset":5}'] * 2
    kept = sorted(p for p in files if p.startswith("sources/"))
    assert kept == ["sources/0/2.compact", "sources/0/5.compact"]
    same = (twice[0], TakenSource(1, 0, "0", "0"))
    assert make(tmp_path / "same", cut, cut, sources=same) == files
    with pytest.raises(Corrupt, match="has 1 sources, but no source 1"):
        make(tmp_path / "wrong", cut, sources=(TakenSource(0, 1, "1", "0"),))


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (None, "", ""),
        ("offsets/6", '5}\n{"logOffset":5}', '5}\n{"logOffset":4}'),
        ("offsets/7", '5}\n{"logOffset":5}', '5}\n{"logOffset":4}'),
        ("sources/1/5.compact", "004.json", "other.json"),
    ],
)
def test_two_reads_become_one_where_they_have_read_the_same(
    path: str | None, old: str, new: str, tmp_path: Path
) -> None:
    root = unpack("spark43-ids-join", tmp_path)
    shutil.rmtree(root / "sources/1")
    shutil.copytree(root / "sources/0", root / "sources/1")
    shutil.copy(root / "offsets/6", root / "offsets/7")
    if path is not None:
        rewrite(str(root), path, old, new)
    cut = read_cut(str(root))
    assert "offsets/7" in cut.files
    sources = (TakenSource(0, 0, "0", "0"), TakenSource(0, 1, "1", "0"))
    if path is not None:
        with pytest.raises(Incompatible, match="have not read the same input"):
            make(tmp_path / "new", cut, sources=sources)
        return
    files = make(tmp_path / "new", cut, sources=sources)
    assert lines(files["offsets/7"]) == ['{"logOffset":5}'] * 2
    kept = sorted(p for p in files if p.startswith("sources/"))
    assert kept == ["sources/0/2.compact", "sources/0/5.compact"]


def test_two_queries_at_different_batches_become_one(tmp_path: Path) -> None:
    """The base is two batches behind; the other's planned batch is forgotten."""
    name = "spark43-hdfs-agg"
    base = older(name, tmp_path, 4, watermark=1704067300000)
    other = read_cut(str(unpack(name, tmp_path)), 5)
    assert (base.planned_batch, other.planned_batch) == (5, 6)
    files = make(
        tmp_path / "new",
        base,
        other,
        states={0: TakenState(1, 0), 1: TakenState(0, 0)},
        sources=(TakenSource(1, 0, "0", "0"), TakenSource(0, 0, "0", "1")),
    )
    assert lines(files["offsets/5"]) == ['{"logOffset":5}', '{"logOffset":4}']
    assert files["offsets/4"] == files["offsets/5"]
    assert lines(files["offsets/6"]) == ['{"logOffset":5}', '{"logOffset":5}']
    assert header(files["offsets/5"])["batchWatermarkMs"] == 1704067339000  # the base's
    assert header(files["offsets/6"])["batchWatermarkMs"] == 1704067300000
    assert header(files["commits/5"]) == {"nextBatchWatermarkMs": 1704067300000}
    assert header(files["offsets/5"])["conf"] == dict(base.pins)
    assert sorted(state_of(files, 1)) == [
        "0/4.snapshot",
        "0/5.delta",
        "0/6.delta",
        "0/_metadata/schema",
        "1/4.snapshot",
        "1/5.delta",
        "1/6.delta",
        "_metadata/metadata",
    ]
    old = content(base, *base.files)
    assert files["state/1/0/6.delta"] == old["state/0/0/5.delta"]
    assert files["state/1/0/4.snapshot"] == old["state/0/0/3.snapshot"]
    assert sorted(state_of(files, 0)) == sorted(state_of(dict.fromkeys(other.files, b""), 0))
    cut = read_cut(str(tmp_path / "new"))
    assert (cut.batch_id, cut.planned_batch, len(cut.operators)) == (5, 6, 2)


@pytest.mark.parametrize(("policy", "expected"), [("min", 1704067300000), ("max", 1704067459000)])
def test_the_policy_decides_between_watermarks(policy: str, expected: int, tmp_path: Path) -> None:
    name = "spark43-hdfs-agg"
    base = older(name, tmp_path, 6, watermark=1704067300000)
    rewrite(base.root, "offsets/6", '"min"', f'"{policy}"')
    other = read_cut(str(unpack(name, tmp_path)))
    both = {"states": {0: TakenState(0, 0), 1: TakenState(1, 0)}}
    files = make(tmp_path / "new", base, other, **both)
    assert header(files["commits/6"])["nextBatchWatermarkMs"] == expected
    assert lines(files["offsets/6"]) == ['{"logOffset":5}']
    # A query that gives nothing has no say, and neither has one without watermark.
    alone = make(tmp_path / "alone", base, other, states={0: TakenState(0, 0)})
    assert header(alone["commits/6"])["nextBatchWatermarkMs"] == 1704067300000
    rewrite(base.root, "commits/6", "1704067300000", "0")
    without = make(tmp_path / "without", base, other, **both)
    assert header(without["commits/6"])["nextBatchWatermarkMs"] == 1704067459000


@pytest.mark.parametrize(
    ("state", "sources", "is_kept"),
    [
        (EmptyState(2), (FreshSource(),), False),
        (EmptyState(2), (TakenSource(0, 0, "0", "0", offset='{"logOffset":-1}'),), False),
        (EmptyState(2), (TakenSource(0, 0, "0", "0"),), True),
        (TakenState(0, 0), (FreshSource(),), True),
    ],
)
def test_without_state_and_position_there_is_no_watermark(
    state: EmptyState | TakenState,
    sources: tuple[FreshSource | TakenSource, ...],
    is_kept: bool,
    tmp_path: Path,
) -> None:
    """All input is read from its beginning: with the saved watermark it would be late."""
    cut = read_cut(str(unpack("spark43-hdfs-agg", tmp_path)))
    files = make(tmp_path / "new", cut, states={0: state}, sources=sources)
    before = content(cut, "offsets/6", "commits/6")
    for path, key in (("offsets/6", "batchWatermarkMs"), ("commits/6", "nextBatchWatermarkMs")):
        assert header(before[path])[key] > 0
        assert header(files[path])[key] == (header(before[path])[key] if is_kept else 0)


def test_a_position_of_another_query_forgets_its_planned_batch(tmp_path: Path) -> None:
    """Its log was compacted for the planned batch: the entries before are in the cut too."""
    name = "spark43-hdfs-agg"
    base = older(name, tmp_path, 4)
    other = read_cut(str(unpack(name, tmp_path)), 4)
    assert "sources/0/5.compact" in other.files
    files = make(
        tmp_path / "new",
        base,
        other,
        sources=(TakenSource(1, 0, "0", "0"), TakenSource(0, 0, "0", "1")),
    )
    assert lines(files["offsets/4"]) == ['{"logOffset":4}'] * 2
    assert lines(files["offsets/5"]) == ['{"logOffset":4}', '{"logOffset":5}']
    assert sorted(p for p in files if p.startswith("sources/")) == [
        *("sources/0/2.compact", "sources/0/3", "sources/0/4"),
        *("sources/1/2.compact", "sources/1/5.compact"),
    ]
    logs = [files[f"sources/0/{name}"] for name in ("2.compact", "3", "4")]
    names = [json.loads(line)["path"] for data in logs for line in data.split(b"\n")[1:]]
    assert names == [f"file:///srv/streams/in/00{n}.json" for n in range(5)]


def test_state_from_before_the_first_snapshot_gets_a_base(tmp_path: Path) -> None:
    likeness = CheckpointLikeness(tmp_path / "young").run_to(0)
    young = read_cut(str(likeness.root))
    assert "state/0/0/1.delta" in young.files
    old = read_cut(str(CheckpointLikeness(tmp_path / "old").run_to(5).root))
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    files = make(tmp_path / "new", young, old, states=states)
    assert files["state/0/0/5.snapshot"] == empty_snapshot(None)
    assert files["state/0/0/6.delta"] == (likeness.root / "state/0/0/1.delta").read_bytes()
    cut = read_cut(str(tmp_path / "new"))
    assert (cut.batch_id, len(cut.operators)) == (5, 2)


def test_a_lineage_is_not_raised(tmp_path: Path) -> None:
    name = "spark43-ids-join"
    base, other = read_cut(str(unpack(name, tmp_path))), older(name, tmp_path, 4)
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    with pytest.raises(Incompatible, match=r"\.changelog holds a lineage"):
        make(tmp_path / "new", other, base, states=states)
    assert not (tmp_path / "new").exists()


# Queries that do not fit.


@pytest.mark.parametrize(
    ("old", "new", "setting", "values"),
    [
        (
            "HDFSBackedStateStoreProvider",
            "RocksDBStateStoreProvider",
            "spark.sql.streaming.stateStore.providerClass",
            None,
        ),
        ('partitions":"2"', 'partitions":"4"', "spark.sql.shuffle.partitions", ["2", "4"]),
        ('"lz4"', '"zstd"', "spark.sql.streaming.stateStore.compression.codec", ["lz4", "zstd"]),
        (
            'join.stateFormatVersion":"2"',
            'join.stateFormatVersion":"3"',
            "spark.sql.streaming.join.stateFormatVersion",
            ["2", "3"],
        ),
    ],
)
def test_states_with_other_settings_are_refused(
    old: str, new: str, setting: str, values: list[str] | None, tmp_path: Path
) -> None:
    name = "spark43-hdfs-agg"
    base, other = read_cut(str(unpack(name, tmp_path))), older(name, tmp_path, 6)
    rewrite(other.root, "offsets/6", old, new)
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    with pytest.raises(Incompatible, match=re.escape(setting)) as caught:
        make(tmp_path / "new", base, other, states=states)
    assert caught.value.data["setting"] == setting
    if values is not None:
        assert caught.value.data["values"] == values
    assert not (tmp_path / "new").exists()
    # Only its position: how its state was kept does not matter.
    sources = (TakenSource(0, 0, "0", "0"), TakenSource(1, 0, "0", "1"))
    assert make(tmp_path / "position", base, other, sources=sources)


def test_settings_that_mean_the_same_fit(tmp_path: Path) -> None:
    """Spark 3.5 does not pin what 4.3 does, and names of codecs have two forms."""
    name = "spark43-hdfs-agg"
    base, other = read_cut(str(unpack(name, tmp_path))), older(name, tmp_path, 6)
    rewrite(other.root, "offsets/6", '"lz4"', '"org.apache.spark.io.LZ4CompressionCodec"')
    rewrite(
        other.root, "offsets/6", '"spark.sql.streaming.stateStore.encodingFormat":"unsaferow",', ""
    )
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    make(tmp_path / "new", base, other, states=states)
    assert len(read_cut(str(tmp_path / "new")).operators) == 2


def test_checkpoint_formats_do_not_mix(tmp_path: Path) -> None:
    base = read_cut(str(unpack("spark43-ids-zip-dedup", tmp_path)))
    other = read_cut(str(unpack("spark43-rocksdb-dedup", tmp_path)))
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    with pytest.raises(Incompatible, match=r"checkpointFormatVersion is 2 in .*, and 1 in"):
        make(tmp_path / "new", base, other, states=states)


# Offset logs with names (version 2).


def with_names(root: Path, *entries: str) -> None:
    """Turn a recorded checkpoint's offset log into one of version 2."""
    for path in (root / "offsets").glob("[0-9]*"):
        _, head, *_ = path.read_text().split("\n")
        path.write_text("\n".join(["v2", head, *entries]))
        forget_checksums(path)


def test_named_sources_keep_their_names(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    with_names(root, 'beta:{"logOffset":5}', 'alpha:{"logOffset":4}')
    shutil.copytree(root / "sources/0", root / "sources/alpha")
    (root / "sources/0").rename(root / "sources/beta")
    cut = read_cut(str(root))
    beta = TakenSource(0, 1, "beta", "beta")
    files = make(tmp_path / "new", cut, sources=(FreshSource(), beta))
    assert lines(files["offsets/6"]) == ['beta:{"logOffset":5}']
    kept = sorted(p for p in files if p.startswith("sources/"))
    assert kept == ["sources/beta/2.compact", "sources/beta/5.compact"]
    renamed = make(tmp_path / "renamed", cut, sources=(TakenSource(0, 1, "beta", "gamma"),))
    assert lines(renamed["offsets/6"]) == ['gamma:{"logOffset":5}']
    assert "sources/gamma/5.compact" in renamed
    with pytest.raises(Incompatible, match=r"source 'beta' .* would become '0'"):
        make(tmp_path / "numbered", cut, sources=(TakenSource(0, 1, "beta", "0"),))
    plain = older("spark43-hdfs-agg", tmp_path, 6)
    with pytest.raises(Incompatible, match=r"offset log of version 1, .* one of version 2"):
        make(tmp_path / "mixed", cut, plain, sources=(beta, TakenSource(1, 0, "0", "1")))


def test_numbered_sources_keep_their_numbers(tmp_path: Path) -> None:
    """As Spark 4.3 writes a self-union a, b, a: the first number of a source read twice is lost."""
    root = unpack("spark35-hdfs-join", tmp_path)
    with_names(root, '1:{"logOffset":5}', '2:{"logOffset":5}')
    both = tuple(f"sources/{n}/5.compact" for n in (0, 1))
    cut = read_cut(str(root))
    listed = OriginCheckpoint(cut.root, tuple(sorted({*cut.files, *both})), 6)
    same = tuple(TakenSource(0, n, at, at) for n, at in enumerate(("0", "1", "0")))
    make_checkpoint(Recipe((listed,), sources=same), str(tmp_path / "new"))
    assert lines((tmp_path / "new/offsets/6").read_bytes()) == [
        '1:{"logOffset":5}',
        '2:{"logOffset":5}',
    ]
    assert all((tmp_path / "new" / path).is_file() for path in both)
    with pytest.raises(Incompatible, match=r"source '1' .* would become '0'"):
        make(tmp_path / "moved", cut, sources=(TakenSource(0, 1, "1", "0"),))


# A sink that is ahead.


def test_a_rebase_raises_state_logs_and_the_planned_batch(tmp_path: Path) -> None:
    """Nothing but numbers changes; the position in a source's log is not one of them."""
    name = "spark43-hdfs-agg"
    cut = older(name, tmp_path, 4)
    assert cut.planned_batch == 5
    files = make(tmp_path / "new", cut, rebase_to=20)
    again = read_cut(str(tmp_path / "new"))
    assert (again.batch_id, again.planned_batch) == (20, 21)
    assert again.offsets == cut.offsets
    old = content(cut, *cut.files)
    assert json.loads(files["metadata"]) == json.loads(old["metadata"])
    for ours, theirs in ((20, 4), (19, 4), (21, 5)):
        entry = old[f"offsets/{theirs}"]
        assert lines(files[f"offsets/{ours}"]) == lines(entry)
        assert header(files[f"offsets/{ours}"]) == header(entry)
    assert header(files["commits/20"]) == header(old["commits/4"])
    assert sorted(p for p in files if p.startswith(("offsets/", "commits/"))) == [
        "commits/20",
        "offsets/19",
        "offsets/20",
        "offsets/21",
    ]
    assert {p for p in files if p.startswith("sources/")} == {
        p for p in old if p.startswith("sources/")
    }
    assert state_of(files, 0)["0/21.delta"] == state_of(old, 0)["0/5.delta"]


def test_a_rebase_never_goes_back(tmp_path: Path) -> None:
    cut = read_cut(str(unpack("spark43-hdfs-agg", tmp_path)))
    origins = (OriginCheckpoint(cut.root, tuple(cut.files), cut.batch_id),)
    assert Recipe(origins, rebase_to=cut.batch_id - 2).batch_id == cut.batch_id
    same = make(tmp_path / "new", cut, rebase_to=cut.batch_id)
    assert same == make(tmp_path / "plain", cut)


def test_a_rebase_of_state_that_names_its_versions_is_refused(tmp_path: Path) -> None:
    cut = read_cut(str(unpack("spark43-ids-join", tmp_path)))
    with pytest.raises(Incompatible, match="holds a lineage of state versions"):
        make(tmp_path / "new", cut, rebase_to=cut.batch_id + 1)
    assert not (tmp_path / "new").exists()


def test_a_source_at_another_position_has_no_part_in_the_planned_batch(tmp_path: Path) -> None:
    """Its files after that position are new once more; the other source replays its range."""
    root = unpack("spark35-hdfs-join", tmp_path)
    cut = read_cut(str(root), 4)
    assert cut.planned_batch == 5
    moved = (replace(both_sources(0)[0], offset='{"logOffset":2}'), *both_sources(0, 1)[1:])
    files = make(tmp_path / "new", cut, sources=moved)
    before, after = lines(files["offsets/4"]), lines(files["offsets/5"])
    old = content(cut, *cut.files)
    assert (before[0], after[0]) == ('{"logOffset":2}',) * 2
    assert (before[1], after[1]) == (lines(old["offsets/4"])[1], lines(old["offsets/5"])[1])
    assert sorted(path for path in files if path.startswith("sources/0/")) == [
        "sources/0/2.compact"
    ]
    alone = make(tmp_path / "alone", cut, sources=(moved[0],))
    assert lines(alone["offsets/4"]) == ['{"logOffset":2}']
    assert "offsets/5" not in alone


def test_a_planned_batch_without_the_part_of_one_source_is_not_the_same_batch() -> None:
    origin = OriginCheckpoint("/saved", ("offsets/4", "offsets/5"), 4)
    one, two = (TakenSource(0, n, f"{n}", f"{n}") for n in range(2))
    moved = replace(two, offset="5")
    for sources, same in (
        (None, True),
        ((one, two), True),
        ((two, FreshSource(), one), True),
        ((one, FreshSource()), False),
        ((one, moved), False),
        ((one,), False),
    ):
        recipe = Recipe((origin,), sources=sources)
        assert recipe.replays_planned
        assert recipe.repeats_planned((0, 1)) is same
        assert recipe.moves_source is (moved in (sources or ()))


def test_whether_the_planned_batch_is_replayed(tmp_path: Path) -> None:
    cut = older("spark43-hdfs-agg", tmp_path, 4)
    origin = OriginCheckpoint(cut.root, tuple(cut.files), cut.batch_id)
    taken = TakenSource(0, 0, "0", "0")
    for sources, kept in (
        (None, True),
        ((taken, FreshSource()), True),
        ((FreshSource(),), False),
        ((replace(taken, offset='{"logOffset":2}'), FreshSource(), FreshSource()), False),
    ):
        recipe = Recipe((origin,), sources=sources)
        assert recipe.replays_planned is kept
        target = tmp_path / f"new{kept}{len(sources or ())}"
        make_checkpoint(recipe, str(target))
        assert (read_cut(str(target)).planned_batch == 5) is kept
    newest = tuple(path for path in cut.files if path != "offsets/5")
    assert not Recipe((OriginCheckpoint(cut.root, newest, 4),)).replays_planned
