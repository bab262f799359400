"""What a restore starts from; what ``--set-offsets`` takes, and where its files are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinkish.config import Config
from flinkish.errors import UsageError
from flinkish.launch import restoring
from flinkish.launch.restoring import offset_pair, offsets_of, restore_spec
from flinkish.messages.restore_options import NO_OPTIONS


@pytest.mark.parametrize(
    ("value", "pair"),
    [
        ("in=earliest", ("in", "earliest")),
        ("kafka[subscribe=a]=latest", ("kafka[subscribe=a]", "latest")),
        ("in=timestamp:2026-01-31T10:00:00Z", ("in", "timestamp:2026-01-31T10:00:00Z")),
        ('in={"a=b": {"0": 1}}', ("in", '{"a=b": {"0": 1}}')),
        ("in=/tmp/offsets.json", ("in", "/tmp/offsets.json")),
        ("t=/data/day=1/off.json", ("t", "/data/day=1/off.json")),
        ("files[path=/in]=/data/day=1/o.json", ("files[path=/in]", "/data/day=1/o.json")),
        ("files[path=/in]=latest", ("files[path=/in]", "latest")),
    ],
)
def test_pairs(value: str, pair: tuple[str, str]) -> None:
    assert offset_pair(value) == pair


@pytest.mark.parametrize("value", ["earliest", "in=", "", "=earliest"])
def test_no_pairs(value: str) -> None:
    with pytest.raises(UsageError, match="is not SOURCE=WHERE"):
        offsets_of([offset_pair(value)])


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_text('{"a": {"0": 5}}\n')
    wanted = (("in", '{"a":{"0":5}}'),)
    for where in (str(file), '{"a": {"0": 5}}'):
        assert offsets_of([("in", where)]) == wanted
    assert offsets_of([("in", "timestamp:2023-11-14T22:13:20Z"), ("b", "latest")]) == (
        *(("in", "timestamp:1700000000000"), ("b", "latest")),
    )


def test_files_that_hold_no_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "offsets.json"
    with pytest.raises(UsageError, match="no file with offsets"):
        offsets_of([("in", str(file))])
    for content, says in (
        ("{", "is not JSON"),
        ("[1]", "does not specify offsets"),
        ("\xff", "is not JSON"),
    ):
        file.write_bytes(content.encode("latin-1"))
        with pytest.raises(UsageError, match=says):
            offsets_of([("in", str(file))])
    with pytest.raises(UsageError, match="cannot read"):
        offsets_of([("in", str(tmp_path))])
    monkeypatch.setattr(restoring, "_MAX_OFFSETS", 20)
    file.write_text(json.dumps({"a": {str(n): n for n in range(5)}}))
    with pytest.raises(UsageError, match="larger than 20 bytes"):
        offsets_of([("in", str(file))])


def test_a_source_is_named_once() -> None:
    with pytest.raises(UsageError, match="twice"):
        offsets_of([("in", "earliest"), ("in", "latest")])


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("sp", "sp"),
        ("sp/_metadata", "sp"),
        ("latest", "sp"),
        ("latest/_metadata", "sp"),
        ("newest", "sp"),
        ("above/sp", "above/sp"),
        ("plain", "plain"),
        ("to-plain", "to-plain"),
        ("plain/_metadata", "plain/_metadata"),
        ("gone/_metadata", "gone/_metadata"),
        ("dangling", "dangling"),
        ("loop/_metadata", "loop/_metadata"),
    ],
)
def test_a_restore_records_the_directory_of_the_savepoint(
    tmp_path: Path, named: str, meant: str
) -> None:
    for name in ("sp", "plain"):
        (tmp_path / name).mkdir()
    (tmp_path / "sp/_metadata").write_bytes(b"")
    links = {"latest": "sp", "newest": "latest", "to-plain": "plain", "above": "."}
    for link, target in {**links, "dangling": "gone", "loop": "loop"}.items():
        (tmp_path / link).symlink_to(target)
    config = Config.load(flags={}, spark={}, environ={"HOME": str(tmp_path)}, cwd=str(tmp_path))
    spec = restore_spec(f"file://{tmp_path}/{named}", NO_OPTIONS, config)
    assert spec is not None
    assert spec.path == str(tmp_path / meant)
