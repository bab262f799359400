"""What reads files that may come from elsewhere, and real files for each.

A target reads one input and returns, or raises an error of its layer's contract: one of
``flinkish.errors``, of the engine's own tree, or of the few that parsers of the checkpoint's files
raise. Anything else is a finding.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import struct
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastavro

from flinkish.avro.container import encode_long
from flinkish.checkpoint.cut import read_cut
from flinkish.checkpoint.format.archives import read_archive_metadata
from flinkish.checkpoint.format.errors import CheckpointFormatError
from flinkish.checkpoint.format.log_rewrites import with_pins, with_state_ids
from flinkish.checkpoint.format.logs import (
    is_file_source_log,
    log_offset,
    parse_commit,
    parse_offsets,
    parse_query_id,
    source_log_entries,
)
from flinkish.checkpoint.format.names import CANONICAL, COUNTS
from flinkish.checkpoint.format.operator_files import parse_operator_metadata, with_operator
from flinkish.checkpoint.format.pins import backend_of, pinned_partitions
from flinkish.checkpoint.format.schema_files import parse_schema_file
from flinkish.client import planfile
from flinkish.engine.errors import EngineError
from flinkish.engine.rows.encodings import BadEncoding, family_shape
from flinkish.engine.stores.canonical import read_canonical, write_canonical
from flinkish.engine.stores.canonical_families import families_of, read_counts
from flinkish.engine.stores.checkpoints import (
    OperatorState,
    StoreState,
    read_checkpoint,
    store_files,
)
from flinkish.engine.stores.codecs import decompressed
from flinkish.engine.stores.files import LocalDirectory, StoreFiles, local_store
from flinkish.engine.stores.records import Content, plain_records, read_changelog
from flinkish.engine.stores.store_rows import count_rows, read_store
from flinkish.engine.stores.writers import compressor
from flinkish.errors import FlinkishError
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import RestorePlan
from flinkish.messages.requests import SavepointArguments
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry import rows
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState
from flinkish.restore.materialize import source_logs
from flinkish.savepoint.directory import leases, sharing
from flinkish.savepoint.directory.catalog import read_catalog
from flinkish.savepoint.format.contents import FileRecord, QuerySource, SavepointJob
from flinkish.savepoint.format.metadata import (
    KEY_FEATURES,
    KEY_VERSION,
    Metadata,
    MetadataWriter,
)
from flinkish.savepoint.format.reader import describe, find_bad_files, open_savepoint
from flinkish.savepoint.format.records import SCHEMA
from flinkish.savepoint.manage.deep_check import deep_check
from flinkish.savepoint.manage.diff import compare
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.state.state_rows import open_state, show_rows
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.recorded import NAMES, unpack
from tests.support.engine.local_stores import Store, stores
from tests.support.savepoint.small_savepoints import header, make_savepoint, operator, query

OURS: tuple[type[Exception], ...] = (FlinkishError,)
ENGINE: tuple[type[Exception], ...] = (EngineError, CheckpointFormatError)
LOG: tuple[type[Exception], ...] = (CheckpointFormatError,)
#: What the engine cannot read of a schema is not compared with rows.
_SCHEMA = (CheckpointFormatError, EngineError, BadEncoding)


@dataclass(frozen=True)
class Target:
    """One reader.

    ``read`` takes an input and an empty directory for it; ``weight`` is how often it is chosen.
    """

    name: str
    seeds: tuple[bytes, ...]
    read: Callable[[bytes, Path], object]
    errors: tuple[type[Exception], ...]
    weight: float = 1.0


def make_targets(base: Path) -> dict[str, Target]:
    """All targets by name; their seeds are made below ``base``, which stays as it is."""
    checkpoints = {name: unpack(name, base / "checkpoints") for name in NAMES}
    found = [
        *_of_savepoints(base),
        *_of_logs(checkpoints),
        *_of_state(checkpoints),
        *_of_canonical(checkpoints["spark43-hdfs-agg"], base / "canonical"),
        *_of_the_rest(base),
        *_of_whole_savepoints(checkpoints, base),
    ]
    return {target.name: target for target in found}


# savepoints' own files


def _of_savepoints(base: Path) -> list[Target]:
    target = base / "small"
    target.mkdir()
    plain = Path(make_savepoint(str(target), 1.7e9))
    held = Path(make_savepoint(str(target), 1.7e9, held=f"{plain.name}/0-counts/metadata"))
    wide = target / "wide"
    wide.mkdir()
    plain_operators = (operator(n, f"uid {n}") for n in range(5))
    operators = [replace(o, facts=replace(o.facts, state_digest="x")) for o in plain_operators]
    queries = [query(f"q{n}", *operators) for n in range(3)]
    with MetadataWriter(str(wide), header(1.7e9), queries) as writer:
        for n in range(3):
            for part in range(20):
                writer.add(FileRecord(n, f"state/0/{part}/1.delta", 0, f"sha256:{part:064}"))
        writer.add(FileRecord(0, "metadata", 30, f"sha256:{0:064}"))
        writer.commit()
    seeds = tuple((path / "_metadata").read_bytes() for path in (plain, held, wide))
    sharing.write_references(
        str(plain), "user", [f"0-counts/state/0/{n}/1.delta" for n in range(9)]
    )
    lists = (plain / "_refs" / "user").read_bytes()
    with leases.Lease.take(str(target), leases.Kind.WRITE, owner="me@here", path="/sp"):
        [path] = (target / "_locks").iterdir()
        lease = path.read_bytes()
    return [
        Target("metadata", seeds, _metadata, OURS, 8),
        Target("metadata-sealed", tuple(map(_unsealed, seeds)), _sealed_metadata, OURS, 10),
        Target("references", (lists,), _references, OURS, 3),
        Target("references-text", (zlib.decompress(lists),), _packed_references, OURS, 2),
        Target("lease", (lease,), _lease_file, OURS, 5),
    ]


def _lease() -> leases.LeaseRecord:
    now = time.time()
    host = os.uname().nodename
    return leases.LeaseRecord(
        "ab" * 16, leases.Kind.WRITE, "me@here", host, os.getpid(), now, now, "j", "/sp"
    )


def _metadata(data: bytes, place: Path) -> None:
    savepoint = place / "savepoints" / "savepoint-012345-0123456789ab"
    savepoint.mkdir(parents=True)
    (savepoint / "_metadata").write_bytes(data)
    catalog = read_catalog(str(place / "savepoints"))  # one bad savepoint never ends the list
    assert len(catalog.savepoints) + len(catalog.unreadable) == 1
    _use(savepoint)


def _use(path: Path) -> None:
    """What show, diff and verify do with an opened savepoint."""
    savepoint = open_savepoint(str(path))
    for _ in savepoint.iter_files():
        pass
    json.dumps(describe(savepoint))
    json.dumps(compare((savepoint.header, savepoint.queries), (header(0), [query()])))
    for _ in find_bad_files(savepoint):
        pass


def _unsealed(data: bytes) -> bytes:
    """What a ``_metadata`` has in its footer and blocks, without what holds them together."""
    parts = []
    block: Any  # its types leave out bytes_
    for block in fastavro.block_reader(io.BytesIO(data)):
        raw = block.bytes_.getvalue()
        parts.append(struct.pack(">II", block.num_records, len(raw)) + raw)
    footer: Any = list(fastavro.reader(io.BytesIO(data)))[-1]
    totals = struct.pack(">QQQ", footer["queries"], footer["files"], footer["bytes"])
    return totals + b"".join(parts[:-1])


def _sealed_metadata(data: bytes, place: Path) -> None:
    """Blocks of any content in a container whose seal holds."""
    buffer = io.BytesIO()
    metadata = {KEY_VERSION: "1", KEY_FEATURES: '["shared-files"]'}
    fastavro.writer(buffer, SCHEMA, [], metadata=metadata, sync_marker=b"s" * 16)
    out = buffer.getvalue()
    totals = struct.unpack(">QQQ", data[:24].ljust(24, b"\0"))
    at = 24
    while at + 8 <= len(data):
        count, size = struct.unpack_from(">II", data, at)
        raw = data[at + 8 : at + 8 + min(size, 1 << 20)]
        at += 8 + len(raw)
        out += encode_long(count) + encode_long(len(raw)) + raw + b"s" * 16
    seal = hashlib.sha256(out).hexdigest()
    named = zip(("queries", "files", "bytes"), (n & ((1 << 63) - 1) for n in totals), strict=True)
    record = {**dict(named), "sha256": seal}
    footer = io.BytesIO()
    name = "flinkish.savepoint.Footer"
    fastavro.schemaless_writer(footer, SCHEMA, (name, record))
    raw = footer.getvalue()
    _metadata(out + encode_long(1) + encode_long(len(raw)) + raw + b"s" * 16, place)


def _references(data: bytes, place: Path) -> None:
    (place / "_refs").mkdir()
    (place / "_refs" / "user").write_bytes(data)
    sharing.read_references(str(place), "user")
    sharing.users_of(str(place))


def _packed_references(data: bytes, place: Path) -> None:
    _references(zlib.compress(data, 1), place)


def _lease_file(data: bytes, place: Path) -> None:
    (place / "_locks").mkdir()
    (place / "_locks" / "x").write_bytes(data)
    found = leases.read_leases(str(place))
    now = time.time()
    for lease in found:
        lease.is_stale(now)
        lease.describe()
        leases.conflicts(_lease(), lease)


# the checkpoint's small files


def _of_logs(checkpoints: dict[str, Path]) -> list[Target]:
    def every(pattern: str) -> tuple[bytes, ...]:
        paths = [p for c in checkpoints.values() for p in sorted(c.glob(pattern)) if p.is_file()]
        visible = [p for p in paths if not p.name.startswith(".")]
        return tuple(sorted({p.read_bytes() for p in visible}))

    schemas = every("state/*/0/_metadata/schema") + every("state/*/0/*/_metadata/schema")
    return [
        Target("offsets", every("offsets/*"), _offsets, LOG, 4),
        Target("commits", every("commits/*"), _commits, LOG, 4),
        Target("query-id", every("metadata"), lambda d, _: parse_query_id(d), LOG),
        Target("source-log", every("sources/*/*"), _source_log, LOG, 3),
        Target(
            "state-schema", schemas + every("state/*/_stateSchema/*/*"), _schemas,
            _SCHEMA, 6,
        ),
        Target(
            "operator-metadata", every("state/*/_metadata/metadata") + every(
                "state/*/_metadata/v2/*"), _operator_metadata, LOG, 4,
        ),
    ]  # fmt: skip


def _each(errors: tuple[type[Exception], ...], *calls: Callable[[], object]) -> None:
    """Make all calls; the last error of the contract is raised at the end."""
    last: Exception | None = None
    for call in calls:
        try:
            call()
        except errors as error:
            last = error
    if last is not None:
        raise last


def _offsets(data: bytes, _: Path) -> None:
    def parsed() -> None:
        entry = parse_offsets(data, "offsets/1")
        assert len(entry.sources) == len(entry.offsets)
        for offset in entry.offsets:
            limit = log_offset(offset)
            if limit is not None:
                source_log_entries(["0", "1", "2.compact"], limit)
        backend_of(entry.pins)
        pinned_partitions(entry.pins)

    _each(LOG, parsed, lambda: with_pins(data, "offsets/1", pins={"a": "1"}))


def _commits(data: bytes, _: Path) -> None:
    _each(
        LOG,
        lambda: parse_commit(data, "commits/1"),
        lambda: with_state_ids(data, "commits/1", ids=None),
    )


def _source_log(data: bytes, _: Path) -> None:
    is_file_source_log(data)
    _each(
        LOG,
        lambda: source_logs.read_files(data, "1"),
        lambda: source_logs.compacted_until(data, "9.compact", 3),
    )


def _schemas(data: bytes, _: Path) -> None:
    def shapes() -> None:
        for family in parse_schema_file(data, "schema"):
            family_shape(family.key, family.value, family.encoder)

    _each(_SCHEMA, shapes)


def _operator_metadata(data: bytes, _: Path) -> None:
    _each(
        LOG,
        lambda: parse_operator_metadata(data, "metadata"),
        lambda: with_operator(data, "metadata", root="/new", ordinal=1),
    )


# state files


def _of_state(checkpoints: dict[str, Path]) -> list[Target]:
    found = []
    content: dict[bool, list[bytes]] = {True: [], False: []}
    for name, checkpoint in checkpoints.items():
        for store in [s for s in stores(checkpoint) if s.partition == 0][:1]:
            names = [n for n in store.files.names if n.partition(".")[2] in _KINDS]
            chosen = [n for n in names if os.path.getsize(_path(store, n)) < 1 << 17]
            for kind in sorted({n.partition(".")[2] for n in chosen}):
                of_kind = [n for n in chosen if n.endswith(kind)][-1:]
                for file in of_kind:
                    data = Path(_path(store, file)).read_bytes()
                    read = functools.partial(_store_with, store, file)
                    weight = 0.6 if kind in {"delta", "snapshot"} else 0.25
                    found.append(Target(f"{kind}-{name}", (data,), read, ENGINE, weight))
                    if kind == "zip":
                        found.append(
                            Target(
                                f"archive-{name}", (data,), _archive, (CheckpointFormatError,), 1
                            )
                        )
                    else:
                        with open(_path(store, file), "rb") as raw:
                            pieces = decompressed(raw, store.files.compression, file)
                            content[kind == "changelog"].append(b"".join(pieces))
    plain, changes = (tuple(content[kind]) for kind in (False, True))
    found.append(Target("records", plain, _records, ENGINE, 4))
    found.append(Target("changes", changes, _changes, ENGINE, 4))
    for codec in ("lz4", "zstd", "snappy", "lzf"):
        seeds = tuple(_compressed(data, codec) for data in (*plain[:2], b"\0" * 300_000))
        found.append(Target(f"stream-{codec}", seeds, functools.partial(_stream, codec), ENGINE, 2))
    return found


_KINDS = frozenset({"delta", "snapshot", "zip", "changelog"})


def _path(store: Store, name: str) -> str:
    path = store.files.local_path(name)
    assert path is not None
    return path


def _store_with(store: Store, name: str, data: bytes, place: Path) -> None:
    """The store of a recorded checkpoint, with one file of another content."""
    root = Path(_path(store, name)).parent
    for path in root.iterdir():
        if path.is_dir():
            (place / path.name).symlink_to(path)
        elif path.name not in {name, f"{name}.crc"}:
            os.link(path, place / path.name)
    (place / name).write_bytes(data)
    files = local_store(
        str(place),
        store.files.version,
        store.files.backend,
        unique_id=store.files.unique_id,
        compression=store.files.compression,
    )
    count_rows(files, store.shapes)


def _archive(data: bytes, _: Path) -> None:
    read_archive_metadata(io.BytesIO(data), "1.zip")


def _records(data: bytes, _: Path) -> None:
    for _row in plain_records(Content(iter([data]), "1.delta")):
        pass


def _changes(data: bytes, _: Path) -> None:
    for _change in read_changelog(Content(iter([data]), "1.changelog")).changes():
        pass


def _compressed(data: bytes, codec: str) -> bytes:
    buffer = io.BytesIO()
    stream = compressor(buffer, codec)
    stream.write(data)
    stream.finish()
    return buffer.getvalue()


def _stream(codec: str, data: bytes, _: Path) -> None:
    for _piece in decompressed(io.BytesIO(data), codec, "1.delta"):
        pass


def _of_canonical(checkpoint: Path, directory: Path) -> list[Target]:
    """A store of a recorded checkpoint as Avro files."""
    source = LocalDirectory(str(checkpoint))
    [found] = read_checkpoint(source).operators
    [store] = found.stores
    directory.mkdir()
    files = store_files(source, found, 0, store)
    rows_of = [(0, list(block.keys), list(block.values)) for block in read_store(files)]

    def create(name: str) -> Any:
        return open(directory / name, "wb")

    write_canonical(rows_of, create, families_of(found, store), files.version)
    names = sorted(path.name for path in directory.iterdir())
    targets = []
    for name in names:
        read = functools.partial(_canonical, found, store, directory, name)
        seed = (directory / name).read_bytes()
        targets.append(Target(f"canonical-{name.partition('.')[0]}", (seed,), read, ENGINE, 4))
    return targets


def _canonical(
    found: OperatorState, store: StoreState, directory: Path, name: str, data: bytes, place: Path
) -> None:
    for path in directory.iterdir():
        if path.name != name:
            os.link(path, place / path.name)
    (place / name).write_bytes(data)
    files: StoreFiles = local_store(str(place), found.version, CANONICAL)
    if name == COUNTS:
        read_counts(files)
    for _block in read_canonical(files, families_of(found, store)):
        pass


# plans and the registry


def _of_the_rest(base: Path) -> list[Target]:
    spec = RestoreSpec("/savepoints/s", RestoreOptions(uid_map=(("a", "b"),)))
    launch = Launch("/p.py", arguments=("x", "1"), conf={"spark.a": "b"}, restore=spec)
    plan = planfile.PlanFile(
        "/s", "0" * 64, "/p.py", None, ("a",), "1" * 64, "4.3.0", spec.options, 4, RestorePlan()
    )
    path = base / "plan.json"
    planfile.save(plan, str(path))
    job = JobRecord("a" * 32, "job", JobState.RUNNING, 1.7e9, launch)
    request = Request(
        *("r" * 32, job.job_id, RequestKind.SAVEPOINT, RequestState.PENDING, 1.7e9),
        SavepointArguments("/s"),
    )
    columns = [rows.job_values(job), rows.request_values(request)]
    return [
        Target("plan", (path.read_bytes(),), _plan, OURS, 4),
        Target("registry", tuple(json.dumps(c).encode() for c in columns), _row, OURS, 3),
    ]


def _plan(data: bytes, place: Path) -> None:
    path = place / "plan.json"
    path.write_bytes(data)
    plan = planfile.load(str(path))
    plan.restore_spec("NO_CLAIM")


def _row(data: bytes, _: Path) -> None:
    try:
        row = json.loads(data)
    except (ValueError, RecursionError):
        return  # a database gives rows of columns, whatever is in them
    if not isinstance(row, dict):
        return
    plain = {k: v for k, v in row.items() if v is None or isinstance(v, (str, int, float))}
    if "kind" in row:
        rows.request_of({name: plain.get(name) for name in rows.REQUEST_COLUMNS.split(", ")})
    else:
        rows.job_of({name: plain.get(name) for name in rows.JOB_COLUMNS.split(", ")})


# whole savepoints, whose digests hold


def _of_whole_savepoints(checkpoints: dict[str, Path], base: Path) -> list[Target]:
    found = []
    for name, checkpoint in checkpoints.items():
        source = QuerySource("q", str(checkpoint))
        job = SavepointJob("ab" * 16, "job", spark_version="4.3.0")
        info = write_savepoint(
            str(base / "taken"),
            job,
            [source],
            trigger="savepoint",
            reporter=SilentSavepointReporter(),
        )
        metadata = Metadata(str(Path(info.path) / "_metadata"))
        seeds = []
        for number, record in enumerate(metadata.iter_files()):
            path = Path(info.path) / metadata.queries[0].directory / record.path
            if path.stat().st_size < 1 << 17 and not record.path.endswith(".sst"):
                seeds.append(struct.pack(">H", number) + path.read_bytes())
        read = functools.partial(_savepoint, Path(info.path))
        found.append(Target(f"savepoint-{name}", tuple(seeds), read, OURS, 0.2))
    return found


def _savepoint(original: Path, data: bytes, place: Path) -> None:
    """A savepoint with one file of another content, and metadata that says so."""
    metadata = Metadata(str(original / "_metadata"))
    [saved] = metadata.queries
    records = list(metadata.iter_files())
    number = int.from_bytes(data[:2], "big") % len(records)
    content = data[2:]
    changed = records[number]
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    records[number] = replace(changed, size=len(content), digest=digest)
    path = place / "savepoints" / original.name
    for record in records:
        file = path / saved.directory / record.path
        file.parent.mkdir(parents=True, exist_ok=True)
        if record.path != changed.path:
            os.link(original / saved.directory / record.path, file)
    (path / saved.directory / changed.path).write_bytes(content)
    resealed = replace(saved, bytes=sum(record.size for record in records))
    with MetadataWriter(str(path), metadata.header, [resealed]) as writer:
        for record in records:
            writer.add(record)
        writer.commit()
    assert len(read_catalog(str(path.parent), whole=True).savepoints) == 1
    _use(path)
    savepoint = open_savepoint(str(path))
    deep_check(savepoint, SilentSavepointReporter())
    calls: list[Callable[[], object]] = [lambda: read_cut(str(path / saved.directory))]
    for each in saved.operators:
        calls.append(functools.partial(_show, path, str(each.state.ordinal)))
    _each(OURS, *calls)


def _show(path: Path, ordinal: str) -> None:
    show_rows(open_state(open_savepoint(str(path)), ordinal), 3)


def names_of(targets: dict[str, Target]) -> Sequence[str]:
    """The targets' names, sorted."""
    return sorted(targets)
