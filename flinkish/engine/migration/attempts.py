"""What a task writes and reads back: a store of one partition, in a separate directory."""

from __future__ import annotations

import errno
import functools
import os
import uuid
from dataclasses import dataclass
from typing import Any, BinaryIO

from flinkish.checkpoint.format.names import CANONICAL, ROCKSDB
from flinkish.engine.errors import EngineError, LostRows
from flinkish.engine.migration.migration_plan import (
    FamilyMigration,
    OperatorMigration,
)
from flinkish.engine.migration.row_blocks import (
    RowsDigest,
    digest_rows,
    family_salt,
    sum_digests,
)
from flinkish.engine.rows.encodings import delimited
from flinkish.engine.stores.canonical import read_canonical
from flinkish.engine.stores.canonical_families import CanonicalFamily, list_families
from flinkish.engine.stores.checkpoints import OperatorState, StoreState
from flinkish.engine.stores.files import StateTarget, StoreFiles
from flinkish.engine.stores.native import NativeError, Reader, library, tell_unused
from flinkish.engine.stores.rocksdb_store import closed_database
from flinkish.engine.stores.rocksdb_writer import NO_FAMILIES
from flinkish.engine.stores.store_rows import (
    DEFAULT_FAMILY,
    family_bytes,
    native_family,
    read_store,
)


@dataclass(frozen=True)
class WrittenStore:
    """One store of one partition of the new state, not yet in its final place.

    ``move`` is the index of its operator among the migrations. ``attempt`` is the directory that it
    was written to, relative to the target. ``unique_id`` is the id in its file's name; None in
    checkpoint format 1. ``digest`` is of its rows, as read back from the files. ``size`` is in
    bytes. ``native`` is whether :mod:`~flinkish.engine.stores.native` read the old rows, wrote the
    new ones and read them back.
    """

    move: int
    store: str
    partition: int
    attempt: str
    unique_id: str | None
    digest: RowsDigest
    size: int
    native: bool = False


class Attempt:
    """The files of a store of one partition, in a directory of their own until all are verified.

    A retried task writes into another directory: files that a failed attempt has left, or still
    writes, are never read. ``attempts`` is the parent directory.
    """

    def __init__(self, target: StateTarget, attempts: str, move: OperatorMigration) -> None:
        self.target = target
        self.directory = f"{attempts}/{uuid.uuid4()}"
        self.unique_id = str(uuid.uuid4()) if move.unique_ids else None
        version = move.operator.version
        #: The main file's name, without its ending.
        self.name = f"{version}_{self.unique_id}" if self.unique_id else str(version)
        self._paths: list[str] = []

    def create(self, name: str) -> BinaryIO:
        """Create a file."""
        self._paths.append(name)
        return self.target.create(f"{self.directory}/{name}")

    def adopt(self, path: str, name: str) -> bool:
        """Move a local file into the directory; return False if the file systems differ."""
        local = self.target.local_path(f"{self.directory}/{name}")
        if local is None:
            return False
        os.makedirs(os.path.dirname(local), exist_ok=True)
        try:
            os.rename(path, local)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return False
        self._paths.append(name)
        return True

    def read_back(
        self,
        index: int,
        move: OperatorMigration,
        store: str,
        partition: int,
        rows: int | None = None,
    ) -> WrittenStore:
        """Read back everything that was written, and return the store with its digest.

        ``index`` is the operator's index among the migrations, ``rows`` the number of rows written,
        if it is known. Raises LostRows if the files have another number of rows.
        """
        written = self._files(move)
        functions = native_functions(move, store)
        digest = None if functions is None else _native_digest(functions, written, move, store)
        native = digest is not None
        if digest is None:
            digest = self._digest(written, move, store)
        if rows is not None and rows != digest.rows:
            raise LostRows(
                f"the partition {partition} of the operator {move.ordinal} ({store}) has "
                f"{digest.rows:,} rows, but {rows:,} were written: a key repeats"
            )
        size = sum(_size(self.target, f"{self.directory}/{path}") for path in self._paths)
        return WrittenStore(
            index, store, partition, self.directory, self.unique_id, digest, size, native
        )

    def _digest(self, written: StoreFiles, move: OperatorMigration, store: str) -> RowsDigest:
        canonical = canonical_families(move, store) if move.backend == CANONICAL else []
        digest = RowsDigest()
        for block in read_canonical(written, canonical) if canonical else read_store(written):
            values = delimited(block.values) if move.delimiter else block.values
            digest += digest_rows(block.keys, values, _salt(move, store, block.family))
        return digest

    def _files(self, move: OperatorMigration) -> StoreFiles:
        return StoreFiles(
            names=tuple(self.target.names(self.directory)),
            version=move.operator.version,
            open=functools.partial(_open_in, self.target, self.directory),
            backend=move.backend,
            unique_id=self.unique_id,
            compression=move.compression,
            local_path=functools.partial(_local_in, self.target, self.directory),
        )


def _salt(move: OperatorMigration, store: str, family: str) -> int:
    """Return the salt of a family, by its name in the files of a new store."""
    # Files without column families call the only family "default"; the plan may name it otherwise.
    alone = family == DEFAULT_FAMILY and not move.families.get(store, NO_FAMILIES).ids
    return family_salt(store, target_families(move, store)[0] if alone else family)


def native_functions(move: OperatorMigration, store: str) -> Any:
    """Return the functions of :func:`.native.library` for a new store; None if not usable.

    The functions neither merge the records of lists nor know the delimiters between records.
    """
    if move.backend != ROCKSDB or move.delimiter:
        return None
    for source in move.stores:
        lists = list_families(move.operator, store_of(move.operator, source.source))
        if source.target == store and any(is_list(family, lists) for family in source.families):
            return None
    return library()


def _native_digest(
    functions: Any, written: StoreFiles, move: OperatorMigration, store: str
) -> RowsDigest | None:
    """Return the digest of all rows; None if the native functions cannot read them."""
    try:
        with (
            closed_database(written) as (directory, metadata),
            Reader(functions, [directory], family_bytes(metadata.families)) as reader,
        ):

            def salt_of(prefix: bytes) -> int:
                return _salt(move, store, native_family(prefix, metadata.families))

            return sum_digests(RowsDigest(*parts) for parts in reader.digests(salt_of))
    except NativeError as error:
        tell_unused(error)
        return None


def is_list(family: FamilyMigration, lists: frozenset[str]) -> bool:
    """Return whether a family's new values are lists; ``lists`` are the old families with lists."""
    return family.source in lists if family.regroup is None else family.regroup.lists


def target_families(move: OperatorMigration, store: str) -> list[str]:
    """Return the families of a new store that get rows, in the same order for all tasks."""
    names = [f.target for s in move.stores if s.target == store for f in s.families]
    return list(dict.fromkeys(names))


def canonical_families(move: OperatorMigration, store: str) -> list[CanonicalFamily]:
    """Return the families of a new canonical store, in the order of :func:`target_families`."""
    families = move.families.get(store, NO_FAMILIES)
    by_name: dict[str, CanonicalFamily] = {}
    for source in move.stores:
        lists = list_families(move.operator, store_of(move.operator, source.source))
        for family in source.families if source.target == store else ():
            canonical = CanonicalFamily(
                store=store,
                name=family.target if families.ids else DEFAULT_FAMILY,
                key=family.after.key,
                value=family.after.value,
                encoder=family.after.encoder,
                lists=is_list(family, lists),
                internal=family.target in families.internal,
            )
            by_name.setdefault(family.target, canonical)
    return list(by_name.values())


def _open_in(target: StateTarget, directory: str, name: str) -> BinaryIO:
    return target.open(f"{directory}/{name}")


def _local_in(target: StateTarget, directory: str, name: str) -> str | None:
    return target.local_path(f"{directory}/{name}")


def _size(target: StateTarget, path: str) -> int:
    with target.open(path) as file:
        return file.seek(0, 2)


def store_of(operator: OperatorState, name: str) -> StoreState:
    """Return an operator's store by its name; raise EngineError if there is none."""
    for store in operator.stores:
        if store.name == name:
            return store
    raise EngineError(f"the operator {operator.ordinal} has no store {name!r}")
