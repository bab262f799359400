"""``make api-check``: each kind of change is caught where its annotation promises something.

The expected results are Flink's table of compatibility guarantees (Upgrading Applications and Flink
Versions, "API compatibility guarantees"): public: source until the next major release, call until
the next minor one; public evolving: both until the next minor release; experimental: nothing.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("griffe", reason="needs griffe")

from tools.apicheck import interface, python_api
from tools.apicheck.__main__ import RECORD, ROOT, judge, main, surface
from tools.apicheck.promise import Annotation, Change, Level, Release, release_between

CODE = """
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Protocol
from flinkish.annotations import {annotation}, experimental

__all__ = ["Colour", "Listener", "Thing", "Tool", "work"]

@{annotation}
def work(a: int, b: str = "x", *, c: bool = False) -> int:
    return 1

class _Base:
    def inherited(self, n: int = 1) -> None: ...

@{annotation}
class Thing(_Base):
    size: int = 3
    def move(self, where: str) -> None: ...
    @experimental
    def fresh(self, n: int) -> None: ...
    def _own(self) -> None: ...

@{annotation}
@dataclass(frozen=True)
class Tool:
    name: str
    weight: float = 1.0

@{annotation}
class Colour(str, Enum):
    RED = "red"

@{annotation}
class Listener(Protocol):
    def hear(self, text: str) -> None: ...
"""
#: A change: what is replaced in the code, by what, and what it breaks; None: nothing.
CHANGES: dict[str, tuple[str, str, Level | None]] = {
    "a function is removed": ("work", "other", Level.SOURCE),
    "an argument is renamed": ("(a: int,", "(first: int,", Level.SOURCE),
    "a required argument is added": ("(a: int,", "(a: int, new: int,", Level.SOURCE),
    "a required keyword is added": ("*, c: bool", "*, new: int, c: bool", Level.SOURCE),
    "an argument becomes a keyword": ('b: str = "x", *', '*, b: str = "x"', Level.SOURCE),
    "an argument is removed": (', b: str = "x"', "", Level.SOURCE),
    "an argument becomes required": ('b: str = "x"', "b: str", Level.SOURCE),
    "a default changes": ('"x"', '"y"', Level.CALL),
    "the default of a keyword changes": ("c: bool = False", "c: bool = True", Level.CALL),
    "a method is renamed": ("def move", "def go", Level.SOURCE),
    "an inherited method is removed": ("def inherited", "def _inherited", Level.SOURCE),
    "an inherited default changes": ("n: int = 1", "n: int = 2", Level.CALL),
    "an attribute is removed": ("    size: int = 3\n", "", Level.SOURCE),
    "a field is required now": ("weight: float = 1.0", "weight: float", Level.SOURCE),
    "a field is renamed": ("    name: str\n", "    title: str\n", Level.SOURCE),
    "a value changes": ('RED = "red"', 'RED = "RED"', Level.CALL),
    "a listener has to hear more": (
        "def hear",
        "def see(self) -> None: ...\n    def hear",
        Level.SOURCE,
    ),
    "an optional argument is added": ("c: bool = False", "c: bool = False, d: int = 1", None),
    "a method is added": ("def move", "def more(self) -> None: ...\n    def move", None),
    "a private method is removed": ("    def _own(self) -> None: ...\n", "", None),
    "a base class without annotation is replaced": ("_Base", "_OtherBase", None),
    "a value is added": ('RED = "red"', 'RED = "red"\n    BLUE = "blue"', None),
    "the code changes": ("return 1", "return 2", None),
}
#: Flink's table: what a release guarantees.
GUARANTEES = {
    ("public", Release.PATCH): {Level.SOURCE, Level.CALL},
    ("public", Release.MINOR): {Level.SOURCE},
    ("public", Release.MAJOR): set(),
    ("public_evolving", Release.PATCH): {Level.SOURCE, Level.CALL},
    ("public_evolving", Release.MINOR): set(),
    ("public_evolving", Release.MAJOR): set(),
    ("experimental", Release.PATCH): set(),
    ("experimental", Release.MINOR): set(),
    ("experimental", Release.MAJOR): set(),
}
VERSIONS = {Release.PATCH: "1.2.4", Release.MINOR: "1.3.0", Release.MAJOR: "2.0.0"}


def recorded(directory: Path, code: str) -> dict[str, Any]:
    package = directory / "sample"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    return python_api.exported(directory, ["sample"])


@pytest.mark.parametrize("annotation", [each.value for each in Annotation])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_caught_where_something_is_promised(
    tmp_path: Path, name: str, annotation: str
) -> None:
    before, after, broken = CHANGES[name]
    code = CODE.format(annotation=annotation)
    assert code.count(before) in (1, 2), name
    old = recorded(tmp_path / "old", code)
    new = recorded(tmp_path / "new", code.replace(before, after))
    found = python_api.changes(old, new)
    assert {change.level for change in found} == ({broken} if broken else set()), found
    for release in Release:
        caught = [c for c in found if not c.is_allowed(release)]
        assert bool(caught) == (broken in GUARANTEES[annotation, release]), (release, found)


def test_a_member_may_have_an_annotation_of_its_own(tmp_path: Path) -> None:
    code = CODE.format(annotation="public")
    old = recorded(tmp_path / "old", code)
    (change,) = python_api.changes(old, recorded(tmp_path / "new", code.replace("fresh", "stale")))
    assert (change.what, change.annotation) == ("sample.Thing.fresh", Annotation.EXPERIMENTAL)
    assert change.is_allowed(Release.PATCH)


def test_what_is_exported_has_an_annotation(tmp_path: Path) -> None:
    code = CODE.format(annotation="public").replace("@public\ndef", "def")
    with pytest.raises(python_api.NotAnnotated, match=r"sample\.work"):
        recorded(tmp_path, code)


def test_a_weaker_annotation_is_a_broken_promise(tmp_path: Path) -> None:
    old = recorded(tmp_path / "old", CODE.format(annotation="public"))
    new = recorded(tmp_path / "new", CODE.format(annotation="public_evolving"))
    assert {change.text for change in python_api.changes(old, new)} == {
        "it is only public_evolving now"
    }
    assert python_api.changes(new, old) == []


@pytest.mark.parametrize(
    ("old", "new", "release"),
    [
        ("1.2.3", "1.2.3", Release.PATCH),
        ("1.2.3", "1.2.4", Release.PATCH),
        ("1.2.3", "1.3.0", Release.MINOR),
        ("1.2.3", "2.0.0", Release.MAJOR),
        ("0.1.0", "0.1.1", Release.PATCH),
        ("0.1.0", "0.2.0", Release.MAJOR),  # Semantic Versioning, 4: anything may change
        ("0.9.0", "1.0.0", Release.MAJOR),
    ],
)
def test_the_kind_of_a_release(old: str, new: str, release: Release) -> None:
    assert release_between(old, new) is release


def _delete(*path: str) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        if isinstance(data, list):
            data.remove(path[-1])
        else:
            del data[path[-1]]

    return change


def _set(value: Any, *path: str) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(interface.interface()))
    return plain


@pytest.mark.parametrize(
    ("change", "what", "text"),
    [
        (_delete("commands", "wait"), "flinkish wait", "the command is gone"),
        (_delete("commands", "stop", "options", "--drain"), "flinkish stop --drain", "gone"),
        (_delete("commands", "run", "options", "-rm"), "flinkish run -rm", "gone"),
        (
            _set({"takes": "a value"}, "commands", "stop", "options", "--drain"),
            "flinkish stop --drain",
            "it takes a value, and took nothing",
        ),
        (
            _set({"takes": "a value", "required": True}, "commands", "wait", "options", "--new"),
            "flinkish wait --new",
            "required now",
        ),
        (
            _set(["job", "more"], "commands", "status", "arguments"),
            "flinkish status",
            "the argument more is required now",
        ),
        (_set([], "commands", "status", "arguments"), "flinkish status", "fewer arguments"),
        (
            _set(["[words]"], "commands", "schema", "arguments"),
            "flinkish schema",
            "the argument [words] is a single one now",
        ),
        (
            _delete("commands", "run", "options", "--conf", "repeatable"),
            "flinkish run --conf",
            "not repeatable any more",
        ),
        (
            _set([0, 1, 2], "commands", "list", "exit_codes"),
            "flinkish list",
            "it does not exit with 3, 16, 130, 143 any more",
        ),
        (
            _set(
                ["full", "quick"], "commands", "savepoint verify", "options", "--level", "choices"
            ),
            "flinkish savepoint verify --level",
            "fewer values: deep",
        ),
        (
            _set("ended", "commands", "wait", "options", "--for", "default"),
            "flinkish wait --for",
            "its default is ended, and was running",
        ),
        (_delete("errors", "locked"), "error locked", "gone"),
        (_set(17, "errors", "locked"), "error locked", "its exit code is 17, and was 12"),
        (_delete("keys", "client.timeout"), "key client.timeout", "gone"),
        (
            _set(["30 s"], "keys", "client.timeout"),
            "key client.timeout",
            "its default is 30 s, and was 60 s",
        ),
        (_set([None], "keys", "registry.url"), "key registry", "gone"),
        (_set([], "documents", "status"), "flinkish status --json", "no StatusDocument"),
        (_delete("types", "ListedJob", "last_batch"), "ListedJob in JSON", "last_batch is gone"),
        (
            _set("integer|null", "types", "ListedJob", "state"),
            "ListedJob in JSON",
            "state may be of type integer, null",
        ),
        (_set(0, "versions", "registry"), "registry", "its version is 0"),
        (_set(2, "versions", "JSON documents"), "JSON documents", "their version is 2"),
    ],
)
def test_what_scripts_rely_on_is_guarded(
    now: dict[str, Any], change: Callable[[Any], None], what: str, text: str
) -> None:
    changed = copy.deepcopy(now)
    change(changed)
    found = interface.changes(now, changed)
    assert any(c.what == what and text in c.text for c in found), found
    assert not any(c.is_allowed(Release.PATCH) for c in found)


def test_a_key_that_may_be_absent_now_is_told(now: dict[str, Any]) -> None:
    changed = copy.deepcopy(now)
    changed["types"]["ListedJob"]["name?"] = changed["types"]["ListedJob"].pop("name")
    (change,) = interface.changes(now, changed)
    assert change == Change("ListedJob in JSON", "name may be absent now", Annotation.PUBLIC)
    assert interface.changes(changed, now) == []  # that it is always there now breaks nobody


def test_what_is_added_breaks_nobody(now: dict[str, Any]) -> None:
    changed = copy.deepcopy(now)
    changed["commands"]["new"] = changed["commands"]["wait"]
    changed["commands"]["stop"]["options"]["--new"] = {"takes": "a value"}
    changed["commands"]["stop"]["exit_codes"].append(17)
    changed["commands"]["savepoint"]["arguments"][-1] = "[target...]"
    changed["errors"]["new"] = 17
    changed["types"]["ListedJob"]["new"] = "string"
    changed["documents"]["list"].append("NewDocument")
    changed["versions"]["registry"] += 1
    assert interface.changes(now, changed) == []


def test_nothing_is_broken_and_everything_exported_is_recorded() -> None:
    record, present = json.loads(RECORD.read_text("utf-8")), surface(ROOT)
    assert [str(change) for change in judge(record, present)] == [], "see docs/compatibility.md"
    for part in ("python", "interface"):
        lacking = present[part].keys() - record[part].keys()
        assert lacking == set(), "run: make api-check ARGS=--record"
    for part in ("commands", "errors", "documents"):
        lacking = present["interface"][part].keys() - record["interface"][part].keys()
        assert lacking == set(), "run: make api-check ARGS=--record"


def test_a_broken_promise_is_told_and_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads(RECORD.read_text("utf-8"))
    record["interface"]["errors"]["long-gone"] = 9
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record))
    monkeypatch.setattr("tools.apicheck.__main__.RECORD", path)
    monkeypatch.setattr(
        "tools.apicheck.__main__.surface", lambda root: json.loads(RECORD.read_text("utf-8"))
    )
    assert main(["--record"]) == 1
    assert "broken: error long-gone: it is gone" in capsys.readouterr().out
    assert "long-gone" in path.read_text()
    assert main(["--record", "--anew"]) == 0
    assert "long-gone" not in path.read_text()
    assert main([]) == 0
    with pytest.raises(SystemExit):
        main(["--anew"])
