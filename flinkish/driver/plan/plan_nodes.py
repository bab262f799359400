"""Spark's plans of a streaming query as plain data: the analyzed plan and the stateful operators.

Facts used (Spark 3.5 to 4.3):

* The top node of every ``Dataset``'s plan carries the tag ``dataset_id``
  (``Dataset.DATASET_ID_TAG``), or ``plan_id`` if a client of Spark Connect has described the plan
  (``LogicalPlan.PLAN_ID_TAG``). The nodes between two such nodes were made in one step of the
  program, by the analyzer or from SQL text.
* ``IncrementalExecution`` numbers the stateful operators while it plans (``StateOpIdRule``), and on
  4.x writes their metadata and state schemas below its checkpoint location.
* ``MicroBatchExecution`` plans in a clone of the session, see
  :mod:`flinkish.driver.plan.pinned_planning`.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from flinkish.driver.plan.pinned_planning import configure, with_pinned_keys
from flinkish.driver.plan.plan_classes import (
    ReadNode,
    class_name,
    find_class,
    items,
    read_tree,
    streaming_class,
    streaming_object,
    walk,
)
from flinkish.driver.plan.plan_sources import SOURCES, Relation, entry_of, read_relations
from flinkish.driver.plan.planned_schemas import files_below, stores_in_files, stores_of_node
from flinkish.driver.plan.state_semantics import MeaningReader, with_properties
from flinkish.operators.identity import PlannedNode
from flinkish.operators.tagging import ALIASES, PLAN_ID, Tag, client_tag_of, tag_key, tag_of
from flinkish.state.declared import DeclaredStates, declared_on

#: Nodes that never become an operator.
PASSING = ALIASES | {
    "LocalLimit",
    "SubqueryColumnAliases",
    "UpdateEventTimeWatermarkColumn",
    "WithCTE",
}
_AGGREGATION = frozenset({"stateStoreSave", "sessionWindowStateStoreSaveExec"})
#: Nodes of user functions whose state may be typed (:mod:`flinkish.state`).
_MAY_BE_TYPED = frozenset(
    {
        "FlatMapGroupsInPandasWithState",
        "TransformWithStateInPandas",
        "TransformWithStateInPySpark",
    }
)
_TRANSFORM_WITH_STATE = frozenset(
    {
        "transformWithStateExec",
        "transformWithStateInPandasExec",
        "transformWithStateInPySparkExec",  # 4.1 on: with rows instead of pandas frames
    }
)
#: Nodes that may keep state, and Spark's names for the physical operators they become.
STATEFUL: dict[str, frozenset[str]] = {
    "Aggregate": _AGGREGATION,
    "Deduplicate": frozenset({"dedupe"}),
    "DeduplicateWithinWatermark": frozenset({"dedupeWithinWatermark"}),
    "Distinct": _AGGREGATION,
    "Except": _AGGREGATION,
    "FlatMapGroupsInPandasWithState": frozenset({"applyInPandasWithState"}),
    "FlatMapGroupsWithState": frozenset({"flatMapGroupsWithState"}),
    "GlobalLimit": frozenset({"globalLimit"}),
    "Intersect": _AGGREGATION,
    "Join": frozenset({"symmetricHashJoin"}),
    "TransformWithState": _TRANSFORM_WITH_STATE,
    "TransformWithStateInPandas": _TRANSFORM_WITH_STATE,
    "TransformWithStateInPySpark": _TRANSFORM_WITH_STATE,
}
_INDEX_TAG = "flinkish.index"
#: The tags of the top node of a step, in a classic session and in one of Spark Connect.
_STEPS = ("dataset_id", PLAN_ID)


@dataclass(frozen=True)
class LogicalNode:
    """One streaming node of an analyzed plan; parts that are not streaming are left out.

    ``name`` is Spark's class. A ``step`` is the top of one of the program's DataFrames.
    ``hidden_output`` is the projection that Spark puts over a USING join. An ``exchange``
    redistributes its input. ``tag`` is what ``uid()`` has left on the node. ``label`` has words
    that distinguish the node from others of its kind, such as grouping columns. ``source``,
    ``source_name`` and ``entry`` are a source's format, the name given by ``.name("x")``, and the
    source's line in the offset log. ``location`` is ``file:line`` if Spark knows it. ``typed`` are
    the typed states that the program declared for the node. ``children`` are positions in the plan.
    """

    name: str
    step: bool = False
    hidden_output: bool = False
    exchange: bool = False
    tag: Tag | None = None
    label: str = ""
    source: str | None = None
    source_name: str | None = None
    entry: int | None = None
    location: str | None = None
    typed: DeclaredStates | None = None
    children: tuple[int, ...] = ()


@dataclass(frozen=True)
class PhysicalOperator:
    """One stateful operator of the physical plan.

    ``link`` is the operator's position in the analyzed plan, if the optimizer kept the trace to it.
    """

    node: PlannedNode
    link: int | None


class PlanReader:
    """Reads the plans of one DataFrame that will be written as a stream.

    The DataFrame is planned in a clone of its session, with ``settings``. ``relations`` are the
    sources of the analyzed plan.
    """

    def __init__(
        self, df: Any, output_mode: str, settings: Mapping[str, str] | None = None
    ) -> None:
        self._settings = settings or {}
        self._jvm = df.sparkSession._jvm
        self._spark4 = not str(df.sparkSession.version).startswith("3.")
        self._session = df.sparkSession._jsparkSession
        modes = getattr(self._jvm, "org.apache.spark.sql.streaming.OutputMode")
        self._mode = getattr(modes, output_mode.capitalize())()
        analyzed = df._jdf.queryExecution().analyzed()
        self._check_supported(analyzed)
        # In a clone, a DataFrame that is used twice has separate nodes for each use.
        plan = read_tree(analyzed.clone())
        self.relations: tuple[Relation, ...] = read_relations(self._jvm, plan)
        self._plan = self._inlined(plan)

    def logical(self) -> tuple[LogicalNode, ...]:
        """Return the streaming part of the analyzed plan in pre-order, the top first."""
        keys = {name: tag_key(self._jvm, name) for name in ("dataset_id", PLAN_ID, _INDEX_TAG)}
        uid_key = tag_key(self._jvm)
        project = getattr(self._jvm, "org.apache.spark.sql.catalyst.plans.logical.Project")
        hidden = project.hiddenOutputTag()
        nodes: list[LogicalNode] = []
        children: list[list[int]] = []
        stack: list[tuple[ReadNode, int | None]] = [(self._plan[0], None)]
        while stack:
            read, parent = stack.pop()
            position, node, name = len(nodes), read.node, read.name
            if parent is not None:
                children[parent].append(position)
            if name in STATEFUL:  # stateless nodes get no tag: merged nodes would inherit it
                node.setTagValue(keys[_INDEX_TAG], str(position))
            entry = entry_of(self._jvm, node) if name in SOURCES else None
            source = self.relations[entry] if entry is not None else None
            nodes.append(
                LogicalNode(
                    name=name,
                    step=any(node.getTagValue(keys[key]).isDefined() for key in _STEPS),
                    hidden_output=name == "Project" and bool(node.getTagValue(hidden).isDefined()),
                    exchange=_redistributes(name, node),
                    tag=tag_of(node, uid_key) or client_tag_of(node, keys[PLAN_ID]),
                    label=_label(name, node),
                    source=source.format if source else None,
                    source_name=source.name if source else None,
                    entry=entry,
                    location=self._origin(node),
                    typed=declared_on(self._jvm, node) if name in _MAY_BE_TYPED else None,
                )
            )
            children.append([])
            below = [self._plan[child] for child in reversed(read.children)]
            stack += [(child, position) for child in below if _streams(child.node)]
        return tuple(
            replace(node, children=tuple(below))
            for node, below in zip(nodes, children, strict=True)
        )

    def physical(self) -> tuple[PhysicalOperator, ...]:
        """Return the stateful operators of the physical plan, sorted by ordinal.

        Plans the query, but runs no job.
        """
        index = tag_key(self._jvm, _INDEX_TAG)
        with _scratch() as directory:
            state = os.path.join(directory, "state")
            # While planned, transformWithState reads the checkpoint and needs the batch's offsets.
            os.makedirs(os.path.join(directory, "offsets"))
            open(os.path.join(directory, "offsets", "0"), "wb").close()
            operators = []
            execution = self._execution(f"file://{state}")
            plan = execution.executedPlan()
            plans = (self._plan, read_tree(execution.optimizedPlan()))
            meaning = MeaningReader(self._jvm, plans, functools.cache(self._setting))
            for ordinal, kind, node in _stateful(self._jvm, plan):
                partitioning = node.children().apply(0).outputPartitioning()
                link = node.logicalLink()
                tagged = link.get().getTagValue(index) if link.isDefined() else link
                files = os.path.join(state, str(ordinal))
                written = files_below(files)
                operators.append(
                    PhysicalOperator(
                        PlannedNode(
                            ordinal=ordinal,
                            kind=kind,
                            partitions=int(partitioning.numPartitions()),
                            stores=stores_in_files(files)
                            if os.path.isdir(files)
                            else stores_of_node(self._jvm, kind, node),
                            meaning=with_properties(meaning.read(kind, node), written),
                            files=written,
                        ),
                        link=int(tagged.get()) if tagged.isDefined() else None,
                    )
                )
        return tuple(sorted(operators, key=lambda operator: operator.node.ordinal))

    # --- inside -----------------------------------------------------------------------------

    def _check_supported(self, analyzed: Any) -> None:
        """Raise the error that Spark itself would raise at the start of the query."""
        conf = self._session.sessionState().conf()
        if conf.isUnsupportedOperationCheckEnabled():
            package = "org.apache.spark.sql.catalyst.analysis"
            checker = getattr(self._jvm, f"{package}.UnsupportedOperationChecker")
            checker.checkForStreaming(analyzed, self._mode)

    def _inlined(self, plan: tuple[ReadNode, ...]) -> tuple[ReadNode, ...]:
        """Return the plan with common table expressions inlined at their uses, as Spark does."""
        tables = [read.node for read in plan if read.name == "WithCTE"]
        if not tables:
            return plan
        for table in tables:
            table.plan().copyTagsFrom(table)
        rule: Any = find_class(self._jvm, "org.apache.spark.sql.catalyst.optimizer.InlineCTE")
        (constructor,) = rule.getConstructors()
        inline = self._jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE
        rule = inline(*[True] + [False] * (constructor.getParameterCount() - 1))
        # In a clone, a table expression that is used twice has separate nodes for each use.
        return read_tree(rule.apply(plan[0].node).clone())

    def _execution(self, checkpoint: str) -> Any:
        session = self._session.cloneSession()
        configure(self._jvm, session, self._settings)
        execution = streaming_class(self._jvm, "IncrementalExecution")
        (constructor,) = execution.getConstructors()
        ids = [getattr(self._jvm, "java.util.UUID").randomUUID() for _ in range(2)]
        arguments = [
            session,
            with_pinned_keys(self._jvm, session, self._plan),
            self._mode,
            checkpoint,
            *ids,
            0,
            getattr(getattr(self._jvm.scala, "None$"), "MODULE$"),
            streaming_object(self._jvm, "OffsetSeqMetadata").apply(0, 0, session.conf()),
            streaming_object(self._jvm, "WatermarkPropagator").noop(),
        ]
        if constructor.getParameterCount() > len(arguments):
            arguments.append(True)  # isFirstBatch; the later parameters have defaults
            companion = streaming_object(self._jvm, "IncrementalExecution")
            for number in range(len(arguments) + 1, constructor.getParameterCount() + 1):
                arguments.append(getattr(companion, f"$lessinit$greater$default${number}")())
        return getattr(self._jvm, str(execution.getName()))(*arguments)

    def _setting(self, key: str) -> str | None:
        """Return the session's value of a setting; None where this Spark does not know it."""
        value = self._session.conf().getOption(key)
        return str(value.get()) if value.isDefined() else None

    def _origin(self, node: Any) -> str | None:
        """Return the place of a column of the node in the program (since PySpark 4), or None."""
        if not self._spark4:
            return None
        for expression in items(node.expressions()):
            context = expression.origin().pysparkErrorContext()
            if context.isDefined():
                return str(context.get()._2())
        return None


def executed_operators(df_or_session: Any, execution: Any) -> tuple[tuple[int, str], ...]:
    """Return the ordinal and kind of the stateful operators that a running query has, sorted.

    The caller compares them with the operators of the query's plan. Reads no partitions or schemas.

    ``execution`` is the query's ``StreamExecution.lastExecution`` (an ``IncrementalExecution``) and
    not None. If Spark has not yet made the physical plan, the call waits for it or makes it. Raises
    Incompatible if this Spark has the classes of its plans in unknown packages.
    """
    session = getattr(df_or_session, "sparkSession", df_or_session)
    operators = _stateful(session._jvm, execution.executedPlan())
    return tuple(sorted((ordinal, kind) for ordinal, kind, _ in operators))


def _stateful(jvm: Any, plan: Any) -> Iterator[tuple[int, str, Any]]:
    """Yield ordinal, kind and node of the stateful operators of a physical plan."""
    is_writer = streaming_class(jvm, "StateStoreWriter").isInstance
    for node in walk(plan):
        if is_writer(node) and node.stateInfo().isDefined():
            yield int(node.stateInfo().get().operatorId()), _operator_name(node), node


def _operator_name(node: Any) -> str:
    """Return Spark's name for a stateful operator, as in metadata and progress reports of 4.x."""
    name = str(node.shortName())
    if name != "defaultName":
        return name
    simple = str(node.getClass().getSimpleName())  # 3.5 has no name for session windows
    return simple[:1].lower() + simple[1:]


def _streams(node: Any) -> bool:
    return bool(node.isStreaming())


def _redistributes(name: str, node: Any) -> bool:
    if name == "Repartition":
        return bool(node.shuffle())
    if name == "Sort":
        return bool(getattr(node, "global")())
    return name in {
        "FlatMapCoGroupsInArrow",
        "FlatMapCoGroupsInPandas",
        "FlatMapGroupsInArrow",
        "FlatMapGroupsInPandas",
        "RebalancePartitions",
        "RepartitionByExpression",
    }


_NAMED: dict[str, Callable[[Any], list[Any]]] = {
    "Aggregate": lambda node: items(node.groupingExpressions()),
    "Deduplicate": lambda node: items(node.keys()),
    "DeduplicateWithinWatermark": lambda node: items(node.keys()),
    "EventTimeWatermark": lambda node: [node.eventTime()],
}


def _label(name: str, node: Any) -> str:
    """Return a few words that distinguish a node from others of its kind, such as its columns."""
    columns = [_column(e) for e in _NAMED[name](node)] if name in _NAMED else []
    if name == "Join":
        return str(node.joinType().sql()).lower()
    return ", ".join(columns[:5]) + (", ..." if len(columns) > 5 else "")


def _column(expression: Any) -> str:
    kind = class_name(expression)
    if kind in ("AttributeReference", "Alias"):
        return str(expression.name())
    text = str(expression.sql())
    return text if len(text) <= 40 else text[:37] + "..."


@contextmanager
def _scratch() -> Iterator[str]:
    with tempfile.TemporaryDirectory(
        prefix="flinkish-plan-", ignore_cleanup_errors=True
    ) as directory:
        yield directory
