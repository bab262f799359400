"""What cannot be savepointed is recognised from what the program told its writer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.readwriter import DataStreamWriter

from flinkish.driver.plan.writer_settings import WriterFacts, facts_of, why_not_savepointable
from flinkish.driver.runtime.hook import Hook


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


class _JvmWriter:
    def option(self, key: str, value: str) -> _JvmWriter:
        return self


@pytest.mark.parametrize("act", ["options", "start", "toTable"])
def test_an_option_may_have_any_name(act: str) -> None:
    runtime: Any = SimpleNamespace(start_query=lambda writer, facts, begin: None)
    hook = Hook(runtime)
    hook._wrap_writer(DataStreamWriter)
    try:
        writer: Any = DataStreamWriter.__new__(DataStreamWriter)
        writer._jwrite = _JvmWriter()
        place = () if act == "options" else ("out",)
        getattr(writer, act)(*place, writer="w", facts="f")
    finally:
        hook.remove()
    assert facts_of(writer).options == {"writer": "w", "facts": "f"}
