"""What a verdict means for a restore."""

from __future__ import annotations

import pytest

from flinkish.compat.data import load
from flinkish.compat.decision import Exit, VersionDecision, check_versions, rewrites_of
from flinkish.compat.lookup import Judgement, Use, judge
from flinkish.compat.model import FLINK, SPARK, CompatVerdict, Matrix, Rewrite, parse_version
from flinkish.errors import Incompatible
from tests.support import compat_sample as sample


def _judge(pair: str, *uses: str, table: Matrix | None = None) -> Judgement:
    created, resumed = (parse_version(text, SPARK) for text in pair.split())
    parts = [use.split() for use in uses]
    used = [Use(operator, backend, frozenset(rest)) for operator, backend, *rest in parts]
    return judge(table or sample.matrix(), created, resumed, used)


def test_fine_says_nothing() -> None:
    result = check_versions(_judge("3.5.9 4.0.5", "dedupe hdfs"))
    assert (result.verdict, result.exit) == (CompatVerdict.OK, Exit.FINE)
    assert (result.message, result.hint) == ("", "")
    assert result.error() is None


def test_limitations_are_a_note() -> None:
    result = check_versions(_judge("4.0.5 4.3.0", "dedupe hdfs"))
    assert (result.verdict, result.exit) == (CompatVerdict.OK_WITH_LIMITATIONS, Exit.FINE)
    assert result.message == (
        "resuming a savepoint of Spark 4.0.5 with Spark 4.3.0 has limitations: "
        "The first batch is slow"
    )
    assert result.hint == "be patient"
    assert result.error() is None


def test_unknown_is_a_warning() -> None:
    result = check_versions(_judge("3.5.9 4.3.0", "dedupe hdfs", "globalLimit hdfs changelog"))
    assert (result.verdict, result.exit) == (CompatVerdict.UNKNOWN, Exit.WARNED)
    assert result.message == (
        "it has not been measured whether Spark 4.3.0 can resume a savepoint of Spark 3.5.9 "
        "(dedupe on hdfs, globalLimit on hdfs with changelog)"
    )
    assert "flinkish compat 3.5.9 4.3.0" in result.hint
    assert result.error() is None


def test_what_fails_is_refused_with_the_reason_and_the_way_out() -> None:
    uses = ("dedupe rocksdb changelog", "dedupe rocksdb checkpoint-v2", "odd hdfs")
    result = check_versions(_judge("4.3.0 4.0.5", *uses))
    assert (result.verdict, result.exit) == (CompatVerdict.FAILS, Exit.REFUSED)
    error = result.error()
    assert isinstance(error, Incompatible)
    assert error.code == 4
    assert error.message == (
        "cannot resume a savepoint of Spark 4.3.0 with Spark 4.0.5: "
        "dedupe on rocksdb with checkpoint-v2: The logs are of a newer form"
    )
    assert error.hint == "write the savepoint in the old one"
    record = error.to_record()
    assert record["limitations"] == ["new-log"]
    assert (record["from"], record["to"], record["verdict"]) == ("4.3.0", "4.0.5", "fails")


def test_what_needs_a_migration_that_the_engine_can_do() -> None:
    judged = _judge("4.3.0 4.0.5", "symmetricHashJoin rocksdb join-v4")
    assert rewrites_of(judged) == frozenset({Rewrite.JOIN_FORMAT_2})
    result = check_versions(judged)
    assert (result.verdict, result.exit) == (CompatVerdict.NEEDS_MIGRATION, Exit.FINE)
    assert result.message.startswith("the state is rewritten to resume")
    assert "symmetricHashJoin on rocksdb with join-v4: The join's state" in result.message
    assert result.error() is None


def test_a_migration_hides_nothing_of_the_other_operators() -> None:
    slow = sample.cell("4.3 4.0", "globalLimit", "hdfs", "", "ok-with-limitations", "slow")
    table = sample.with_more(("slow", "The first batch waits.", "be patient"), slow)
    uses = ["symmetricHashJoin rocksdb join-v4", "dedupe other", "globalLimit hdfs"]
    result = check_versions(_judge("4.3.0 4.0.5", *uses, table=table))
    assert (result.verdict, result.exit) == (CompatVerdict.NEEDS_MIGRATION, Exit.WARNED)
    assert result.message.startswith("the state is rewritten to resume")
    assert "not been measured whether Spark 4.0.5 can resume a savepoint" in result.message
    assert "(dedupe on other)" in result.message
    assert result.message.endswith("has limitations: The first batch waits")
    assert result.hint == "keep the savepoint; see flinkish compat 4.3.0 4.0.5; be patient"


@pytest.mark.parametrize("with_more", [False, True])
def test_what_needs_a_migration_that_it_cannot_do(with_more: bool) -> None:
    more = ["symmetricHashJoin rocksdb join-v4"] if with_more else []
    cell = ("4.3 4.0", "dedupe", "rocksdb", "row-checksum", "needs-migration", "checksums")
    table = sample.with_more(
        ("checksums", "The rows have checksums.", "migrate it"), sample.cell(*cell)
    )
    judged = _judge("4.3.0 4.0.5", "dedupe rocksdb row-checksum", *more, table=table)
    assert rewrites_of(judged) is None
    result = check_versions(judged)
    assert (result.verdict, result.exit) == (CompatVerdict.NEEDS_MIGRATION, Exit.REFUSED)
    assert "cannot resume without rewriting its state" in result.message
    assert "The rows have checksums" in result.message
    assert "migrate it" in result.hint
    assert result.error() is not None


@pytest.mark.parametrize(
    ("uses", "needed"), [("dedupe hdfs", frozenset()), ("dedupe rocksdb checkpoint-v2", None)]
)
def test_nothing_is_rewritten_for_what_goes_on_or_fails(
    uses: str, needed: frozenset[Rewrite] | None
) -> None:
    assert rewrites_of(_judge("4.3.0 4.0.5", uses)) == needed


def test_a_reason_that_two_operators_share_names_both() -> None:
    uses = ("dedupe rocksdb checkpoint-v2", "symmetricHashJoin rocksdb checkpoint-v2")
    result = check_versions(_judge("4.3.0 4.0.5", *uses))
    assert result.message.count("The logs are of a newer form") == 2
    assert result.hint == "write the savepoint in the old one"


def test_an_unmet_precondition_refuses_whatever_the_versions_are() -> None:
    conditions = load(FLINK).preconditions
    result = check_versions(_judge("3.5.9 4.0.5", "dedupe hdfs"), unmet=conditions[:1])
    assert (result.verdict, result.exit) == (CompatVerdict.FAILS, Exit.REFUSED)
    assert "semi-asynchronous mode cannot be migrated" in result.message
    assert "fully-asynchronous" in result.hint
    error = result.error()
    assert error is not None
    assert error.to_record()["preconditions"] == ["rocksdb-semi-async"]


def test_a_result_without_a_reason_to_refuse_has_no_error() -> None:
    assert VersionDecision(CompatVerdict.OK, Exit.FINE).error() is None
