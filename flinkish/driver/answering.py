"""A driver that is run for one answer: a JSON file, which is the last thing it makes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from flinkish import storage
from flinkish.config import Config
from flinkish.errors import FlinkishError

#: The environment variable with the configuration, a JSON object.
OPTIONS_VARIABLE = "FLINKISH_OPTIONS"
_TRANSFERS = "execution.savepoint.transfers"


def answer(variable: str, work: Callable[[str], Mapping[str, Any]]) -> int:
    """Do some work, and write what it returns, or why it was refused.

    Parameters
    ----------
    variable: the environment variable with the path of the answer.
    work: is given that path.

    Returns the driver's exit status.
    """
    path = os.environ[variable]
    record: dict[str, Any] = {"error": None}
    try:
        options = json.loads(os.environ.get(OPTIONS_VARIABLE) or "{}")
        transfers = options.get(_TRANSFERS) or Config.load(environ={}).get(_TRANSFERS)
        storage.set_connections(int(str(transfers)))
        record |= work(path)
    except FlinkishError as refused:
        record["error"] = refused.to_record()
    replace_file(path, record)
    return 0 if record["error"] is None else 1


def replace_file(path: str, content: Any) -> None:
    """Write JSON to a file that whoever waits for it sees complete or not at all."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(content, file, default=str)
    os.replace(path + ".tmp", path)
