"""The recorded graphs: ids that Apache Flink 2.3.0 computed itself."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from flinkish.operators import golden
from flinkish.operators.graph import OperatorGraph

PATH = Path(__file__).parents[1] / "data" / "golden_operator_ids.json.gz"


@cache
def recorded() -> dict[str, Any]:
    return dict(golden.load(str(PATH)))


@cache
def graphs() -> dict[str, OperatorGraph]:
    return {entry["graph"]: golden.read_graph(entry) for entry in recorded()["graphs"]}
