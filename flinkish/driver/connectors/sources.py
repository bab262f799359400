"""Questions about a source's saved position, to the table, broker or directory of the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flinkish.connectors.registry import source_connector
from flinkish.connectors.sources import NewSource, SourceAnswer
from flinkish.driver.connectors import delta, files, iceberg, kafka
from flinkish.driver.connectors.question import SourceQuestion
from flinkish.driver.log import log
from flinkish.errors import FlinkishError

#: The functions that ask, by the name of the connector.
_ASK: Mapping[str, Callable[[SourceQuestion], SourceAnswer | None]] = {
    "delta": delta.ask,
    "file": files.ask,
    "iceberg": iceberg.ask,
    "kafka": kafka.ask,
}
#: The functions that identify what a source reads, so that a recreated topic is recognized.
_IDENTIFY: Mapping[str, Callable[[Any, NewSource], dict[str, Any]]] = {"kafka": kafka.identify}


def ask(question: SourceQuestion, *, offline: bool = False) -> SourceAnswer | None:
    """Return the answer; None if nothing can be asked about this source, or the question failed.

    With ``offline``, directories are listed, but no table and no broker is asked.
    """
    source, saved = question.source, question.saved
    connector = source_connector(source.signature, saved.offset)
    if offline and not connector.answers_offline:
        return connector.unasked(source, saved, "--offline")
    asker = _ASK.get(connector.name)
    try:
        return None if asker is None else asker(question)
    except FlinkishError as error:
        log(f"{source.describe()}: what it reads was not checked: {error.message}")
        return None


def identify(session: Any, source: NewSource) -> dict[str, Any]:
    """Return, for a source's record, what tells its topics from later ones of the same names."""
    identifier = _IDENTIFY.get(source_connector(source.signature).name)
    return {} if identifier is None else identifier(session, source)
