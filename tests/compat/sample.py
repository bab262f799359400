"""A small table of Spark, made for tests: every verdict is in it once or more."""

from __future__ import annotations

import json
from typing import Any

from flinkish.compat.data import parse
from flinkish.compat.model import SPARK, Matrix

_LIMITATIONS = {
    "new-operator": ("The operator is new in 4.0.", "stay on 4.0 or later"),
    "new-log": ("The logs are of a newer form.", "write the savepoint in the old one"),
    "join-format": ("The join's state is of another form.", "migrate it"),
    "slow-start": ("The first batch is slow.", "be patient"),
}


def _cell(
    pair: str,
    operator: str,
    backend: str,
    formats: str,
    verdict: str,
    limitation: str = "",
    error: str | None = None,
) -> dict[str, Any]:
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
            {"id": name, "text": text, "advice": advice}
            for name, (text, advice) in _LIMITATIONS.items()
        ],
        "cells": [
            _cell("3.5 3.5", "dedupe", "hdfs", "", "ok"),
            _cell("3.5 4.0", "dedupe", "hdfs", "", "ok"),
            _cell("3.5 4.0", "dedupe", "rocksdb", "", "ok"),
            _cell("3.5 4.0", "dedupe", "rocksdb", "changelog", "ok"),
            _cell("3.5 4.0", "symmetricHashJoin", "hdfs", "", "ok"),
            _cell("3.5 4.0", "stateless", "none", "", "ok"),
            _cell("4.0 4.3", "dedupe", "hdfs", "", "ok-with-limitations", "slow-start"),
            _cell("4.0 4.3", "dedupe", "rocksdb", "", "ok"),
            _cell("4.3 4.0", "stateless", "none", "", "ok"),
            _cell("4.3 4.0", "stateless", "none", "offset-log-v2", "fails", "new-log", "v2"),
            _cell("4.3 4.0", "dedupe", "hdfs", "", "ok"),
            _cell("4.3 4.0", "dedupe", "rocksdb", "", "ok"),
            _cell("4.3 4.0", "dedupe", "rocksdb", "changelog", "ok"),
            _cell("4.3 4.0", "dedupe", "rocksdb", "checkpoint-v2", "fails", "new-log", "too new"),
            _cell("4.3 4.0", "symmetricHashJoin", "rocksdb", "", "ok"),
            _cell(
                "4.3 4.0",
                "symmetricHashJoin",
                "rocksdb",
                "join-v4",
                "needs-migration",
                "join-format",
            ),
            _cell(
                "4.3 4.0",
                "symmetricHashJoin",
                "rocksdb",
                "changelog join-v4",
                "fails",
                "join-format",
            ),
            _cell("4.3 3.5", "dedupe", "rocksdb", "", "ok"),
            _cell(
                "4.3 3.5", "transformWithStateInPandasExec", "rocksdb", "", "fails", "new-operator"
            ),
        ],
    }


def text() -> str:
    """The table as text."""
    return json.dumps(document())


def matrix() -> Matrix:
    """The table, loaded."""
    return parse(text(), "sample.json", SPARK)
