"""The few methods of Spark's ``SparkContext`` and ``RDD`` that the engine uses, in this process.

Tasks run one after the other and are pickled as Spark does; what is between them is a dictionary
in place of a shuffle. For tests of what tasks do; that Spark runs them is for others.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Accumulator:
    """Counts, in this process only: a copy of a task's does not come back."""

    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, more: int) -> None:
        self.value += more


class InlineContext:
    """Stands for a ``SparkContext``."""

    defaultParallelism = 2

    def __init__(self, version: str = "4.3.0") -> None:
        self.version = version

    def accumulator(self, value: int) -> Accumulator:
        return Accumulator(value)

    def setJobDescription(self, text: str | None) -> None:
        return

    def parallelize(self, items: Iterable[Any], slices: int) -> InlineRDD:
        listed = list(items)
        return InlineRDD([listed[i::slices] for i in range(slices)])


class InlineRDD:
    """Stands for an ``RDD``: its partitions as lists."""

    def __init__(self, partitions: list[list[Any]]) -> None:
        self._partitions = partitions

    def mapPartitions(self, function: Callable[[Iterator[Any]], Iterable[Any]]) -> InlineRDD:
        return InlineRDD([list(_sent(function)(iter(part))) for part in self._partitions])

    def mapPartitionsWithIndex(
        self, function: Callable[[int, Iterator[Any]], Iterable[Any]]
    ) -> InlineRDD:
        parts = enumerate(self._partitions)
        return InlineRDD([list(_sent(function)(i, iter(part))) for i, part in parts])

    def partitionBy(self, count: int, place: Callable[[Any], int]) -> InlineRDD:
        parts: list[list[Any]] = [[] for _ in range(count)]
        for part in self._partitions:
            for key, value in part:
                parts[place(key) % count].append((key, pickle.loads(pickle.dumps(value))))
        return InlineRDD(parts)

    def collect(self) -> list[Any]:
        return [item for part in self._partitions for item in part]


def _sent(function: Any) -> Any:
    return pickle.loads(pickle.dumps(function))
