"""A checkpoint as Spark leaves it, written without a JVM: for faults that need exact timing.

It writes what Spark writes, in Spark's order (source log, offsets, state, commit; each a hidden
temporary file renamed into place, with Hadoop's sidecar), and trims what Spark would trim. The
content of state files is noise: nothing here is meant to be resumed.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
CLASSES = {"hdfs": "HDFSBackedStateStoreProvider", "rocksdb": "RocksDBStateStoreProvider"}
#: What whole files end with: lz4-java's end mark, RocksDB's magic number.
LZ4_END = b"LZ4Block" + bytes([0x15]) + bytes(12)
SST_END = bytes.fromhex("f7cff485b741e288")
QUERY_ID = "6d2b7c1e-0000-4000-8000-000000000001"


def sidecar(data: bytes) -> bytes:
    """Hadoop's checksum file for ``data``."""
    sums = [zlib.crc32(data[at : at + 512]) for at in range(0, len(data), 512)]
    return b"crc\x00" + struct.pack(">i", 512) + struct.pack(f">{len(sums)}I", *sums)


def noise(size: int, end: bytes) -> bytes:
    """Noise that ends like a whole file: with the mark of an LZ4 stream, or of an SST."""
    return os.urandom(max(size - len(end), 0)) + end


def archive(ssts: list[str], size: int = 100) -> bytes:
    """A RocksDB snapshot archive naming ``ssts`` of ``size`` bytes."""
    buffer = BytesIO()
    entries = [
        {"localFileName": f"{n[:6]}.sst", "dfsSstFileName": n, "sizeBytes": size} for n in ssts
    ]
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("CURRENT", "MANIFEST-000005\n")
        file.writestr("metadata", "v1\n" + json.dumps({"sstFiles": entries, "numKeys": 1}))
    return buffer.getvalue()


@dataclass
class CheckpointLikeness:
    """A query's checkpoint at ``root``; ``retain`` is minBatchesToRetain."""

    root: Path
    backend: str = "hdfs"
    partitions: int = 2
    operators: int = 1
    retain: int = 2
    sidecars: bool = True
    noise: int = 700
    batch: int = -1
    _ssts: dict[tuple[int, int], list[tuple[int, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.write("metadata", json.dumps({"id": QUERY_ID}).encode())

    def write(self, relative: str, data: bytes) -> None:
        """Write one file as Spark does."""
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.tmp")
        hidden.write_bytes(data)
        if self.sidecars:
            path.with_name(f".{path.name}.crc").write_bytes(sidecar(data))
        os.replace(hidden, path)

    def plan(self, batch: int) -> None:
        """Write the source log entry and the offsets of a batch."""
        entry = {"path": f"file:///in/{batch}.json", "timestamp": batch, "batchId": batch}
        self.write(f"sources/0/{batch}", b"v1\n" + json.dumps(entry).encode())
        pins = {
            "spark.sql.streaming.stateStore.providerClass": PROVIDERS + CLASSES[self.backend],
            "spark.sql.shuffle.partitions": str(self.partitions),
        }
        head = {"batchWatermarkMs": batch * 1000, "batchTimestampMs": batch, "conf": pins}
        lines = ["v1", json.dumps(head), json.dumps({"logOffset": batch})]
        self.write(f"offsets/{batch}", "\n".join(lines).encode())

    def store(self, version: int) -> None:
        """Write every partition's state of a version."""
        for operator in range(self.operators):
            for partition in range(self.partitions):
                prefix = f"state/{operator}/{partition}"
                if self.backend == "hdfs":
                    self.write(f"{prefix}/{version}.delta", noise(self.noise, LZ4_END))
                    if version % 3 == 0:
                        self.write(f"{prefix}/{version}.snapshot", noise(self.noise, LZ4_END))
                    continue
                name = f"{version:06}-{os.urandom(8).hex()}.sst"
                self.write(f"{prefix}/SSTs/{name}", noise(self.noise, SST_END))
                live = self._ssts.setdefault((operator, partition), [])
                live.append((version, name))
                names = [n for v, n in live if v > version - 3]
                self.write(f"{prefix}/{version}.zip", archive(names, max(self.noise, len(SST_END))))

    def commit(self, batch: int) -> None:
        """Write a batch's commit."""
        self.batch = batch
        text = "v1\n" + json.dumps({"nextBatchWatermarkMs": (batch + 1) * 1000})
        self.write(f"commits/{batch}", text.encode())

    def run(self, batch: int, *, trim: bool = True) -> None:
        """One whole batch."""
        self.plan(batch)
        self.store(batch + 1)
        self.commit(batch)
        if trim:
            self.trim()

    def run_to(self, batch: int) -> CheckpointLikeness:
        """All batches up to and including ``batch``."""
        for number in range(self.batch + 1, batch + 1):
            self.run(number)
        return self

    def trim(self) -> None:
        """Remove what is older than ``retain`` batches, as Spark's maintenance does."""
        oldest = self.batch - self.retain + 1
        for log in ("offsets", "commits"):
            for path in list((self.root / log).iterdir()):
                if path.name.isdigit() and int(path.name) < oldest:
                    self._remove(path)
        for partition in (self.root / "state").glob("*/*"):
            self._trim_store(partition, oldest + 1)

    def _trim_store(self, directory: Path, version: int) -> None:
        numbered = [(p, int(p.name.partition(".")[0])) for p in directory.glob("[0-9]*.*")]
        base = version
        if self.backend == "hdfs":
            snapshots = [v for p, v in numbered if p.suffix == ".snapshot" and v <= version]
            base = max(snapshots, default=0)
        for path, number in numbered:
            if number < base:
                self._remove(path)
        for sst in directory.glob("SSTs/*.sst"):
            if int(sst.name[:6]) <= version - 3:
                self._remove(sst)

    def _remove(self, path: Path) -> None:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
