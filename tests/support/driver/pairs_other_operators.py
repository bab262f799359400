"""Pairs of dropDuplicates, limits, joins, functions, and of queries as a whole."""

from __future__ import annotations

from typing import Any

from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.restore.plan.query_restore import PlanningSettings
from tests.support.driver.pair_programs import (
    aggregation,
    function,
    join,
    mapped,
    processor,
    renamed,
)
from tests.support.driver.pair_runner import FAILS, ROCKSDB, WRONG, Pair
from tests.support.driver.pair_verdicts import (
    ADDED,
    AS_IS,
    KEY,
    NARROWED,
    REMOVED,
    REORDERED,
    REPLACED,
    STRICT_NULLS,
    TYPE,
    UNKNOWN,
    WIDENED,
    WIDER,
)

ONE = aggregation("sum(v) as a")
SUMS = aggregation("sum(v) as a", "sum(w) as b")

# --- joins ------------------------------------------------------------------------------------

JOIN = join("k, v")
WITH_NULLS = join("k, w")
WITHOUT_NULLS = join("k, w", upstream=mapped(w="coalesce(w, 0)"))
TIMED = ("k, v, ts", "k as bk, v as x, ts as bts")
SEMI = ("k, v, ts", "k as bk, ts as bts")
JOIN_TYPE = ("incompatible", "join-type-changed")
NEAR = "k = bk and bts between ts - interval 1 hour and ts + interval 1 hour"
NEAR_LATE = NEAR.replace("bts", "blate").replace("ts", "late")
WINDOW = "window(ts, '1 hour')"
#: Format 4 keeps the rows by their event time; it needs RocksDB, as format 3 does.
BY_TIME = {**ROCKSDB, PIN_JOIN_FORMAT: "4"}
BY_TIME_SINCE = "4.3"
#: A second time, hours after the first, and a watermark on it in place of that.
LATE = mapped(
    ts="coalesce(ts, timestamp '2024-01-01')",  # never null, with and without a watermark
    late="coalesce(ts, timestamp '2024-01-01') + interval 10 hours",
)
LATER_TIME = ("k, v, ts, late", "k as bk, v as x, ts as bts, late as blate")


def on_the_late_time(frame: Any) -> Any:
    return LATE(frame).withWatermark("late", "2 hours")


def outer(
    name: str,
    verdict: tuple[str, str],
    lefts: tuple[str, str, str],
    right: str,
    on: str,
    **facts: Any,
) -> Pair:
    """A left outer join; ``lefts`` are the columns of its left input: the old ones, the new ones,
    and the new ones as promised where they are not the same."""
    old, new, promised = lefts
    return Pair(
        name,
        join(old, right, on, "left_outer", **facts),
        join(new, right, on, "left_outer", **facts),
        *verdict,
        FAILS,
        closing=True,
        promised=join(promised, right, on, "left_outer") if promised else None,
        put_out=join(promised or new, right, on),
    )


JOINS = (
    Pair("join unchanged", JOIN, JOIN, *AS_IS),
    Pair(
        "left column added",
        JOIN,
        join("k, v, w"),
        *ADDED,
        FAILS,
        promised=join("k, v, if(old, null, w) as w"),
    ),
    Pair("left column removed", join("k, v, w"), JOIN, *REMOVED, FAILS),
    Pair(
        "right column added",
        JOIN,
        join("k, v", "k as bk, v as x, w as y"),
        *ADDED,
        FAILS,
        promised=join("k, v", "k as bk, v as x, if(old, null, w) as y"),
    ),
    Pair("left column renamed", JOIN, join("k, v as amount"), *AS_IS),
    Pair(
        "left column can no longer be null",
        WITH_NULLS,
        WITHOUT_NULLS,
        *NARROWED,
        WRONG,
        own_logic=True,
        conf=STRICT_NULLS,
    ),
    Pair(
        "left column can no longer be null, though Spark thinks it can",
        WITH_NULLS,
        WITHOUT_NULLS,
        *NARROWED,
        WRONG,
        own_logic=True,
        since="4.3",
    ),
    Pair(
        "left column may be null now",
        WITHOUT_NULLS,
        WITH_NULLS,
        *WIDENED,
        own_logic=True,
        conf=STRICT_NULLS,
    ),
    Pair(
        "left column computed anew",
        JOIN,
        join("k, v", upstream=mapped(v="v * 10")),
        *AS_IS,
        own_logic=True,
    ),
    Pair(
        "left column of another name",
        JOIN,
        join("k, w"),
        *REPLACED,
        WRONG,
        promised=join("k, if(old, null, w) as w"),
    ),
    Pair(
        "left column widened",
        join("k, n"),
        join("k, n", upstream=mapped(n="cast(n as bigint)")),
        *WIDER,
        FAILS,
    ),
    Pair(
        "join columns added, removed and exchanged",
        join("k, v, n, d"),
        join("m, k, d, v", "k as bk, id as y, v as x"),
        *ADDED,
        FAILS,
        promised=join("if(old, null, m) as m, k, d, v", "k as bk, if(old, null, id) as y, v as x"),
    ),
    Pair(
        "field added in a column",
        join("k, named_struct('v', v) as s"),
        join("k, named_struct('w', w, 'v', v) as s"),
        *ADDED,
        FAILS,
        promised=join("k, named_struct('w', case when not old then w end, 'v', v) as s"),
    ),
    Pair(
        "join key widened",
        join("n, v", "n as bn, v as x", on="n = bn"),
        join("n, v", "n as bn, v as x", on="n = bn", upstream=mapped(n="cast(n as bigint)")),
        *WIDER,
        FAILS,
    ),
    Pair("left columns reordered", join("k, v, id"), join("k, id, v"), *REORDERED, WRONG),
    Pair(
        "right columns reordered",
        join("k, v", "k as bk, v as x, id as y"),
        join("k, v", "k as bk, id as y, v as x"),
        *REORDERED,
        WRONG,
    ),
    Pair("right column retyped", JOIN, join("k, v", "k as bk, cast(v as int) as x"), *TYPE, FAILS),
    Pair(
        "left column only read behind",
        join("k, v, w", select=("k", "v", "x")),
        join("k, v, w", select=("k", "v", "w", "x")),
        *ADDED,
        FAILS,
        promised=join("k, v, if(old, null, w) as w", select=("k", "v", "w", "x")),
    ),
    Pair("left column not read", JOIN, join("k, v, w", select=("k", "v", "bk", "x")), *AS_IS),
    Pair("join key of the same type", join("k, j, v"), join("k, j, v", on="j = bk"), *KEY, WRONG),
    Pair(
        "right join key",
        join("k, v", "k as bk, j as bj"),
        join("k, v", "k as bk, j as bj", on="k = bj"),
        *KEY,
        WRONG,
    ),
    Pair(
        "join keys reordered",
        join("k, j, v", "k as bk, j as bj", on="k = bk and j = bj"),
        join("k, j, v", "k as bk, j as bj", on="j = bj and k = bk"),
        "migrate",
        "key-reordered",
        WRONG,
    ),
    Pair("join condition tightened", JOIN, join("k, v", on="k = bk and v < x / 100"), *AS_IS),
    Pair(
        "inner to left outer",
        join(*TIMED, on=NEAR),
        join(*TIMED, on=NEAR, how="left_outer"),
        *JOIN_TYPE,
        closing=True,
        false_no="Spark's guide rules it out, and a row without a match may be gone already",
    ),
    outer(
        "outer join by time gained a column",
        ADDED,
        ("k, v, ts", "k, v, ts, w", "k, v, ts, if(old, null, w) as w"),
        TIMED[1],
        NEAR,
    ),
    outer(
        "outer join by time reordered",
        ADDED,
        ("k, v, ts", "ts, w, v, k", "ts, if(old, null, w) as w, v, k"),
        TIMED[1],
        NEAR,
    ),
    outer(
        "outer join at one time gained a column",
        ADDED,
        ("k, v, ts", "k, v, ts, w", "k, v, ts, if(old, null, w) as w"),
        TIMED[1],
        "k = bk and ts = bts",
        upstream=mapped(ts="date_trunc('hour', ts)"),
    ),
    outer(
        "outer join of windows lost a column",
        REMOVED,
        (f"k, v, w, {WINDOW} as at", f"k, v, {WINDOW} as at", ""),
        f"k as bk, v as x, {WINDOW} as bat",
        "k = bk and at = bat",
    ),
    Pair(
        "another event time",
        join(*LATER_TIME, on=NEAR, upstream=LATE),
        join(*LATER_TIME, on=NEAR_LATE, upstream=on_the_late_time, delay=None),
        *AS_IS,
    ),
    Pair(
        "another event time, of a join by time",
        join(*LATER_TIME, on=NEAR, upstream=LATE),
        join(*LATER_TIME, on=NEAR_LATE, upstream=on_the_late_time, delay=None),
        "incompatible",
        "event-time-changed",
        WRONG,
        conf=BY_TIME,
        since=BY_TIME_SINCE,
    ),
    Pair(
        "no event time any more, of a join by time",
        join(*LATER_TIME, on=NEAR, upstream=LATE),
        join(*LATER_TIME, on=NEAR, upstream=LATE, delay=None),
        *AS_IS,
        conf=BY_TIME,
        since=BY_TIME_SINCE,
    ),
    Pair(
        "left semi to inner",
        join(*SEMI, on=NEAR, how="left_semi", select=("k", "v")),
        join(*SEMI, on=NEAR, select=("k", "v")),
        *JOIN_TYPE,
        WRONG,
        closing=True,
    ),
)

# --- stateful functions -----------------------------------------------------------------------

FUNCTION = function()
VALUE = processor("Value total long")
FUNCTIONS = (
    Pair("function unchanged", FUNCTION, FUNCTION, *AS_IS),
    Pair("function changed", FUNCTION, function(output="k string, total long"), *AS_IS),
    Pair("function by another key", FUNCTION, function(by="j"), *KEY, WRONG),
    Pair(
        "state field added",
        function("total long", "k string, total long"),
        function("total long, seen long", "k string, total long"),
        *ADDED,
        FAILS,
    ),
    Pair(
        "state field renamed",
        FUNCTION,
        function("number long, total long"),
        *UNKNOWN,
        false_no="that a field of another name means the same is not known",
    ),
    Pair("state field retyped", FUNCTION, function("seen long, total double"), *WIDER, FAILS),
    Pair("state fields reordered", FUNCTION, function("total long, seen long"), *REORDERED, WRONG),
    Pair(
        "time-out added",
        FUNCTION,
        function(timeout="ProcessingTimeTimeout"),
        *ADDED,
        FAILS,
        since="4.3",  # before, the column of the time-out could not be null: incompatible
    ),
)
TRANSFORM: dict[str, Any] = {"conf": ROCKSDB, "since": "4.0"}
PROCESSORS = (
    Pair("processor unchanged", VALUE, VALUE, *AS_IS, **TRANSFORM),
    Pair(
        "variable added",
        VALUE,
        processor("Value total long", "List seen long"),
        *AS_IS,
        **TRANSFORM,
    ),
    Pair(
        "variable removed",
        processor("Value total long", "List seen long"),
        VALUE,
        *AS_IS,
        **TRANSFORM,
    ),
    Pair("variable retyped", VALUE, processor("Value total double"), *WIDER, FAILS, **TRANSFORM),
    Pair(
        "value to list",
        VALUE,
        processor("List total long"),
        "incompatible",
        "type-changed",
        FAILS,
        **TRANSFORM,
    ),
    Pair(
        "processor by another key",
        VALUE,
        processor("Value total long", by="j"),
        *KEY,
        WRONG,
        **TRANSFORM,
    ),
    Pair(
        "time to live added",
        processor("Value total long", time="ProcessingTime"),
        processor("Value total long 3600000", time="ProcessingTime"),
        "incompatible",
        "time-to-live-changed",
        FAILS,
        **TRANSFORM,
    ),
    Pair(
        "time mode changed",
        VALUE,
        processor("Value total long", time="ProcessingTime"),
        "incompatible",
        "time-mode-changed",
        FAILS,
        **TRANSFORM,
    ),
    Pair(
        "output mode of a processor",
        VALUE,
        processor("Value total long", mode="append"),
        "incompatible",
        "output-mode-changed",
        FAILS,
        **TRANSFORM,
    ),
    Pair(
        "rows processor unchanged",
        processor("Value total long", rows=True),
        processor("Value total long", rows=True),
        *AS_IS,
        conf=ROCKSDB,
        since="4.1",
    ),
)

# --- queries ----------------------------------------------------------------------------------

NO_WATERMARK = aggregation("sum(v) as a", delay=None)
QUERIES = (
    Pair(
        "update to complete",
        NO_WATERMARK,
        aggregation("sum(v) as a", delay=None, mode="complete"),
        *AS_IS,
    ),
    Pair(
        "update to complete behind a watermark",
        aggregation("sum(v) as a", by=("window(ts, '2 minutes') as t",), delay="1 minute"),
        aggregation(
            "sum(v) as a", by=("window(ts, '2 minutes') as t",), delay="1 minute", mode="complete"
        ),
        *AS_IS,
        WRONG,
        refused=True,
    ),
    Pair(
        "complete to update",
        aggregation("sum(v) as a", delay=None, mode="complete"),
        NO_WATERMARK,
        *AS_IS,
    ),
    Pair(
        "more partitions",
        ONE,
        ONE,
        "rescale",
        "partitions-changed",
        conf={"spark.sql.shuffle.partitions": "2"},
        settings=PlanningSettings(3),
        false_no="Spark would go on with as many partitions as before, which was not asked for",
    ),
    Pair(
        "more partitions than one",
        NO_WATERMARK,
        NO_WATERMARK,
        "rescale",
        "partitions-changed",
        settings=PlanningSettings(3),
        false_no="Spark would go on with as many partitions as before, which was not asked for",
    ),
    Pair(
        "as many partitions",
        ONE,
        ONE,
        *AS_IS,
        conf={"spark.sql.shuffle.partitions": "2"},
        settings=PlanningSettings(2),
    ),
    Pair("plain unchanged", SUMS, SUMS, *AS_IS, plain=True),
    Pair("plain sum to max", ONE, aggregation("max(v) as a"), *UNKNOWN, WRONG, plain=True),
    Pair("plain another key", ONE, aggregation("sum(v) as a", by=("j",)), *KEY, WRONG, plain=True),
    Pair("plain aggregate added", ONE, SUMS, *ADDED, FAILS, plain=True),
    Pair(
        "plain key renamed",
        ONE,
        aggregation("sum(v) as a", by=("user",), upstream=renamed(k="user")),
        *KEY,
        plain=True,
        false_no="what a column is computed from is not in a checkpoint of Spark's own",
    ),
    Pair(
        "plain sums swapped",
        SUMS,
        aggregation("sum(w) as a", "sum(v) as b"),
        *AS_IS,
        WRONG,
        plain=True,
        limit="which sum is which is not in a checkpoint of Spark's own",
    ),
)
