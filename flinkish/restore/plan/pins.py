"""Settings that a savepoint pins, where the new program's session asks for others. Pure.

Spark keeps them in the offset log at a query's first start, and they win over the session's at
every restart (``OffsetSeqMetadata.setSessionConf``), without a word to the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flinkish.checkpoint.format.pins import (
    PIN_AGGREGATION_FORMAT,
    PIN_CODEC,
    PIN_ENCODING,
    PIN_GROUP_FORMAT,
    PIN_JOIN_FORMAT,
    PIN_PROVIDER,
    PIN_SHUFFLE_PARTITIONS,
    PIN_STATE_PARTITIONS,
    PIN_WATERMARK_POLICY,
    PROVIDERS,
    backend_of,
)

_STREAMING: Final = "spark.sql.streaming."
#: Names for people of those settings that they set.
_NAMES = {
    PIN_SHUFFLE_PARTITIONS: "shuffle partitions",
    PIN_PROVIDER: "state backend",
    PIN_WATERMARK_POLICY: "watermark policy",
    PIN_CODEC: "compression of state",
    PIN_ENCODING: "encoding of state",
    _STREAMING + "stateStore.rocksdb.formatVersion": "RocksDB format version",
    PIN_JOIN_FORMAT: "state format of joins",
    PIN_AGGREGATION_FORMAT: "state format of aggregations",
    PIN_GROUP_FORMAT: "state format of grouped functions",
}


@dataclass(frozen=True)
class PinPlan:
    """One pinned setting that differs from what was asked for.

    ``verdict`` is ``rescale`` where the state would have to be rewritten for what was asked,
    ``migrate`` where it is written for what was asked in any case (the backend of canonical state),
    and ``pinned`` where the savepoint's value goes on to hold.
    """

    key: str
    name: str
    pinned: str
    asked: str
    verdict: str
    advice: str = ""

    @property
    def text(self) -> str:
        """As in ``shuffle partitions: pinned 200, asked 64: rescale``."""
        outcome = "stays as pinned" if self.verdict == "pinned" else self.verdict
        return f"{self.name}: pinned {_short(self.pinned)}, asked {_short(self.asked)}: {outcome}"


def asked_provider(pins: Mapping[str, str], settings: Mapping[str, str]) -> str | None:
    """The state store provider that canonical state is written for, where it is another one than
    the savepoint pins: the session's, as for a query that starts anew. One that is not Spark's own
    is passed over.
    """
    asked = settings.get(PIN_PROVIDER)
    if asked is None or _short(asked) == _short(pins.get(PIN_PROVIDER, "")):
        return None
    return asked if _short(asked) in PROVIDERS.values() else None


def formats_for(provider: str | None, pins: Mapping[str, str]) -> dict[str, str]:
    """State formats that have to change, by the settings that pin them, where canonical state is
    written for ``provider``: joins of format 3 and 4 need RocksDB."""
    hdfs = backend_of({PIN_PROVIDER: provider or ""}) == "hdfs"
    return {PIN_JOIN_FORMAT: "2"} if hdfs and pins.get(PIN_JOIN_FORMAT) in ("3", "4") else {}


def pin_plans(
    pins: Mapping[str, str],
    settings: Mapping[str, str],
    partitions: int | None,
    *,
    canonical: bool = False,
) -> tuple[PinPlan, ...]:
    """The pinned settings that the session or the user wants otherwise.

    Parameters
    ----------
    settings: the session's values of the pinned settings; one that is not there is not compared.
    partitions: the number of state partitions the user has asked for (``-p``), if any: other than
        the session's, which may be Spark's default, it is not passed over.
    canonical: the savepoint's state is canonical: it has no backend yet.
    """
    found = []
    provider = asked_provider(pins, settings) if canonical else None
    formats = formats_for(provider, pins)
    for key, pinned in pins.items():
        if key == PIN_STATE_PARTITIONS:
            continue  # Spark writes it to the log as that of the shuffle partitions
        asked = settings.get(key)
        if key == PIN_SHUFFLE_PARTITIONS and partitions is not None:
            asked = str(partitions)
            if asked != pinned:
                advice = f"leave -p out, or give -p {pinned}"
                found.append(PinPlan(key, _NAMES[key], pinned, asked, "rescale", advice))
        elif key == PIN_PROVIDER and asked is not None and asked == provider:
            found.append(PinPlan(key, _NAMES[key], pinned, asked, "migrate"))
        elif key in formats:
            found.append(PinPlan(key, _NAMES[key], pinned, formats[key], "migrate"))
        elif asked is not None and asked.lower() != pinned.lower():
            advice = "ask for it with -p to have the state rescaled" * (
                key == PIN_SHUFFLE_PARTITIONS
            )
            found.append(PinPlan(key, _NAMES.get(key, key), pinned, asked, "pinned", advice))
    return tuple(found)


def _short(value: str) -> str:
    """A class by its simple name."""
    return value.rpartition(".")[2] if value.startswith("org.apache.") else value
