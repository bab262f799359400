"""Short ways to write the programs of the pairs, one for each kind of operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from flinkish import uid
from tests.support.driver.pair_runner import OPERATOR, Program, Streams

#: Commas that are not in brackets.
_OUTSIDE = re.compile(r", (?![^()]*\))")


def named(frame: Any) -> Any:
    """The operator that the pair is about."""
    return frame.transform(uid(OPERATOR)) if frame.isStreaming else frame


def aggregation(
    *aggregates: str,
    by: Sequence[str] = ("k",),
    select: Sequence[str] = (),
    batch: Sequence[str] = (),
    **facts: Any,
) -> Program:
    """``groupBy(by).agg(aggregates)`` in SQL, with a ``select`` behind it.

    Parameters
    ----------
    batch: the aggregates by which batch Spark gets the same result, where order matters.
    """
    from pyspark.sql import functions as F

    def made(aggregates: Sequence[str]) -> Callable[[Streams], Any]:
        def build(streams: Streams) -> Any:
            grouped = streams["a"].groupBy(*map(F.expr, by)).agg(*map(F.expr, aggregates))
            return named(grouped).selectExpr(*select) if select else named(grouped)

        return build

    return Program(made(aggregates), made(batch) if batch else None, **facts)


def two_sides(*aggregates: str) -> Program:
    """Aggregates of a stream ``x`` and of a table ``y`` joined to it, with the same columns."""
    from pyspark.sql import functions as F

    def build(streams: Streams) -> Any:
        frame = streams["a"]
        rows = [("a", 1000), ("b", 2000), ("c", 3000), ("d", 4000)]
        table = frame.sparkSession.createDataFrame(rows, "k string, v long").alias("y")
        joined = frame.alias("x").join(table, F.expr("x.k = y.k"))
        return named(joined.groupBy("x.k").agg(*map(F.expr, aggregates)))

    return Program(build)


def python_sums(*functions: str) -> Program:
    """Sums of Python functions: ``tens`` and ``halves``."""
    from pyspark.sql import functions as F

    # Without annotations, which Spark would take for another kind of function.
    def tens(value):  # type: ignore[no-untyped-def]
        return value * 10

    def halves(value):  # type: ignore[no-untyped-def]
        return value // 2

    def build(streams: Streams) -> Any:
        made = {each.__name__: F.udf(each, "long") for each in (tens, halves)}
        sums = [F.sum(made[name]("v")).alias(name) for name in functions]
        return named(streams["a"].groupBy("k").agg(*sums))

    return Program(build)


def windows(*by: str, delay: str = "2 hours", upstream: Any = None) -> Program:
    """A sum in windows, in append mode; ``by`` are the keys in SQL."""
    facts: dict[str, Any] = {"mode": "append", "delay": delay, "upstream": upstream}
    return aggregation("sum(v) as s", by=by, **facts)


def chained(inner: str, outer: str) -> Program:
    """Windows of windows."""
    from pyspark.sql import functions as F

    def build(streams: Streams) -> Any:
        first = streams["a"].groupBy(F.window("ts", inner)).agg(F.sum("v").alias("s"))
        if first.isStreaming:
            first = first.transform(uid("inner"))
        second = first.groupBy(F.window(F.window_time("window"), outer)).agg(F.sum("s").alias("s"))
        return named(second)

    return Program(build, mode="append")


def dedup(*columns: str, within: bool = False, **facts: Any) -> Program:
    """``dropDuplicates``; its key is all that is put out."""

    def build(streams: Streams) -> Any:
        frame = streams["a"]
        if within and frame.isStreaming:
            return named(frame.dropDuplicatesWithinWatermark([*columns])).select(*columns)
        return named(frame.dropDuplicates([*columns])).select(*columns)

    return Program(build, mode="append", **facts)


def join(
    left: str,
    right: str = "k as bk, v as x",
    on: str = "k = bk",
    how: str = "inner",
    select: Sequence[str] = ("*",),
    **facts: Any,
) -> Program:
    """A join of the two streams; ``left`` and ``right`` are the columns of its inputs in SQL."""
    from pyspark.sql import functions as F

    def build(streams: Streams) -> Any:
        a = streams["a"].selectExpr(*_OUTSIDE.split(left))
        b = streams["b"].selectExpr(*_OUTSIDE.split(right))
        return named(a.join(b, F.expr(on), how)).selectExpr(*select)

    return Program(build, mode="append", **facts)


def limit(rows: int) -> Program:
    """``limit``."""
    return Program(
        lambda streams: named(streams["a"].select("id", "k").limit(rows)),
        lambda streams: streams["a"].select("id", "k").orderBy("id").limit(rows),
        mode="append",
    )


def _names(schema: str) -> list[str]:
    return [each.split()[0] for each in schema.split(", ")]


#: What the columns of a state or result are, in batch Spark's words.
_MEASURES = {"k": "k", "seen": "count(*)", "number": "count(*)", "total": "sum(v)"}


def _measured(output: str, by: str) -> Callable[[Streams], Any]:
    """The result of a stateful function by batch Spark; its column ``k`` is the key."""
    from pyspark.sql import functions as F

    names = _names(output)

    def build(streams: Streams) -> Any:
        measures = [F.expr(f"{_MEASURES[name]} as {name}") for name in names if name != "k"]
        return streams["a"].groupBy(F.col(by).alias("k")).agg(*measures).select(*names)

    return build


def function(
    state: str = "seen long, total long",
    output: str = "k string, seen long, total long",
    timeout: str = "NoTimeout",
    by: str = "k",
) -> Program:
    """``applyInPandasWithState``: counts and sums."""
    fields, columns = _names(state), _names(output)

    def step(key: Any, frames: Any, held: Any) -> Any:
        import pandas as pd

        known = dict(zip(fields, held.getOption or [0] * len(fields), strict=True))
        counts, sums = {"seen", "number"}, {"total"}
        for frame in frames:
            for name in fields:
                known[name] += len(frame) * (name in counts)
                known[name] += int(frame["v"].sum()) * (name in sums)
        held.update(tuple(known[name] for name in fields))
        result = {**known, "k": key[0], "seen": known.get("seen", known.get("number"))}
        yield pd.DataFrame({name: [result[name]] for name in columns})

    def build(streams: Streams) -> Any:
        grouped = streams["a"].groupBy(by)
        return named(grouped.applyInPandasWithState(step, output, state, "update", timeout))

    return Program(build, _measured(output, by))


def processor(
    *variables: str,
    rows: bool = False,
    time: str = "None",
    mode: str = "update",
    output: str = "k string, total long",
    by: str = "k",
) -> Program:
    """``transformWithStateInPandas``, or of ``rows``; a variable is ``kind name type [ttl]``."""

    def build(streams: Streams) -> Any:
        from pyspark.sql.streaming import StatefulProcessor

        class Sums(StatefulProcessor):
            def init(self, handle: Any) -> None:
                self.held = {}
                for variable in variables:
                    kind, name, type_, *ttl = variable.split()
                    arguments = [name, f"v {type_}"] + [f"n {type_}"] * (kind == "Map")
                    longest = [int(each) for each in ttl]
                    state = getattr(handle, f"get{kind}State")(*arguments, *longest)
                    self.held[name] = kind, state

            def handleInputRows(self, key: Any, given: Any, timerValues: Any) -> Any:
                import pandas as pd
                from pyspark.sql import Row

                new: list[Any] = []
                for each in given:
                    new += [each.v] if rows else each.v.tolist()
                total = 0
                for name, (kind, state) in self.held.items():
                    if kind == "Value":
                        before = state.get()[0] if state.exists() else 0
                        state.update((before + sum(new),))
                        total = state.get()[0] if name == "total" else total
                    elif kind == "List":
                        for value in new:
                            state.appendValue((value,))
                        total = sum(v[0] for v in state.get()) if name == "total" else total
                    else:
                        state.updateValue((new[0],), (len(new),))
                columns = {"k": key[0], "total": int(total)}
                result = {name: columns[name] for name in _columns}
                yield Row(**result) if rows else pd.DataFrame({n: [v] for n, v in result.items()})

            def close(self) -> None:
                return

        _columns = _names(output)
        grouped = streams["a"].groupBy(by)
        transform = grouped.transformWithState if rows else grouped.transformWithStateInPandas
        return named(transform(Sums(), output, mode.capitalize(), time))

    once = time == "ProcessingTime"
    return Program(build, _measured(output, by), mode=mode, once=once)


def mapped(**columns: str) -> Any:
    """Upstream logic: columns computed anew, in SQL."""
    from pyspark.sql import functions as F

    return lambda frame: frame.withColumns({name: F.expr(e) for name, e in columns.items()})


def renamed(**columns: str) -> Any:
    """Upstream: old name = new name."""
    return lambda frame: frame.withColumnsRenamed(columns)
