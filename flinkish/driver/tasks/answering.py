"""The answer of a driver that carries out a single task: a JSON file, written last."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from flinkish import storage
from flinkish.config import Config
from flinkish.errors import FlinkishError
from flinkish.spec.codec import encode

#: The environment variable with the configuration, a JSON object.
OPTIONS_VARIABLE = "FLINKISH_OPTIONS"
_TRANSFERS = "execution.savepoint.transfers"


def answer(variable: str, work: Callable[[str], object]) -> int:
    """Do some work, and write its result (a dataclass) or the error that refused it.

    Parameters
    ----------
    variable
        The environment variable with the path of the answer.
    work
        Called with that path.

    Returns
    -------
    int
        The driver's exit status.
    """
    path = os.environ[variable]
    error: FlinkishError | None = None
    found: object = None
    try:
        options = json.loads(os.environ.get(OPTIONS_VARIABLE) or "{}")
        transfers = options.get(_TRANSFERS) or Config.load(environ={}).get(_TRANSFERS)
        storage.set_connections(int(str(transfers)))
        found = work(path)
    except FlinkishError as refused:
        error = refused
    write_answer(path, found, error)
    return 0 if error is None else 1


def write_answer(path: str, found: object, error: FlinkishError | None) -> None:
    """Write the result of a driver or its error: a document of ``flinkish.spec``, with ``error``.

    :func:`flinkish.launch.driver_call.call_driver` reads it.
    """
    if error is None:
        replace_file(path, {**encode(found), "error": None})
    else:
        replace_file(path, {"error": error.to_record()})


def replace_file(path: str, content: Any) -> None:
    """Write JSON to a file atomically, so that readers never see a part of it."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(content, file, default=str)
    os.replace(path + ".tmp", path)
