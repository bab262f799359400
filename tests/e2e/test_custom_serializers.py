"""The example of ``docs/custom-serializers.md`` as a job: saved, changed, migrated, continued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.state.test_custom_serializers import PROGRAM, VERSION_1, VERSION_2
from tests.support.cli.command import LIGHT, Flinkish

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(600)]


def pay(source: Path, number: int, *payments: tuple[str, str]) -> None:
    rows = ({"customer": c, "amount": amount, "currency": "EUR"} for c, amount in payments)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (source / f".{number}.json").write_text(text)
    (source / f".{number}.json").rename(source / f"{number}.json")


def written(out: Path, batch: int) -> dict[str, tuple[str, str]]:
    lines = "".join(part.read_text() for part in (out / str(batch)).glob("*.json")).splitlines()
    rows = map(json.loads, lines)
    return {row["customer"]: (row["lowest"], row["highest"]) for row in rows}


@pytest.mark.parametrize(("how", "verdict"), [("eager", "migrate"), ("lazy", "as-is")])
def test_version_2_goes_on(flinkish: Flinkish, tmp_path: Path, how: str, verdict: str) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    pay(source, 0, ("a", "1.50"), ("a", "-2.25"), ("b", "7.00"))
    (tmp_path / "payments.py").write_text(PROGRAM)
    (tmp_path / "money.py").write_text(VERSION_1)
    words = (str(tmp_path / "payments.py"), str(source), str(out))
    files = ("-pyfs", str(tmp_path / "money.py"))
    job = flinkish.run(*words, options=files)
    flinkish.wait_for_batch(job, 0)
    assert written(out, 0) == {"a": ("-2.25", "1.50"), "b": ("7.00", "7.00")}
    saved = flinkish.ok("stop", "-q", job, "-p", str(tmp_path / "sp")).out.strip()

    (tmp_path / "money.py").write_text(VERSION_1 + VERSION_2)
    setting = ("-D", f"state.migration={how}")
    restore = (*files, *setting, "-s", saved, "-m", "local[2]", *LIGHT)
    plan = flinkish.ok("check", "--json", *restore, *words).json()
    assert plan["operators"][0]["verdict"] == verdict
    again = flinkish.run(*words, options=(*files, *setting, "-s", saved))
    pay(source, 1, ("a", "0.1234"), ("a", "9.8765"))
    flinkish.wait_for_batch(again, 1)
    lowest, highest = written(out, 1)["a"]
    assert (float(lowest), highest) == (-2.25, "9.8765")
    flinkish.ok("stop", again, "-p", str(tmp_path / "sp"))
