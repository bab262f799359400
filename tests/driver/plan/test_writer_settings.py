"""What cannot be savepointed is recognised from what the program told its writer."""

from __future__ import annotations

import pytest

from flinkish.driver.plan.writer_settings import WriterFacts, why_not_savepointable


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (WriterFacts(trigger={"continuous": "1 second"}), "continuous"),
        (WriterFacts(trigger={"realTime": "5 minutes"}), "real-time"),
        (WriterFacts(options={"asyncprogresstrackingenabled": "TRUE"}), "asyncProgress"),
        (WriterFacts(format="memory"), "memory"),
        (WriterFacts(format="memory", output_mode="update"), "memory"),
    ],
)
def test_refused_with_a_way_out(facts: WriterFacts, word: str) -> None:
    error = why_not_savepointable(facts)
    assert error is not None
    assert word in error.message
    assert error.hint
    assert error.code == 4


@pytest.mark.parametrize(
    "facts",
    [
        WriterFacts(),
        WriterFacts(format="memory", output_mode="Complete"),
        WriterFacts(trigger={"processingTime": "1 second"}),
        WriterFacts(trigger={"availableNow": True}),
        WriterFacts(options={"asyncprogresstrackingenabled": "false"}),
        WriterFacts(format="foreachBatch"),
    ],
)
def test_savepointable(facts: WriterFacts) -> None:
    assert why_not_savepointable(facts) is None


def test_sink_description_has_no_option_values() -> None:
    facts = WriterFacts(format="jdbc", path="/out", options={"password": "hush"})
    assert facts.describe_sink(None) == {"format": "jdbc", "path": "/out"}
