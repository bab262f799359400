"""Operator ids of one program, with every stateful operator there is, on every line of Spark.

``flinkish info`` plans the program with the Spark of one virtual environment after the other (see
:mod:`tests.support.venvs`, which makes them). What ids and kinds come out must not depend on it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from flinkish.operators.uids import uid_to_operator_id
from tests.support import venvs
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish
from tests.support.operator_graphs import recorded

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(3600)]

Queries = list[dict[str, Any]]
#: (Spark, what else the program is told) -> its queries as ``flinkish info --json`` has them.
Describe = Callable[..., Queries]

SPARKS = tuple(venvs.ENVIRONMENTS)
NEWEST = SPARKS[-1]
#: What the program has on newer versions of Spark only: from which on.
SINCE = {
    "transform_with_state_in_pandas": (4, 0),
    "transform_with_state_and_after": (4, 0),
    "transform_with_state": (4, 1),
    "source_with_a_name": (4, 2),
}
JOIN = "symmetricHashJoin"
#: The stateful operators of each query: uid -> Spark's name for what it is.
STATEFUL = {
    "aggregate_updates": {"count": "stateStoreSave"},
    "aggregate_complete": {"tick counts": "stateStoreSave"},
    "aggregate_all": {"most of all": "stateStoreSave"},
    "rollup": {"rolled up": "stateStoreSave"},
    "tumbling_window": {"a.b.c": "stateStoreSave"},
    "sliding_window": {"sliding": "stateStoreSave"},
    "session_window": {"a:b": "sessionWindowStateStoreSaveExec"},
    "chained_windows": {"by minute": "stateStoreSave", "by ten minutes": "stateStoreSave"},
    "drop_duplicates": {"stateful-op-2": "dedupe"},
    "drop_duplicates_in_time": {"distinct in time": "dedupe"},
    "drop_duplicates_within_watermark": {"算子": "dedupeWithinWatermark"},
    "distinct": {"distinct names": "dedupe"},
    "sql_distinct": {"distinct keys": "stateStoreSave"},
    "sql_with_table": {"counts of a table": "stateStoreSave"},
    "subtract_static": {"unknown pairs": "stateStoreSave"},
    "limit": {"trail ": "globalLimit"},
    "join_inner": {"join-right": JOIN},
    "join_left": {"left join": JOIN},
    "join_right": {"right join": JOIN},
    "join_full": {"full join": JOIN},
    "join_semi": {"semi join": JOIN},
    "join_using": {"using join": JOIN},
    "join_with_itself": {
        "itself": JOIN,
        "counts, twice": "stateStoreSave",
        "counts, twice#2": "stateStoreSave",
    },
    "chained_join": {
        "once: distinct": "dedupe",
        "once: distinct#2": "dedupe",
        "once: counts": "stateStoreSave",
        "once: sums": "stateStoreSave",
        "once: joined": JOIN,
    },
    "pandas_with_state": {"streaming_query.mapGroupsWithState": "applyInPandasWithState"},
    "stateless": {},
    "with_a_hash": {"UPPER": "stateStoreSave"},
    "used_twice": {"distinct, twice": "dedupe", "distinct, twice#2": "dedupe"},
    "transform_with_state_in_pandas": {"counter": "transformWithStateInPandasExec"},
    "transform_with_state_and_after": {
        "stateful": "transformWithStateInPandasExec",
        "after the stateful": "stateStoreSave",
    },
    "transform_with_state": {"null": "transformWithStateInPySparkExec"},
    "source_with_a_name": {"of named": "dedupe"},
}
#: Spark's classes of stateful operators, and what the program must have where Spark has them.
OPERATOR_CLASSES = {
    "BaseStreamingDeduplicateExec": {"dedupe", "dedupeWithinWatermark"},
    "FlatMapGroupsInPandasWithStateExec": {"applyInPandasWithState"},
    "SessionWindowStateStoreSaveExec": {"sessionWindowStateStoreSaveExec"},
    "StateStoreSaveExec": {"stateStoreSave"},
    "StreamingGlobalLimitExec": {"globalLimit"},
    "StreamingSymmetricHashJoinExec": {JOIN},
    "TransformWithStateInPandasExec": {"transformWithStateInPandasExec"},
    "TransformWithStateInPySparkExec": {
        "transformWithStateInPandasExec",
        "transformWithStateInPySparkExec",
    },
    # No program in Python has these: Scala and Java only.
    "FlatMapGroupsWithStateExec": set(),
    "TransformWithStateExec": set(),
    # Of real-time mode, which cannot be savepointed.
    "StatefulStreamlineAggregateExec": set(),
}


@pytest.fixture(scope="module")
def describe(tmp_path_factory: pytest.TempPathFactory) -> Describe:
    """Plans the program once for every Spark and mode."""
    flinkish = Flinkish(tmp_path_factory.mktemp("matrix"))
    source = flinkish.directory / "input"
    for side in ("a", "b"):
        (source / side).mkdir(parents=True)
    known: dict[tuple[str, ...], Queries] = {}

    def described(spark: str, *mode: str) -> Queries:
        key = (spark, *mode)
        if key not in known:
            program = str(PROGRAMS / "every_operator.py")
            python = ("-pyexec", _interpreter(spark))
            command = ("info", "--json", "-m", "local[2]", *LIGHT, *python, program, str(source))
            result = flinkish(*command, *mode, timeout=900)
            assert result.code == 0, f"on Spark {spark}: {result.err}"
            known[key] = result.json()["queries"]
        return known[key]

    return described


def _interpreter(spark: str) -> str:
    try:
        return venvs.interpreter(spark)
    except venvs.Unavailable as why:
        pytest.skip(f"no environment with Spark {spark}: {why}")


def _by_uid(queries: Queries) -> dict[str, dict[str, Any]]:
    """The operators by uid; no two have the same one, sinks included."""
    operators = [operator for query in queries for operator in query["operators"]]
    found = {operator["uid"]: operator for operator in operators}
    assert None not in found
    assert len(found) == len(operators)
    return found


def _facts(operator: dict[str, Any]) -> tuple[Any, ...]:
    """What of an operator must be the same on all Sparks: all but schemas and places."""
    names = ("operator_id_v2", "operator_id_v3", "kind", "ordinal", "inputs", "chained", "uid_hash")
    return tuple(operator[name] for name in names)


def _has(spark: str, query: str) -> bool:
    line = tuple(int(part) for part in spark.split(".")[:2])
    return line >= SINCE.get(query, (3, 5))


@pytest.mark.parametrize("spark", SPARKS)
def test_every_stateful_operator_appears_with_its_uid(describe: Describe, spark: str) -> None:
    found = {
        query["name"]: {op["uid"]: op["kind"] for op in query["operators"] if op["stateful"]}
        for query in describe(spark)
    }
    assert found == {name: kinds for name, kinds in STATEFUL.items() if _has(spark, name)}
    jars = venvs.spark_home(_interpreter(spark)) / "jars"
    (jar,) = jars.glob("spark-sql_*.jar")
    classes = _stateful_operators(zipfile.ZipFile(jar))
    unknown = classes - OPERATOR_CLASSES.keys()
    assert not unknown, "Spark has stateful operators that the program lacks"
    wanted = set().union(*(OPERATOR_CLASSES[name] for name in classes))
    assert wanted == {kind for kinds in found.values() for kind in kinds.values()}


def _stateful_operators(jar: zipfile.ZipFile) -> set[str]:
    """Names of the classes that are, by name and what they refer to, stateful operators.

    A class file names the interfaces and the class above it in plain text.
    """
    marks = (b"StateStoreWriter", b"TransformWithStateExecBase")
    found = set()
    for path in jar.namelist():
        name = path.rpartition("/")[2].removesuffix(".class")
        if name.endswith("Exec") and any(mark in jar.read(path) for mark in marks):
            found.add(name)
    return found


@pytest.mark.parametrize("spark", SPARKS)
def test_ids_are_those_that_flink_gives_the_uids(describe: Describe, spark: str) -> None:
    operators = _by_uid(describe(spark))
    of_flink = {entry["uid"]: entry["operator_id"] for entry in recorded()["uids"]}
    for uid, operator in operators.items():
        assert operator["operator_id_v2"] == operator["operator_id_v3"] == uid_to_operator_id(uid)
        assert of_flink.get(uid, operator["operator_id"]) == operator["operator_id"]
    # Of each kind there is one whose id was computed by Flink itself.
    kinds = {op["kind"] for op in operators.values() if op["stateful"]}
    assert kinds <= {op["kind"] for uid, op in operators.items() if uid in of_flink}
    hashes = {uid: op["uid_hash"] for uid, op in operators.items() if op["uid_hash"]}
    assert hashes == {"UPPER": "0123456789abcdef0123456789abcdef"}


@pytest.mark.parametrize("spark", SPARKS[:-1])
def test_operators_with_uids_are_the_same_as_on_the_newest_spark(
    describe: Describe, spark: str
) -> None:
    older, newest = describe(spark), describe(NEWEST)
    common = [query for query in newest if _has(spark, query["name"])]
    assert [query["name"] for query in older] == [query["name"] for query in common]
    expected = {uid: _facts(op) for uid, op in _by_uid(common).items()}
    assert {uid: _facts(op) for uid, op in _by_uid(older).items()} == expected


@pytest.mark.parametrize("spark", SPARKS[:-1])
def test_generated_ids_are_the_same_as_on_the_newest_spark(describe: Describe, spark: str) -> None:
    names = [query["name"] for query in describe(NEWEST)]
    older, newest = describe(spark, "plain"), describe(NEWEST, "plain")
    assert len(newest) == len(names)
    assert len(older) == sum(_has(spark, name) for name in names)
    # What only newer versions have comes last, newest last.
    for name, mine, other in zip(names, older, newest, strict=False):
        assert [op["uid"] for op in mine["operators"]] == [None] * len(mine["operators"])
        facts = [_facts(op) for op in mine["operators"]]
        assert facts == [_facts(op) for op in other["operators"]], name
        for version in ("operator_id_v2", "operator_id_v3"):
            assert len({op[version] for op in mine["operators"]}) == len(facts), name
