"""What a test file depends on, by what its sources say: pure.

The rule is made to be too wide rather than too narrow. A file depends on

* the modules it imports anywhere, with their packages, and so on; what a package gives on demand
  only for those who ask for it;
* the ``conftest.py`` of its directory and of those above;
* modules that its strings name (``python -m``, programs given as text), scripts and data whose
  file name a string ends with, and all that lies in a directory without a package when strings
  name it and the directory above, or that is the source's own: no string, no way to the file;
* the module of a command of the command line when the tests or examples it depends on have the
  words of that command in their strings, or a page that they read.

Starting a driver needs no rule of its own: what starts it names its entry point.
``tests/support/tiers`` is left out: how tests are run is proven by the fast tier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import PurePosixPath

from tests.support.tiers.sources import Source

COMMANDS = "flinkish/cli/commands/"
COMMAND_LINE = "flinkish/__main__.py"
#: Names all commands, and imports the one that is called.
COMMAND_INDEX = "flinkish/cli/command_index.py"
#: What a test reads though no string of it says so: it installs the whole checkout.
ALSO = {"tests/test_typing.py": ("flinkish/", "pyproject.toml")}
#: Where each file is read by its own name, as that of the directory says too little.
SAID_BY_NAME = ("tests/data", "tests/e2e/programs")
_LEFT_OUT = ("tests/support/tiers/", "tests/tier_records.json", "tests/fast_record.json")
_WITHOUT_NAME = {"__init__.py", "__main__.py", "conftest.py"}


class Graph:
    """The sources of one state of the repository.

    Parameters
    ----------
    tree
        Path -> blob of every file.
    source_of
        Gives what a Python file says, by path and blob.
    """

    def __init__(self, tree: Mapping[str, str], source_of: Callable[[str, str], Source]) -> None:
        self.tree = {path: blob for path, blob in tree.items() if not path.startswith(_LEFT_OUT)}
        self.sources = {
            path: source_of(path, blob)
            for path, blob in self.tree.items()
            if path.endswith(".py") and path.startswith(("flinkish/", "tests/", "tools/"))
        }
        self._reached: dict[str, frozenset[str]] = {}

    @cached_property
    def _modules(self) -> dict[str, str]:
        return {module_of(path): path for path in self.sources}

    @cached_property
    def _by_name(self) -> dict[str, set[str]]:
        named: dict[str, set[str]] = {}
        for path in self.tree:
            name = PurePosixPath(path).name
            begins = re.finditer("[-_]", name) if path.startswith(SAID_BY_NAME) else ()
            # `f"hashes-{version}.json"` says a beginning.
            for said in (name, *(name[: each.end()] for each in begins)):
                if said not in _WITHOUT_NAME:
                    named.setdefault(said, set()).add(path)
        return named

    @cached_property
    def _by_directory(self) -> dict[str, set[str]]:
        """The files of directories without a package, by the name of their directory."""
        named: dict[str, set[str]] = {}
        for path in self.tree:
            directory = PurePosixPath(path).parent
            package = f"{directory}/__init__.py" in self.tree
            if directory.name and not package and str(directory) not in SAID_BY_NAME:
                named.setdefault(directory.name, set()).add(path)
        return named

    def _files(self, path: str, source: Source) -> set[str]:
        """Return the scripts and data that the strings of a source name."""
        found = set()
        for part in source.files:
            found |= self._by_name.get(part, set())
            for file in self._by_directory.get(part, ()):
                above = PurePosixPath(file).parent.parent
                others = source.files | {n.lower() for _, n in source.said | source.imports}
                if path.startswith(f"{above}/") or not above.name or above.name in others:
                    found.add(file)
        return found

    def dependencies(self, file: str) -> frozenset[str]:
        """Return the paths that a test file depends on, itself included."""
        roots = {file, *self._conftests(file)}
        roots |= {path for path in self.tree if path.startswith(ALSO.get(file, ("\0",)))}
        commands: set[str] = set()
        while True:
            found = self._closure(roots | commands)
            words = {word for path in found for word in self._words(path)}
            reached = self._commands.items() if COMMAND_INDEX in found else ()
            wanted = {path for path, needed in reached if needed <= words}
            if wanted <= commands:
                return frozenset(found)
            commands = wanted

    @cached_property
    def _commands(self) -> dict[str, set[str]]:
        """The words that a command consists of: ``savepoint_list.py`` is ``savepoint list``."""
        return {
            path: set(PurePosixPath(path).stem.split("_"))
            for path in self.sources
            if path.startswith(COMMANDS) and not path.endswith("__init__.py")
        }

    def _words(self, path: str) -> Iterable[str]:
        if path.endswith(".md"):
            return {word for words in self._commands.values() for word in words}
        if _may_call(path) and path in self.sources:
            return self.sources[path].words
        return ()

    def _conftests(self, file: str) -> set[str]:
        above = {f"{directory}/conftest.py" for directory in PurePosixPath(file).parents}
        return above & self.sources.keys()

    def _closure(self, roots: set[str]) -> set[str]:
        found: set[str] = set()
        left = [root for root in roots if root in self.tree]
        while left:
            path = left.pop()
            if path not in found:
                found.add(path)
                left += self.edges(path) - found
        return found

    def edges(self, path: str) -> frozenset[str]:
        """Return what one file refers to."""
        if path not in self._reached:
            found: set[str] = set()
            if path in self.sources:
                source = self.sources[path]
                found = self._packages(module_of(path))
                for module, name in source.imports:
                    found |= self._imported(module, name)
                for module, name in source.said if path != COMMAND_INDEX else ():
                    found |= self._imported(module, name)
                    found |= self._packages(f"{module}.{name}.__main__")
                found |= self._files(path, source)
                if "__main__.py" in source.files:
                    mains = {p for p in self.sources if p.endswith("/__main__.py")}
                    if not _may_call(path):
                        mains.discard(COMMAND_LINE)
                    found |= {p for p in mains if PurePosixPath(p).parent.name in source.files}
                if source.calls and _may_call(path):
                    found |= self._packages(module_of(COMMAND_LINE))
            self._reached[path] = frozenset(found - {path})
        return self._reached[path]

    def _packages(self, module: str) -> set[str]:
        """Return the paths of a module and of the packages that it is in."""
        parts = module.split(".")
        names = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
        return {self._modules[name] for name in names if name in self._modules}

    def _imported(self, module: str, name: str) -> set[str]:
        """Return the paths of what ``from module import name`` imports."""
        found = self._packages(f"{module}.{name}")
        source = self.sources.get(self._modules.get(module, ""))
        if source is None or f"{module}.{name}" in self._modules:
            return found
        if name in source.homes:
            found |= self._packages(f"{module}.{source.homes[name]}")
        elif name == "*" or name in source.files - source.defined:
            for home in source.homes.values():
                found |= self._packages(f"{module}.{home}")
            for base, other in source.on_demand:
                found |= self._imported(base, other) | self._imported(f"{base}.{other}", name)
        return found

    def files_of(self, mark: str) -> list[str]:
        """Return the test files with a test of this marker, by themselves or by what they call."""
        return sorted(path for path in self.sources if self.has(path, self.sources[path], mark))

    def has(self, path: str, source: Source, mark: str) -> bool:
        """Return whether a source of this path has a test with this marker."""
        if not PurePosixPath(path).name.startswith("test_") or not path.startswith("tests/"):
            return False
        return mark in source.marks or any(
            name in self.sources[self._modules[module]].marks.get(mark, ())
            for module, name in source.imports
            if module in self._modules
        )


def module_of(path: str) -> str:
    """Return the dotted name of a Python file."""
    return ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")


def _may_call(path: str) -> bool:
    """Return whether a file may run the command line as a process.

    The suite's ``conftest.py`` does not: its profile of hypothesis has that name.
    """
    return (
        path.startswith(("tests/", "tools/", "flinkish/examples/")) and path != "tests/conftest.py"
    )
