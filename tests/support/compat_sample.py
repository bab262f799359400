"""A small table of Spark, made for tests: every verdict is in it once or more."""

from __future__ import annotations

import json
from typing import Any

from flinkish.compat.data import parse
from flinkish.compat.model import SPARK, Matrix

_LIMITATIONS = {
    "new-operator": ("The operator is new in 4.0.", "stay on 4.0 or later"),
    "new-log": ("The logs are of a newer form.", "write the savepoint in the old one"),
    "join-format": ("The join's state is of another form.", "migrate it", "join-format-2"),
    "slow-start": ("The first batch is slow.", "be patient"),
}


def cell(
    pair: str,
    operator: str,
    backend: str,
    formats: str,
    verdict: str,
    limitation: str = "",
    error: str | None = None,
) -> dict[str, Any]:
    """A cell as the file has it; formats and limitations are separated by spaces."""
    created, resumed = pair.split()
    return {
        "from": created,
        "to": resumed,
        "operator": operator,
        "backend": backend,
        "formats": formats.split(),
        "verdict": verdict,
        "limitations": limitation.split(),
        "error": error,
    }


def document() -> dict[str, Any]:
    """The table as its file would have it; new on every call, so that tests may spoil it."""
    return {
        "schema_version": 1,
        "framework": "spark",
        "measured": "2026-01-02",
        "scope": "Made up.",
        "versions": [
            {"line": "3.5", "measured": "3.5.9"},
            {"line": "4.0", "measured": "4.0.5"},
            {"line": "4.3", "measured": "4.3.0"},
        ],
        "limitations": [
            dict(zip(("id", "text", "advice", "rewrite"), (name, *words), strict=False))
            for name, words in _LIMITATIONS.items()
        ],
        "cells": [
            cell("3.5 3.5", "dedupe", "hdfs", "", "ok"),
            cell("3.5 4.0", "dedupe", "hdfs", "", "ok"),
            cell("3.5 4.0", "dedupe", "rocksdb", "", "ok"),
            cell("3.5 4.0", "dedupe", "rocksdb", "changelog", "ok"),
            cell("3.5 4.0", "symmetricHashJoin", "hdfs", "", "ok"),
            cell("3.5 4.0", "stateless", "none", "", "ok"),
            cell("4.0 4.3", "dedupe", "hdfs", "", "ok-with-limitations", "slow-start"),
            cell("4.0 4.3", "dedupe", "rocksdb", "", "ok"),
            cell("4.3 4.0", "stateless", "none", "", "ok"),
            cell("4.3 4.0", "stateless", "none", "offset-log-v2", "fails", "new-log", "v2"),
            cell("4.3 4.0", "dedupe", "hdfs", "", "ok"),
            cell("4.3 4.0", "dedupe", "rocksdb", "", "ok"),
            cell("4.3 4.0", "dedupe", "rocksdb", "changelog", "ok"),
            cell("4.3 4.0", "dedupe", "rocksdb", "checkpoint-v2", "fails", "new-log", "too new"),
            cell("4.3 4.0", "symmetricHashJoin", "rocksdb", "", "ok"),
            cell(
                "4.3 4.0",
                "symmetricHashJoin",
                "rocksdb",
                "join-v4",
                "needs-migration",
                "join-format",
            ),
            cell(
                "4.3 4.0",
                "symmetricHashJoin",
                "rocksdb",
                "changelog join-v4",
                "fails",
                "join-format",
            ),
            cell("4.3 3.5", "dedupe", "rocksdb", "", "ok"),
            cell(
                "4.3 3.5", "transformWithStateInPandasExec", "rocksdb", "", "fails", "new-operator"
            ),
        ],
    }


def with_more(limitation: tuple[str, str, str], *cells: dict[str, Any]) -> Matrix:
    """The table with another limitation (id, text, advice), and cells (see :func:`cell`)."""
    whole = document()
    whole["limitations"].append(dict(zip(("id", "text", "advice"), limitation, strict=True)))
    whole["cells"] += cells
    return parse(json.dumps(whole), "sample.json", SPARK)


def text() -> str:
    """The table as text."""
    return json.dumps(document())


def matrix() -> Matrix:
    """The table, loaded."""
    return parse(text(), "sample.json", SPARK)
