"""The bytes of one state over the life of its job, and the serializers that write and read them.

A stored value is the number of its generation (one byte) and the bytes that the serializer of that
generation wrote. Generation 0 is the first. A restore that migrates lazily adds a generation; a
restore that migrates eagerly rewrites all values as generation 0. Savepoints keep a snapshot for
each generation, the oldest first.

Flink's heap backend migrates when it restores, its RocksDB backend when a state is first accessed;
here the user chooses (``state.migration``), and both ways work with each of Spark's backends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flinkish.annotations import experimental
from flinkish.errors import Corrupt, Incompatible
from flinkish.state.serializers import (
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
    Verdict,
)
from flinkish.state.snapshots import ModuleLoader, StatePlace, write_snapshot
from flinkish.state.wire import put_size

#: Far more generations than lazy migrations create before a job migrates eagerly.
MAX_GENERATIONS: Final = 100


@dataclass(frozen=True)
class StateFormat:
    """How the values of one state are written and read. Picklable if the serializers are.

    ``writer`` writes new values, as the newest generation. ``readers`` read the values of each
    generation as values of the program's type.
    """

    writer: TypeSerializer[Any]
    readers: tuple[TypeSerializer[Any], ...]

    @staticmethod
    def of(serializer: TypeSerializer[Any]) -> StateFormat:
        """Return the format of a new state with this serializer."""
        return StateFormat(serializer, (serializer,))

    def write(self, value: Any) -> bytes:
        """Return the stored bytes of a value; UsageError if it is not of the type."""
        newest = len(self.readers) - 1
        out = bytearray()
        put_size(out, newest)
        return bytes(out) + self.writer.serialize(value)

    def read(self, stored: bytes) -> Any:
        """Return the value of stored bytes.

        Raises Corrupt if the bytes are not of this state, and Incompatible if this run does not
        know the generation that wrote them.
        """
        generation, data = split_generation(stored)
        if generation >= len(self.readers):
            raise Incompatible(
                f"a value is of generation {generation} of its serializer, but the newest "
                f"that this run knows is {len(self.readers) - 1}",
                hint="typed state that was migrated lazily can only be resumed with flinkish, "
                "which keeps the snapshots of its serializers",
            )
        return self.readers[generation].deserialize(data)

    def rewrite(self, stored: bytes) -> bytes:
        """Return the bytes of a stored value rewritten as generation 0 by the writer."""
        return b"\x00" + self.writer.serialize(self.read(stored))


def split_generation(stored: bytes) -> tuple[int, bytes]:
    """Return the generation of a stored value, and the bytes of its serializer.

    Raises Corrupt if the bytes do not begin with a generation.
    """
    if not stored or stored[0] > 0x7F:
        raise Corrupt("a value of typed state does not begin with its generation")
    return stored[0], stored[1:]


@dataclass(frozen=True)
class ResolvedState:
    """How a program restores one state of a savepoint.

    ``verdict`` is the worst among the generations, never incompatible. ``format`` reads and writes
    the state after the restore. ``snapshots`` are for the next savepoint, one per generation.
    ``rewriting`` reads the savepoint's values and writes them in the new form; None if the restore
    rewrites no values. With ``is_mixed``, values of older generations stay until they are updated.
    """

    verdict: Verdict
    format: StateFormat
    snapshots: tuple[bytes, ...]
    rewriting: StateFormat | None = None
    is_mixed: bool = False


def resolve_state(
    snapshots: Sequence[bytes],
    new: TypeSerializer[Any],
    loader: ModuleLoader,
    *,
    eager: bool,
) -> ResolvedState:
    """Decide how a program restores a state.

    ``snapshots`` are the savepoint's, one per generation, oldest first; at least one. With
    ``eager``, the restore rewrites all values if they need migration or are of several generations.

    Raises Incompatible, with the reasons by field, if the new serializer cannot read a generation;
    Incompatible also if a snapshot's class cannot be imported or there would be too many
    generations; and Corrupt or UnsupportedFormat if a snapshot cannot be read.
    """
    if not 0 < len(snapshots) <= MAX_GENERATIONS:
        raise Corrupt(
            f"{loader.place} has {len(snapshots)} snapshots of serializers; 1 to "
            f"{MAX_GENERATIONS} are allowed",
            hint="use another savepoint",
        )
    restored = [restore_state(loader.read(each), new, loader.place) for each in snapshots]
    order = list(Verdict)
    verdict = max((each.compatibility.verdict for each in restored), key=order.index)
    last = restored[-1]
    readers = tuple(each.reader for each in restored)
    kept: tuple[bytes, ...]
    if len(restored) == 1 and not last.needs_migration:
        return ResolvedState(
            verdict, StateFormat(last.serializer, (last.serializer,)), (_snapshot(last),)
        )
    if eager:
        rewriting = StateFormat(new, readers)
        kept = (write_snapshot(new.snapshot_configuration()),)
        return ResolvedState(verdict, StateFormat.of(new), kept, rewriting)
    if last.needs_migration:
        if len(snapshots) == MAX_GENERATIONS:
            raise Incompatible(
                f"{loader.place} has values of {MAX_GENERATIONS} serializers already",
                hint="restore with state.migration=eager, which leaves one",
            )
        kept = (*snapshots, write_snapshot(new.snapshot_configuration()))
        return ResolvedState(verdict, StateFormat(new, (*readers, new)), kept, is_mixed=True)
    kept = (*snapshots[:-1], _snapshot(last))
    mixed = StateFormat(last.serializer, (*readers[:-1], last.serializer))
    return ResolvedState(verdict, mixed, kept, is_mixed=True)


def _snapshot(restored: RestoredState) -> bytes:
    return write_snapshot(restored.serializer.snapshot_configuration())


@experimental
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
        Reads the old bytes: the same serializer unless the state is migrated.
    """

    compatibility: TypeSerializerSchemaCompatibility
    serializer: TypeSerializer[Any]
    reader: TypeSerializer[Any]

    @property
    def needs_migration(self) -> bool:
        """Whether old bytes must be written again."""
        return self.compatibility.verdict is Verdict.AFTER_MIGRATION

    def read(self, old: bytes) -> Any:
        """Return the value of old bytes, in the type of the new program."""
        return self.reader.deserialize(old)

    def migrate(self, old: bytes) -> bytes:
        """Return the bytes that replace old bytes: the old bytes themselves if they stay valid."""
        return self.serializer.serialize(self.read(old)) if self.needs_migration else old


@experimental
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
        The serializer of the program.
    place
        The state and its operator, for the error.

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
