"""Several files placed on S3 at once, and the bounds of what is under way."""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.errors import StorageError
from flinkish.storage.concurrency import Room, in_flight
from flinkish.storage.placing import PlacedFile, Placing
from tests.support.servers.s3 import S3Server

NAMES = [f"{number}.delta" for number in range(6)]


@pytest.fixture
def bucket(moto_s3: S3Server) -> Iterator[str]:
    with moto_s3.configured():
        yield f"{moto_s3.create_bucket('placing')}/{uuid.uuid4().hex}"


@pytest.fixture(params=["local", "s3"])
def source(request: pytest.FixtureRequest, bucket: str, tmp_path: Path) -> str:
    """A directory with files, of which one is replaced and one removed after they were listed."""
    place = str(tmp_path / "source") if request.param == "local" else f"{bucket}/source"
    storage.make_directory(place)
    for name in NAMES:
        storage.write_bytes(storage.join(place, name), name.encode())
    return place


def placings(source: str, target: str) -> list[Placing]:
    listing = storage.list_directory(source)
    return [
        Placing(
            storage.join(source, name),
            storage.join(target, name),
            listing.stamp(name),
            listing.size(name),
        )
        for name in NAMES
    ]


def test_many_are_placed_at_once(source: str, bucket: str) -> None:
    target = f"{bucket}/target"
    files = placings(source, target)
    assert storage.batch_size(files[0].source, files[0].target) > 1
    placed = storage.place_all(files)
    assert [one.size for one in placed if isinstance(one, PlacedFile)] == [len(n) for n in NAMES]
    for name, one in zip(NAMES, placed, strict=True):
        data = name.encode()
        assert storage.read_bytes(storage.join(target, name)) == data
        assert isinstance(one, PlacedFile)
        assert one.digest in {
            f"sha256:{hashlib.sha256(data).hexdigest()}",
            f"md5:{hashlib.md5(data, usedforsecurity=False).hexdigest()}",
        }


def test_what_is_gone_or_replaced_is_told_in_its_place(source: str, bucket: str) -> None:
    files = placings(source, f"{bucket}/target")
    storage.remove_file(*storage.split(files[1].source))
    if storage.is_local(source):  # Spark renames a new file into place
        other = f"{files[4].source}.new"
        Path(other).write_bytes(b"!.delta")
        os.replace(other, files[4].source)
    else:
        storage.write_bytes(files[4].source, b"!.delta")
    placed = storage.place_all(files)
    lost = {at: type(one) for at, one in enumerate(placed) if not isinstance(one, PlacedFile)}
    assert lost == {1: FileNotFoundError, 4: storage.Replaced}


def test_a_refusal_is_a_storage_error(source: str, bucket: str) -> None:
    nowhere = f"s3://no-such-bucket-{uuid.uuid4().hex}/target"
    with pytest.raises(StorageError, match="bucket"):
        storage.place_all(placings(source, nowhere))


def test_room_is_never_more_than_there_is() -> None:
    room, lock = Room(10), threading.Lock()
    taken = most = 0

    def take(count: int) -> int:
        nonlocal taken, most
        with room.taken(count):
            with lock:
                taken += min(count, 10)
                most = max(most, taken)
            with lock:
                taken -= min(count, 10)
        return count

    wanted = [1, 4, 99, 7, 3, 10, 0, 6] * 50  # one asks for more than there is, and gets it all
    assert list(in_flight(take, wanted, workers=8)) == wanted
    assert taken == 0
    assert 0 < most <= 10
