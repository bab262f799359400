"""Settings for which the savepoint pins another value than the new session requests. Pure.

Spark writes them into the offset log at a query's first start. At every restart they silently
override the session's values (``OffsetSeqMetadata.setSessionConf``).
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
#: Readable names of the settings that users set.
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
    """One pinned setting that differs from the requested value.

    Attributes
    ----------
    verdict
        ``rescale`` where the state would have to be rewritten for the requested value, ``migrate``
        where it is written for the requested value anyway (the backend of canonical state), and
        ``pinned`` where the savepoint's value stays in force.
    """

    key: str
    name: str
    pinned: str
    asked: str
    verdict: str
    advice: str = ""

    @property
    def text(self) -> str:
        """A description such as ``shuffle partitions: pinned 200, requested 64: rescale``."""
        outcome = "stays as pinned" if self.verdict == "pinned" else self.verdict
        return (
            f"{self.name}: pinned {_short(self.pinned)}, requested {_short(self.asked)}: {outcome}"
        )


def asked_provider(pins: Mapping[str, str], settings: Mapping[str, str]) -> str | None:
    """Return the provider to write canonical state for, if the savepoint pins another one.

    It is the session's state store provider, as for a new query. A provider that is not Spark's own
    is ignored.
    """
    asked = settings.get(PIN_PROVIDER)
    if asked is None or _short(asked) == _short(pins.get(PIN_PROVIDER, "")):
        return None
    return asked if _short(asked) in PROVIDERS.values() else None


def formats_for(provider: str | None, pins: Mapping[str, str]) -> dict[str, str]:
    """Return the state formats to change, by setting, to write canonical state for ``provider``.

    Joins of formats 3 and 4 need RocksDB.
    """
    hdfs = backend_of({PIN_PROVIDER: provider or ""}) == "hdfs"
    return {PIN_JOIN_FORMAT: "2"} if hdfs and pins.get(PIN_JOIN_FORMAT) in ("3", "4") else {}


def pin_plans(
    pins: Mapping[str, str],
    settings: Mapping[str, str],
    partitions: int | None,
    *,
    canonical: bool = False,
) -> tuple[PinPlan, ...]:
    """Return the pinned settings for which the session or the user requests another value.

    Parameters
    ----------
    settings
        The session's values of the pinned settings; a missing setting is not compared.
    partitions
        The number of state partitions that the user requests (``-p``), if any. Unlike the session's
        number, which may be Spark's default, it is never ignored.
    canonical
        Whether the savepoint's state is canonical: it has no backend yet.
    """
    plans = []
    provider = asked_provider(pins, settings) if canonical else None
    formats = formats_for(provider, pins)
    for key, pinned in pins.items():
        if key == PIN_STATE_PARTITIONS:
            continue  # Spark writes the number of shuffle partitions to it
        asked = settings.get(key)
        if key == PIN_SHUFFLE_PARTITIONS and partitions is not None:
            asked = str(partitions)
            if asked != pinned:
                advice = f"omit -p, or use -p {pinned}"
                plans.append(PinPlan(key, _NAMES[key], pinned, asked, "rescale", advice))
        elif key == PIN_PROVIDER and asked is not None and asked == provider:
            plans.append(PinPlan(key, _NAMES[key], pinned, asked, "migrate"))
        elif key in formats:
            plans.append(PinPlan(key, _NAMES[key], pinned, formats[key], "migrate"))
        elif asked is not None and asked.lower() != pinned.lower():
            advice = "request it with -p to have the state rescaled" * (
                key == PIN_SHUFFLE_PARTITIONS
            )
            plans.append(PinPlan(key, _NAMES.get(key, key), pinned, asked, "pinned", advice))
    return tuple(plans)


def _short(value: str) -> str:
    """Return the simple name of a class of Spark; other values stay as they are."""
    return value.rpartition(".")[2] if value.startswith("org.apache.") else value
