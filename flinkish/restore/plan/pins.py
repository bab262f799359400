"""Settings for which the savepoint pins another value than the new session, or ``-p``. Pure.

Spark writes them into the offset log at a query's first start. At every restart they silently
override the session's values (``OffsetSeqMetadata.setSessionConf``).
"""

from __future__ import annotations

from collections.abc import Mapping
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
from flinkish.messages.plan import PinRow

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


def asked_provider(pins: Mapping[str, str], settings: Mapping[str, str]) -> str | None:
    """Return the provider to write canonical state for, if the savepoint pins another one.

    It is the session's state store provider, as for a new query, unless that is not Spark's own.
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


def pin_rows(
    query: str,
    pins: Mapping[str, str],
    settings: Mapping[str, str],
    partitions: int | None,
    *,
    canonical: bool = False,
    rescales: bool = True,
) -> tuple[PinRow, ...]:
    """Return the pinned settings for which the session or the user requests another value.

    ``settings`` are the session's values of the pinned settings; a missing setting is not compared.
    ``partitions`` is the number that the user requests (``-p``), if any; it takes precedence over
    the session's, which may be Spark's default. ``canonical`` state has no backend yet.
    ``rescales`` says whether there is state to rescale; without such state the pinned number stays.
    """
    rows = []
    provider = asked_provider(pins, settings) if canonical else None
    formats = formats_for(provider, pins)
    for key, pinned in pins.items():
        if key == PIN_STATE_PARTITIONS:
            continue  # Spark writes the number of shuffle partitions to it
        asked = settings.get(key)
        if key == PIN_SHUFFLE_PARTITIONS and partitions is not None:
            asked = str(partitions)
            verdict = "rescale" if rescales else "pinned"
            if asked != pinned:
                advice = (
                    f"omit -p, or use -p {pinned}" if rescales else "it has no state to rescale"
                )
                rows.append(_row(query, key, pinned, asked, verdict, advice))
        elif key == PIN_PROVIDER and asked is not None and asked == provider:
            rows.append(_row(query, key, pinned, asked, "migrate"))
        elif key in formats:
            rows.append(_row(query, key, pinned, formats[key], "migrate"))
        elif asked is not None and asked.lower() != pinned.lower():
            advice = "request it with -p to have the state rescaled" * (
                key == PIN_SHUFFLE_PARTITIONS
            )
            rows.append(_row(query, key, pinned, asked, "pinned", advice))
    return tuple(rows)


def _row(query: str, key: str, pinned: str, asked: str, verdict: str, advice: str = "") -> PinRow:
    name = _NAMES.get(key, key)
    outcome = "stays as pinned" if verdict == "pinned" else verdict
    text = f"{name}: pinned {_short(pinned)}, requested {_short(asked)}: {outcome}"
    return PinRow(query, key, name, pinned, asked, verdict, text, advice)


def _short(value: str) -> str:
    """Return the simple name of a class of Spark; other values stay as they are."""
    return value.rpartition(".")[2] if value.startswith("org.apache.") else value
