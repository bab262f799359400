"""Rows, keys and compressed streams as Spark itself makes them. Run as a program to record them.

``python -m tests.support.engine.golden_rows`` (Spark 4) writes ``tests/data/golden_rows.json.gz``:

- ``rows``: for each case the schema, the bytes of Spark's UnsafeRows, and the values that Spark
  gives for them (each by :func:`plain`);
- ``families``: for column families of real queries the schemas, key encoder, keys and values;
- ``compressed``: for each codec what Spark's stream makes of :func:`content`.
"""

from __future__ import annotations

import datetime
import decimal
import gzip
import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[2] / "data" / "golden_rows.json.gz"
LARGE = 200_000
_MOST = 8

TEXT = "repeat('é', CAST(id % 6 AS int)) || repeat('x', CAST(id % 11 AS int))"
NINES = "9" * 38
#: name -> expression over ``id``; with a second one where Python has no value of the type.
FLAT: dict[str, str | tuple[str, str]] = {
    "boolean": "id % 2 = 0",
    "byte": "CAST(id - 20 AS byte)",
    "short": "CAST(-id * 700 AS short)",
    "integer": "CAST(id * 50000000 - 1000000000 AS int)",
    "long": "id * 200000000000000000 - 4000000000000000000",
    "float": "CASE id % 5 WHEN 0 THEN float('NaN') WHEN 1 THEN -float(0) ELSE float(id) / 3 END",
    "double": "CASE id % 5 WHEN 0 THEN double('NaN') WHEN 1 THEN -0D ELSE -id / 7D END",
    "dec_small": "CAST(id - 3 AS decimal(10, 2))",
    "dec_18": "CAST(999999999999999999 - id AS decimal(18, 0))",
    "dec_19": "CAST(id * 64 - 128 AS decimal(19, 0))",
    "dec_38": f"CASE id % 4 WHEN 0 THEN {NINES}BD WHEN 1 THEN -{NINES}BD ELSE "
    "CAST(id * 32767 - 327680 AS decimal(38, 0)) END",
    "dec_scale": "CAST(id / 7 AS decimal(30, 10))",
    "date": "date_add(DATE'1960-01-01', CAST(id * 900 AS int))",
    "timestamp": "TIMESTAMP'1960-01-01 00:00:00.000001Z' + make_dt_interval(CAST(id * 900 AS int))",
    "ntz": "TIMESTAMP_NTZ'1960-01-01 00:00:00.000001' + make_dt_interval(CAST(id * 900 AS int))",
    "time": "make_time(CAST(id % 24 AS int), 7, 1.25)",
    "day_time": "make_dt_interval(CAST(id - 9 AS int), 1, 2, 3.000004)",
    "year_month": ("make_ym_interval(CAST(id - 9 AS int), 1)", "CAST((id - 9) * 12 + 1 AS int)"),
    "calendar": (
        "make_interval(0, CAST(id AS int), 0, -1, 0, 0, 2.5)",
        "named_struct('m', CAST(id AS int), 'd', -1, 's', 2500000L)",
    ),
    "string": TEXT,
    "collated": f"collate({TEXT}, 'UTF8_LCASE')",
    "binary": f"CAST({TEXT} AS binary)",
    "void": "NULL",
    "variant": 'parse_json(\'{"a": \' || id || \', "b": ["x"]}\')',
}
NESTED: dict[str, str | tuple[str, str]] = {
    "struct": f"named_struct('a', id, 'b', {TEXT}, 'c', named_struct('d', {TEXT}, 'e', int(id)))",
    "booleans": "transform(sequence(0, int(id)), x -> IF(x % 3 = 0, NULL, x % 2 = 0))",
    "shorts": "transform(sequence(0, int(id)), x -> CAST(x AS short))",
    "floats": "array(float('NaN'), NULL, -float(0))",
    "longs": "transform(sequence(0, int(id) * 4), x -> IF(x % 7 = 3, NULL, CAST(x AS long)))",
    "empty": "CAST(array() AS array<long>)",
    "strings": f"array({TEXT}, NULL, '', {TEXT} || 'y')",
    "decimals": "array(CAST(id * 300 - 128 AS decimal(25, 0)), NULL, 99999999999999999999BD)",
    "smalls": "array(CAST(id AS decimal(5, 1)), NULL)",
    "lists": f"array(array({TEXT}), NULL, array(), array(NULL, {TEXT}))",
    "structs": f"array(named_struct('a', {TEXT}, 'd', CAST(NULL AS decimal(38, 2))), NULL)",
    "map": f"map('k' || id, {TEXT}, 'l', NULL)",
    "map_ints": "map(int(id), double(id) / 3, -1, NULL)",
    "maps": f"map({TEXT}, array(map(1, {TEXT})), 'z', NULL)",
    "intervals": (
        "array(make_interval(0, CAST(id AS int), 0, -1, 0, 0, 2.5), NULL)",
        "array(named_struct('m', CAST(id AS int), 'd', -1, 's', 2500000L), NULL)",
    ),
    "variants": "array(parse_json('[' || id || ']'), NULL)",
    "voids": "array(NULL, NULL)",
}
#: A field for each bit of more than one word.
WIDE: dict[str, str | tuple[str, str]] = {
    f"c{i}": f"IF((id + {i}) % 3 = 0, NULL, {TEXT if i % 2 else 'id'})" for i in range(130)
}
#: Of these the null in a row keeps room for the value.
NULLS: dict[str, str | tuple[str, str]] = {
    name: (f"IF(id % 3 = 1, NULL, {text})", f"IF(id % 3 = 1, NULL, {shown})")
    for name, text, shown in (
        (name, *(both if isinstance(both, tuple) else (both, both)))
        for name, both in {**FLAT, **NESTED}.items()
        # What Spark leaves in a null interval is what was there before.
        if name not in {"void", "calendar"}
    )
}
ROWS = {"flat": FLAT, "nested": NESTED, "nulls": NULLS, "wide": WIDE}
NUMBERS = {"flat": 41, "nested": 24, "nulls": 12, "wide": 3}
#: Cases of ``oracle`` whose stores have the key encodings.
FAMILIES = ("rocksdb-session", "changelog-join4", "changelog-tws", "rocksdb-ttl")
CODECS = ("lz4", "snappy", "zstd", "lzf")


def content(size: int) -> bytes:
    """Bytes that compress somewhat, always the same ones."""
    pieces = (hashlib.sha256(b"%d" % (i // 3)).digest()[: i % 29] + b"abc" for i in range(size))
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) >= size:
            break
    return bytes(data[:size])


def plain(value: Any) -> Any:
    """A Python value, of Spark's or of Arrow's, as JSON that tells all values apart."""
    if isinstance(value, dict):  # a map, which has no order in Python
        return sorted((plain(part) for part in value.items()), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, (bytes, bytearray)):
        return f"bytes {bytes(value).hex()}"
    if isinstance(value, decimal.Decimal):
        return f"decimal {value:f}"
    if isinstance(value, datetime.datetime):
        return f"time {value.replace(tzinfo=None).isoformat()}"
    if isinstance(value, datetime.timedelta):
        return f"micros {value // datetime.timedelta(microseconds=1)}"
    if isinstance(value, (datetime.date, datetime.time)):
        return f"{type(value).__name__} {value.isoformat()}"
    if type(value).__name__ == "VariantVal":
        return [plain(value.value), plain(value.metadata)]
    return value


def _rows(spark: Any, case: str) -> dict[str, Any]:
    columns = ROWS[case]
    source = spark.range(NUMBERS[case]).coalesce(1)
    first = [(c if isinstance(c, str) else c[0]) for c in columns.values()]
    second = [(c if isinstance(c, str) else c[1]) for c in columns.values()]
    frames = [
        source.selectExpr(*(f"{text} AS {name}" for text, name in zip(texts, columns, strict=True)))
        for texts in (first, second)
    ]
    rows = frames[0]._jdf.queryExecution().executedPlan().executeCollect()
    return {
        "schema": json.loads(frames[0].schema.json()),
        "rows": [bytes(row.getBytes()).hex() for row in rows],
        "values": [plain(tuple(row)) for row in frames[1].collect()],
    }


def _families(spark: Any, work: str, case: str) -> Iterator[tuple[str, dict[str, Any]]]:
    from flinkish.checkpoint.format.schema_files import parse_schema_file
    from flinkish.engine.stores.store_rows import read_store
    from tests.support.engine.local_stores import stores
    from tests.support.engine.state_reader_oracle import LIVE, run_case

    checkpoint = Path(work) / case
    run_case(spark, LIVE[case], f"{work}/in", str(checkpoint))
    operator = checkpoint / "state" / "0"
    paths = [operator / "0" / "_metadata" / "schema", *operator.glob("_stateSchema/*/[0-9]*")]
    schemas = {
        family.name: family
        for path in paths
        if path.exists()
        for family in parse_schema_file(path.read_bytes(), path.name)
    }
    for store in stores(checkpoint):
        for block in read_store(store.files, store.shapes):
            found = schemas[block.family]
            yield (
                f"{case} {block.family}",
                {
                    "key": found.key,
                    "value": found.value,
                    "encoder": found.encoder,
                    "keys": [key.hex() for key in block.keys[:_MOST]],
                    "values": [value.hex() for value in block.values[:_MOST]],
                },
            )


def _compressed(spark: Any, codec: str) -> dict[str, str]:
    jvm = spark._jvm
    found = {}
    for name, data in (("small", content(700)), ("large", content(LARGE))):
        made = jvm.org.apache.spark.io.CompressionCodec.createCodec(
            spark._jsc.sc().getConf(), codec
        )
        target = jvm.java.io.ByteArrayOutputStream()
        stream = made.compressedOutputStream(target)
        stream.write(data)
        stream.close()
        packed = bytes(target.toByteArray())
        found[name] = packed.hex() if name == "small" else hashlib.sha256(packed).hexdigest()
    return found


def record() -> None:
    """Ask Spark for everything and write the data file."""
    from tests.support.checkpoints import streaming_queries as cases

    with tempfile.TemporaryDirectory() as work:
        spark = cases.make_session(work)
        spark.conf.set("spark.sql.timeType.enabled", "true")
        data: dict[str, Any] = {
            "spark": spark.version,
            "rows": {case: _rows(spark, case) for case in ROWS},
            "compressed": {codec: _compressed(spark, codec) for codec in CODECS},
            "families": {},
        }
        cases.write_inputs(f"{work}/in", range(3))
        for case in FAMILIES:
            for name, family in _families(spark, work, case):
                data["families"].setdefault(name, family)
        spark.stop()
    with open(PATH, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(json.dumps(data, separators=(",", ":")).encode())


if __name__ == "__main__":
    record()
