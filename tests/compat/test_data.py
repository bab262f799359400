"""The tables' files: the shipped ones are sound, and what is not sound is refused by its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest

from flinkish.compat import data
from flinkish.compat.model import FLINK, FRAMEWORKS, SPARK, CompatVerdict, Matrix
from flinkish.errors import FlinkishError
from tests.support import compat_sample as sample


def _shipped(name: str) -> Any:
    path = resources.files("flinkish.compat") / "data" / name
    if not path.is_file():
        pytest.skip(f"needs {name}: make compat-matrix measures it")
    return json.loads(path.read_text(encoding="utf-8"))


def _matrix(framework: str) -> Matrix:
    _shipped(f"{framework}.json")
    return data.load(framework)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_shipped_table(framework: str) -> None:
    matrix = _matrix(framework)
    assert matrix.framework == framework
    assert list(matrix.lines) == sorted(matrix.lines, key=lambda line: [*map(int, line.split("."))])
    used = {name for cell in matrix.cells for name in cell.limitations}
    assert used == set(matrix.limitations), "a limitation without a cell says nothing"
    assert data.load(framework) is matrix, "read once"


def test_spark_s_table_is_about_all_pairs_and_the_usual_operators() -> None:
    matrix = _matrix(SPARK)
    assert {"3.5", "4.0", "4.1", "4.2", "4.3"} <= set(matrix.lines)
    for created in matrix.lines:
        for resumed in matrix.lines:
            cells = matrix.between(created, resumed)
            plain = {(cell.operator, cell.backend) for cell in cells if not cell.formats}
            for operator in ("stateStoreSave", "dedupe", "symmetricHashJoin"):
                assert {(operator, "hdfs"), (operator, "rocksdb")} <= plain, (created, resumed)
            assert ("stateless", "none") in plain
            if created == resumed:
                assert {cell.verdict for cell in cells if not cell.formats} == {CompatVerdict.OK}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_one_cell_a_line(framework: str) -> None:
    _shipped(f"{framework}.json")
    lines = data.read_text(framework).splitlines()
    cells = [line for line in lines if '"from"' in line and '"verdict"' in line]
    assert len(cells) == len(data.load(framework).cells)


@pytest.mark.parametrize("name", ["spark.json", "flink.json", "the sample"])
def test_the_schema_describes_the_files(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    schema = _shipped("schema.json")
    document = sample.document() if name == "the sample" else _shipped(name)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    assert [error.message for error in kind(schema).iter_errors(document)] == []
    assert not kind(schema).is_valid({**document, "extra": 1})


def test_the_schema_has_the_loader_s_words() -> None:
    schema = _shipped("schema.json")
    cell = schema["$defs"]["cell"]["properties"]
    assert cell["verdict"]["enum"] == [verdict.value for verdict in CompatVerdict]
    assert cell["backend"]["enum"] == [*data.BACKENDS, "none"]
    assert schema["properties"]["framework"]["enum"] == list(FRAMEWORKS)
    assert schema["properties"]["schema_version"]["const"] == data.DATA_VERSION


Spoil = Callable[[dict[str, Any]], object]


def _set(key: str, value: Any, *path: str | int) -> Spoil:
    def spoil(document: Any) -> None:
        for step in path:
            document = document[step]
        document[key] = value

    return spoil


SPOILT: list[tuple[Spoil, str]] = [
    (lambda d: d.pop("scope"), "sample.json: lacks scope"),
    (_set("extra", 1), "sample.json: has unknown keys: extra"),
    (_set("preconditions", []), "has unknown keys: preconditions"),
    (_set("schema_version", 2), "schema_version: must be 1"),
    (_set("schema_version", True), "schema_version: must be 1"),
    (_set("framework", "flink"), "framework: 'flink' is not one of spark"),
    (_set("measured", "yesterday"), "measured: 'yesterday' is not of the form"),
    (_set("scope", " "), "scope: must be a text"),
    (_set("versions", {}), "versions: must be a list"),
    (_set("line", "4", "versions", 1), "versions[1].line: '4' is not of the form"),
    (_set("measured", "4.1.0", "versions", 1), "versions[1].measured: '4.1.0' is not a release of"),
    (lambda d: d["versions"].append(d["versions"][0]), "versions[3]: is there twice"),
    (_set("id", "No Id", "limitations", 0), "limitations[0].id: 'No Id' is not of the form"),
    (_set("advice", None, "limitations", 0), "limitations[0].advice: must be a text"),
    (_set("releases", [], "limitations", 0), "limitations[0]: has unknown keys: releases"),
    (lambda d: d["limitations"].append(d["limitations"][1]), "limitations[4]: is there twice"),
    (_set("verdict", "fine", "cells", 3), "cells[3].verdict: 'fine' is not one of ok, "),
    (_set("verdict", "fails", "cells", 3), "cells[3].limitations: the verdict fails needs one"),
    (_set("limitations", ["gone"], "cells", 3), "cells[3].limitations[0]: 'gone' is not one of"),
    (_set("limitations", ["slow-start"] * 2, "cells", 3), "cells[3].limitations[1]: is there twi"),
    (_set("from", "2.4", "cells", 3), "cells[3].from: '2.4' is not one of 3.5, 4.0, 4.3"),
    (_set("to", 4.0, "cells", 3), "cells[3].to: 4.0 is not one of"),
    (_set("operator", "", "cells", 3), "cells[3].operator: must be a text"),
    (_set("operator", "stateless", "cells", 3), "cells[3].backend: 'rocksdb' is not one of none"),
    (_set("backend", "none", "cells", 3), "cells[3].backend: 'none' is not one of hdfs, rocksdb"),
    (_set("formats", ["b", "a"], "cells", 3), "cells[3].formats: must be sorted, each once"),
    (_set("formats", ["a", "a"], "cells", 3), "cells[3].formats: must be sorted, each once"),
    (_set("formats", "a", "cells", 3), "cells[3].formats: must be a list"),
    (_set("error", "oh", "cells", 3), "cells[3].error: the verdict ok has none"),
    (lambda d: d["cells"].append(d["cells"][3]), "cells[19]: is there twice"),
    (lambda d: d["cells"].append([]), "cells[19]: must be an object"),
    (lambda d: d["cells"][3].pop("error"), "cells[3]: lacks error"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILT, ids=[message for _, message in SPOILT])
def test_what_is_wrong_is_refused_by_its_place(spoil: Spoil, message: str) -> None:
    document = sample.document()
    spoil(document)
    with pytest.raises(FlinkishError) as caught:
        data.parse(json.dumps(document), "sample.json", SPARK)
    assert message in caught.value.message
    assert caught.value.message.startswith("sample.json: ")


@pytest.mark.parametrize(
    ("patches", "message"),
    [
        ([1], "limitations[6].releases[0].from.patches: must be the first and the last"),
        ([2, 1], "limitations[6].releases[0].from.patches: [2, 1] is not a range"),
        ([0, True], "limitations[6].releases[0].from.patches: must be the first and the last"),
        ("0-1", "limitations[6].releases[0].from.patches: must be a list"),
    ],
)
def test_releases_are_checked(patches: Any, message: str) -> None:
    document = json.loads(data.read_text(FLINK))
    assert document["limitations"][6]["id"] == "scala-case-classes"
    document["limitations"][6]["releases"][0]["from"]["patches"] = patches
    with pytest.raises(FlinkishError) as caught:
        data.parse(json.dumps(document), "f.json", FLINK)
    assert caught.value.message.startswith(f"f.json: {message}")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"'])
def test_no_table_at_all(text: str) -> None:
    with pytest.raises(FlinkishError, match=r"^x\.json: (not JSON|must be an object)"):
        data.parse(text, "x.json", SPARK)


def test_a_missing_file_is_said() -> None:
    with pytest.raises(FlinkishError, match=r"table odd\.json cannot be read") as caught:
        data.load("odd")
    assert "install" in caught.value.hint
