"""The import rules of the package and the tools, read from the source by ``ast``.

* Dependencies point downwards only: cli -> (upgrade, client) -> launch -> (registry, restore,
  savepoint, compat) -> connectors -> (checkpoint, operators) -> (engine, storage); the driver may
  use all below the client.
* The client is for programs: it imports neither click nor rich, and does not print.
* pyspark is for the driver, the engine, typed state and the examples.
* The checkpoint's format (``checkpoint/format``) is a room of its own: the standard library and
  the errors.
* The ground rooms: the errors, Avro's bytes (``avro``), which need nothing else of flinkish, and
  storage.
* The engine imports only those of flinkish; typed state (``state``) errors, ``avro`` and the units.
* What ``flinkish list`` imports stays light: no pyspark, click, rich ... at module level.
* The package imports neither tests nor tools. A tool imports itself, flinkish and the tests'
  support; of the tests only those of the tools import tools.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "flinkish"

#: The room below both `checkpoint` and `engine`; who may import `checkpoint` may import it too.
FORMAT = "checkpoint.format"
#: room -> the other rooms it may import. "annotations", "errors", "log_lines" and "units" are
#: modules of the package itself.
ALLOWED: dict[str, frozenset[str]] = {
    room: frozenset(others.split()) | ({FORMAT} if "checkpoint" in others.split() else frozenset())
    for room, others in {
        "avro": "errors",
        "": "operators client driver history",  # flinkish/__init__.py: its names, when first used
        "__main__": "cli",
        "annotations": "",
        "errors": "annotations",
        "config": "errors",
        "units": "",
        "history": "annotations",
        "messages": "errors annotations",
        "connectors": "checkpoint operators messages errors config units",
        "cli": "upgrade client launch registry restore savepoint compat checkpoint "
        "operators storage errors config units messages log_lines",
        "client": "connectors launch registry restore savepoint compat checkpoint operators engine "
        "log_lines storage errors config units messages annotations",
        "driver": "connectors launch registry restore savepoint compat checkpoint operators engine "
        "state storage errors config messages history annotations",
        "upgrade": "connectors client launch registry restore savepoint compat checkpoint "
        "operators messages engine storage errors config units",
        "airflow": "upgrade client messages errors config annotations",
        "log_lines": "",
        "launch": "connectors registry savepoint compat checkpoint operators storage errors config "
        "messages log_lines",
        "registry": "checkpoint operators storage errors config units messages log_lines "
        "annotations",
        "restore": "connectors savepoint compat checkpoint operators engine state storage errors "
        "config units messages",
        "savepoint": "checkpoint operators engine state storage avro errors config units messages "
        "annotations",
        "compat": "checkpoint operators errors config",
        "checkpoint": "checkpoint.format storage errors config units",
        FORMAT: "errors annotations",
        "operators": f"{FORMAT} engine errors config annotations",
        "storage": "errors config annotations",
        "engine": f"{FORMAT} avro storage errors annotations",
        "state": "avro errors units annotations",
        "testing": "client registry savepoint messages errors annotations",
        "examples": "airflow cli upgrade client launch registry restore savepoint compat "
        "checkpoint operators state errors config",
    }.items()
}
#: Rooms that import no module of the package itself either.
CLOSED = frozenset({"engine", FORMAT})
SPARK_ROOMS = frozenset({"driver", "engine", "examples", "state"})
SPARK_PACKAGES = frozenset({"pyspark", "py4j"})
#: What stands beside the package in its repository.
BESIDE = frozenset({"tests", "tools"})
#: What speaks to a terminal; not for programs that call the client.
TERMINAL_PACKAGES = frozenset({"click", "rich"})
#: Modules on the way of `flinkish list`; each costs a good part of its start-up budget.
STARTUP = (
    "__init__.py",
    "annotations.py",
    "errors.py",
    *(f"config/{name}.py" for name in ("__init__", "keys", "loader", "secrets", "values")),
    "units.py",
    "cli/__init__.py",
    "cli/entry.py",
    *(f"cli/output/{name}.py" for name in ("__init__", "jobs_text", "printer", "streams", "text")),
    *(
        f"registry/{name}.py"
        for name in (
            *("__init__", "database", "fast_list", "job_registry", "job_table", "jobs"),
            *("liveness", "requests", "rows", "schema", "sqlite", "statements"),
        )
    ),
    *(f"messages/{name}.py" for name in ("__init__", "codec", "launch", "queries", "requests")),
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
            base = _base(child, module)
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


def _base(node: ast.ImportFrom, module: str) -> str:
    """What follows ``from``, absolute."""
    parents = module.split(".")[: -node.level] if node.level else []
    return ".".join([*parents, *([node.module] if node.module else [])])


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def room_of(module: str) -> str:
    """The room of a module of flinkish: ``flinkish.cli.commands.run`` is in ``cli``."""
    parts = module.split(".")
    if parts[1:3] == FORMAT.split("."):
        return FORMAT
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
            if room in CLOSED and other not in ALLOWED[room] | {room}:
                found[item.line, top] = f"{path}:{item.line}: {room} must not import {item.module}"
            elif other in ALLOWED and other not in ALLOWED[room] | {room, ""}:
                found[item.line, other] = f"{path}:{item.line}: {room} must not import {other}"
        elif room == FORMAT and top not in sys.stdlib_module_names:
            found[item.line, top] = f"{path}:{item.line}: {room} must not import {top}"
        elif top in SPARK_PACKAGES and room not in SPARK_ROOMS:
            found[item.line, top] = f"{path}:{item.line}: {room or path} must not import {top}"
        elif top in BESIDE:
            found[item.line, top] = f"{path}:{item.line}: flinkish must not import {top}"
        elif top in TERMINAL_PACKAGES and room == "client":
            found[item.line, top] = f"{path}:{item.line}: client must not import {top}"
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


def test_the_types_of_documents_import_only_records() -> None:
    """``--help`` of a command loads the types of its documents: no use case comes with them."""
    records = re.compile(
        r"flinkish\.(?:cli\.documents|messages|errors|registry\.jobs|compat\.model)(?:\.|$)"
    )
    others = [
        f"{path.name}: {item.module}"
        for path in sorted((PACKAGE / "cli/documents").glob("*.py"))
        for item in imports(path.read_text(encoding="utf-8"), f"flinkish.cli.documents.{path.stem}")
        if item.module.startswith("flinkish") and not records.match(item.module)
    ]
    assert others == []


def test_importing_the_format_imports_nothing_else() -> None:
    assert ast.parse((PACKAGE / "checkpoint" / "__init__.py").read_text()).body[1:] == []


def test_the_modules_of_the_start_up_budget_exist() -> None:
    assert [path for path in STARTUP if not (PACKAGE / path).is_file()] == []


def test_the_client_does_not_print() -> None:
    writes = re.compile(r"\bprint\(|sys\.(?:stdin|stdout|stderr)|\binput\(")
    found = [p.name for p in (PACKAGE / "client").rglob("*.py") if writes.search(p.read_text())]
    assert found == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    def reachable(room: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
        for other in ALLOWED[room] - seen:
            seen = reachable(other, seen | {other})
        return seen

    assert [room for room in ALLOWED if room in reachable(room)] == []


@pytest.mark.parametrize(
    ("path", "source", "message"),
    [
        (
            "registry/a.py",
            "from flinkish.savepoint import writer",
            "registry must not import savepoint",
        ),
        (
            "registry/a.py",
            "import flinkish.driver.requests.agent",
            "registry must not import driver",
        ),
        ("registry/a.py", "from flinkish import cli", "registry must not import cli"),
        ("registry/a.py", "from ..driver.agent import Agent", "registry must not import driver"),
        ("registry/a.py", "from .. import driver", "registry must not import driver"),
        (
            "registry/a.py",
            "def f():\n    from flinkish.cli import run",
            "registry must not import cli",
        ),
        ("registry/a.py", "def f():\n    import pyspark.sql", "registry must not import pyspark"),
        (
            "savepoint/a.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import flinkish.restore",
            "savepoint must not import restore",
        ),
        ("registry/a.py", "import flinkish.client.job", "registry must not import client"),
        ("client/a.py", "from flinkish.cli import run", "client must not import cli"),
        ("client/a.py", "def f():\n    import click", "client must not import click"),
        ("client/a.py", "from rich.text import Text", "client must not import rich"),
        ("cli/a.py", "from flinkish.driver import hook", "cli must not import driver"),
        ("cli/a.py", "from pyspark.sql import SparkSession", "cli must not import pyspark"),
        (
            "cli/a.py",
            "try:\n    import py4j\nexcept ImportError:\n    pass",
            "must not import py4j",
        ),
        (
            "restore/a.py",
            "from flinkish.registry.jobs import Job",
            "restore must not import registry",
        ),
        (
            "connectors/kafka/a.py",
            "from flinkish.restore.recipe import Recipe",
            "connectors must not import restore",
        ),
        ("connectors/a.py", "import pyspark", "connectors must not import pyspark"),
        ("checkpoint/a.py", "import flinkish.savepoint", "checkpoint must not import savepoint"),
        (
            "checkpoint/a.py",
            "from flinkish.engine import files",
            "checkpoint must not import engine",
        ),
        ("checkpoint/format/a.py", "import numpy", "checkpoint.format must not import numpy"),
        (
            "checkpoint/format/a.py",
            "from flinkish.units import size",
            "checkpoint.format must not import flinkish.units",
        ),
        (
            "checkpoint/format/a.py",
            "from flinkish.checkpoint.cut import read_cut",
            "checkpoint.format must not import flinkish.checkpoint.cut",
        ),
        (
            "engine/a.py",
            "from flinkish.checkpoint.cut import read_cut",
            "engine must not import flinkish.checkpoint.cut",
        ),
        (
            "engine/a.py",
            "from flinkish.units import size",
            "engine must not import flinkish.units",
        ),
        ("engine/a.py", "import flinkish", "engine must not import flinkish"),
        (
            "config/a.py",
            "from flinkish.registry.jobs import Job",
            "config must not import registry",
        ),
        (
            "state/a.py",
            "from flinkish.engine.avro import schemas",
            "state must not import engine",
        ),
        ("state/a.py", "from tools.bench import measure", "flinkish must not import tools"),
        ("attic/a.py", "import os", "the room 'attic' is not on the map"),
        ("cli/entry.py", "import click", "click at module level"),
        (
            "registry/job_registry.py",
            "class A:\n    from urllib.parse import quote",
            "urllib at module",
        ),
        (
            "config/loader.py",
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
        ("cli/a.py", "from flinkish.registry.job_registry import Registry\nimport click"),
        ("driver/a.py", "from pyspark.sql import SparkSession\nfrom . import agent"),
        ("restore/a.py", "from ..savepoint.reader import open_savepoint"),
        ("engine/a.py", "from flinkish.checkpoint.format.names import HDFS"),
        ("engine/a.py", "from flinkish.avro.container import COMPRESS"),
        ("restore/a.py", "from flinkish.checkpoint.format.names import HDFS"),
        (
            "checkpoint/format/a.py",
            "import zlib\nfrom flinkish.checkpoint.format.names import HDFS",
        ),
        ("state/a.py", "import fastavro\nfrom flinkish.errors import Corrupt"),
        ("engine/a.py", "import pyspark\nfrom flinkish.engine.codec import decode"),
        ("cli/entry.py", "def main():\n    import click"),
        (
            "config/loader.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pathlib import Path",
        ),
        ("registry/a.py", "from pyspark_like import x\nfrom flinkish import __version__"),
    ],
)
def test_what_is_allowed_passes(path: str, source: str) -> None:
    assert violations(source, path) == []


def crossings(source: str, path: str) -> list[str]:
    """What a file of the tests or the tools imports from the other side, against the rules."""
    side, *rooms = path.removesuffix(".py").split("/")
    allowed = {
        "tests": ("tests", *(["tools"] if rooms[0] == "tools" else [])),
        "tools": (f"tools.{rooms[0]}", "tests.support"),
    }[side]
    return sorted(
        {
            f"{path}:{item.line}: must not import {item.module}"
            for item in imports(source, ".".join([side, *rooms]))
            if item.module.split(".")[0] in BESIDE
            if not any(f"{item.module}.".startswith(f"{each}.") for each in allowed)
        }
    )


def test_tools_use_the_support_of_the_tests_and_only_their_own_tests_use_tools() -> None:
    broken = [
        crossing
        for side in sorted(BESIDE)
        for path in sorted((ROOT / side).rglob("*.py"))
        # Of the many files of tests, which are slow to parse, few have the word.
        if "tools" in (source := path.read_text(encoding="utf-8")) or side == "tools"
        for crossing in crossings(source, path.relative_to(ROOT).as_posix())
    ]
    assert broken == []


@pytest.mark.parametrize(
    ("path", "source", "message"),
    [
        ("tests/savepoint/test_a.py", "from tools.bench import measure", "import tools.bench"),
        ("tools/bench/a.py", "from tests.savepoint.test_a import one", "import tests.savepoint"),
        ("tools/bench/a.py", "import tools.mutants.model", "import tools.mutants"),
        ("tools/bench/a.py", "from tools.bench.measure import show", ""),
        ("tools/bench/a.py", "from tests.support.servers import s3", ""),
        ("tests/tools/test_a.py", "from tools.bench import measure", ""),
    ],
)
def test_a_crossing_is_found(path: str, source: str, message: str) -> None:
    found = " ".join(crossings(source, path))
    assert message in found
    assert bool(found) == bool(message)


@functools.cache
def import_graph(package: Path, name: str) -> dict[str, set[str]]:
    """Every module of a package, with those of its modules that it imports anywhere.

    What only the type checker reads does not count, nor what ``name/__init__`` gives on demand:
    everybody asks the package itself for its version.
    """
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = [name, *path.relative_to(package).with_suffix("").parts]
        modules[".".join(parts).removesuffix(".__init__")] = ".".join(parts), path
    del modules[name]
    graph = {}
    for module, (path_name, path) in modules.items():
        tree = _Executed().visit(ast.parse(path.read_text(encoding="utf-8")))
        found: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = _base(node, path_name)
                names = {f"{base}.{each.name}" for each in node.names}
                found |= {each if each in modules else base for each in names}
        graph[module] = (found & modules.keys()) - {module}
    return graph


class _Executed(ast.NodeTransformer):
    """Removes what stands under ``if TYPE_CHECKING``."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if _is_type_checking(node.test) else node


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The modules that import each other, directly or not; each circle once, sorted."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        seen: set[str] = set()
        left = [module]
        while left:
            new = graph[left.pop()] - seen
            seen |= new
            left += new
        reached[module] = seen
    found = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }
    return sorted(sorted(circle) for circle in found)


def test_no_import_circle_also_inside_a_package() -> None:
    assert circles(import_graph(PACKAGE, "flinkish")) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    for path, source in {
        "__init__.py": "from p.a import one",
        "a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import d",
        "b.py": "import p.a\nfrom . import c",
        "c.py": "def f():\n    from p.q import e",
        "d.py": "from p.a import two\nfrom p import __version__",
        "q/__init__.py": "",
        "q/e.py": "from ..b import g",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(source)
    assert circles(import_graph(tmp_path, "p")) == [["p.b", "p.c", "p.q.e"]]


def room_graph(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The rooms of the second level (``flinkish.driver.plan``) and who imports whom."""

    def room(module: str) -> str:
        parts = module.split(".")
        return ".".join(parts[:3]) if len(parts) > 3 else module

    rooms: dict[str, set[str]] = {}
    for module, others in graph.items():
        found = rooms.setdefault(room(module), set())
        found |= {room(other) for other in others} - {room(module)}
    return rooms


def test_no_circle_between_the_rooms_inside_a_room() -> None:
    graph = {**import_graph(PACKAGE, "flinkish")}
    # `python -m flinkish.operators.hasher` checks the hasher against Flink's ids.
    del graph["flinkish.operators.hasher.__main__"]
    assert circles(room_graph(graph)) == []
