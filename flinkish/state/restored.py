"""A state's old bytes and the program's new serializer: the verdict, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish.errors import Incompatible
from flinkish.state.serializers import (
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
    Verdict,
)
from flinkish.state.snapshots import StatePlace


@dataclass(frozen=True)
class RestoredState:
    """How the program restores a state; picklable if the serializers are.

    Attributes
    ----------
    compatibility
        The verdict; never incompatible.
    serializer
        Reads and writes the state from now on: the new serializer, or the reconfigured one.
    reader
        Reads the old bytes: the same unless the state is migrated.
    """

    compatibility: TypeSerializerSchemaCompatibility
    serializer: TypeSerializer[Any]
    reader: TypeSerializer[Any]

    @property
    def needs_migration(self) -> bool:
        """Whether old bytes must be written again."""
        return self.compatibility.verdict is Verdict.AFTER_MIGRATION

    def read(self, old: bytes) -> Any:
        """Return the value of old bytes, as the new program has it."""
        return self.reader.deserialize(old)

    def migrate(self, old: bytes) -> bytes:
        """Return the bytes that replace old ones; the same ones if they stay valid."""
        return self.serializer.serialize(self.read(old)) if self.needs_migration else old


def restore_state(
    snapshot: TypeSerializerSnapshot[Any],
    new_serializer: TypeSerializer[Any],
    place: StatePlace | str,
) -> RestoredState:
    """Decide how a program restores a state.

    Parameters
    ----------
    snapshot
        The snapshot of the serializer that wrote the state.
    new_serializer
        The program's.
    place
        Whose state it is, for the error.

    Raises
    ------
    Incompatible
        The new serializer cannot be used with the state; ``data["reasons"]`` says why, by field.
    """
    compatibility = snapshot.resolve_schema_compatibility(new_serializer)
    if compatibility.verdict is Verdict.INCOMPATIBLE:
        raise Incompatible(
            f"{place} cannot be restored: {'; '.join(compatibility.reasons)}",
            hint="change the type back, or declare the state under another name and drop this one",
            place=str(place),
            reasons=list(compatibility.reasons),
        )
    serializer = compatibility.serializer or new_serializer
    reader = serializer
    if compatibility.verdict is Verdict.AFTER_MIGRATION:
        reader = snapshot.reader_for(new_serializer)
    return RestoredState(compatibility, serializer, reader)
