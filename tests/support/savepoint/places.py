"""Places to keep savepoints in, as fixtures of tests that run on several storages."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from flinkish import storage

KINDS = ("local", "moto_s3", "second_s3", "hdfs", "gcs_server", "azure_server")


@contextmanager
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty location on a storage of that kind; S3's environment lasts as long as the context.

    Two S3 servers at once are not possible: clients find them by the environment.
    """
    with ExitStack() as stack:
        if kind == "local":
            yield str(tmp_path / f"place-{uuid.uuid4().hex[:8]}")
            return
        server = request.getfixturevalue(kind)
        if kind == "hdfs":
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in server.environment().items():
                patch.setenv(name, value)
            yield f"{server.url}/{uuid.uuid4().hex}"
            return
        stack.enter_context(server.configured())
        make = server.create_container if kind == "azure_server" else server.create_bucket
        yield f"{make('savepoints')}/{uuid.uuid4().hex}"


def put_tree(source: Path, target: str) -> str:
    """Copy a local directory tree to a location; the location."""
    for relative, _ in storage.walk_files(str(source)):
        path = storage.join(target, relative)
        storage.make_directory(storage.parent(path))
        storage.write_bytes(path, storage.read_bytes(storage.join(str(source), relative)))
    return target


def tree(location: str) -> dict[str, bytes]:
    """Every visible file below a location, with its content."""
    return {
        path: storage.read_bytes(storage.join(location, path))
        for path, _ in storage.walk_files(location)
    }
