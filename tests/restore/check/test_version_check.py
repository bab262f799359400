"""The version check before a driver is started, on recorded checkpoints and the measured table."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.compat.data import load
from flinkish.compat.model import SPARK, Cell, CompatVerdict, Limitation, Matrix, Rewrite
from flinkish.messages.plan import RestoreOutcome
from flinkish.restore.check import version_check
from flinkish.restore.check.version_check import check_spark_version, fit_offers
from flinkish.restore.origin.restore_origin import RestoreOrigin, open_path
from tests.support.checkpoints.handwritten import CheckpointLikeness


@pytest.fixture
def offers(tmp_path: Path) -> RestoreOrigin:
    """A checkpoint with HDFS-backed state, as if a savepoint of Spark 4.0.5 had it."""
    CheckpointLikeness(tmp_path / "checkpoint", partitions=2).run_to(3)
    return replace(open_path(str(tmp_path / "checkpoint")), spark_version="4.0.5")


def measured(monkeypatch: pytest.MonkeyPatch, verdict: str, rewrite: Rewrite | None = None) -> None:
    """A table in which every operator of 4.0 has ``verdict`` on 4.3."""
    real = load(SPARK)
    limit = Limitation("why", "it does not work", "take another way", rewrite)
    kinds = ["stateStoreSave", "dedupe"]
    limits = () if verdict in ("ok", "unknown") else ("why",)
    error = "it broke" if verdict in ("fails", "needs-migration") else None
    cells = [
        Cell("4.0", "4.3", CompatVerdict(verdict), limits, kind, "hdfs", error=error)
        for kind in kinds
    ]
    table = replace(real, limitations={"why": limit}, cells=tuple(cells))
    assert isinstance(table, Matrix)
    monkeypatch.setattr(version_check, "load", lambda _: table)


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ("ok", RestoreOutcome.OK),
        ("ok-with-limitations", RestoreOutcome.NOTE),
        ("needs-migration", RestoreOutcome.REFUSED),
        ("fails", RestoreOutcome.REFUSED),
    ],
)
def test_the_table_decides(
    verdict: str, outcome: RestoreOutcome, offers: RestoreOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, verdict)
    found = check_spark_version(offers, "4.3.0")
    assert (found.check.id, found.check.outcome) == ("spark-version", outcome)
    assert (found.versions.created, found.versions.running) == ("4.0.5", "4.3.0")
    assert found.versions.verdict == verdict
    refused = outcome is RestoreOutcome.REFUSED
    assert (found.error is not None) is refused
    if found.error is not None:
        assert found.error.code == 4
        assert "it does not work" in found.error.message
        assert "take another way" in found.error.hint


def test_what_the_engine_can_rewrite_is_no_reason_to_refuse(
    offers: RestoreOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, "needs-migration", Rewrite.CHECKPOINT_FORMAT_1)
    of_format_2 = replace(
        offers, by_key={k: replace(o, checkpoint_format=2) for k, o in offers.by_key.items()}
    )
    found = check_spark_version(of_format_2, "4.3.0")
    assert (found.error, found.check.outcome) == (None, RestoreOutcome.NOTE)
    assert found.versions.verdict == "needs-migration"
    assert "the state is rewritten to resume" in found.check.text
    for offer in fit_offers(of_format_2, "4.3.0").by_key.values():
        assert offer.checkpoint_format == 1
        assert all("format 2 becomes 1" in op.rewritten for op in offer.query.operators)


@pytest.mark.parametrize(
    ("verdict", "saved", "running"),
    [
        ("ok", "4.0.5", "4.3.0"),
        ("needs-migration", "4.0.5", "4.3.0"),  # nobody can rewrite it
        *[("fails", "4.0.5", "4.3.0"), ("unknown", "4.0.5", "4.3.0")],
        *[("ok", None, "4.3.0"), ("ok", "4.0.5", None), ("ok", "4.0.5", "our build")],
    ],
)
def test_otherwise_savepoints_are_taken_as_they_are(
    verdict: str,
    saved: str | None,
    running: str | None,
    offers: RestoreOrigin,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured(monkeypatch, verdict)
    given = replace(offers, spark_version=saved)
    assert fit_offers(given, running) == given


def test_a_pair_that_nobody_has_measured_is_a_warning(
    offers: RestoreOrigin, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, "ok")
    found = check_spark_version(offers, "4.2.1")
    assert (found.versions.verdict, found.check.outcome) == ("unknown", RestoreOutcome.WARNING)
    assert found.error is None


@pytest.mark.parametrize(
    ("saved", "running", "why"),
    [
        (None, "4.3.0", "the checkpoint does not record which Spark wrote it"),
        ("4.3.0", None, "the version of the Spark to be run is unknown"),
        ("4.3.0", "our build", "is not a version of spark"),
    ],
)
def test_versions_that_are_not_known_are_a_warning(
    saved: str | None, running: str | None, why: str, offers: RestoreOrigin
) -> None:
    found = check_spark_version(replace(offers, spark_version=saved), running)
    assert found.check.outcome is RestoreOutcome.WARNING
    assert why in found.check.text
    assert found.versions.verdict == "unknown"


def test_a_damaged_log_does_not_hide_the_answer(offers: RestoreOrigin, tmp_path: Path) -> None:
    """The restore itself says what is wrong with it."""
    shutil.rmtree(tmp_path / "checkpoint" / "offsets")
    assert check_spark_version(offers, "4.0.5").error is None
