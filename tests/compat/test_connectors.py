"""The table of connectors: the shipped one is sound, and what is not sound is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest

from flinkish.compat import connectors
from flinkish.compat.connectors import ROLES, load, parse, verdict_of
from flinkish.compat.data import read_data
from flinkish.compat.model import CompatVerdict, Version
from flinkish.errors import FlinkishError, UsageError

OK, FAILS = CompatVerdict.OK, CompatVerdict.FAILS


def shipped() -> Any:
    return json.loads(read_data(connectors.FILE))


def test_the_shipped_table() -> None:
    matrix = load()
    assert matrix.connectors == ("kafka", "delta", "iceberg")
    assert {"3.5", "4.0", "4.1", "4.2", "4.3"} == set(matrix.lines)
    assert load() is matrix, "read once"
    for artifact in matrix.artifacts:
        alone = [one for one in matrix.alone() if one.created.artifact == artifact.coordinates]
        # Each artifact was tried as source and as sink, on its own line of Spark too if it is here.
        own = {one.role for one in alone if one.created.version.line == artifact.line}
        assert own == set(ROLES), artifact
    moved = {(one.connector, one.role) for one in matrix.cells if one.created != one.resumed}
    assert moved == {(name, role) for name in matrix.connectors for role in ROLES}


def test_what_a_deployment_asks() -> None:
    matrix = load()

    def goes_on(name: str, old: str, new: str) -> CompatVerdict:
        return verdict_of(matrix.of(name).between(Version(old), Version(new)))

    assert goes_on("delta", "3.5", "4.0") is OK
    assert goes_on("kafka", "3.5", "4.1") is OK
    assert goes_on("iceberg", "3.5", "4.0") is OK
    assert goes_on("iceberg", "4.0", "4.1") is OK
    assert goes_on("delta", "2.4", "3.5") is CompatVerdict.UNKNOWN
    delta = [one for one in matrix.alone() if "delta-spark_4.1" in one.created.artifact]
    # It appends, until it has to read a checkpoint of the table's log.
    (broken,) = [one for one in delta if (one.created.spark, one.role) == ("4.1.4", "sink")]
    assert broken.verdict is FAILS
    assert "NoSuchMethodError" in str(broken.limitation)


def test_one_cell_a_line() -> None:
    lines = [line for line in read_data(connectors.FILE).splitlines() if '"verdict"' in line]
    assert len(lines) == len(load().cells)


def test_the_schema_describes_the_file() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    path = resources.files("flinkish.compat") / "data" / "connectors.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    assert [error.message for error in kind(schema).iter_errors(shipped())] == []
    assert not kind(schema).is_valid({**shipped(), "extra": 1})
    cell = schema["$defs"]["cell"]["properties"]
    assert cell["verdict"]["enum"] == [one.value for one in connectors.VERDICTS]
    assert cell["role"]["enum"] == list(ROLES)
    assert schema["properties"]["schema_version"]["const"] == connectors.DATA_VERSION


def test_a_connector_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no connector 'pulsar'"):
        load().of("pulsar")


def _set(*path: Any) -> Callable[[Any], None]:
    *way, key, value = path

    def change(document: Any) -> None:
        for step in way:
            document = document[step]
        document[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        (_set("schema_version", 2), "schema_version", "must be 1"),
        (_set("schema_version", True), "schema_version", "must be 1"),
        (_set("measured", "yesterday"), "measured", "not of the form"),
        (_set("more", 1), "t.json", "unknown keys: more"),
        (_set("artifacts", 0, "artifact", "delta"), "artifacts[0].artifact", "not of the form"),
        (_set("artifacts", 1, None), "artifacts[1]", "must be an object"),
        (_set("cells", 0, "role", "middle"), "cells[0].role", "not one of source, sink"),
        (_set("cells", 0, "connector", "pulsar"), "cells[0].connector", "not one of"),
        (_set("cells", 0, "verdict", "unknown"), "cells[0].verdict", "not one of"),
        (_set("cells", 0, "limitation", "why"), "cells[0].limitation", "does not fit"),
        (_set("cells", 0, "to", "spark", "4"), "cells[0].to.spark", "not of the form"),
        (_set("cells", 0, "to", "artifact", "a:b:1"), "cells[0].to.artifact", "not one of"),
        (lambda d: d["cells"].append(d["cells"][0]), "cells[", "is there twice"),
        (lambda d: d["artifacts"].append(d["artifacts"][0]), "artifacts[", "is there twice"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_place(
    change: Callable[[Any], None], where: str, what: str
) -> None:
    document = shipped()
    document["cells"] = [one for one in document["cells"] if one["verdict"] == "ok"]
    change(document)
    with pytest.raises(FlinkishError) as caught:
        parse(json.dumps(document), "t.json")
    assert where in caught.value.message
    assert what in caught.value.message
    with pytest.raises(FlinkishError, match="not JSON"):
        parse("{", "t.json")
