"""Order of the whole suite: what is fast and fails fast comes before what starts Spark."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Plain tests first, then those that need a server, then those that start a JVM."""

    def cost(item: pytest.Item) -> int:
        names = {marker.name for marker in item.iter_markers()}
        return 2 if names & {"spark", "matrix"} else 1 if "postgres" in names else 0

    items.sort(key=cost)  # stable: within each group the order is pytest's
