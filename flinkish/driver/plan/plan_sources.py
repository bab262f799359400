"""The sources of an analyzed plan: how Spark numbers them, and what each of them reads.

Facts used (``MicroBatchExecution.logicalPlan``, Spark 3.5 to 4.3):

* ``sources = logicalPlan.collect {...}``: the offset log has one line for every place where the
  analyzed plan has a streaming relation, in pre-order. The relations of a WITH clause are collected
  where the clause defines them: once, however often the query uses them, and even if it does not.
* ``toExecutionRelationMap`` and ``v2ToRelationMap``: relations that are equal share one source and
  one directory ``sources/<i>``. If a DataFrame occurs twice, a union keeps its relation as it is.
  A join makes a new relation (``DeduplicateRelations``), and so does a use of ``_metadata``.
* ``StreamingUtils.getMetadataPath``: where sources have names (Spark 4.2 on, with source evolution
  enabled), a source's name is also its directory and its key in the offset log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.connectors.registry import source_options
from flinkish.connectors.sources import normal_path
from flinkish.driver.plan.plan_classes import ReadNode, find_class
from flinkish.operators.tagging import tag_key

#: Leaf nodes that are sources of a streaming query.
SOURCES = frozenset({"StreamingRelation", "StreamingRelationV2"})
#: Options that identify what is read. Other options can hold anything, including credentials.
_READ = (
    *("path", "subscribe", "subscribePattern", "assign", "topic"),
    *("host", "port", "rowsPerSecond", "numPartitions"),
)
_ENTRY_TAG = "flinkish.entry"
_CATALYST = "org.apache.spark.sql.catalyst"


@dataclass(frozen=True)
class Relation:
    """An occurrence of a source in a plan.

    ``entry`` is the source's line in the offset log, ``directory`` its directory below
    ``sources/``. ``format`` is a word such as ``file`` or ``kafka``. ``signature`` is what the
    source reads, as ``format[what]``. ``name`` is from ``readStream.name("x")`` (Spark 4.2 and
    later). ``options`` are those that matter to a restore.
    """

    entry: int
    directory: str
    format: str
    signature: str
    name: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_relations(jvm: Any, plan: Iterable[ReadNode]) -> tuple[Relation, ...]:
    """Return the sources of an analyzed plan in Spark's order, and tag each for :func:`entry_of`.

    ``plan`` is the plan with which Spark starts the query, including its WITH clauses. Nothing else
    may use the plan, because its nodes are tagged.
    """
    key = tag_key(jvm, _ENTRY_TAG)
    nameable = find_class(jvm, f"{_CATALYST}.streaming.HasStreamingSourceIdentifyingName")
    relations: list[Relation] = []
    distinct: list[tuple[Any, str]] = []
    numbered = 0
    for read in plan:
        node, class_name = read.node, read.name
        if class_name not in SOURCES:
            continue
        assigned, source_name = (
            _names(node) if nameable and nameable.isInstance(node) else (None, None)
        )
        directory = next((seen for other, seen in distinct if other.equals(node)), None)
        if directory is None:
            directory = assigned
            if directory is None:
                directory = str(numbered)
                numbered += 1
            distinct.append((node, directory))
        entry = len(relations)
        node.setTagValue(key, str(entry))
        format_ = _format(node)
        text = _signature(class_name, format_, node)
        names = source_options(format_, is_catalog_table=class_name == "StreamingRelationV2")
        options = _options(class_name, node, names)
        relations.append(Relation(entry, directory, format_, text, source_name, options))
    return tuple(relations)


def entry_of(jvm: Any, node: Any) -> int:
    """Return the entry of a relation that :func:`read_relations` has tagged."""
    return int(node.getTagValue(tag_key(jvm, _ENTRY_TAG)).get())


def signature(
    format_: str, options: Mapping[str, str], *, path: str | None = None, table: str | None = None
) -> str:
    """Return what a source reads, as ``format[what]``. Pure.

    The same input has the same signature in any session.

    Of ``options``, only those are used that identify what is read. ``path`` is given if the source
    itself states its path.
    """
    lowered = {name.lower(): value for name, value in options.items()}
    if path is not None:
        lowered["path"] = path
    parts = [table] if table is not None else []
    for name in _READ:
        value = lowered.get(name.lower())
        if value is None:
            continue
        value = _normal(name, value.strip())
        parts.append(value if name == "path" else f"{name}={value}")
    return f"{format_}[{', '.join(parts)}]"


def _normal(name: str, value: str) -> str:
    if name == "path":
        return normal_path(value)
    if name == "subscribe":
        return ",".join(sorted(topic.strip() for topic in value.split(",")))
    if name == "assign":
        try:
            return json.dumps(json.loads(value), sort_keys=True, separators=(",", ":"))
        except ValueError:
            return value
    return value


def _format(node: Any) -> str:
    """Return the format in the relation's ``sourceName``: ``FileSource[/dir]``, ``rate`` ..."""
    word = str(node.sourceName()).partition("[")[0].strip()
    return word.removesuffix("Source").lower() or word or "unknown"


def _names(node: Any) -> tuple[str | None, str | None]:
    """Return Spark's name for a source and the name that the program gave; each may be None."""
    named = node.sourceIdentifyingName()
    if not named.nameOpt().isDefined():
        return None, None
    name = str(named.nameOpt().get())
    return name, name if named.getClass().getSimpleName() == "UserProvided" else None


def _signature(class_name: str, format_: str, node: Any) -> str:
    if class_name == "StreamingRelation":
        word, bracket, path = str(node.sourceName()).partition("[")
        if word.strip() == "FileSource" and bracket:
            return signature(format_, {}, path=path.removesuffix("]"))
        return signature(format_, _scala_options(node.dataSource().options()))
    if node.identifier().isDefined():
        catalog = node.catalog()
        parts = [str(catalog.get().name())] if catalog.isDefined() else []
        return signature("table", {}, table=".".join([*parts, str(node.identifier().get())]))
    options = node.extraOptions()
    options_read = {name: options.get(name) for name in _READ}
    return signature(
        format_,
        {name: str(value) for name, value in options_read.items() if value is not None},
        table=_table_name(format_, str(node.table().name())),
    )


def _options(class_name: str, node: Any, names: Collection[str]) -> dict[str, str]:
    """Return the options of a source that decide how its position is restored."""
    if not names:
        return {}
    if class_name == "StreamingRelation":
        return _scala_options(node.dataSource().options(), names)
    options = node.extraOptions()  # case-insensitive
    begins = tuple(name for name in names if name.endswith("."))
    keys = [str(key) for key in options.keySet()] if begins else []
    wanted = [*names, *(key for key in keys if key.startswith(begins))]
    values = {name: options.get(name) for name in wanted}
    return {name: str(value) for name, value in values.items() if value is not None}


def _table_name(format_: str, name: str) -> str | None:
    """Return ``name`` if it is the name of a table, else None.

    The name of the rate source, for example, contains its parallelism, and all Kafka sources are
    named ``KafkaTable``.
    """
    if name.lower() in (format_, f"{format_}table"):
        return None
    return name if re.fullmatch(r"[\w.`-]+", name) else None


def _scala_options(options: Any, names: Collection[str] = _READ) -> dict[str, str]:
    """Return some options of a Scala map, by default those that identify what is read."""
    wanted = {name.lower() for name in names}
    begins = tuple(name for name in wanted if name.endswith("."))
    values: dict[str, str] = {}
    iterator = options.iterator()
    while iterator.hasNext():
        pair = iterator.next()
        name = str(pair._1()).lower()
        if name in wanted or name.startswith(begins):
            values[str(pair._1())] = str(pair._2())
    return values
