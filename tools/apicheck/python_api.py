"""The exported classes and functions, as stubs that people can read in a diff; read by griffe.

Nothing of flinkish is imported: griffe reads the source.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import griffe

from tools.apicheck.promise import Annotation, Change, Level

#: The packages whose ``__all__`` is exported, and modules whose annotated classes are.
PACKAGES = (
    "flinkish",
    "flinkish.client",
    "flinkish.engine",
    "flinkish.state",
    "flinkish.testing",
    "flinkish.airflow.operators",
    "flinkish.airflow.sensors",
    "flinkish.errors",
)
_ANNOTATIONS = {f"flinkish.annotations.{each.value}": each for each in Annotation}
#: Members that are called without being named.
_SPECIAL = frozenset({"__init__", "__call__", "__enter__", "__exit__", "__iter__", "__len__"})
#: What changes the meaning of a call, but refuses none.
_OF_CALLS = frozenset(
    {
        griffe.BreakageKind.PARAMETER_CHANGED_DEFAULT,
        griffe.BreakageKind.RETURN_CHANGED_TYPE,
    }
)
#: What is exported: ``annotation``, ``stub`` (its lines), and ``members`` with one of their own.
Record = Mapping[str, Any]


class NotAnnotated(Exception):
    """An exported class or function has no annotation."""


def exported(root: Path, packages: Sequence[str] = PACKAGES) -> dict[str, Record]:
    """Return everything that is exported, by the name that users import.

    Raises NotAnnotated, with all of them, if some have no annotation.
    """
    name = packages[0].partition(".")[0]
    package = griffe.load(
        name,
        search_paths=[root],
        allow_inspection=False,
    )
    found: dict[str, Record] = {}
    lacking = []
    for place in packages:
        module = package if place == name else package[place.partition(".")[2]]
        for path, api in _names(module, place):
            annotation = annotation_of(api)
            if annotation is None:
                lacking.append(path)
                continue
            members = {
                member: own.value
                for member, each in _members(api)
                if (own := annotation_of(each)) is not None
            }
            found[path] = {
                "annotation": annotation.value,
                "stub": stub(api),
                **({"members": members} if members else {}),
            }
    if lacking:
        raise NotAnnotated(", ".join(lacking))
    return dict(sorted(found.items()))


def _names(module: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield what a module exports; of an exported module its own annotated names."""
    names = module.exports
    if names is None:
        names = [name for name, member in module.members.items() if not member.is_alias]
    for name in names:
        api = module.members[str(name)]
        api = api.final_target if api.is_alias else api
        if api.is_module:
            yield from _names(api, f"{place}.{name}")
        elif not api.is_attribute and (module.exports or annotation_of(api) is not None):
            yield f"{place}.{name}", api


def annotation_of(api: Any) -> Annotation | None:
    """Return the annotation that a class, a function or a member has of its own."""
    paths = (each.callable_path for each in getattr(api, "decorators", ()))
    return next((_ANNOTATIONS[path] for path in paths if path in _ANNOTATIONS), None)


def _members(api: Any) -> Iterator[tuple[str, Any]]:
    """Yield the members of a class that users see, inherited ones too."""
    if not api.is_class:
        return
    for name, member in sorted(api.all_members.items()):
        member = member.final_target if member.is_alias else member
        if name == "__init__" and any(each.name.startswith("_") for each in member.parameters):
            continue  # users get such objects, and make none
        if name in _SPECIAL or not name.startswith("_"):
            yield name, member


def stub(api: Any, name: str | None = None) -> list[str]:
    """Return the lines of a stub: parameters, defaults and types, without the code."""
    if api.is_function:
        decorators = [
            f"@{word}"
            for word in ("classmethod", "staticmethod", "abstractmethod")
            if word in api.labels or any(d.callable_path.endswith(word) for d in api.decorators)
        ]
        returns = f" -> {api.annotation}" if api.annotation is not None else ""
        return [*decorators, f"def {name or api.name}({_parameters(api)}){returns}: ..."]
    if not api.is_class:
        return [_attribute(api)]
    lines = [
        f"    {line}"
        for name, member in _members(api)
        if member.is_function or member.is_attribute
        for line in stub(member, name)
    ]
    bases = ", ".join(str(base) for base in api.bases if not _is_internal(base, api))
    return [
        f"class {api.name}({bases}):" if bases else f"class {api.name}:",
        *(lines or ["    ..."]),
    ]


def _is_internal(base: Any, api: Any) -> bool:
    """Return whether a base class is one of the package without an annotation."""
    path = getattr(base, "canonical_path", "")
    if path.partition(".")[0] != api.path.partition(".")[0]:
        return False
    found = api.modules_collection.get_member(path)
    return annotation_of(found.final_target if found.is_alias else found) is None


def _attribute(api: Any) -> str:
    kind = f": {api.annotation}" if api.annotation is not None else ""
    is_constant = _is_enum(api.parent) or "instance-attribute" not in api.labels
    value = f" = {api.value}" if is_constant and api.value is not None else ""
    return f"{api.name}{kind}{value}" if kind or value else f"{api.name}: object"


def _is_enum(api: Any) -> bool:
    return any(str(base).endswith("Enum") for base in getattr(api, "bases", ()))


def _parameters(api: Any) -> str:
    words: list[str] = []
    before: griffe.ParameterKind | None = None
    for parameter in api.parameters:
        kind = parameter.kind
        if before is griffe.ParameterKind.positional_only and kind is not before:
            words.append("/")
        if kind is griffe.ParameterKind.keyword_only and before not in (
            griffe.ParameterKind.keyword_only,
            griffe.ParameterKind.var_positional,
        ):
            words.append("*")
        star = {
            griffe.ParameterKind.var_positional: "*",
            griffe.ParameterKind.var_keyword: "**",
        }.get(kind, "")
        type_ = f": {parameter.annotation}" if parameter.annotation is not None else ""
        has_default = parameter.default is not None and not star
        words.append(
            f"{star}{parameter.name}{type_}{f' = {parameter.default}' if has_default else ''}"
        )
        before = kind
    if before is griffe.ParameterKind.positional_only:
        words.append("/")
    return ", ".join(words)


def changes(recorded: Mapping[str, Record], now: Mapping[str, Record]) -> list[Change]:
    """Return the changes that may break who uses the recorded names."""
    found = []
    for path, record in recorded.items():
        annotation = Annotation(record["annotation"])
        if path not in now:
            found.append(Change(path, "it is gone", annotation))
            continue
        weaker = Annotation(now[path]["annotation"])
        if list(Annotation).index(weaker) > list(Annotation).index(annotation):
            found.append(Change(path, f"it is only {weaker.value} now", annotation))
        members = {name: Annotation(each) for name, each in record.get("members", {}).items()}
        old, new = (_visited(each["stub"]) for each in (record, now[path]))
        for breakage in griffe.find_breaking_changes(old, new):
            member = breakage.obj.path.split(".")[2:3]
            level = Level.CALL if breakage.kind in _OF_CALLS else Level.SOURCE
            found.append(
                Change(
                    ".".join([path, *member]),
                    _text(breakage),
                    members.get(member[0], annotation) if member else annotation,
                    level,
                )
            )
        found += [
            Change(f"{path}.{name}", "who derives from it has to define it", annotation)
            for name in sorted(_to_define(new) - _to_define(old) - _names_in(old))
        ]
        values = _values(new)
        found += [
            Change(
                f"{path}.{name}",
                f"its value is {values[name]}, and was {value}",
                members.get(name, annotation),
                Level.CALL,
            )
            for name, value in _values(old).items()
            if values.get(name, value) != value
        ]
    return found


def _values(module: Any) -> dict[str, str]:
    """Return the values of a class's constants, which griffe does not compare."""
    return {
        name: str(member.value)
        for each in module.members.values()
        if each.is_class
        for name, member in each.members.items()
        if member.is_attribute and member.value is not None
    }


def _visited(lines: Sequence[str]) -> Any:
    return griffe.visit("stub", Path("stub.pyi"), "\n".join(lines) + "\n")


def _text(breakage: Any) -> str:
    """Return griffe's sentence without its colours."""
    details = re.sub(r"\x1b\[\d+m", "", breakage.explain(griffe.ExplanationStyle.ONE_LINE))
    return textwrap.shorten(details.strip().partition(": ")[2] or details.strip(), 160)


def _to_define(module: Any) -> set[str]:
    """Return the methods that a class of the user has to define."""
    return {
        name
        for each in module.members.values()
        if each.is_class
        for name, member in each.members.items()
        if member.is_function
        and (
            any(str(base) == "Protocol" for base in each.bases)
            or any(each.callable_path == "abstractmethod" for each in member.decorators)
        )
    }


def _names_in(module: Any) -> set[str]:
    return {name for each in module.members.values() if each.is_class for name in each.members}
