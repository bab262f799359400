"""Savepoints whose paths are mapped, and what the checkpoints made of them have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.connectors.path_map import PathMap
from flinkish.errors import UsageError
from flinkish.restore.check.file_places import file_reading
from flinkish.restore.check.source_files import missing_files
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.materialize.origin_checkpoints import read_file
from flinkish.restore.materialize.source_logs import read_files, with_other_files
from flinkish.restore.origin.mapped_paths import with_mapped_paths
from flinkish.restore.origin.restore_origin import (
    RestorableQuery,
    RestoreOrigin,
    open_path,
)
from flinkish.restore.recipe import Recipe
from tests.restore.check.test_source_files import Saved, at
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.restore.query_builders import saved_query, source


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    """Two files, of which the second is planned; beside them the log of a Kafka source."""
    saved = Saved(tmp_path)
    saved.log("0", "2.compact", (saved.file(9), 2))
    saved.log("0", "3", (saved.file(0), 3))
    saved.log("0", "4", (saved.file(1), 4))
    kafka = tmp_path / "checkpoint/sources/1/0"
    kafka.parent.mkdir()
    kafka.write_bytes(b'\x00v1\n{"in":{"0":1}}')
    saved.offsets(3, at(3), '{"in":{"0":1}}')
    saved.offsets(4, at(4), '{"in":{"0":1}}')
    return saved


def offered(saved: Saved, **sink: Any) -> RestoreOrigin:
    reads = source(f"file[{saved.input}]", offset=at(3))
    archive = replace(reads, options={"sourcearchivedir": f"{saved.input}/old"})
    query = replace(saved_query(sources=(archive,)), sink=sink)
    offer = RestorableQuery(query, saved.origin(), "id")
    return RestoreOrigin({"q": offer}, is_savepoint=True)


def test_the_log_and_all_that_is_judged_by_it_have_the_new_paths(saved: Saved) -> None:
    new = saved.root / "new place"
    saved.input.rename(new)
    pairs = ((str(saved.input), str(new)),)
    offer = with_mapped_paths(offered(saved, path=f"{saved.input}/out"), pairs).by_key["q"]
    (mapped,) = offer.query.sources or ()
    assert mapped.signature == f"file[{new}]"
    assert mapped.options == {"sourcearchivedir": f"{new}/old"}
    assert offer.query.sink == {"path": f"{new}/out"}
    assert offer.path_notes == (f"query 'q': {saved.input} is now {new}",)
    found = file_reading(offer.origin, mapped, str(new), new.as_uri(), {})
    assert found is not None
    assert (found.files, found.outside) == (3, 0)
    (check,) = missing_files(offer.origin, offer.query.sources)
    assert (check.planned, check.planned_gone, check.read_gone) == (1, (), 0)
    (new / "1.json").unlink()
    (check,) = missing_files(offer.origin, offer.query.sources)
    assert check.planned_gone == (str(new / "1.json"),)
    assert read_file(offer.origin, "sources/1/0") == b'\x00v1\n{"in":{"0":1}}'


def test_a_checkpoint_that_is_made_has_the_new_paths(tmp_path: Path) -> None:
    """Of a plain one, whose files are linked as they are; Hadoop would refuse stale checksums."""
    root = CheckpointLikeness(tmp_path / "plain").run_to(2).root
    (offer,) = with_mapped_paths(open_path(str(root)), (("/in", "/at b"),)).by_key.values()
    for name, recipe in (
        ("same", Recipe((offer.origin,))),
        ("later", Recipe((offer.origin,), rebase_to=5)),
    ):
        made = tmp_path / name
        make_checkpoint(recipe, str(made))
        for entry in range(3):
            (file,) = read_files((made / f"sources/0/{entry}").read_bytes(), str(entry))
            assert file.path == f"file:///at%20b/{entry}.json"
            assert not (made / f"sources/0/.{entry}.crc").exists()
    assert b"/in/2.json" in (root / "sources/0/2").read_bytes()


def test_one_that_fits_nothing_is_refused_with_what_there_is(saved: Saved) -> None:
    pairs = ((str(saved.input), "/new"), ("/elsewhere", "s3://b/in"))
    with pytest.raises(UsageError, match="names a path in /elsewhere") as refused:
        with_mapped_paths(offered(saved, path="/out"), pairs)
    named = f"the paths that it could map: {saved.input}, {saved.input}/old, /out"
    assert str(refused.value.hint).startswith(named)


def test_a_single_file_that_was_read_can_be_mapped(saved: Saved) -> None:
    new = saved.root / "new.json"
    (saved.input / "1.json").rename(new)
    pairs = ((str(saved.input / "1.json"), str(new)),)
    offer = with_mapped_paths(offered(saved), pairs).by_key["q"]
    assert offer.path_notes == (f"query 'q': {pairs[0][0]} is now {pairs[0][1]}",)
    (check,) = missing_files(offer.origin, offer.query.sources)
    assert check.planned_gone == ()


def test_more_paths_than_are_named_are_counted(saved: Saved) -> None:
    saved.log("0", "4", *((f"file:///in/{n}/a.json", 4) for n in range(7)))
    with pytest.raises(UsageError) as refused:
        with_mapped_paths(offered(saved), (("/elsewhere", "/new"),))
    assert str(refused.value.hint).endswith(" and 4 more")


def test_entries_of_a_file_sink_are_mapped_too() -> None:
    line = b'{"path":"file:///a/1","size":3,"isDir":false,"action":"add"}'
    data = b"v1\n" + line + b"\n" + line.replace(b"/a/", b"/b/")
    mapped = with_other_files(data, "0", PathMap((("/a", "/c"),)).url)
    assert mapped == b"v1\n" + line.replace(b"/a/", b"/c/") + b"\n" + line.replace(b"/a/", b"/b/")
    assert with_other_files(b"v1", "0", PathMap((("/a", "/c"),)).url) == b"v1"
