"""Operators whose ids and ordinals another query has too: they are named with their query."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from flinkish.cli.commands.info import _show
from flinkish.cli.output.printer import Output
from flinkish.operators.identity import OperatorFacts, OperatorIdentity
from flinkish.savepoint.format.contents import (
    QuerySource,
    SavepointJob,
)
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.cli.conftest import Command
from tests.support.checkpoints.recorded import unpack

SAME = "ab" * 16


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """``agg`` and ``dd/x``, each with one operator: no uid, ordinal 0, the same generated ids."""
    sources = []
    for query, name in (("agg", "hdfs-agg"), ("dd/x", "rocksdb-tws")):
        checkpoint = unpack(f"spark43-{name}", tmp_path / "recorded")
        operator = OperatorFacts(0, identity=OperatorIdentity(None, SAME, SAME, SAME))
        sources.append(QuerySource(query, str(checkpoint), operators=(operator,)))
    info = write_savepoint(
        str(tmp_path / "savepoints"),
        SavepointJob("0123456789abcdef" * 2, "flights", spark_version="4.3.0"),
        sources,
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )
    shutil.rmtree(tmp_path / "recorded")
    return info.path


@pytest.mark.parametrize("name", ["0", SAME, f"{SAME}/count"])
def test_an_id_of_several_is_no_name(cli: Command, saved: str, name: str) -> None:
    refused = cli("state", "show", saved, name, "--json")
    assert refused.code == 2
    assert "agg, dd/x" in refused.error()["message"]
    assert "agg/0 or dd/x/0" in refused.error()["hint"]


@pytest.mark.parametrize(
    ("name", "query", "state"),
    [
        ("agg/0", "agg", "default"),
        (f"agg/{SAME}", "agg", "default"),
        ("dd/x/0/count", "dd/x", "count"),
        (f"dd/x/{SAME}/values", "dd/x", "values"),
    ],
)
def test_the_query_in_front_names_one(
    cli: Command, saved: str, name: str, query: str, state: str
) -> None:
    found = cli.ok("state", "show", saved, name, "--json").json()["operator"]
    assert (found["query"], found["state"]) == (query, state)


def test_savepoint_show_says_so(cli: Command, saved: str) -> None:
    document = cli.ok("savepoint", "show", saved, "--json").json()["savepoint"]
    addresses = [o["address"] for q in document["queries"] for o in q["operators"]]
    assert addresses == ["agg/0", "dd/x/0"]
    assert document["shared_ids"] == [SAME]
    assert "QUERY/ORDINAL" in cli.ok("savepoint", "show", saved).out
    for address in addresses:
        assert cli("state", "show", saved, address, "-q").code in (0, 2)


def described(name: str, uid: str | None, operator_id: str) -> dict[str, Any]:
    """A query as a driver describes it (``flinkish.driver.plan.planned_queries.query_record``)."""
    operator: dict[str, Any] = {
        "name": "op", "kind": "stateStoreSave", "uid": uid, "operator_id": operator_id,
        "stateful": True, "ordinal": 0, "partitions": 2, "stores": [],
    }  # fmt: skip
    return {
        "name": name, "operators": [{**operator, "stateful": False, "ordinal": None}, operator],
        "coverage": {"stateful": 1, "with_uid": 0}, "notes": [],
        "tree": [], "dot": "", "coverage_message": "",
    }  # fmt: skip


def test_info_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    queries = [described("agg", None, SAME), described("dd", None, SAME)]
    _show(Output(), queries, as_dot=False, as_svg=False)
    assert f"{SAME}: agg/0, dd/0\n" in capsys.readouterr().out
    _show(Output(json=True), queries, as_dot=False, as_svg=False)
    assert '"address": "dd/0"' in capsys.readouterr().out
    _show(
        Output(),
        [described("agg", "a", "c" * 32), described("dd", None, SAME)],
        as_dot=False,
        as_svg=False,
    )
    assert "several queries" not in capsys.readouterr().out
