"""The target of a savepoint is removed while it is written: the error says so, and blames no one
else. (A link that fails does not say which of its two ends is missing.)"""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.errors import StorageError
from flinkish.messages.requests import SavepointSummary
from flinkish.savepoint.format.contents import QuerySource
from flinkish.savepoint.format.reader import check_files, open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.transfer import ThreadedTransferer, TransferOutcome, first_wrong_size
from flinkish.savepoint.write.writer import write_savepoint
from tests.savepoint.conftest import JOB
from tests.support.checkpoints.handwritten import CheckpointLikeness


class Reporter(SilentSavepointReporter):
    """Does something at one phase, or when files are reported to be in place."""

    def __init__(self, moment: str, act: Callable[[], None]) -> None:
        self._moment, self._act = moment, act

    def phase(self, name: str) -> None:
        if name == self._moment:
            self._act()

    def files(self, done: int, total: int) -> None:
        if self._moment == "placed":
            self._act()


class Interrupted(ThreadedTransferer):
    """Does something when so many files are in place."""

    def __init__(self, count: int, act: Callable[[], None]) -> None:
        self._count, self._act = count, act

    def carry(
        self, transfers: Iterable[storage.Placing], *, total_bytes: int
    ) -> Generator[TransferOutcome, None, None]:
        for number, transfer in enumerate(transfers):
            if number == self._count:
                self._act()
            yield from super().carry([transfer], total_bytes=transfer.size)


def save(root: Path, target: Path, **options: object) -> SavepointSummary:
    query = QuerySource("counts", str(root))
    options.setdefault("reporter", SilentSavepointReporter())
    return write_savepoint(str(target), JOB, [query], trigger="savepoint", **options)  # type: ignore[arg-type]


def remove_target(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)


def remove_savepoint(target: Path) -> None:
    for path in target.glob("savepoint-*"):
        shutil.rmtree(path)


def remove_query(target: Path) -> None:
    for path in target.glob("savepoint-*/0-*"):
        shutil.rmtree(path)


def remove_state(target: Path) -> None:
    for path in target.glob("savepoint-*/0-*/state"):
        shutil.rmtree(path)


def remove_files(target: Path) -> None:
    """As ``rm -r`` is halfway: the directories are still there."""
    for path in target.glob("savepoint-*/**/*"):
        if path.is_file():
            path.unlink()


#: When metadata is written all files were there: verify tells of those that are gone later.
CASES = [
    (moment, remove)
    for moment in ("placed", 1, 5)
    for remove in (remove_target, remove_savepoint, remove_query, remove_state, remove_files)
] + [("metadata", remove_target), ("metadata", remove_savepoint)]


@pytest.fixture(params=["linked", "copied"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    if request.param == "copied":
        monkeypatch.setattr(os, "link", refuse)


def check(caught: pytest.ExceptionInfo[StorageError], root: Path, target: Path) -> None:
    error = caught.value
    assert error.code == 16
    assert str(target) in error.message
    assert str(root) not in error.message
    assert not list(target.glob("savepoint-*"))


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize(("moment", "remove"), CASES)
def test_the_error_names_the_target(
    likeness: CheckpointLikeness, tmp_path: Path, moment: str | int, remove: Callable[[Path], None]
) -> None:
    target = tmp_path / "target"
    gone: list[int] = []

    def act() -> None:
        if not gone:
            remove(target)
        gone.append(1)

    options: dict[str, object] = (
        {"transferer": Interrupted(moment, act)}
        if isinstance(moment, int)
        else {"reporter": Reporter(moment, act)}
    )
    with pytest.raises(StorageError) as caught:
        save(likeness.root, target, **options)
    check(caught, likeness.root, target)
    again = save(likeness.root, target)
    check_files(open_savepoint(again.path), "full")


def test_a_file_that_goes_after_it_was_listed_is_not_as_it_was_written(
    likeness: CheckpointLikeness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    saved = Path(save(likeness.root, target).path)
    path = next(saved.glob("0-*/commits/*"))
    files = [(f"commits/{path.name}", path.stat().st_size)]
    assert first_wrong_size(str(path.parent.parent), iter(files)) is None
    list_directory = storage.list_directory

    def list_then_remove(location: str) -> storage.Listing:
        listing = list_directory(location)
        path.unlink()
        return listing

    monkeypatch.setattr(storage, "list_directory", list_then_remove)
    assert first_wrong_size(str(path.parent.parent), iter(files)) == f"commits/{path.name}"


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("is_told", [False, True])
def test_what_a_compiled_client_does_not_find_is_listed(
    is_told: bool, lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [(f"state/{number}/1.delta", 10 * number) for number in range(5)]
    there = dict(files)
    for path, size in files:
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(bytes(size))
    if lost:
        (tmp_path / files[3][0]).unlink()
        del there[files[3][0]]

    def has_sizes(location: str, sizes: Mapping[str, int]) -> bool:
        directory = os.path.relpath(location, tmp_path)
        return is_told and all(there.get(f"{directory}/{k}") == v for k, v in sizes.items())

    monkeypatch.setattr(storage, "has_sizes", has_sizes)
    if is_told and not lost:
        monkeypatch.setattr(storage, "list_directory", None)
    assert first_wrong_size(str(tmp_path), iter(files)) == (files[3][0] if lost else None)


def test_removed_by_another_at_any_moment(likeness: CheckpointLikeness, tmp_path: Path) -> None:
    target = tmp_path / "target"
    stop = threading.Event()

    def clean() -> None:
        while not stop.wait(0.0005):
            remove_target(target)

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    messages: list[str] = []
    try:
        deadline = time.monotonic() + 60
        while len(messages) < 20 and time.monotonic() < deadline:
            try:
                save(likeness.root, target)
            except StorageError as error:
                messages.append(error.message)
    finally:
        stop.set()
        cleaner.join()
    assert len(messages) == 20
    for message in messages:
        assert str(likeness.root) not in message
        assert str(target) in message
