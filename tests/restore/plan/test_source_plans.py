"""What becomes of each source, in rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.connectors.kafka.connector import kafka_answer, starting_offsets
from flinkish.connectors.kafka.reading import Available, BrokerAnswer, TopicIdentity
from flinkish.connectors.offsets import Target
from flinkish.connectors.source_plan import NO_FACTS, SourceFacts, SourcePlan
from flinkish.connectors.sources import SavedSource, SourceAnswer, reset_flag
from flinkish.messages.plan import Move
from flinkish.messages.restore_options import RestoreOptions
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.origin.restore_inputs import NewQuery, SavedQueryFacts
from flinkish.restore.plan.operator_matching import match_operators
from flinkish.restore.plan.source_matching import match_sources
from flinkish.restore.plan.source_plans import source_plans
from tests.support.restore.query_builders import new, old, reads, saved_query, source, starting

A, B = "file[/a]", "file[/b]"
TOPIC = "kafka[subscribe=a,b]"


def rows(
    query: NewQuery,
    *saved: SavedQueryFacts,
    reset: tuple[str, ...] = (),
    facts: SourceFacts = NO_FACTS,
) -> list[SourcePlan]:
    own = next((q for q in saved if q.key in (query.name, None)), None)
    version = HasherVersion.V3
    taken = match_operators(query, saved, own, hasher=version, uid_map={}).taken
    matches = match_sources(query, saved, own, taken, hasher=version, uid_map={}, reset=reset)
    return list(source_plans(query, own, matches, facts))


def verdicts(found: list[SourcePlan]) -> list[tuple[str, str]]:
    return [(row.verdict, row.reason) for row in found]


SAME, MOVED = ("as-is", "same-source"), ("moved", "moved-source")
FRESH, DROPPED = ("new", "new-source"), ("dropped", "dropped-source")


def test_the_same_moved_new_and_dropped_sources() -> None:
    saved = saved_query(sources=(source(A, 0), source(B, 1)))
    assert verdicts(rows(starting(sources=(reads(A, 0), reads(B, 1))), saved)) == [SAME, SAME]
    assert verdicts(rows(starting(sources=(reads(B, 0), reads(A, 1))), saved)) == [MOVED, MOVED]
    added = starting(sources=(reads("rate[]", 0), reads(A, 1), reads(B, 2)))
    assert verdicts(rows(added, saved)) == [FRESH, MOVED, MOVED]
    removed = rows(starting(sources=(reads(A, 0),)), saved)
    assert verdicts(removed) == [SAME, DROPPED]
    assert (removed[1].new, removed[1].saved) == (None, saved.sources and saved.sources[1])
    assert not any(row.blocks for row in removed)


def test_a_renamed_source_is_told_how_to_keep_its_position() -> None:
    saved = saved_query(sources=(source(A, 0, uid="orders", directory="orders"),))
    renamed = starting(sources=(reads(A, 0, uid="all sales", directory="all sales"),))
    fresh, dropped = rows(renamed, saved)
    assert verdicts([fresh, dropped]) == [FRESH, DROPPED]
    assert dropped.advice.startswith(
        "if the source was renamed, resume from its position: --uid-map 'orders=all sales'; or "
        "keep reading it in the program"
    )


def test_a_source_of_another_query_is_moved() -> None:
    saved = saved_query(old("x", query="p"), key="p", sources=(source(A, query="p"),))
    (row,) = rows(starting(new("x"), name="other", sources=(reads(A, feeds=(0,)),)), saved)
    assert (row.verdict, row.reason) == MOVED
    assert "of query 'p'" in row.text


def test_another_kind_of_source_under_one_uid() -> None:
    saved = saved_query(sources=(source(A, uid="in"),))
    program = starting(sources=(reads(TOPIC, uid="in"),))
    (row,) = rows(program, saved)
    assert (row.verdict, row.reason, row.blocks) == ("consent-needed", "source-kind", True)
    assert row.advice.endswith("--reset-source in")
    assert verdicts(rows(program, saved, reset=("in",))) == [("reset", "reset-source")]


def test_a_path_that_has_changed_is_warned_of() -> None:
    (row,) = rows(starting(sources=(reads(B),)), saved_query(sources=(source(A),)))
    assert (row.verdict, row.reason, row.blocks) == ("changed", "path-changed", False)
    assert "now reads file[/b] instead of file[/a]" in row.text


@pytest.mark.parametrize(
    ("before", "offset", "now", "reason"),
    [
        (TOPIC, '{"a":{"0":5},"b":{"0":1}}', TOPIC, "same-source"),
        (TOPIC, '{"a":{"0":5},"b":{"0":1}}', "kafka[subscribe=a,b,c]", "topics-changed"),
        (TOPIC, '{"a":{"0":5},"b":{"0":1}}', "kafka[subscribe=a]", "topics-gone"),
        (TOPIC, '{"a":{"0":5}}', "kafka[subscribe=a]", "topics-changed"),
        (TOPIC, '{"a":{"0":5},"b":{"0":1}}', "kafka[subscribePattern=[ab]]", "topics-changed"),
        (TOPIC, '{"a":{"0":5},"bb":{"0":1}}', "kafka[subscribePattern=[ab]]", "topics-changed"),
        (TOPIC, '{"a":{"0":5},"bb":{"0":1}}', "kafka[subscribePattern=^[ab]$]", "topics-gone"),
        (TOPIC, '{"a":{"0":5}}', 'kafka[assign={"a":[0,1]}]', "topics-changed"),
        (TOPIC, '{"a":{"0":5,"1":2}}', 'kafka[assign={"a":[0]}]', "topics-gone"),
        (TOPIC, '{"a":{"0":5}}', "kafka[subscribePattern=\\Qa\\E]", "topics-changed"),
        ("rate[rowsPerSecond=1]", "5", "rate[rowsPerSecond=9]", "input-changed"),
    ],
)
def test_kafka_topics_and_other_inputs(before: str, offset: str, now: str, reason: str) -> None:
    saved = saved_query(sources=(source(before, uid="in", offset=offset),))
    (row,) = rows(starting(sources=(reads(now, uid="in"),)), saved)
    assert row.reason == reason
    gone = reason == "topics-gone"
    assert row.verdict == ("consent-needed" if gone else row.verdict)
    assert row.blocks is gone


@pytest.mark.parametrize("signature", ["socket[host=h, port=1]", "memory[]"])
def test_a_source_that_is_not_replayed_needs_consent(signature: str) -> None:
    saved = saved_query(sources=(source(signature, offset="5"), source(A, 1)))
    program = starting(sources=(reads(signature), reads(A, 1)))
    assert verdicts(rows(program, saved)) == [("consent-needed", "source-not-replayable"), SAME]
    told = rows(program, saved, reset=("0",))
    assert verdicts(told) == [("reset", "reset-source"), SAME]
    assert "discarded position: 5" in told[0].text
    plain = replace(saved, sources=None)
    assert verdicts(rows(program, plain)) == [
        ("consent-needed", "source-not-replayable"),
        ("as-is", "source-unknown"),
    ]


def test_sources_that_replay_are_taken() -> None:
    signatures = ("rate[rowsPerSecond=1]", "rate-micro-batch[]", A, TOPIC)
    saved = saved_query(sources=tuple(source(s, n) for n, s in enumerate(signatures)))
    program = starting(sources=tuple(reads(s, n) for n, s in enumerate(signatures)))
    assert verdicts(rows(program, saved)) == [SAME] * 4


def test_a_query_that_starts_empty() -> None:
    assert verdicts(rows(starting(name="other", sources=(reads(A),)), saved_query())) == [FRESH]


def test_the_name_to_reset_it_by() -> None:
    assert reset_flag(reads(A, uid="in")) == "--reset-source in"
    assert reset_flag(reads(A)) == "--reset-source 'file[/a]'"
    assert reset_flag(reads("file[/it's]")) == "--reset-source 'file[/it'\\''s]'"


def test_a_saved_source_without_signature_is_not_judged() -> None:
    saved = saved_query(sources=(replace(source(A, uid="in"), signature=None),))
    assert isinstance(saved.sources and saved.sources[0], SavedSource)
    assert verdicts(rows(starting(sources=(reads(B, uid="in"),)), saved)) == [SAME]


READ = saved_query(sources=(source(TOPIC, uid="in", offset='{"a":{"0":5},"b":{"0":9}}'),))


def said(broker: BrokerAnswer, query: NewQuery | None = None) -> dict[int, SourceAnswer]:
    """What the broker of the only source has, whose position is that of READ."""
    (read,) = (query or kafka()).sources or ()
    (saved,) = READ.sources or ()
    return {0: kafka_answer(read, saved, broker)}


def broker(begin: int, end: int, *, accept: bool = False, fail: str = "true") -> SourceFacts:
    """A broker whose topics a and b have one partition each."""
    bounds = {0: Available(begin, end)}
    answers = said(BrokerAnswer({"a": bounds, "b": bounds}), kafka(fail))
    return SourceFacts(answers, RestoreOptions(accept_lost_rows=accept))


def kafka(fail: str = "true", **options: str) -> NewQuery:
    given = {"subscribe": "a,b", "failOnDataLoss": fail, **options}
    return starting(sources=(replace(reads(TOPIC, uid="in"), options=given),))


def test_what_a_broker_has_decides_the_row_of_a_source() -> None:
    (fine,) = rows(kafka(), READ, facts=broker(0, 12))
    assert (fine.verdict, fine.reason, fine.blocks, fine.lost_rows) == (*SAME, False, 0)
    (lag,) = fine.checks
    assert (lag.id, lag.outcome.value) == ("kafka-lag", "note")
    assert lag.text == "source 'in': unread rows: 7 in topic a, 3 in topic b"

    (lost,) = rows(kafka(), READ, facts=broker(8, 12))
    assert (lost.verdict, lost.reason, lost.lost_rows) == ("consent-needed", "rows-expired", 3)
    assert lost.text.startswith("source 'in': retention deleted up to 3 rows of topic a")
    (agreed,) = rows(kafka("false"), READ, facts=broker(8, 12, accept=True, fail="false"))
    assert (agreed.verdict, agreed.blocks, agreed.lost_rows) == ("as-is", False, 3)
    assert [each.id for each in agreed.checks] == ["rows-expired", "kafka-lag"]
    (both,) = rows(kafka("false"), READ, facts=broker(10, 12, accept=True, fail="false"))
    assert [each.id for each in both.checks] == ["rows-expired", "rows-expired", "kafka-lag"]
    assert both.lost_rows == 5 + 1
    fewer = starting(sources=(reads("kafka[subscribe=a]", uid="in"),))
    gone = said(BrokerAnswer({"a": {0: Available(8, 12)}}), fewer)
    (unknown,) = rows(fewer, READ, facts=SourceFacts(gone))
    assert (unknown.verdict, unknown.lost_rows) == ("consent-needed", None), "some of b too"

    (missing,) = rows(
        kafka(), READ, facts=SourceFacts(said(BrokerAnswer({"a": {0: Available(0, 5)}})))
    )
    assert (missing.verdict, missing.reason) == ("incompatible", "topic-missing")
    assert missing.blocks


def test_a_broker_that_was_not_asked_is_noted_once() -> None:
    (row,) = rows(kafka(), READ, facts=SourceFacts(said(BrokerAnswer(None, "--offline"))))
    assert (row.verdict, row.reason, row.lost_rows) == (*SAME, None)
    assert [each.text for each in row.checks] == [
        "source 'in': no answer from the broker: --offline"
    ]
    (unknown,) = rows(kafka(), READ)
    assert unknown.checks == ()


def test_what_starting_afresh_costs_is_noted() -> None:
    (row,) = rows(kafka(), READ, reset=("in",), facts=broker(0, 12))
    assert row.verdict == "reset"
    assert [each.text for each in row.checks] == [
        "source 'in' starts from scratch: it starts at the end: it skips up to 10 rows, and "
        "skips what arrives before it runs"
    ]
    (silent,) = rows(kafka(), READ, reset=("in",), facts=SourceFacts(said(BrokerAnswer())))
    assert [each.text for each in silent.checks] == [
        "source 'in' starts from scratch: it starts at the end; the number of rows skipped or "
        "read again is unknown"
    ]


EARLIEST = {0: Target("earliest")}
THERE = broker(0, 12).answers


def test_a_source_that_gets_other_offsets_needs_consent() -> None:
    (asked,) = rows(kafka(), READ, facts=SourceFacts(THERE, targets=EARLIEST))
    assert (asked.verdict, asked.reason) == ("consent-needed", "set-offsets")
    assert asked.text == (
        "source 'in' is set to earliest: up to 14 rows read again (5 of a-0, 5 to 0; 9 of b-0, 9 "
        "to 0)"
    )
    assert asked.advice == "accept it: --accept-repeated-rows"
    (agreed,) = rows(
        kafka(),
        READ,
        facts=SourceFacts(
            THERE, options=RestoreOptions(accept_repeated_rows=True), targets=EARLIEST
        ),
    )
    assert (agreed.verdict, agreed.blocks, agreed.advice) == ("set", False, "")
    assert (agreed.lost_rows, agreed.repeated_rows) == (0, 14)
    assert agreed.set_to == '{"a":{"0":0},"b":{"0":0}}'
    assert agreed.moves[1] == Move("b", 0, 9, 0, 0, 9)
    assert agreed.saved == (READ.sources or ())[0]
    assert [each.text for each in agreed.checks] == [
        "source 'in': unread rows: 12 in topic a, 12 in topic b"
    ]


def test_what_the_broker_says_counts_for_the_new_offsets() -> None:
    # Saved offsets that are gone do not matter any more: also with failOnDataLoss=true.
    facts = SourceFacts(
        broker(11, 12).answers, options=RestoreOptions(accept_lost_rows=True), targets=EARLIEST
    )
    (row,) = rows(kafka(), READ, facts=facts)
    assert (row.verdict, row.lost_rows, row.repeated_rows) == ("set", 6 + 2, 0)
    # A topic that is not there does.
    missing = BrokerAnswer({"a": {0: Available(0, 9)}})
    (row,) = rows(kafka(), READ, facts=SourceFacts(said(missing), targets=EARLIEST))
    assert (row.verdict, row.reason) == ("incompatible", "topic-missing")
    given = {0: Target("offsets", offsets={"a": {"0": 99}})}
    (row,) = rows(kafka(), READ, facts=SourceFacts(THERE, targets=given))
    assert (row.verdict, row.reason) == ("incompatible", "set-offsets-range")
    assert row.text.startswith("source 'in' cannot be moved to offset 99 of partition 0 of topic a")
    assert row.set_to is None


@pytest.mark.parametrize(
    ("offsets", "begin", "same", "lost"),
    [
        ({"a": {"0": 6}}, 0, True, 1),
        ({"a": {"0": 12}}, 10, True, 7 + 1),  # where the defect was: b has lost a row
        ({"a": {"0": 9}}, 2, False, 7 + 7),  # both topics are new, and lack what is before
        ({"a": {"0": 5}}, 2, False, 3 + 7),  # as saved
    ],
)
def test_rows_that_other_partitions_lose_count_for_explicit_offsets(
    offsets: dict[str, dict[str, int]], begin: int, same: bool, lost: int
) -> None:
    bounds = {0: Available(begin, 12)}
    identities = {} if same else {t: TopicIdentity("new") for t in ("a", "b")}
    answer = BrokerAnswer({"a": bounds, "b": bounds}, identities=identities)
    (read,), (at,) = kafka("false").sources or (), READ.sources or ()
    known = kafka_answer(read, at, answer)
    if not same:
        known = replace(known, known={t: TopicIdentity("old") for t in ("a", "b")})
    facts = SourceFacts(
        {0: known},
        RestoreOptions(accept_lost_rows=True),
        {0: Target("offsets", offsets=offsets)},
    )
    (row,) = rows(kafka("false"), READ, facts=facts)
    assert (row.verdict, row.lost_rows) == ("set", lost)


def test_other_topics_and_other_offsets_at_once() -> None:
    program = starting(
        sources=(replace(reads("kafka[subscribe=a]", uid="in"), options={"subscribe": "a"}),)
    )
    bounds = {0: Available(0, 12)}
    facts = SourceFacts(
        said(BrokerAnswer({"a": bounds, "b": bounds}), program),
        options=RestoreOptions(accept_lost_rows=True),
        targets={0: Target("latest")},
    )
    (row,) = rows(program, READ, facts=facts)
    assert (row.verdict, row.set_to, row.lost_rows) == ("set", '{"a":{"0":12}}', 7 + 3)
    assert row.text.startswith(
        "source 'in' now reads kafka[subscribe=a] instead of kafka[subscribe=a,b]"
    )


def test_sources_without_saved_offsets_have_none_to_set() -> None:
    facts = SourceFacts(THERE, targets=EARLIEST)
    (fresh,) = rows(kafka(), saved_query(sources=()), facts=facts)
    (empty,) = rows(
        kafka(), saved_query(sources=(source(TOPIC, uid="in", offset="-"),)), facts=facts
    )
    (unknown,) = rows(kafka(), saved_query(sources=None), facts=facts)
    for row in (fresh, empty):
        assert (row.verdict, row.reason) == ("incompatible", "set-offsets-new")
    assert (unknown.verdict, unknown.reason) == ("incompatible", "source-unknown")
    assert "does not say which of its offsets are those of this source" in unknown.text
    (kind,) = rows(kafka(), saved_query(sources=(source(A, uid="in"),)), facts=facts)
    assert (kind.verdict, kind.reason) == ("consent-needed", "source-kind")


def test_a_source_that_is_not_kafka_takes_offsets_as_given() -> None:
    saved = saved_query(sources=(source(A, offset='{"logOffset":7}'),))
    target = {0: Target("offsets", offsets={"logOffset": 3})}
    (row,) = rows(starting(sources=(reads(A),)), saved, facts=SourceFacts(targets=target))
    assert (row.verdict, row.advice) == (
        *("consent-needed", "accept it: --accept-lost-rows --accept-repeated-rows"),
    )
    facts = SourceFacts(
        options=RestoreOptions(accept_lost_rows=True, accept_repeated_rows=True), targets=target
    )
    (row,) = rows(starting(sources=(reads(A),)), saved, facts=facts)
    assert (row.verdict, row.set_to, row.lost_rows) == ("set", '{"logOffset":3}', None)
    (row,) = rows(starting(sources=(reads(A),)), saved, facts=SourceFacts(targets=EARLIEST))
    assert (row.verdict, row.reason) == ("incompatible", "set-offsets-form")


def test_where_a_kafka_source_starts() -> None:
    def start(**options: str) -> str:
        return starting_offsets(replace(reads(TOPIC), options=options))

    assert start() == ""
    assert start(subscribe="a") == "latest"
    assert start(subscribe="a", StartingOffsets="earliest") == "earliest"
    assert start(startingOffsets="earliest", startingTimestamp="5") == "startingtimestamp"
