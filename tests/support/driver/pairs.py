"""The table of pairs: (old program, new program), the verdict, and what Spark makes of the state.

False no's (``false_no``), where Spark would have gone on with the right result; their reasons
stand in docs/upgrading-a-program.md ("State that evolves"):

* what only the data can tell: ``count(*)`` and ``count(v)`` where ``v`` is never null; a key that
  could be null, and was not;
* a join that has become an outer one, which Spark's guide rules out;
* what is the same to Spark only: a sum and a count, and an average; a list, and a set;
* a field of a state type under a new name, which says nothing of what it is computed from;
* checkpoints that flinkish did not write, where a new name may be a new column;
* another number of partitions, which Spark would not have given either;
* a kind of operator that Spark 3.5 takes for another.

A yes that is wrong (``limit``) there is for such checkpoints only: which ``sum`` is which is not
in them, and so cannot be compared.
"""

from __future__ import annotations

from tests.support.driver.pair_programs import aggregation, mapped, python_sums, renamed, two_sides
from tests.support.driver.pair_runner import FAILS, WRONG, Pair
from tests.support.driver.pair_verdicts import (
    ADDED,
    AS_IS,
    DEFINITION,
    KEY,
    NARROWED,
    REMOVED,
    REORDERED,
    REPLACED,
    STRICT_NULLS,
    TYPE,
    WIDENED,
    WIDER,
)
from tests.support.driver.pairs_other_operators import FUNCTIONS, JOINS, PROCESSORS, QUERIES
from tests.support.driver.pairs_windows import DEDUPS, LIMITS, WINDOWS

# --- aggregations ---------------------------------------------------------------------------

SUMS = aggregation("sum(v) as a", "sum(w) as b")
ONE = aggregation("sum(v) as a")
COUNTS = aggregation("count(*) as c")
FILTERED = aggregation("sum(v) filter (where j = 'x') as a", "sum(v) filter (where j <> 'x') as b")
TWO_KEYS = aggregation("sum(v) as a", by=("k", "j"))
BOTH = ("k", "j")
NOT_NULL = aggregation("sum(v) as a", upstream=mapped(k="coalesce(k, '')"))
EXPRESSIONS = ("lower(k)", "lower(j)")
AGGREGATIONS = (
    Pair("unchanged", SUMS, SUMS, *AS_IS),
    Pair("alias renamed", SUMS, aggregation("sum(v) as x", "sum(w) as y"), *AS_IS),
    Pair(
        "upstream filter",
        SUMS,
        aggregation("sum(v) as a", "sum(w) as b", upstream=lambda f: f.where("v <> 6")),
        *AS_IS,
        own_logic=True,
    ),
    Pair(
        "upstream logic",
        SUMS,
        aggregation("sum(v) as a", "sum(w) as b", upstream=mapped(v="v * 100")),
        *AS_IS,
        own_logic=True,
    ),
    Pair(
        "input renamed upstream",
        SUMS,
        aggregation("sum(v2) as a", "sum(w) as b", upstream=renamed(v="v2")),
        *AS_IS,
    ),
    Pair(
        "input renamed and exchanged",
        aggregation("avg(d) as b", "sum(w) as c"),
        aggregation("sum(w) as c", "avg(e) as b", upstream=renamed(d="e")),
        *REORDERED,
        FAILS,
    ),
    Pair(
        "inputs swapped upstream under their names",
        SUMS,
        aggregation("sum(v) as a", "sum(w) as b", upstream=mapped(v="w", w="v")),
        *AS_IS,
        own_logic=True,
    ),
    Pair("sums swapped", SUMS, aggregation("sum(w) as a", "sum(v) as b"), *REORDERED, WRONG),
    Pair(
        "output columns reordered",
        SUMS,
        aggregation("sum(v) as a", "sum(w) as b", select=("k", "b", "a")),
        *REORDERED,
        WRONG,
    ),
    Pair(
        "other aggregates reordered",
        aggregation("sum(v) as a", "max(d) as b"),
        aggregation("max(d) as b", "sum(v) as a"),
        *REORDERED,
        FAILS,
    ),
    Pair(
        "sum of another column",
        ONE,
        aggregation("sum(w) as a"),
        *REPLACED,
        WRONG,
        promised=aggregation("sum(if(old, null, w)) as a"),
    ),
    Pair(
        "sum of an expression",
        ONE,
        aggregation("sum(v + w) as a"),
        *REPLACED,
        WRONG,
        promised=aggregation("sum(if(old, null, v + w)) as a"),
    ),
    Pair(
        "sum to max",
        ONE,
        aggregation("max(v) as a"),
        *REPLACED,
        WRONG,
        promised=aggregation("max(if(old, null, v)) as a"),
    ),
    Pair(
        "count of a column with nulls",
        COUNTS,
        aggregation("count(w) as c"),
        *REPLACED,
        WRONG,
        promised=aggregation("count(if(old, null, w)) as c"),
    ),
    Pair(
        "count of a column without nulls",
        COUNTS,
        aggregation("count(v) as c"),
        *REPLACED,
        false_no="that a column has no nulls is not known before its rows are read",
        promised=aggregation("count(if(old, null, v)) as c"),
    ),
    Pair(
        "aggregate added",
        ONE,
        SUMS,
        *ADDED,
        FAILS,
        promised=aggregation("sum(v) as a", "sum(if(old, null, w)) as b"),
    ),
    Pair("aggregate removed", SUMS, ONE, *REMOVED, FAILS),
    Pair(
        "aggregate pruned by a select",
        SUMS,
        aggregation("sum(v) as a", "sum(w) as b", select=("k", "a")),
        *REMOVED,
        FAILS,
    ),
    Pair(
        "aggregates added, removed and exchanged",
        aggregation("sum(v) as a", "avg(d) as b", "count(w) as c", "max(n) as e"),
        aggregation("count(w) as c", "count(*) as z", "avg(d) as b", "min(m) as y", "sum(v) as a"),
        *ADDED,
        FAILS,
        promised=aggregation(
            "count(w) as c",
            "count(if(old, null, 1)) as z",
            "avg(d) as b",
            "min(if(old, null, m)) as y",
            "sum(v) as a",
        ),
    ),
    Pair(
        "aggregate used twice",
        SUMS,
        aggregation("sum(v) as a", "sum(w) as b", "sum(v) * 2 as c"),
        *AS_IS,
    ),
    Pair(
        "constant added behind",
        SUMS,
        aggregation("sum(v) as a", "sum(w) as b", select=("k", "a", "b", "1 as one")),
        *AS_IS,
    ),
    Pair(
        "average of another column",
        aggregation("avg(v) as a"),
        aggregation("avg(w) as a"),
        *REPLACED,
        WRONG,
        promised=aggregation("avg(if(old, null, w)) as a"),
    ),
    Pair(
        "sum and count to average",
        aggregation("sum(d) as a", "count(d) as b"),
        aggregation("avg(d) as a"),
        *REPLACED,
        spark3=FAILS,
        false_no="how Spark keeps an average is its own affair",
        promised=aggregation("avg(if(old, null, d)) as a"),
    ),
    Pair(
        "filters swapped",
        FILTERED,
        aggregation("sum(v) filter (where j <> 'x') as a", "sum(v) filter (where j = 'x') as b"),
        *REORDERED,
        WRONG,
    ),
    Pair("filters unchanged", FILTERED, FILTERED, *AS_IS),
    Pair(
        "filter added",
        ONE,
        aggregation("sum(v) filter (where j = 'x') as a"),
        *REPLACED,
        WRONG,
        promised=aggregation("sum(v) filter (where j = 'x' and not old) as a"),
    ),
    Pair(
        "sum of int to sum of long",
        aggregation("sum(n) as a"),
        aggregation("sum(n) as a", upstream=mapped(n="cast(n as bigint)")),
        *AS_IS,
    ),
    Pair(
        "sum of long to sum of double",
        ONE,
        aggregation("sum(v) as a", upstream=mapped(v="cast(v as double)")),
        *WIDER,
        FAILS,
    ),
    Pair(
        "max of int to max of long",
        aggregation("max(n) as a"),
        aggregation("max(n) as a", upstream=mapped(n="cast(n as bigint)")),
        *WIDER,
        FAILS,
    ),
    Pair(
        "min of long to min of int",
        aggregation("min(v) as a"),
        aggregation("min(v) as a", upstream=mapped(v="cast(v as int)")),
        *TYPE,
        FAILS,
    ),
    Pair(
        "decimal precision",
        aggregation("sum(m) as a"),
        aggregation("sum(m) as a", upstream=mapped(m="cast(m as decimal(14,2))")),
        *WIDER,
        FAILS,
    ),
    Pair(
        "list of another type",
        aggregation("collect_list(v) as a"),
        aggregation("collect_list(v) as a", upstream=mapped(v="cast(v as string)")),
        *DEFINITION,
        WRONG,
    ),
    Pair(
        "list of another column",
        aggregation("collect_list(v) as a"),
        aggregation("collect_list(id) as a"),
        *REPLACED,
        WRONG,
        promised=aggregation("collect_list(if(old, null, id)) as a"),
    ),
    Pair(
        "list to set",
        aggregation("collect_list(v) as a"),
        aggregation("collect_set(v) as a"),
        *REPLACED,
        false_no="how Spark keeps lists and sets is its own affair",
        promised=aggregation("collect_set(if(old, null, v)) as a"),
    ),
    Pair(
        "set to list",
        aggregation("collect_set(v) as a"),
        aggregation("collect_list(v) as a"),
        *REPLACED,
        WRONG,
        promised=aggregation("collect_list(if(old, null, v)) as a"),
    ),
    Pair(
        "set unchanged",
        aggregation("collect_set(v) as a"),
        aggregation("collect_set(v) as b"),
        *AS_IS,
    ),
    Pair(
        "last to first",
        aggregation("last(v) as a", batch=("max_by(v, id) as a",)),
        aggregation("first(v) as a", batch=("min_by(v, id) as a",)),
        *REPLACED,
        WRONG,
        promised=aggregation("min_by(v, id) filter (where not old) as a"),
    ),
    Pair(
        "first, nulls ignored",
        aggregation("first(w) as a", batch=("min_by(w, id) as a",)),
        aggregation(
            "first(w, true) as a", batch=("min_by(w, id) filter (where w is not null) as a",)
        ),
        *REPLACED,
        WRONG,
        promised=aggregation("min_by(w, id) filter (where w is not null and not old) as a"),
    ),
    Pair(
        "filter by another text",
        aggregation("sum(v) filter (where j = 'x') as a"),
        aggregation("sum(v) filter (where j = 'X') as a"),
        *REPLACED,
        WRONG,
        promised=aggregation("sum(v) filter (where j = 'X' and not old) as a"),
    ),
    Pair(
        "sums of two sides",
        two_sides("sum(x.v) as a", "sum(y.v) as b"),
        two_sides("sum(x.v) as a", "sum(y.v) as other"),
        *AS_IS,
    ),
    Pair(
        "sums of two sides swapped",
        two_sides("sum(x.v) as a", "sum(y.v) as b"),
        two_sides("sum(y.v) as b", "sum(x.v) as a"),
        *REORDERED,
        WRONG,
    ),
    Pair(
        "sums of Python functions",
        python_sums("tens", "halves"),
        python_sums("tens", "halves"),
        *AS_IS,
    ),
    Pair(
        "sums of Python functions swapped",
        python_sums("tens", "halves"),
        python_sums("halves", "tens"),
        *REORDERED,
        WRONG,
    ),
    Pair(
        "distinct of another column",
        aggregation("approx_count_distinct(v) as a"),
        aggregation("approx_count_distinct(j) as a"),
        *REPLACED,
        WRONG,
        promised=aggregation("approx_count_distinct(if(old, null, j)) as a"),
    ),
)

# --- keys -----------------------------------------------------------------------------------

KEYS = (
    Pair(
        "key renamed",
        ONE,
        aggregation("sum(v) as a", by=("user",), upstream=renamed(k="user")),
        *AS_IS,
    ),
    Pair("key renamed by alias", ONE, aggregation("sum(v) as a", by=("k as user",)), *AS_IS),
    Pair("another key", ONE, aggregation("sum(v) as a", by=("j",)), *KEY, WRONG),
    Pair("key added", ONE, TWO_KEYS, *KEY, FAILS, key=BOTH),
    Pair("key removed", TWO_KEYS, ONE, *KEY, FAILS),
    Pair(
        "keys reordered",
        TWO_KEYS,
        aggregation("sum(v) as a", by=("j", "k")),
        "migrate",
        "key-reordered",
        WRONG,
        key=BOTH,
    ),
    Pair(
        "keys reordered and widened",
        aggregation("sum(v) as a", by=("k", "n")),
        aggregation("sum(v) as a", by=("n", "k"), upstream=mapped(n="cast(n as bigint)")),
        "migrate",
        "key-reordered",
        FAILS,
        key=("n", "k"),
    ),
    Pair(
        "keys reordered behind",
        TWO_KEYS,
        aggregation("sum(v) as a", by=("k", "j"), select=("j", "k", "a")),
        *AS_IS,
        key=BOTH,
    ),
    Pair(
        "key of another type",
        aggregation("sum(v) as a", by=("n",)),
        aggregation("sum(v) as a", by=("n",), upstream=mapped(n="cast(n as bigint)")),
        *WIDER,
        FAILS,
    ),
    Pair(
        "key logic changed upstream",
        ONE,
        aggregation("sum(v) as a", upstream=mapped(k="if(k = 'd', 'a', k)")),
        *AS_IS,
        own_logic=True,
    ),
    Pair(
        "expressions as keys",
        aggregation("sum(v) as a", by=EXPRESSIONS),
        aggregation("sum(v) as b", by=EXPRESSIONS),
        *AS_IS,
        key=EXPRESSIONS,
    ),
    Pair(
        "another expression as key",
        aggregation("sum(v) as a", by=("lower(k)",)),
        aggregation("sum(v) as a", by=("lower(j)",)),
        *KEY,
        WRONG,
    ),
    Pair(
        "expressions as keys reordered",
        aggregation("sum(v) as a", by=EXPRESSIONS),
        aggregation("sum(v) as a", by=EXPRESSIONS[::-1]),
        "migrate",
        "key-reordered",
        WRONG,
        key=EXPRESSIONS,
    ),
    Pair("key may be null now", NOT_NULL, ONE, *WIDENED, conf=STRICT_NULLS),
    Pair("key may be null now, as Spark thought all along", NOT_NULL, ONE, *AS_IS, since="4.3"),
    Pair(
        "key can no longer be null",
        ONE,
        NOT_NULL,
        *NARROWED,
        conf=STRICT_NULLS,
        false_no="whether the state has nulls is not known before its rows are read",
    ),
)

SECTIONS: tuple[tuple[Pair, ...], ...] = (
    AGGREGATIONS,
    KEYS,
    WINDOWS,
    DEDUPS,
    LIMITS,
    JOINS,
    FUNCTIONS,
    PROCESSORS,
    QUERIES,
)
PAIRS: tuple[Pair, ...] = tuple(pair for section in SECTIONS for pair in section)

#: Every kind of verdict, and all that Spark makes of state: these run for real at every run of the
#: tests (few old programs, which they share), the others in the deep tier.
TELLING = frozenset(
    """
unchanged, sums swapped, plain sums swapped, aggregate added, another key, more partitions
""".replace("\n", " ")
    .strip()
    .split(", ")
)


def _one_of_each() -> frozenset[str]:
    """Of each section the first pair whose state is taken as it is; of every other verdict and
    reason the first pair of all. Those of ``TELLING`` come before others."""
    found: dict[tuple[int | None, str, str, bool], str] = {}
    for number, section in enumerate(SECTIONS):
        for pair in sorted(section, key=lambda pair: pair.name not in TELLING):
            of_section = number if pair.verdict == "as-is" else None
            found.setdefault((of_section, pair.verdict, pair.reason, pair.plain), pair.name)
    return frozenset(found.values()) - TELLING


#: Of these the verdict alone is checked at every run of the tests; the deep tier runs all pairs.
VERDICTS = _one_of_each()
