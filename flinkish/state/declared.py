"""The typed states of an operator: a tag on its plan, their formats, and their columns.

A program declares the states of an operator where it creates the DataFrame. The snapshots of their
serializers are kept in a Scala ``TreeNodeTag`` on the plan's node, as uids are. The driver reads
the tag when the query starts. By then Spark has pickled the user's function with the program's
serializers. What a restore adds (readers of older generations, a reconfigured serializer) reaches
the tasks as a local property of the query's thread, which Spark passes to every task.

This module can be imported without Spark: the plan is accessed through the DataFrame itself.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flinkish.errors import Corrupt, UsageError
from flinkish.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from flinkish.state.generations import StateFormat
from flinkish.state.serializers import TypeSerializer
from flinkish.state.snapshots import write_snapshot

#: Name of the tree node tag.
TAG_NAME: Final = "flinkish.state"
#: Prefix of the local properties.
PROPERTY: Final = "flinkish.state."

#: The suffix of a map's name for its keys; no name contains it.
MAP_KEY: Final = "#key"

StateDescriptor = ValueStateDescriptor | ListStateDescriptor | MapStateDescriptor
#: The serializers that this process has declared: by the operator's token, then by state.
_DECLARED: dict[str, Mapping[str, TypeSerializer[Any]]] = {}


@dataclass(frozen=True)
class DeclaredStates:
    """The typed states of one operator.

    ``token`` is unique to the operator in this process and names its local property. ``snapshots``
    are those of the program's serializers, by state.
    """

    token: str
    snapshots: Mapping[str, bytes]

    def encode(self) -> str:
        """Return the tag's value on the plan node."""
        snapshots = {name: to_text(each) for name, each in self.snapshots.items()}
        return json.dumps({"token": self.token, "snapshots": snapshots})

    @classmethod
    def decode(cls, text: str) -> DeclaredStates:
        """Return the states of an encoded value (see :meth:`encode`)."""
        data = json.loads(text)
        snapshots = {name: from_text(each) for name, each in data["snapshots"].items()}
        return cls(data["token"], snapshots)

    @property
    def serializers(self) -> Mapping[str, TypeSerializer[Any]]:
        """The program's serializers, by state; only in the process that declared them."""
        return _DECLARED[self.token]

    @property
    def property_name(self) -> str:
        """The local property that has the formats of the states."""
        return PROPERTY + self.token


def to_text(snapshot: bytes) -> str:
    """Return a snapshot's bytes as text (base64)."""
    return base64.b64encode(snapshot).decode("ascii")


def from_text(text: str) -> bytes:
    """Return the bytes that :func:`to_text` encoded; Corrupt if the text is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Corrupt(f"the snapshot of a serializer is not base64: {error}") from error


def declare(states: Sequence[StateDescriptor], *, by_element: bool = False) -> DeclaredStates:
    """Check the states of an operator, and record their serializers.

    With ``by_element`` lists and maps are stored element by element. The serializer of a list is
    then that of its elements, and the serializer of a map that of its values; the keys have a
    serializer under the map's name followed by :data:`MAP_KEY`.

    Raises UsageError without states, if one is no descriptor, or two share a name, ignoring case.
    """
    serializers: dict[str, TypeSerializer[Any]] = {}
    for each in states:
        if not isinstance(each, StateDescriptor):
            raise UsageError(
                f"{each!r} is not a state descriptor",
                hint="states=[ValueStateDescriptor('name', type), ...]",
            )
        if each.name.casefold() in map(str.casefold, serializers):
            raise UsageError(
                f"two states of one operator are called {each.name}",
                hint="names are compared regardless of case: give one of them another name",
            )
        serializers |= _columns(each, by_element=by_element)
    if not serializers:
        raise UsageError("no state is declared", hint="states=[ValueStateDescriptor(...), ...]")
    token = os.urandom(8).hex()
    _DECLARED[token] = serializers
    snapshots = {
        name: write_snapshot(each.snapshot_configuration()) for name, each in serializers.items()
    }
    return DeclaredStates(token, snapshots)


def _columns(each: StateDescriptor, *, by_element: bool) -> dict[str, TypeSerializer[Any]]:
    """Return the serializers of the columns of bytes that a state is kept in."""
    if by_element and isinstance(each, ListStateDescriptor):
        return {each.name: each.serializer.element}
    if by_element and isinstance(each, MapStateDescriptor):
        return {each.name: each.serializer.value, each.name + MAP_KEY: each.serializer.key}
    return {each.name: each.serializer}


def mark(df: Any, declared: DeclaredStates, node_names: frozenset[str]) -> None:
    """Attach the states of an operator to its node at the top of a DataFrame's plan.

    ``node_names`` are Spark's names for the node. Nodes above it that have one child are skipped.
    """
    node = df._jdf.logicalPlan()
    while node.nodeName() not in node_names and node.children().size() == 1:
        node = node.children().apply(0)
    node.setTagValue(_key(df.sparkSession._jvm), declared.encode())


def declared_on(jvm: Any, node: Any) -> DeclaredStates | None:
    """Return the typed states that the program declared for a JVM plan node; None without any."""
    tag = node.getTagValue(_key(jvm))
    return DeclaredStates.decode(str(tag.get())) if tag.isDefined() else None


def _key(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag(TAG_NAME)


def formats_to_text(formats: Mapping[str, StateFormat]) -> str:
    """Return the formats of an operator's states for its local property.

    The formats are pickled as Spark pickles the user's function: classes of the program's main
    module by value. Only this job's own tasks read them; they are never part of a savepoint.
    """
    from pyspark import cloudpickle

    pickled: bytes = cloudpickle.dumps(dict(formats))  # type: ignore[no-untyped-call]
    return base64.b64encode(pickled).decode("ascii")


class TaskFormats:
    """The formats of an operator's states, as its tasks see them. Picklable.

    ``serializers`` are the program's, by state; a query without a restore uses them.
    """

    def __init__(
        self, declared: DeclaredStates, serializers: Mapping[str, TypeSerializer[Any]]
    ) -> None:
        self._property = declared.property_name
        self._own = {name: StateFormat.of(each) for name, each in serializers.items()}
        self._seen: tuple[str, Mapping[str, StateFormat]] | None = None

    def current(self) -> Mapping[str, StateFormat]:
        """Return the formats for the running task, by state."""
        from pyspark import TaskContext

        context = TaskContext.get()
        text = None if context is None else context.getLocalProperty(self._property)
        if not text:
            return self._own
        if self._seen is None or self._seen[0] != text:
            import pickle

            self._seen = text, {**self._own, **pickle.loads(base64.b64decode(text))}
        return self._seen[1]


#: The column in which Spark keeps the state of ``applyInPandasWithState`` since state format 2; in
#: format 1 the state's columns stand beside that of the time-out.
_GROUP_STATE: Final = "groupState"
_TIMEOUT: Final = "timeoutTimestamp"
#: The column of a state variable of ``transformWithState``.
_VARIABLE: Final = "value"
#: The column of a map's keys, in the key of its rows.
MAP_KEY_PATH: Final = ("userKey", "key")


def typed_columns(
    kind: str | None, store: str, value: Mapping[str, Any] | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names of states that may be typed, and the paths of their columns in the value.

    ``kind`` is Spark's name for the operator, ``store`` the store or column family, and ``value``
    the JSON schema of its values.
    """
    fields = _types(value)
    if not (kind or "").startswith("transformWithState"):
        nested = _types(fields.get(_GROUP_STATE))
        yield from ((name, (_GROUP_STATE, name)) for name in nested)
        yield from ((name, (name,)) for name in fields if not nested and name != _TIMEOUT)
    elif _VARIABLE in fields and not store.startswith("$"):
        # With a time to live, Spark keeps the value and its expiration in a struct.
        has_expiration = _VARIABLE in _types(fields[_VARIABLE])
        yield store, (_VARIABLE, _VARIABLE) if has_expiration else (_VARIABLE,)


def _types(schema: Any) -> dict[str, Any]:
    """Return the types of a struct's fields by their names; {} for another type."""
    if not isinstance(schema, Mapping):
        return {}
    return {str(each["name"]): each["type"] for each in schema.get("fields", ())}
