"""The table of ratios: what is computed from the measured times, its document, its page."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from tools.bench import chart
from tools.bench import table as tables
from tools.bench.row import Row, Table, as_text, ratios

FAST = Row("rescale", "Spark's repartition", 3, True, ratios=(3.5, 2.0, 4.0), load=0.5)
SLOW = Row("list & more", "python -c pass", 3, False, ratios=(4.0, 6.0))
MISSING = Row("S3", "s5cmd", 1, True, reason="needs s5cmd")
TABLE = Table((FAST, SLOW, MISSING), "2 cores", {"python": "3.12"}, quick=True)


def test_a_ratio_is_taken_between_neighbours() -> None:
    assert ratios([1.0, 4.0], [2.0, 2.0], speed=True) == (2.0, 0.5)
    assert ratios([1.0, 4.0], [2.0, 2.0], speed=False) == (0.5, 2.0)
    with pytest.raises(ValueError, match="longer"):
        ratios([1.0], [1.0, 2.0], speed=True)


def test_a_speed_is_met_from_above_and_a_cost_from_below() -> None:
    assert (FAST.figure, FAST.met) == (3.5, True)
    assert (SLOW.figure, SLOW.met) == (5.0, False)
    assert (MISSING.figure, MISSING.met) == (None, None)
    assert chart.goodness(FAST) == pytest.approx(3.5 / 3)
    assert chart.goodness(SLOW) == pytest.approx(3 / 5)


def test_the_document_comes_back_and_says_what_follows() -> None:
    text = TABLE.to_json()
    assert Table.from_json(text) == TABLE
    fast, _, missing = json.loads(text)["rows"]
    assert (fast["figure"], fast["spread"], fast["met"]) == (3.5, [2.0, 4.0], True)
    assert (missing["figure"], missing["reason"]) == (None, "needs s5cmd")
    with pytest.raises(ValueError, match="version 9"):
        Table.from_json(text.replace('"version": 1', '"version": 9'))


def test_what_cannot_be_measured_stays_in_the_table_with_its_reason() -> None:
    *_, last = as_text(TABLE.rows).splitlines()
    assert last.startswith("S3 ")
    assert last.endswith("not measured: needs s5cmd")


def test_the_page_shows_every_row_and_the_chart(tmp_path: Path) -> None:
    chart.write(TABLE, tmp_path / "performance.md")
    page = (tmp_path / "performance.md").read_text()
    assert "(performance.svg)" in page
    assert "| rescale | Spark's repartition | 3.50x (2.00 to 4.00) | ≥ 3x | met |" in page
    assert "not measured: needs s5cmd" in page
    _, short = page.split("## Rows that are short\n")
    assert short.strip() == "- **list & more** (python -c pass): not profiled yet."
    root = ET.parse(tmp_path / "performance.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["rescale", "3.50x", "list & more", "5.00x", "S3", "not measured"]


def test_a_comparison_that_fails_gives_its_rows_the_reason() -> None:
    def fails(directory: Path, sizes: tables.Sizes) -> tables.Ratios:
        assert directory.is_dir()
        raise SystemExit("a log line\npkg.SomeException: the disk is full\n  at Thread.run\n")

    group = tables.Group("broken", (MISSING, FAST), fails)
    rows = tables.measured(group, tables.QUICK)
    assert [row.reason for row in rows] == ["pkg.SomeException: the disk is full"] * 2
    assert [row.what for row in rows] == ["S3", "rescale"]


def test_a_group_measured_alone_keeps_the_rows_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [
        tables.Group(row.what, (replace(row, ratios=(), reason=""),), lambda *_: [(1.0,)])
        for row in (FAST, SLOW, MISSING)
    ]
    monkeypatch.setattr(tables, "GROUPS", groups)
    document = tmp_path / "bench.json"
    tables.run(tables.QUICK, ["rescale", "S3"], document, quick=True)
    table = tables.run(tables.QUICK, ["list & more"], document, quick=True)
    assert [(row.what, row.ratios) for row in table.rows] == [
        ("rescale", (1.0,)),
        ("list & more", (1.0,)),
        ("S3", (1.0,)),
    ]
    assert Table.from_json(document.read_text()) == table
