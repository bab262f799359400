"""The packed table of a savepoint's files."""

from __future__ import annotations

import pickle

from flinkish.savepoint.format.file_table import FileTable, RecordedFile


def test_every_file_is_found_by_its_path() -> None:
    files = [(f"state/0/{n % 7}/{n}.delta", n, f"sha256:{n:064x}") for n in range(10_000)]
    files += [("metadata", 45, "md5:0"), ("sources/0/a name with spaces", 1, "md5:1")]
    table = pickle.loads(pickle.dumps(FileTable.of(files)))
    for path, size, digest in files[::97] + files[-2:]:
        assert table.get(path) == RecordedFile(size, digest)
    assert table.get("state/0/0/10001.delta") is None
    assert table.get("elsewhere/0") is None
    assert FileTable().get("metadata") is None
