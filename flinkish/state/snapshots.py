"""Write the snapshots of serializers as bytes (class name, version, content); read them strictly.

::

    1 (the framing's version) | size, "module:Class" | version | size, content

A snapshot is restored by importing its class, from allowed modules only. Nothing is pickled. The
content of a savepoint is untrusted: names are checked before they are imported, sizes before they
are read, and the nesting of snapshots is limited.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from flinkish.annotations import experimental, public_evolving
from flinkish.errors import Corrupt, FlinkishError, Incompatible, UnsupportedFormat, UsageError
from flinkish.state.serializers import TypeSerializerSnapshot
from flinkish.state.wire import Parts, put_part, put_size, put_text

FRAMING: Final = 1
#: Far above real snapshots; anything larger is damage.
MAX_BYTES: Final = 16 << 20
MAX_NAME: Final = 500
MAX_VERSION: Final = 1 << 20
#: Maximum nesting of snapshots within snapshots: lists of maps of records ...
MAX_DEPTH: Final = 40
#: The modules whose classes are imported by default.
DEFAULT_MODULES: Final = ("flinkish",)
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")


@experimental
@dataclass(frozen=True)
class StatePlace:
    """The origin of a snapshot, for messages: the state's name and its operator's uid."""

    state: str
    operator: str = ""

    def __str__(self) -> str:
        of = f" of the operator {self.operator}" if self.operator else ""
        return f"the state {self.state}{of}"


def class_name(cls: type) -> str:
    """Return the name by which a class is found: ``module:Class``."""
    return f"{cls.__module__}:{cls.__qualname__}"


@dataclass(frozen=True)
class ModuleLoader:
    """Reads snapshots, and finds classes by their names in allowed modules.

    ``place`` says whose snapshots they are (a :class:`StatePlace`, or a text), for errors. Only
    ``modules`` and their submodules may be imported. ``depth`` is the number of snapshots that
    enclose the snapshot being read.
    """

    place: StatePlace | str
    modules: tuple[str, ...] = DEFAULT_MODULES
    depth: int = 0

    def read(self, data: bytes) -> TypeSerializerSnapshot[Any]:
        """Return the snapshot that bytes encode; raise the errors of ``SnapshotLoader.read``."""
        if self.depth > MAX_DEPTH:
            raise self._corrupt(f"its snapshots are nested more than {MAX_DEPTH} deep")
        try:
            name, version, content = _unframe(data)
        except Corrupt as error:
            raise self._corrupt(error.message) from error
        if version is None:
            raise UnsupportedFormat(
                f"{self.place}: a newer flinkish wrote the snapshot of its serializer",
                hint="use the flinkish that wrote it, or a newer one",
                place=str(self.place),
            )
        cls = self.load(name, TypeSerializerSnapshot)
        return self._fill(cls, name, version, content)

    def _fill(
        self, cls: type, name: str, version: int, content: bytes
    ) -> TypeSerializerSnapshot[Any]:
        try:
            snapshot: TypeSerializerSnapshot[Any] = cls()
        except Exception as error:
            raise self._incompatible(
                name,
                f"the class {name} cannot be called without arguments: {error}",
                "make its constructor callable without arguments",
            ) from error
        if version > snapshot.current_version:
            raise UnsupportedFormat(
                f"{self.place}: version {version} of the snapshot {name} was written, "
                f"but the present class reads up to {snapshot.current_version}",
                hint="restore with the program that wrote the savepoint, or a newer one",
                **self._facts(name),
            )
        try:
            snapshot.read_snapshot(version, content, replace(self, depth=self.depth + 1))
        except FlinkishError as error:
            if "place" in error.data:
                raise
            raise self._corrupt(error.message, name) from error
        except Exception as error:
            raise self._corrupt(f"{type(error).__name__}: {error}", name) from error
        return snapshot

    def load(self, name: str, base: type = object) -> type:
        """Import a class by its name; raise the errors of ``SnapshotLoader.load``."""
        if len(name) > MAX_NAME or not _NAME.fullmatch(name):
            raise self._corrupt(f"{name[:80]!r} is not a class name", name[:80])
        module, _, attribute = name.partition(":")
        if not _is_below(module, self.modules):
            allowed = [each for each in self.modules if each not in DEFAULT_MODULES]
            allowed.append(module.partition(".")[0])
            raise self._incompatible(
                name,
                f"the class {name} is needed, but its module is not one of those that may be "
                f"imported ({', '.join(self.modules) or 'none'})",
                f"if you trust that module, set engine.snapshot-modules to {','.join(allowed)}",
            )
        cls = getattr(self._import(module, name), attribute, None)
        if cls is None:
            raise self._missing(name, f"the module {module} has no class {attribute}")
        if not isinstance(cls, type) or not issubclass(cls, base):
            raise self._incompatible(
                name, f"{name} is not a {base.__name__}", f"put the class {attribute} back there"
            )
        return cls

    def _import(self, module: str, name: str) -> Any:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not _is_below(module, (error.name,)):
                raise self._broken(module, name, error) from error
            raise self._missing(name, f"there is no module {error.name}") from error
        except Exception as error:
            raise self._broken(module, name, error) from error

    def _broken(self, module: str, name: str, error: Exception) -> Incompatible:
        return self._incompatible(
            name,
            f"the class {name} is needed, and importing {module} failed: "
            f"{type(error).__name__}: {error}",
            f"make {module} importable where the job is restored",
        )

    def _missing(self, name: str, reason: str) -> Incompatible:
        module, _, attribute = name.partition(":")
        moved = sorted(
            other
            for other, loaded in list(sys.modules.items())
            if other != module
            and _is_below(other, self.modules)
            and getattr(getattr(loaded, "__dict__", {}).get(attribute), "__module__", None) == other
        )
        if not moved:
            hint = f"move the class back to where it was: {name}"
            return self._incompatible(name, f"the class {name} is needed, and {reason}", hint)
        return self._incompatible(
            name,
            f"the class {name} is needed, and {reason}; there is a class {attribute} in {moved[0]}",
            f"if it was moved, keep its old name: from {moved[0]} import {attribute} in {module}",
        )

    def _facts(self, name: str) -> dict[str, str]:
        return {"place": str(self.place), "class_name": name}

    def _incompatible(self, name: str, message: str, hint: str) -> Incompatible:
        return Incompatible(f"{self.place}: {message}", hint=hint, **self._facts(name))

    def _corrupt(self, reason: str, name: str = "") -> Corrupt:
        named = f" {name}" if name else ""
        return Corrupt(
            f"{self.place}: the snapshot{named} of its serializer is damaged: {reason}",
            hint="use another savepoint",
            **self._facts(name),
        )


@public_evolving
def write_snapshot(snapshot: TypeSerializerSnapshot[Any]) -> bytes:
    """Return the bytes that :meth:`ModuleLoader.read` reads.

    Raises
    ------
    UsageError
        The class cannot be found again (see :func:`check_snapshot_class`), or the snapshot is
        larger than :data:`MAX_BYTES`.
    """
    check_snapshot_class(type(snapshot))
    out = bytearray([FRAMING])
    put_text(out, class_name(type(snapshot)))
    put_size(out, snapshot.current_version)
    put_part(out, snapshot.write_snapshot())
    if len(out) > MAX_BYTES:
        raise UsageError(
            f"the snapshot {class_name(type(snapshot))} has {len(out)} bytes; the maximum is "
            f"{MAX_BYTES}",
            hint="store only a description of the state's bytes in a snapshot, not data",
        )
    return bytes(out)


@public_evolving
def read_snapshot(
    data: bytes, place: StatePlace | str, modules: Iterable[str] = DEFAULT_MODULES
) -> TypeSerializerSnapshot[Any]:
    """Return the snapshot that bytes encode; see :class:`ModuleLoader`.

    Parameters
    ----------
    data
        The bytes that :func:`write_snapshot` returned.
    place
        Whose snapshot it is, for errors.
    modules
        The modules that may be imported, including their submodules.
    """
    return ModuleLoader(place, tuple(modules)).read(data)


@public_evolving
def check_snapshot_class(cls: type) -> None:
    """Check that a snapshot of this class will be found again at a restore.

    Parameters
    ----------
    cls
        A subclass of :class:`~flinkish.state.TypeSerializerSnapshot`.

    Raises
    ------
    UsageError
        The class is not such a subclass, is not public, is not found by its name at its module's
        top level, is abstract, needs arguments, or has no valid ``current_version``.
    """
    name = class_name(cls)
    reason = _why_unfindable(cls)
    if reason is None and not issubclass(cls, TypeSerializerSnapshot):
        reason = "is not a TypeSerializerSnapshot"
    if reason is None and inspect.isabstract(cls):
        reason = f"lacks {', '.join(sorted(getattr(cls, '__abstractmethods__', ())))}"
    if reason is None and not _takes_no_arguments(cls):
        reason = "has a constructor that needs arguments"
    if reason is None and not _is_version(getattr(cls, "current_version", None)):
        reason = f"has no current_version from 1 to {MAX_VERSION} (an int of the class)"
    if reason is not None:
        raise UsageError(
            f"the snapshot class {name} {reason}",
            hint="a savepoint keeps the name of the class, and a restore calls it without "
            "arguments: make it public, at the top level of a module, and callable without "
            "arguments",
            class_name=name,
        )


def check_findable(cls: type, what: str) -> None:
    """Check that a class whose name a snapshot stores can be found by that name.

    Raises UsageError if it is not public, not at the top level of its module, or not found there.
    """
    reason = _why_unfindable(cls)
    if reason is not None:
        raise UsageError(
            f"{what} {class_name(cls)} {reason}",
            hint="a savepoint keeps its name: make it public, at the top level of a module",
            class_name=class_name(cls),
        )


def _why_unfindable(cls: type) -> str | None:
    if "." in cls.__qualname__:
        return "is not at the top level of its module"
    if cls.__name__.startswith("_"):
        return "is not public"
    if len(class_name(cls)) > MAX_NAME or not _NAME.fullmatch(class_name(cls)):
        return "has a name that is not an identifier"
    if getattr(sys.modules.get(cls.__module__), cls.__name__, None) is not cls:
        return "is not the object that its module has under that name"
    return None


def _takes_no_arguments(cls: type) -> bool:
    try:
        inspect.signature(cls).bind()
    except (TypeError, ValueError):
        return False
    return True


def _is_version(version: object) -> bool:
    return type(version) is int and 1 <= version <= MAX_VERSION


def _is_below(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in prefixes)


def _unframe(data: bytes) -> tuple[str, int | None, bytes]:
    """Return name, version and content; the version is None for a newer framing."""
    if len(data) > MAX_BYTES:
        raise Corrupt(f"it has {len(data)} bytes; the maximum is {MAX_BYTES}")
    parts = Parts(data, "it")
    framing = parts.size()
    if framing > FRAMING:
        return "", None, b""
    if framing != FRAMING:
        raise parts.damaged("it does not start like a snapshot")
    name = parts.text(MAX_NAME * 4)
    version = parts.size()
    if not _is_version(version):
        raise parts.damaged(f"version {version} is not from 1 to {MAX_VERSION}")
    content = parts.part()
    parts.end()
    return name, version, content
