from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

import pytest

from flinkish.savepoint.format import digests
from flinkish.savepoint.format.digests import FileTable, RecordedFile
from tests.support.checkpoints.handwritten import sidecar


def test_hadoops_own_sidecars_agree_with_the_bytes(tmp_path: Path) -> None:
    """Checked on every file that real Spark wrote into the recorded checkpoints."""
    from tests.support.checkpoints.recorded import NAMES, unpack

    checked = 0
    for name in NAMES:
        for path in unpack(name, tmp_path).rglob("*"):
            if path.is_dir() or path.name.startswith("."):
                continue
            found = digests.sidecar_digest(str(path), path.stat().st_size)
            assert found is not None, path
            assert found == digests.compute(str(path), digests.CRC32_512)
            assert digests.matches(str(path), found)
            checked += 1
    assert checked > 200


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1024, 1 << 20, (1 << 20) + 700])
def test_sizes(tmp_path: Path, size: int) -> None:
    path = tmp_path / "f"
    data = os.urandom(size)
    path.write_bytes(data)
    (tmp_path / ".f.crc").write_bytes(sidecar(data))
    assert digests.sidecar_digest(str(path), size) == digests.compute(str(path), digests.CRC32_512)
    sha = digests.compute(str(path), digests.SHA256)
    assert sha == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert digests.matches(str(path), sha)
    if size:
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        assert not digests.matches(str(path), sha)
        assert digests.sidecar_digest(str(path), size) != digests.compute(
            str(path), digests.CRC32_512
        )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"crc\x00",
        sidecar(b"x" * 1000)[:-4],  # for a shorter file
        sidecar(b"x" * 2000),  # for a longer file
        b"CRC\x00" + sidecar(b"x" * 1000)[4:],
        b"crc\x00\x00\x00\x10\x00" + sidecar(b"x" * 1000)[8:],  # another chunk size
    ],
)
def test_a_sidecar_that_does_not_fit_is_ignored(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 1000)
    (tmp_path / ".f.crc").write_bytes(content)
    assert digests.sidecar_digest(str(path), 1000) is None
    assert digests.of_checkpoint_file(str(path), 1000).startswith("sha256:")


def test_the_linked_file_is_read_when_the_original_is_gone(tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(b"data")
    found = digests.of_checkpoint_file(str(tmp_path / "gone"), 4, data_path=str(tmp_path / "copy"))
    assert found == digests.compute(str(tmp_path / "copy"), digests.SHA256)
    with pytest.raises(FileNotFoundError):
        digests.of_checkpoint_file(str(tmp_path / "gone"), 4)


@pytest.mark.parametrize("text", ["md5:" + "0" * 64, "sha256", "sha256:12", "", "crc32-512:"])
def test_unknown_digests(tmp_path: Path, text: str) -> None:
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(digests.UnknownDigest):
        digests.matches(str(tmp_path / "f"), text)


def test_every_file_is_found_by_its_path() -> None:
    files = [(f"state/0/{n % 7}/{n}.delta", n, f"sha256:{n:064x}") for n in range(10_000)]
    files += [("metadata", 45, "md5:0"), ("sources/0/a name with spaces", 1, "md5:1")]
    table = pickle.loads(pickle.dumps(FileTable.of(files)))
    for path, size, digest in files[::97] + files[-2:]:
        assert table.get(path) == RecordedFile(size, digest)
    assert table.get("state/0/0/10001.delta") is None
    assert table.get("elsewhere/0") is None
    assert FileTable().get("metadata") is None
    assert table.names("") == ["metadata", "sources", "state"]
    assert table.names("state/0") == [*"0123456"]
    assert len(table.names("state/0/0")) == len(range(0, 10_000, 7))
    assert table.names("sources/0") == ["a name with spaces"]
    assert (table.names("metadata"), FileTable().names("")) == ([], [])
