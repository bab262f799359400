"""Pairs of windows and sessions, of dropDuplicates and of limits."""

from __future__ import annotations

from tests.support.driver.pair_programs import (
    aggregation,
    chained,
    dedup,
    limit,
    mapped,
    renamed,
    windows,
)
from tests.support.driver.pair_runner import FAILS, RIGHT, WRONG, Pair
from tests.support.driver.pair_verdicts import (
    ADDED,
    AS_IS,
    DEFINITION,
    KEY,
    REORDERED,
    TYPE,
    WIDER,
)

# --- windows --------------------------------------------------------------------------------

TEN = windows("window(ts, '10 minutes') as t", "k")
SESSIONS = windows("session_window(ts, '5 minutes') as t", "k")
WINDOWS = (
    Pair("windows unchanged", TEN, TEN, *AS_IS, closing=True),
    Pair(
        "windows longer",
        TEN,
        windows("window(ts, '20 minutes') as t", "k"),
        *DEFINITION,
        WRONG,
        closing=True,
    ),
    Pair(
        "windows slide",
        TEN,
        windows("window(ts, '10 minutes', '5 minutes') as t", "k"),
        *DEFINITION,
        WRONG,
        closing=True,
    ),
    Pair(
        "another slide",
        windows("window(ts, '10 minutes', '5 minutes') as t", "k"),
        windows("window(ts, '10 minutes', '2 minutes') as t", "k"),
        *DEFINITION,
        WRONG,
        closing=True,
    ),
    Pair(
        "another offset",
        TEN,
        windows("window(ts, '10 minutes', '10 minutes', '3 minutes') as t", "k"),
        *DEFINITION,
        WRONG,
        closing=True,
    ),
    Pair(
        "windows renamed",
        TEN,
        windows("window(ts, '10 minutes') as cut", "k"),
        *AS_IS,
        closing=True,
    ),
    Pair(
        "window aggregate added",
        TEN,
        aggregation(
            "count(*) as c", "sum(v) as s", by=("window(ts, '10 minutes') as t", "k"), mode="append"
        ),
        *ADDED,
        FAILS,
        closing=True,
        promised=aggregation(
            "count(if(old, null, 1)) as c",
            "sum(v) as s",
            by=("window(ts, '10 minutes') as t", "k"),
            mode="append",
        ),
    ),
    Pair(
        "window key widened",
        windows("window(ts, '10 minutes') as t", "n"),
        windows("window(ts, '10 minutes') as t", "n", upstream=mapped(n="cast(n as bigint)")),
        *WIDER,
        FAILS,
        closing=True,
    ),
    Pair(
        "window key added", windows("window(ts, '10 minutes') as t"), TEN, *KEY, FAILS, closing=True
    ),
    Pair(
        "windows by another key",
        TEN,
        windows("window(ts, '10 minutes') as t", "j"),
        *KEY,
        WRONG,
        closing=True,
    ),
    Pair(
        "another watermark delay",
        TEN,
        windows("window(ts, '10 minutes') as t", "k", delay="3 hours"),
        *AS_IS,
        closing=True,
    ),
    Pair(
        "windows of windows unchanged",
        chained("5 minutes", "20 minutes"),
        chained("5 minutes", "20 minutes"),
        *AS_IS,
        closing=True,
    ),
    Pair(
        "inner windows longer",
        chained("5 minutes", "10 minutes"),
        chained("20 minutes", "10 minutes"),
        *DEFINITION,
        WRONG,
        closing=True,
        operator="inner",
    ),
    Pair("sessions unchanged", SESSIONS, SESSIONS, *AS_IS, closing=True),
    Pair(
        "another session gap",
        SESSIONS,
        windows("session_window(ts, '15 minutes') as t", "k"),
        *DEFINITION,
        WRONG,
        closing=True,
    ),
    Pair(
        "sessions by another key",
        SESSIONS,
        windows("session_window(ts, '5 minutes') as t", "j"),
        *KEY,
        WRONG,
        closing=True,
    ),
    Pair(
        "session aggregate added",
        SESSIONS,
        aggregation(
            "sum(v) as s",
            "max(n) as c",
            by=("session_window(ts, '5 minutes') as t", "k"),
            mode="append",
        ),
        *ADDED,
        FAILS,
        closing=True,
        promised=aggregation(
            "sum(v) as s",
            "max(if(old, null, n)) as c",
            by=("session_window(ts, '5 minutes') as t", "k"),
            mode="append",
        ),
    ),
    Pair(
        "session key widened",
        windows("session_window(ts, '5 minutes') as t", "n"),
        windows(
            "session_window(ts, '5 minutes') as t", "n", upstream=mapped(n="cast(n as bigint)")
        ),
        *WIDER,
        FAILS,
        closing=True,
    ),
    Pair(
        "session keys reordered",
        windows("session_window(ts, '5 minutes') as t", "k", "j"),
        windows("session_window(ts, '5 minutes') as t", "j", "k"),
        "migrate",
        "key-reordered",
        WRONG,
        closing=True,
    ),
    Pair(
        "session aggregates reordered and widened",
        aggregation(
            "max(n) as c",
            "sum(v) as s",
            by=("session_window(ts, '5 minutes') as t", "k"),
            mode="append",
        ),
        aggregation(
            "sum(v) as s",
            "max(n) as c",
            by=("session_window(ts, '5 minutes') as t", "k"),
            mode="append",
            upstream=mapped(n="cast(n as bigint)"),
        ),
        *REORDERED,
        FAILS,
        closing=True,
    ),
)

# --- dropDuplicates, limit --------------------------------------------------------------------

DEDUP = dedup("k", "v")
DEDUP_OF_NUMBERS = dedup("k", "n")
WITHIN = dedup("k", "v", within=True)
EMPTY_VALUES = (
    "under the other operator's name Spark does not look at the values, and leaves times in them"
)
DEDUPS = (
    Pair("dedup unchanged", DEDUP, DEDUP, *AS_IS),
    Pair("dedup column added", DEDUP, dedup("k", "v", "j"), *KEY, FAILS),
    Pair("dedup column removed", DEDUP, dedup("k"), *KEY, FAILS),
    Pair("dedup column replaced", DEDUP, dedup("j", "v"), *KEY, WRONG),
    Pair(
        "dedup input columns reordered",
        dedup("k", "j", upstream=lambda f: f.select("k", "j", "ts")),
        dedup("k", "j", upstream=lambda f: f.select("j", "k", "ts")),
        *AS_IS,
    ),
    Pair(
        "dedup columns reordered",
        dedup("k", "j"),
        dedup("j", "k"),
        "migrate",
        "key-reordered",
        WRONG,
    ),
    Pair("dedup column renamed", DEDUP, dedup("user", "v", upstream=renamed(k="user")), *AS_IS),
    Pair(
        "dedup column retyped",
        DEDUP,
        dedup("k", "v", upstream=mapped(v="cast(v as int)")),
        *TYPE,
        FAILS,
    ),
    Pair(
        "dedup column widened",
        DEDUP_OF_NUMBERS,
        dedup("k", "n", upstream=mapped(n="cast(n as bigint)")),
        *WIDER,
        FAILS,
    ),
    Pair(
        "within column widened",
        dedup("k", "n", within=True),
        dedup("n", "k", within=True, upstream=mapped(n="cast(n as bigint)")),
        "migrate",
        "key-reordered",
        FAILS,
    ),
    Pair("dedup other columns", DEDUP, dedup("k", "v", upstream=mapped(w="w + 1")), *AS_IS),
    Pair("within unchanged", WITHIN, WITHIN, *AS_IS),
    Pair("within another delay", WITHIN, dedup("k", "v", within=True, delay="3 hours"), *AS_IS),
    Pair(
        "dedup to within",
        DEDUP,
        WITHIN,
        "migrate",
        "deduplication-changed",
        FAILS,
        promised=DEDUP,
    ),
    Pair(
        "within to dedup",
        WITHIN,
        DEDUP,
        "migrate",
        "deduplication-changed",
        RIGHT,
        false_no=EMPTY_VALUES,
        promised=DEDUP,
    ),
    Pair(
        "dedup to within, the key reordered and widened",
        DEDUP_OF_NUMBERS,
        dedup("n", "k", within=True, upstream=mapped(n="cast(n as bigint)")),
        "migrate",
        "key-reordered",
        FAILS,
        promised=dedup("n", "k"),
    ),
    Pair(
        "within to dedup by time",
        dedup("k", "ts", within=True),
        dedup("k", "ts"),
        "migrate",
        "deduplication-changed",
        RIGHT,
        false_no=EMPTY_VALUES,
    ),
    Pair(
        "dedup to aggregation",
        DEDUP,
        aggregation("sum(w) as s", by=("k", "v")),
        "incompatible",
        "other-kind",
        FAILS,
        key=("k", "v"),
    ),
)
LIMITS = (
    Pair("limit unchanged", limit(8), limit(8), *AS_IS),
    Pair("limit raised", limit(8), limit(10), *AS_IS),
)
