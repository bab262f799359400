"""Every kind of state file there is, made by Spark. Run as a program, on 3.5 or 4.x.

``python -m tests.support.engine.reencoding_program DIR [CASE...]`` runs the query of each case in
one Spark session, with its checkpoint in ``DIR/<case>``, and writes ``DIR/results.json``: case ->
"" or what failed. The functions beside it take the files apart and put them together again without
Spark.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flinkish.checkpoint.format.archives import (
    parse_archive_metadata,
    write_archive_metadata,
)
from flinkish.checkpoint.format.names import HDFS, state_files_among
from flinkish.checkpoint.format.operator_files import (
    parse_operator_metadata,
    write_operator_metadata,
)
from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.checkpoint.format.schema_files import (
    FamilySchemas,
    parse_schema_file,
    schema_version,
    write_schema_file,
)
from flinkish.engine.rows.encodings import frame_row, join_list, split_value
from flinkish.engine.rows.row_codec import RowCodec, compile_key, compile_schema
from flinkish.engine.rows.types import CalendarInterval
from flinkish.engine.stores.checkpoints import (
    OperatorState,
    StoreState,
    read_checkpoint,
    store_files,
)
from flinkish.engine.stores.codecs import decompressed
from flinkish.engine.stores.files import LocalDirectory, StoreFiles
from flinkish.engine.stores.partitioning import key_encoder
from flinkish.engine.stores.records import REMOVE, Change, Content, plain_records, read_changelog
from flinkish.engine.stores.rocksdb_store import open_rocksdb_store, snapshot_families
from flinkish.engine.stores.writers import write_changelog, write_records
from tests.support.checkpoints import streaming_queries as cases
from tests.support.engine import evolution_oracle, resuming_queries
from tests.support.engine.case_programs import run_cases, run_through

CODEC = f"{cases.STORE}compression.codec"
FILES = 4
_FAMILY_ID_BYTES = 2


@dataclass(frozen=True)
class Case:
    """A query, the backend (of ``streaming_queries.BACKENDS``), the codec, more settings."""

    backend: str
    query: str
    codec: str = "lz4"
    settings: tuple[tuple[str, str], ...] = ()


QUERIES = (
    *("agg", "types", "wide", "calendar", "dedup", "within", "session", "keyless", "limit"),
    *("pandas", "chained", "outer", "wide-join"),
)
CODECS = ("zstd", "snappy", "lzf")
CASES: dict[str, Case] = {
    **{f"{b}-{q}": Case(b, q) for b in ("hdfs", "rocksdb", "changelog") for q in QUERIES},
    **{f"{b}-wide-{c}": Case(b, "wide", c) for b in ("hdfs", "changelog") for c in CODECS},
    **{f"ids-{q}": Case("ids", q) for q in ("agg", "types", "session", "outer")},
    **{f"{b}-agg": Case(b, "agg") for b in ("ids-zip", "ids-long")},
    **{f"{b}-{q}": Case(b, q) for b in ("rocksdb", "changelog", "ids") for q in ("tws", "ttl")},
    **{
        f"{b}-outer-{n}": Case(b, "outer", settings=((PIN_JOIN_FORMAT, n),))
        for b in ("rocksdb", "changelog", "ids")
        for n in ("3", "4")
    },
    "ids-zip-tws": Case("ids-zip", "tws"),
}
SPARK4 = ("tws", "ttl", "ids", "outer-3", "outer-4")


def cases_of(version: str) -> list[str]:
    """The cases that a version of Spark can run."""
    old = version.startswith("3.")
    return [name for name in CASES if not (old and any(word in name for word in SPARK4))]


def frame(spark: Any, query: str, source: str) -> tuple[Any, str]:
    """The query and its output mode."""
    from pyspark.sql import functions as F

    if query == "calendar":
        # A null interval has room for a value, and in it what was there before.
        events = spark.readStream.schema("ts timestamp, k string, v long").json(source)
        text = "IF(v % 3 = 0, NULL, make_interval(0, CAST(v AS int), 0, -1, 0, 0, 2.5))"
        intervals = F.expr(text)
        return events.groupBy("v").agg(F.last(intervals), F.last("k"), F.last(intervals)), "update"
    if query.startswith("wide"):
        return evolution_oracle.frame(spark, "join" if query == "wide-join" else "agg", source)
    return resuming_queries.frame(spark, query, source)


def run_case(spark: Any, case: Case, source: str, checkpoint: str) -> None:
    """Run a case's query over all input."""
    cases.configure(spark, f"{case.backend}/agg")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set(CODEC, case.codec)
    for key, value in case.settings:
        spark.conf.set(key, value)
    query_frame, mode = frame(spark, case.query, source)
    run_through(query_frame, mode, checkpoint, by_the_clock=case.query == "ttl")


@dataclass
class Seen:
    """What was found in a checkpoint.

    Attributes:
        rows: that were decoded and encoded.
        files: by kind, that were written again.
        packed: by kind, those of them whose compressed bytes are the same too.
        intervals: rows that differ where a null calendar interval has room.
        wrong: what is not as it was.
    """

    rows: int = 0
    files: dict[str, int] = field(default_factory=dict)
    packed: dict[str, int] = field(default_factory=dict)
    intervals: int = 0
    wrong: list[str] = field(default_factory=list)

    def count(self, counts: dict[str, int], kind: str) -> None:
        counts[kind] = counts.get(kind, 0) + 1


def reencode(checkpoint: Path) -> Seen:
    """Decode and encode every row of every state file of every version that is there."""
    seen = Seen()
    source = LocalDirectory(str(checkpoint))
    for operator in read_checkpoint(source).operators:
        for partition in range(operator.partitions):
            for store in operator.stores:
                files = store_files(source, operator, partition, store)
                _Store(operator, store, files, seen).check()
    for path in sorted((checkpoint / "state").rglob("*")):
        described = {"_metadata", "_stateSchema"} & set(path.parts)
        if path.is_file() and described and not path.name.startswith("."):
            _description(path, seen)
    return seen


def _description(path: Path, seen: Seen) -> None:
    """A schema file, or what Spark 4 says of the operator."""
    data = path.read_bytes()
    if path.suffix == ".crc":
        return  # it has the time it was written at
    if path.name == "schema" or "_stateSchema" in path.parts:
        kind = "schema"
        again = write_schema_file(
            parse_schema_file(data, path.name), schema_version(data, path.name)
        )
    else:
        kind = "metadata"
        again = write_operator_metadata(parse_operator_metadata(data, path.name))
    if again != data:
        seen.wrong.append(f"{path}: another {kind}")
    seen.count(seen.files, kind)


class _Store:
    """One store of one partition."""

    def __init__(
        self, operator: OperatorState, store: StoreState, files: StoreFiles, seen: Seen
    ) -> None:
        self._files = files
        self._seen = seen
        self._framed = files.backend != HDFS
        self._families = {family.name: family for family in store.families}
        self._encoders = {
            family.name: key_encoder(operator, store, family) for family in store.families
        }
        ids = snapshot_families(files).ids if self._framed else {}
        self._names = {number: name for name, number in ids.items()}

    def check(self) -> None:
        """All state files, each by itself."""
        for found in state_files_among(self._files.names):
            if found.kind == "zip":
                self._metadata(found.name)
                self._snapshot(found.version, found.unique_id)
            else:
                self._records(found.name, found.kind)
            self._seen.count(self._seen.files, found.kind)

    def _snapshot(self, version: int, unique_id: str | None) -> None:
        """The rows of a RocksDB snapshot; its files' bytes are RocksDB's own."""
        with open_rocksdb_store(replace(self._files, version=version, unique_id=unique_id)) as s:
            assert not s.chain.changes
            rows = list(s.rows())
        again = self._encoded([(0, key, value) for key, value in rows])
        for (key, value), (_, new_key, new_value) in zip(rows, again, strict=True):
            # What Spark had not merged yet is joined by the binding's delimiter.
            whole = value if value[:1] == b"\x00" else join_list(split_value(value))
            if (new_key, new_value) != (key, whole):
                self._seen.wrong.append(f"{s.chain.name}: {key.hex()} {value.hex()}")

    def _metadata(self, name: str) -> None:
        path = self._files.local_path(name)
        assert path is not None
        with zipfile.ZipFile(path) as archive:
            if archive.read("metadata") != archived_metadata(Path(path)):
                self._seen.wrong.append(f"{name}: other metadata")

    def _records(self, name: str, kind: str) -> None:
        """The bytes of a delta, snapshot or changelog."""
        codec = self._files.compression
        with self._files.open(name) as file:
            packed = file.read()
        content = b"".join(decompressed(io.BytesIO(packed), codec, name))
        again = io.BytesIO()
        pieces = Content(iter([content]), name)
        if kind == "changelog":
            log = read_changelog(pieces)
            changes = self._encoded(list(log.changes()))
            write_changelog(again, changes, codec, version=log.version, lineage=log.lineage)
        else:
            records = [
                (REMOVE, key, b"") if value is None else (0, key, value)
                for key, value in plain_records(pieces)
            ]
            plain = [
                (key, None if what == REMOVE else value)
                for what, key, value in self._encoded(records)
            ]
            write_records(again, plain, codec)
        if b"".join(decompressed(io.BytesIO(again.getvalue()), codec, name)) != content:
            self._seen.wrong.append(f"{name}: other content")
        if again.getvalue() == packed:
            self._seen.count(self._seen.packed, kind)

    def _encoded(self, changes: list[Change]) -> list[Change]:
        """The changes, with keys and values encoded from what they were decoded to."""
        result: list[Change] = list(changes)
        groups: dict[str, list[int]] = {}
        for place, (_, key, _) in enumerate(changes):
            groups.setdefault(self._family(key), []).append(place)
        for name, places in groups.items():
            skip = _FAMILY_ID_BYTES if self._names else 0
            heads = [changes[i][1][:skip] for i in places]
            keys = self._keys(name, [changes[i][1][skip:] for i in places])
            valued = [i for i in places if changes[i][0] != REMOVE]
            encoded = self._values(name, [changes[i][2] for i in valued])
            values = dict(zip(valued, encoded, strict=True))
            for i, head, key in zip(places, heads, keys, strict=True):
                result[i] = (changes[i][0], head + key, values.get(i, b""))
        return result

    def _family(self, key: bytes) -> str:
        if not self._names:
            return next(iter(self._families))
        return self._names[int.from_bytes(key[:_FAMILY_ID_BYTES], "little", signed=True)]

    def _keys(self, name: str, keys: list[bytes]) -> list[bytes]:
        codec = compile_key(self._families[name].key, self._encoders[name])
        again = codec.encode(codec.decode(keys, framed=self._framed), framed=self._framed)
        self._seen.rows += len(keys)
        return list(again)

    def _values(self, name: str, values: list[bytes]) -> list[bytes]:
        if not values:
            return []
        family: FamilySchemas = self._families[name]
        codec = compile_schema(family.value)
        split = [split_value(value) if self._framed else [value] for value in values]
        flat = [row for rows in split for row in rows]
        encoded = codec.encode(codec.decode(flat)).rows()
        again = iter(self._with_intervals(codec, flat, encoded))
        result = []
        for value, rows in zip(values, split, strict=True):
            made = [next(again) for _ in rows]
            if not self._framed:
                result.append(made[0])
            else:
                single = value[:1] == b"\x00"
                result.append(frame_row(made[0]) if single else join_list(made))
        return result

    def _with_intervals(
        self, codec: RowCodec, before: list[bytes], after: list[bytes]
    ) -> list[bytes]:
        """The encoded rows, with what Spark has left where calendar intervals are null.

        That is no value, and no column has it: 16 bytes, which the encoder leaves zero.
        """
        fields = codec.struct.fields
        places = [i for i, f in enumerate(fields) if isinstance(f.type, CalendarInterval)]
        if not places:
            return after
        result = []
        for old, new in zip(before, after, strict=True):
            patched = bytearray(new)
            for place in places:
                if old[place // 8] >> place % 8 & 1:
                    slot = 8 * ((len(fields) + 63) // 64) + 8 * place
                    at = int.from_bytes(old[slot + 4 : slot + 8], "little")
                    assert not any(new[at : at + 16])
                    patched[at : at + 16] = old[at : at + 16]
            self._seen.intervals += bytes(patched) != new
            result.append(bytes(patched))
        return result


def archived_metadata(path: Path) -> bytes:
    """The metadata in a RocksDB snapshot, written from what it says."""
    with zipfile.ZipFile(path) as archive:
        data = archive.read("metadata")
    body = json.loads(data.partition(b"\n")[2])
    parsed = parse_archive_metadata(data, path.name)
    ids = {name: number for number, name in parsed.families.items()}
    return write_archive_metadata(
        parsed.shared,
        body["numKeys"],
        body.get("numInternalKeys", 0),
        ids,
        parsed.internal,
        with_families="numInternalKeys" in body,
    )


def main(work: str, chosen: list[str], session: Any = None) -> None:
    """Run all cases."""
    source = f"{work}/in"
    run_cases(
        work,
        lambda version: chosen or cases_of(version),
        lambda spark, name, directory: run_case(spark, CASES[name], source, directory),
        lambda: cases.write_inputs(source, range(FILES)),
        session,
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
