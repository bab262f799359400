"""A savepoint from each storage to each other, outliving the checkpoint that it was taken of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.checkpoint.cut import read_cut
from flinkish.errors import Corrupt
from flinkish.messages.requests import SavepointSummary
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.origin.restore_origin import open_path
from flinkish.restore.recipe import Recipe
from flinkish.savepoint.directory.dispose import dispose
from flinkish.savepoint.format.contents import QuerySource
from flinkish.savepoint.format.reader import FULL, check_files, find_bad_files, open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.savepoint.conftest import JOB
from tests.support.checkpoints.recorded import unpack
from tests.support.savepoint.places import place, put_tree, tree

#: Two S3 servers cannot be had at once; HDFS and the local disk can be beside either.
PAIRS = [
    (one, other)
    for one in ("local", "moto_s3", "second_s3", "hdfs")
    for other in ("local", "moto_s3", "second_s3", "hdfs")
    if {one, other} != {"moto_s3", "second_s3"}
]
#: In this pair a savepoint goes to S3, and checkpoints are made of it there and on the local disk.
TELLING = ("local", "moto_s3")
CASES = [pytest.param(*pair, marks=() if pair == TELLING else pytest.mark.deep) for pair in PAIRS]
SLOW = (pytest.mark.servers, pytest.mark.deep)
KINDS = ["local", *(pytest.param(kind, marks=SLOW) for kind in ("moto_s3", "second_s3", "hdfs"))]


def save(checkpoint: str, target: str, **options: Any) -> SavepointSummary:
    options.setdefault("reporter", SilentSavepointReporter())
    return write_savepoint(
        target, JOB, [QuerySource("counts", checkpoint)], trigger="savepoint", **options
    )


def restore(path: str, target: str) -> None:
    [offer] = open_path(path, verify="logs").by_key.values()
    make_checkpoint(Recipe((offer.origin,)), target)


@pytest.mark.servers
@pytest.mark.parametrize(("checkpoint_kind", "savepoint_kind"), CASES)
def test_from_each_storage_to_each_other(
    checkpoint_kind: str, savepoint_kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    original = unpack("spark43-rocksdb-tws", tmp_path)
    with (
        place(checkpoint_kind, request, tmp_path) as one,
        place(savepoint_kind, request, tmp_path) as other,
    ):
        checkpoint = put_tree(original, f"{one}/checkpoint")
        cut = read_cut(checkpoint)
        assert cut.files == read_cut(str(original)).files
        content = {path: data for path, data in tree(checkpoint).items() if path in cut.files}
        info = save(checkpoint, f"{other}/savepoints")
        assert info.path.startswith(f"{other}/savepoints/savepoint-012345-")
        assert storage.remove_tree(*storage.split(checkpoint))
        savepoint = open_savepoint(info.path)
        check_files(savepoint, FULL)
        assert savepoint.is_relocatable
        assert tree(savepoint.query_root(savepoint.queries[0])) == content
        # Back to where the checkpoint was, and beside the savepoint.
        for new in (f"{one}/new", f"{other}/new"):
            restore(info.path, new)
            again = read_cut(new)
            assert again.files == cut.files
            restored = tree(new)
            [metadata] = [path for path in restored if "/_metadata/v2/" in path]
            # Only the absolute locations of schema files are others.
            assert storage.for_spark(new).removeprefix("file:") in restored[metadata].decode()
            del restored[metadata]
            assert restored == {p: data for p, data in content.items() if p != metadata}
        done = dispose(info.path)
        assert (done.gone, done.missing, done.foreign) == (True, 0, ())
        assert storage.list_names(f"{other}/savepoints") == []


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_found(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    original = unpack("spark43-rocksdb-dedup", tmp_path)
    with place(kind, request, tmp_path) as root:
        info = save(put_tree(original, f"{root}/c"), f"{root}/s")
        savepoint = open_savepoint(info.path)
        records = [r for r in savepoint.iter_files() if r.size > 20][:2]
        flipped, swapped = (savepoint.locate_file(record) for record in records)
        data = bytearray(storage.read_bytes(flipped))
        data[len(data) // 2] ^= 1
        storage.remove_file(*storage.split(flipped))
        storage.write_bytes(flipped, bytes(data))
        check_files(savepoint, "quick")  # sizes hold
        with pytest.raises(Corrupt, match="does not have its recorded digest"):
            check_files(savepoint, FULL)
        storage.remove_file(*storage.split(swapped))
        bad = list(find_bad_files(savepoint, FULL))
        assert [(b.path, b.reason) for b in bad] == [
            (
                f"{savepoint.queries[0].directory}/{records[0].path}",
                "does not have its recorded digest",
            ),
            (f"{savepoint.queries[0].directory}/{records[1].path}", "is missing"),
        ]
