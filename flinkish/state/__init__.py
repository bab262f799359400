"""Typed state that evolves: serializers, their snapshots, and descriptors.

A state is declared with a type. A savepoint keeps a snapshot of the type's serializer; at a restore
the snapshot judges the new program's serializer, as in Flink: compatible as is, with a reconfigured
serializer, after migration, or incompatible.

- :class:`~flinkish.state.descriptors.ValueStateDescriptor`, ``ListStateDescriptor`` and
  ``MapStateDescriptor`` declare state.
- :func:`~flinkish.state.group_state.apply_in_pandas_with_state` and
  :func:`~flinkish.state.processors.transform_with_state` pass it to the user's function.
- :func:`~flinkish.state.builtin.records.serializer_of` gives the serializer of a type: dataclasses
  and NamedTuples (:func:`~flinkish.state.builtin.record_types.state_type` gives former names),
  lists, maps, tuples, optional values, primitives, NumPy scalars.
- :class:`~flinkish.state.avro.serializer.AvroSerializer` is for Avro schemas;
  :func:`~flinkish.state.avro.resolution.resolve` judges whether one schema reads another's bytes.
- :class:`~flinkish.state.serializers.TypeSerializer`, ``TypeSerializerSnapshot`` and
  :class:`~flinkish.state.composite.CompositeTypeSerializerSnapshot` are for custom serializers;
  :mod:`flinkish.state.legacy` is for serializers of the old style.
- :func:`~flinkish.state.snapshots.write_snapshot` and ``read_snapshot`` convert snapshots to and
  from bytes; :func:`~flinkish.state.generations.restore_state` says how a state is restored.

The names are imported on first use.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers recognise the name; importing typing costs start-up time
if TYPE_CHECKING:
    from flinkish.state.avro.resolution import resolve
    from flinkish.state.avro.serializer import AvroSerializer
    from flinkish.state.builtin.containers import (
        ListSerializer,
        MapSerializer,
        OptionalSerializer,
        TupleSerializer,
    )
    from flinkish.state.builtin.numpy_scalars import NumpyScalarSerializer
    from flinkish.state.builtin.record_types import state_type
    from flinkish.state.builtin.records import DataclassSerializer, serializer_of
    from flinkish.state.builtin.unsafe_pickle import UnsafePickleSerializer
    from flinkish.state.composite import CompositeTypeSerializerSnapshot
    from flinkish.state.descriptors import (
        ListStateDescriptor,
        MapStateDescriptor,
        ValueStateDescriptor,
    )
    from flinkish.state.generations import RestoredState, restore_state
    from flinkish.state.group_state import TypedGroupState, apply_in_pandas_with_state
    from flinkish.state.legacy import (
        CompatibilityResult,
        LegacySerializer,
        TypeSerializerConfigSnapshot,
    )
    from flinkish.state.processors import TypedHandle, transform_with_state
    from flinkish.state.serializers import (
        Reason,
        SnapshotLoader,
        TypeSerializer,
        TypeSerializerSchemaCompatibility,
        TypeSerializerSnapshot,
        Verdict,
    )
    from flinkish.state.snapshots import (
        StatePlace,
        check_snapshot_class,
        read_snapshot,
        write_snapshot,
    )

__all__ = [
    "AvroSerializer",
    "CompatibilityResult",
    "CompositeTypeSerializerSnapshot",
    "DataclassSerializer",
    "LegacySerializer",
    "ListSerializer",
    "ListStateDescriptor",
    "MapSerializer",
    "MapStateDescriptor",
    "NumpyScalarSerializer",
    "OptionalSerializer",
    "Reason",
    "RestoredState",
    "SnapshotLoader",
    "StatePlace",
    "TupleSerializer",
    "TypeSerializer",
    "TypeSerializerConfigSnapshot",
    "TypeSerializerSchemaCompatibility",
    "TypeSerializerSnapshot",
    "TypedGroupState",
    "TypedHandle",
    "UnsafePickleSerializer",
    "ValueStateDescriptor",
    "Verdict",
    "apply_in_pandas_with_state",
    "check_snapshot_class",
    "read_snapshot",
    "resolve",
    "restore_state",
    "serializer_of",
    "state_type",
    "transform_with_state",
    "write_snapshot",
]

_HOMES = {
    "AvroSerializer": "avro.serializer",
    "CompatibilityResult": "legacy",
    "CompositeTypeSerializerSnapshot": "composite",
    "DataclassSerializer": "builtin.records",
    "LegacySerializer": "legacy",
    "ListSerializer": "builtin.containers",
    "ListStateDescriptor": "descriptors",
    "MapSerializer": "builtin.containers",
    "MapStateDescriptor": "descriptors",
    "NumpyScalarSerializer": "builtin.numpy_scalars",
    "OptionalSerializer": "builtin.containers",
    "Reason": "serializers",
    "RestoredState": "generations",
    "SnapshotLoader": "serializers",
    "StatePlace": "snapshots",
    "TupleSerializer": "builtin.containers",
    "TypeSerializer": "serializers",
    "TypeSerializerConfigSnapshot": "legacy",
    "TypeSerializerSchemaCompatibility": "serializers",
    "TypeSerializerSnapshot": "serializers",
    "TypedGroupState": "group_state",
    "TypedHandle": "processors",
    "UnsafePickleSerializer": "builtin.unsafe_pickle",
    "ValueStateDescriptor": "descriptors",
    "Verdict": "serializers",
    "apply_in_pandas_with_state": "group_state",
    "check_snapshot_class": "snapshots",
    "read_snapshot": "snapshots",
    "resolve": "avro.resolution",
    "restore_state": "generations",
    "serializer_of": "builtin.records",
    "state_type": "builtin.record_types",
    "transform_with_state": "processors",
    "write_snapshot": "snapshots",
}


if not TYPE_CHECKING:  # otherwise type checkers accept any name of this package

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _HOMES:
            return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
