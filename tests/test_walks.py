"""The walks of CONTRIBUTING.md, held against the import graph.

At most 15 stations each, none twice; a station is imported by one before it in the same process,
or begins another process.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_imports import PACKAGE, import_graph

TEXT = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALKS = {
    command: re.findall(r"(→|⇢)?\s*`([\w/]+)`", stations)
    for command, stations in re.findall(r"^\*\*`flinkish (.+?)`:\*\*(.+?)\n\n", TEXT, re.M | re.S)
}


def test_there_are_three() -> None:
    assert sorted(command.split()[0] for command in WALKS) == ["migrate", "run", "savepoint"]


@pytest.mark.parametrize("command", WALKS)
def test_each_station_is_reached(command: str) -> None:
    graph = import_graph(PACKAGE, "flinkish")
    stations = [name for _, name in WALKS[command]]
    assert len(stations) <= 15
    assert len(set(stations)) == len(stations)
    here: list[str] = []
    for arrow, name in WALKS[command]:
        module = "flinkish." + name.replace("/", ".")
        assert module in graph, f"there is no module {module}"
        if arrow == "⇢":
            here = []
        assert not here or any(module in graph[before] for before in here), f"nobody imports {name}"
        here.append(module)
