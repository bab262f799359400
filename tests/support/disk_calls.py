"""What a run does to the files below a directory, in order: written, synced and renamed."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Call:
    """``what`` is done to ``path``: ``write`` (opened for it), ``sync``, or ``rename`` to it."""

    what: str
    path: str
    #: Of a file that is synced: how many bytes it had then.
    size: int | None = None
    #: Where a renamed file was before.
    source: str | None = None


_lock = threading.Lock()
_recording: tuple[str, list[Call]] | None = None
_is_listening = False


def _note(call: Call) -> None:
    with _lock:
        if _recording is not None and (call.path + "/").startswith(_recording[0]):
            _recording[1].append(call)


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: Python tells it of every file that anything opens or renames."""
    if _recording is None:
        return
    if event == "open" and isinstance(arguments[0], str):
        if arguments[2] & (os.O_WRONLY | os.O_RDWR):
            _note(Call("write", arguments[0]))
    elif event == "os.rename":  # os.replace, too
        source, target = (os.fspath(each) for each in arguments[:2])
        _note(Call("rename", target, source=source))


@contextmanager
def recorded(directory: Path) -> Iterator[list[Call]]:
    """The calls below ``directory`` during the context, which are all carried out."""
    global _recording, _is_listening
    if not _is_listening:  # an audit hook stays for ever
        sys.addaudithook(_listen)
        _is_listening = True
    sync = os.fsync

    def fsync(file: Any) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        size = None if os.path.isdir(path) else os.fstat(descriptor).st_size
        sync(descriptor)  # what fails was not done
        _note(Call("sync", path, size=size))

    calls: list[Call] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        _recording = (f"{directory}/", calls)
        try:
            yield calls
        finally:
            _recording = None
