"""The import rules of the package, read from the source by ``ast`` (nothing is imported).

* Dependencies point downwards only: cli -> (upgrade, jobs, restore, savepoint, compat) ->
  (checkpoint, operators) -> (engine, storage); the driver may use all below the command line.
* pyspark is for the driver, the engine and the examples.
* The engine imports nothing else of flinkish.
* What ``flinkish list`` imports stays light: no pyspark, click, rich ... at module level.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "flinkish"

#: room -> the other rooms it may import. "errors" and "config" are the package's own modules.
ALLOWED: dict[str, frozenset[str]] = {
    room: frozenset(others.split())
    for room, others in {
        "": "operators",  # flinkish/__init__.py: uid and uid_hash, when first used
        "__main__": "cli",
        "errors": "",
        "config": "errors masking",
        "masking": "",
        "units": "",
        "cli": "upgrade jobs restore savepoint compat checkpoint operators storage errors config "
        "units masking",
        "driver": "jobs restore savepoint compat checkpoint operators engine storage errors config",
        "upgrade": "jobs restore savepoint compat checkpoint operators engine storage errors "
        "config",
        "jobs": "compat checkpoint operators errors config masking",
        "restore": "jobs savepoint compat checkpoint operators engine storage errors config units "
        "masking",
        "savepoint": "checkpoint operators engine storage errors config units",
        "compat": "checkpoint operators errors config",
        "checkpoint": "engine storage errors config",
        "operators": "engine errors config",
        "storage": "errors config",
        "engine": "",
        "examples": "cli upgrade jobs restore savepoint compat checkpoint operators errors config",
    }.items()
}
SPARK_ROOMS = frozenset({"driver", "engine", "examples"})
SPARK_PACKAGES = frozenset({"pyspark", "py4j"})
#: Modules on the way of `flinkish list`; each costs a good part of its start-up budget.
STARTUP = (
    "__init__.py",
    "errors.py",
    "config.py",
    "masking.py",
    "units.py",
    *(f"cli/{name}.py" for name in ("__init__", "entry", "jobs_text", "output", "text")),
    *(f"jobs/{name}.py" for name in ("__init__", "database", "glance", "liveness", "lookup")),
    *(f"jobs/{name}.py" for name in ("mailbox", "model", "registry", "rows", "schema")),
)
HEAVY = frozenset(
    {
        *("asyncio", "click", "fastavro", "fsspec", "logging", "pathlib", "psycopg", "pyspark"),
        *("rich", "subprocess", "tempfile", "tomli", "tomllib", "typing_extensions", "urllib"),
        "uuid",
    }
)


@dataclass(frozen=True)
class Import:
    """One imported module, absolute, and where."""

    module: str
    line: int
    at_import: bool  # runs when the importing module is imported


def imports(source: str, module: str) -> Iterator[Import]:
    """All imports of a module's source; relative ones are resolved against ``module``."""
    yield from _imports(ast.parse(source), module, at_import=True)


def _imports(node: ast.AST, module: str, *, at_import: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        runs = at_import and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        if isinstance(child, ast.Import):
            yield from (Import(name.name, child.lineno, at_import) for name in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                parents = module.split(".")[: -child.level]
                base = ".".join([*parents, *([base] if base else [])])
            yield Import(base, child.lineno, at_import)
            # `from flinkish import config` names a module, `from flinkish.config import Key` not.
            yield from (Import(f"{base}.{n.name}", child.lineno, at_import) for n in child.names)
        elif isinstance(child, ast.If) and _is_type_checking(child.test):
            # Only read by the type checker, so it costs nothing; direction still matters.
            for part in child.body:
                yield from _imports(
                    ast.Module(body=[part], type_ignores=[]), module, at_import=False
                )
            for part in child.orelse:
                yield from _imports(
                    ast.Module(body=[part], type_ignores=[]), module, at_import=runs
                )
        else:
            yield from _imports(child, module, at_import=runs)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def room_of(module: str) -> str:
    """The room of a module of flinkish: ``flinkish.cli.run`` is in ``cli``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def violations(source: str, path: str) -> list[str]:
    """What a file breaks. ``path`` is relative to the package, with forward slashes."""
    parts = path.removesuffix(".py").split("/")
    module = ".".join(["flinkish", *parts])
    room = room_of(module) if path != "__init__.py" else ""
    if room not in ALLOWED:
        return [f"{path}: the room {room!r} is not on the map; add it to ALLOWED"]
    found: dict[tuple[int, str], str] = {}
    for item in imports(source, module):
        top = item.module.split(".")[0]
        if top == "flinkish":
            other = room_of(item.module)
            if room == "engine" and other != "engine":
                found[item.line, top] = f"{path}:{item.line}: engine must not import {item.module}"
            elif other in ALLOWED and other not in ALLOWED[room] | {room, ""}:
                found[item.line, other] = f"{path}:{item.line}: {room} must not import {other}"
        elif top in SPARK_PACKAGES and room not in SPARK_ROOMS:
            found[item.line, top] = f"{path}:{item.line}: {room or path} must not import {top}"
        if path in STARTUP and item.at_import and top in HEAVY:
            found[item.line, top] = f"{path}:{item.line}: {top} at module level costs start-up time"
    return list(found.values())


def test_the_package_keeps_the_rules() -> None:
    broken = [
        violation
        for path in sorted(PACKAGE.rglob("*.py"))
        for violation in violations(
            path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix()
        )
    ]
    assert broken == []


def test_the_modules_of_the_start_up_budget_exist() -> None:
    assert [path for path in STARTUP if not (PACKAGE / path).is_file()] == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    def reachable(room: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
        for other in ALLOWED[room] - seen:
            seen = reachable(other, seen | {other})
        return seen

    assert [room for room in ALLOWED if room in reachable(room)] == []


@pytest.mark.parametrize(
    ("path", "source", "message"),
    [
        ("jobs/a.py", "from flinkish.savepoint import writer", "jobs must not import savepoint"),
        ("jobs/a.py", "import flinkish.driver.agent", "jobs must not import driver"),
        ("jobs/a.py", "from flinkish import cli", "jobs must not import cli"),
        ("jobs/a.py", "from ..driver.agent import Agent", "jobs must not import driver"),
        ("jobs/a.py", "from .. import driver", "jobs must not import driver"),
        ("jobs/a.py", "def f():\n    from flinkish.cli import run", "jobs must not import cli"),
        ("jobs/a.py", "def f():\n    import pyspark.sql", "jobs must not import pyspark"),
        (
            "savepoint/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import flinkish.restore.plan",
            "savepoint must not import restore",
        ),
        ("cli/a.py", "from flinkish.driver import hook", "cli must not import driver"),
        ("cli/a.py", "from pyspark.sql import SparkSession", "cli must not import pyspark"),
        (
            "cli/a.py",
            "try:\n    import py4j\nexcept ImportError:\n    pass",
            "must not import py4j",
        ),
        ("checkpoint/a.py", "import flinkish.savepoint", "checkpoint must not import savepoint"),
        (
            "engine/a.py",
            "from flinkish.errors import Corrupt",
            "engine must not import flinkish.errors",
        ),
        ("engine/a.py", "import flinkish", "engine must not import flinkish"),
        ("config.py", "from flinkish.jobs.model import Job", "config must not import jobs"),
        ("attic/a.py", "import os", "the room 'attic' is not on the map"),
        ("cli/entry.py", "import click", "click at module level"),
        ("jobs/registry.py", "class A:\n    from urllib.parse import quote", "urllib at module"),
        (
            "config.py",
            "try:\n    import tomllib\nexcept ImportError:\n    pass",
            "tomllib at module",
        ),
    ],
)
def test_a_violation_is_found(path: str, source: str, message: str) -> None:
    (found,) = {v.partition(": ")[2] for v in violations(source, path) if message in v}
    assert message in found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("cli/a.py", "from flinkish.jobs.registry import Registry\nimport click"),
        ("driver/a.py", "from pyspark.sql import SparkSession\nfrom . import agent"),
        ("restore/a.py", "from ..savepoint.reader import open_savepoint"),
        ("engine/a.py", "import pyspark\nfrom flinkish.engine.codec import decode"),
        ("cli/entry.py", "def main():\n    import click"),
        (
            "config.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pathlib import Path",
        ),
        ("jobs/a.py", "from pyspark_like import x\nfrom flinkish import __version__"),
    ],
)
def test_what_is_allowed_passes(path: str, source: str) -> None:
    assert violations(source, path) == []
