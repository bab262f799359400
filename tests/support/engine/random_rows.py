"""Random schemas and rows that Spark has too, and the Spark that is asked about them.

``python -m tests.support.engine.random_rows [PYTHON]`` asks the Spark of a Python (this one, if
none is given) for the hashes of random values of every type, and writes
``tests/data/golden_hashes-<version>.json.gz``: for each case the schema, the rows, their hashes.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from flinkish.engine.rows.row_codec import compile_schema
from flinkish.engine.rows.types import INTERVAL_ARROW
from tests.engine.rows.test_row_codec import LEAVES as ALL_LEAVES
from tests.engine.rows.test_row_codec import Typed
from tests.support.engine.golden_rows import plain

REPOSITORY = Path(__file__).parents[3]
_DAY = 86_400_000_000
#: Years 2 to 9998: Python has all of them, whatever is added for a time zone.
_MICROS = st.integers(-62_135_596_800_000_000 + 366 * _DAY, 253_402_300_799_999_999 - 366 * _DAY)
#: Of the types of ``test_rowcodec`` those that a DataFrame has, and values that Python has.
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    **{name: values for name, values in ALL_LEAVES.items() if name != "varchar(7)"},
    "timestamp": _MICROS,
    "timestamp_ntz": _MICROS,
    "time(6)": st.integers(0, _DAY - 1).map(lambda micros: micros * 1000),
}
#: Types that Spark 3.5 does not have.
SINCE_4 = frozenset({"time(6)", "variant"})
_KEYS = ("string", "long", "decimal(38,10)", "date", "timestamp")  # Python has to hash them


def schema(*types: Any) -> dict[str, Any]:
    """A struct whose fields may have the same names, as Spark's state schemas do."""
    return {"type": "struct", "fields": [_field(f"f{i % 3}", t) for i, t in enumerate(types)]}


def _field(name: str, data_type: Any) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": True, "metadata": {}}


def _nested(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def array(of: Typed) -> Typed:
        data_type = {"type": "array", "elementType": of[0], "containsNull": True}
        return data_type, st.lists(st.none() | of[1], max_size=5)

    def mapping(both: tuple[str, Typed]) -> Typed:
        key, value = both
        data_type = {"type": "map", "keyType": key, "valueType": value[0]}
        pairs = st.tuples(LEAVES[key], st.none() | value[1])
        # Scala keeps the order of up to four entries.
        values = st.lists(pairs, max_size=4, unique_by=lambda pair: pair[0])
        return {**data_type, "valueContainsNull": True}, values

    def struct_of(parts: list[Typed]) -> Typed:
        # Arrow takes structs by name from Python, so that here names do not repeat.
        fields = [_field(f"n{i}", t) for i, (t, _) in enumerate(parts)]
        values = {f"n{i}": st.none() | values for i, (_, values) in enumerate(parts)}
        return {"type": "struct", "fields": fields}, st.fixed_dictionaries(values)

    return (
        inner.map(array)
        | st.tuples(st.sampled_from(_KEYS), inner).map(mapping)
        | st.lists(inner, min_size=1, max_size=3).map(struct_of)
    )


def types_of(leaves: list[str]) -> st.SearchStrategy[Typed]:
    """Random types, nested or not, with strategies of their values."""
    return st.recursive(st.sampled_from([(name, LEAVES[name]) for name in leaves]), _nested)


@dataclass(frozen=True)
class Table:
    """Rows of a schema: Arrow's columns, and the bytes that the engine makes of them."""

    schema: dict[str, Any]
    batch: Any
    rows: list[bytes]


def table_of(chosen: list[tuple[Any, list[Any]]]) -> Table:
    """A table of columns, each given by its type (JSON) and values."""
    made = schema(*(data_type for data_type, _ in chosen))
    codec = compile_schema(made)
    arrays = [
        pa.array(values, field.type)
        for (_, values), field in zip(chosen, codec.schema, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=codec.schema)
    return Table(made, batch, codec.encode(batch).rows())


@st.composite
def tables(draw: st.DrawFn, leaves: list[str], most: int = 6) -> Table:
    """Random tables of one to five rows."""
    chosen = draw(st.lists(types_of(leaves), min_size=1, max_size=most))
    count = draw(st.integers(1, 5))
    columns = [(t, [draw(st.none() | values) for _ in range(count)]) for t, values in chosen]
    return table_of(columns)


def values_of(batch: Any) -> list[Any]:
    """The values as Spark's Python shows them (``sparkrows.shown``), each row by ``plain``."""
    columns = [[_shown(v, column.type) for v in column.to_pylist()] for column in batch.columns]
    rows: list[Any] = _same_decimals([plain(row) for row in zip(*columns, strict=True)])
    return rows


def _same_decimals(value: Any) -> Any:
    """Without zeros at the end of decimals: to Python, Spark gives 8E-10 as 800E-12."""
    if isinstance(value, list):
        return [_same_decimals(part) for part in value]
    if isinstance(value, str) and value.startswith("decimal ") and "." in value:
        return value.rstrip("0")
    return value


def _shown(value: Any, arrow: Any) -> Any:
    if value is None:
        return None
    if arrow.equals(INTERVAL_ARROW):
        return struct.pack("<iiq", *value.values())
    if pa.types.is_struct(arrow):
        fields = zip(value.values(), arrow, strict=True)
        return tuple(_shown(part, field.type) for part, field in fields)
    if pa.types.is_map(arrow):
        return {_shown(k, arrow.key_type): _shown(v, arrow.item_type) for k, v in value}
    if pa.types.is_list(arrow):
        return [_shown(part, arrow.value_type) for part in value]
    return value


class SparkRows:
    """Talks to :mod:`tests.support.engine.spark_rows_worker`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.version = str(self._read()["spark"])

    @property
    def leaves(self) -> list[str]:
        """The simple types that this Spark has."""
        return [name for name in LEAVES if self.version >= "4" or name not in SINCE_4]

    def ask(self, table: Table) -> dict[str, Any]:
        """What Spark makes of a table's rows."""
        rows = [row.hex() for row in table.rows]
        answer = self._ask({"schema": table.schema, "rows": rows})
        return {**answer, "values": _same_decimals(answer["values"])}

    def state(self, checkpoint: str) -> dict[str, Any]:
        """The rows in a checkpoint's state."""
        return self._ask({"checkpoint": checkpoint})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        assert "error" not in answer, answer["error"]
        return answer

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"Spark ended with {self._process.wait(30)}"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.contextmanager
def spark_rows(python: str = sys.executable) -> Iterator[SparkRows]:
    """The Spark of a Python environment, in a process of its own."""
    with subprocess.Popen(
        [python, "-m", "tests.support.engine.spark_rows_worker"],
        cwd=REPOSITORY,
        env={**os.environ, "TZ": "UTC"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield SparkRows(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def golden_path(version: str) -> Path:
    """Where the hashes of a Spark are."""
    return REPOSITORY / "tests" / "data" / f"golden_hashes-{version}.json.gz"


def _last_of(strategy: st.SearchStrategy[Any], number: int) -> Any:
    """One value of a strategy, always the same: not its first ones, which are simple."""
    found: list[Any] = []

    @seed(number)
    @settings(max_examples=12, database=None, deadline=None)
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found[-1]


def _cases(leaves: list[str]) -> Iterator[tuple[str, Table]]:
    """One column of each type, with the values that hashes treat apart; and random tables."""
    special: dict[str, list[Any]] = {
        "float": [0.0, -0.0, float("nan"), -float("nan"), float("inf"), -float("inf"), 1e-45],
        "double": [0.0, -0.0, float("nan"), -float("nan"), float("inf"), -float("inf"), 5e-324],
        "string": ["", "é" * 9, "\0", "x" * 70_000, *("abcdefghijklmnopq"[:n] for n in range(17))],
        "binary": [bytes([255 - n] * n) for n in range(40)] + [bytes(range(256)) * 300],
    }
    for number, name in enumerate(leaves):
        listed = st.lists(st.none() | LEAVES[name], min_size=40, max_size=40)
        values = _last_of(listed, number) + special.get(name, [])
        yield name, table_of([(name, values)])
    for number in range(40):
        yield f"table {number}", _last_of(tables(leaves), number)


def record(python: str = sys.executable) -> None:
    """Ask a Spark for hashes and write the file of its version."""
    cases = {}
    with spark_rows(python) as spark:
        for name, table in _cases(spark.leaves):
            answer = spark.ask(table)
            rows = [row.hex() for row in table.rows]
            cases[name] = {"schema": table.schema, "rows": rows}
            cases[name] |= {key: answer[key] for key in ("hashes", "partitions")}
        path, version = golden_path(spark.version), spark.version
    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(json.dumps({"spark": version, "cases": cases}).encode())


if __name__ == "__main__":
    record(*sys.argv[1:2])
