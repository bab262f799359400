"""The JSON documents of the commands that plan programs, and read or rewrite their state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

from flinkish.cli.documents.parts import SavepointResult, SparkJson, StoreSchema
from flinkish.messages.migration import MigratedOperator
from flinkish.messages.rehearsals import RehearsedQuery
from flinkish.messages.results import Bundle


class TypedStateRecord(TypedDict):
    """A state that is declared with a type."""

    name: str
    type: str
    serializer: str


class _Stateful(TypedDict, total=False):
    partitions: Annotated[int, "only for an operator with state, as are the next members"]
    stores: list[StoreSchema]
    typed_states: list[TypedStateRecord]


class PlannedOperator(_Stateful):
    """An operator of a query."""

    name: str
    uid: str | None
    uid_hash: str | None
    operator_id: str
    operator_id_v2: str
    operator_id_v3: str
    kind: Annotated[str, "Spark's name for it"]
    stateful: bool
    ordinal: Annotated[int | None, "its number among the operators with state"]
    inputs: Annotated[list[str], "the operator ids of its inputs"]
    chained: Annotated[list[bool], "whether no exchange is between it and each consumer"]
    location: Annotated[str | None, "file and line of the program"]
    key_schema: SparkJson
    value_schema: SparkJson
    address: Annotated[str | None, "QUERY/UID or QUERY/ORDINAL, for other commands"]


class Coverage(TypedDict):
    """How many operators have a uid."""

    stateful: int
    with_uid: int


class PlannedQueryRecord(TypedDict):
    """A query of the program."""

    name: str
    operators: list[PlannedOperator]
    coverage: Coverage
    notes: list[str]


class InfoDocument(TypedDict):
    """The operators of a program."""

    queries: list[PlannedQueryRecord]


class RehearseDocument(TypedDict):
    """The batches that were run on a copy."""

    queries: list[RehearsedQuery]
    warnings: list[str]


class BundleDocument(TypedDict):
    """The file that other launchers start."""

    dry_run: bool
    bundle: Bundle


class BeforeAfter(TypedDict):
    """A value before and after."""

    before: Any
    after: Any


class PlannedRewriteRecord(TypedDict):
    """The planned rewrite of one operator's state."""

    query: str
    uid: str | None
    ordinal: int
    kind: str | None
    partitions: BeforeAfter
    backend: BeforeAfter
    shuffle: Annotated[str | None, "why rows go through a shuffle of Spark; null: they do not"]
    changes: list[str]


class MigrateDryRunDocument(TypedDict):
    """The savepoint that would be written."""

    dry_run: Literal[True]
    path: str
    changes: Mapping[str, Any]
    operators: list[PlannedRewriteRecord]


class MigrateDocument(TypedDict):
    """The new savepoint."""

    savepoint: SavepointResult
    operators: list[MigratedOperator]


class StateRecord(TypedDict):
    """A state and its operator."""

    query: str
    batch_id: int
    uid: str | None
    operator_id: str | None
    kind: str | None
    ordinal: int
    partitions: int
    state: Annotated[str, "its name"]


class StateRow(TypedDict):
    """A row of a state."""

    partition: int
    key: Any
    value: Any


class StateRowsDocument(TypedDict):
    """Rows of a state."""

    operator: StateRecord
    rows: list[StateRow]
    more: Annotated[bool, "whether there are more rows than these"]


class StateExportDryRunDocument(TypedDict):
    """The files that would be written."""

    dry_run: Literal[True]
    operator: StateRecord
    path: str
    format: str


class ExportedState(TypedDict):
    """The files that were written."""

    path: str
    format: str
    rows: int | None


class StateExportDocument(TypedDict):
    """A state that was written into files."""

    operator: StateRecord
    export: ExportedState
