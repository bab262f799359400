"""What a connector is asked in the driver about a source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkish.connectors.sources import NewSource, SavedSource
from flinkish.restore.origin.restore_origin import RestorableQuery


@dataclass(frozen=True)
class SourceQuestion:
    """A source, and the position from which it is to continue.

    ``session`` is the query's; ``offer`` is the saved query that the position is from, and
    ``gone_on`` looks up the newest batch of other runs of it, if it is later than the saved one.
    ``at_ms`` is a time whose offsets are wanted too, in milliseconds since the epoch.
    """

    session: Any
    source: NewSource
    saved: SavedSource
    offer: RestorableQuery
    gone_on: Callable[[], int | None]
    at_ms: int | None = None
