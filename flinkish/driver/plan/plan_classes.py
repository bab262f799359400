"""Access to Spark's plan classes and plan trees through Py4J, across Spark versions.

Every access to a JVM object is a round trip, and so is each part of a dotted name after ``jvm`` and
each object that Python releases; ``getattr(jvm, "a.b.C")`` is a single one. A plan of twelve
operators takes thousands of round trips, so classes are looked up once and trees are read once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.errors import Incompatible

_STREAMING = "org.apache.spark.sql.execution.streaming"
#: What follows ``_STREAMING`` in a package's name: nothing on 3.5 and 4.0, any of them later.
_PACKAGES = ("", ".runtime", ".checkpointing", ".operators.stateful")


def streaming_class(jvm: Any, simple_name: str) -> Any:
    """Return the ``Class`` of Spark's streaming engine with that simple name.

    Raises Incompatible when this Spark does not have it.
    """
    for package in _PACKAGES:
        jvm_class = find_class(jvm, f"{_STREAMING}{package}.{simple_name}")
        if jvm_class is not None:
            return jvm_class
    raise Incompatible(
        f"this Spark has no {simple_name} where flinkish knows it",
        hint="see which versions of Spark flinkish supports: flinkish compat",
    )


def streaming_object(jvm: Any, simple_name: str) -> Any:
    """Return the Scala object of Spark's streaming engine with that simple name.

    Raises Incompatible when this Spark does not have it.
    """
    return scala_object(streaming_class(jvm, f"{simple_name}$"))


@functools.cache
def find_class(jvm: Any, name: str) -> Any | None:
    """Return Spark's ``Class`` with that full name, or None when this Spark does not have it."""
    loader = getattr(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    try:
        return getattr(jvm, "java.lang.Class").forName(name, False, loader)
    except Exception as error:
        # The error's type is Py4J's or PySpark's, by version; its text names the Java class.
        if "ClassNotFoundException" in str(error):
            return None
        raise


def class_name(node: Any) -> str:
    """Return the simple name of the class of a logical node or an expression.

    That is its ``nodeName``, unless the class gives another name for messages (``make_timestamp``,
    ``ExceptAll``).
    """
    name = str(node.nodeName())
    if name[:1].islower() or name.endswith("All"):
        return str(node.getClass().getSimpleName())
    return name


def scala_object(class_: Any) -> Any:
    """Return the instance of a Scala object's class (whose name ends with ``$``)."""
    return class_.getField("MODULE$").get(None)


def items(sequence: Any) -> list[Any]:
    """Return the elements of a Scala ``Seq``."""
    return [sequence.apply(i) for i in range(sequence.size())]


def walk(plan: Any) -> Iterator[Any]:
    """Yield the nodes of a plan in pre-order, as ``TreeNode.collect`` visits them."""
    stack = [plan]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(items(node.children()))


@dataclass(frozen=True)
class ReadNode:
    """A node of a logical plan, with the name of its class and the positions of its children."""

    node: Any
    name: str
    children: Sequence[int]


def read_tree(plan: Any) -> tuple[ReadNode, ...]:
    """Return the nodes of a logical plan in pre-order."""
    nodes: list[ReadNode] = []
    below: list[list[int]] = []
    stack: list[tuple[Any, int | None]] = [(plan, None)]
    while stack:
        node, parent = stack.pop()
        if parent is not None:
            below[parent].append(len(nodes))
        stack += [(child, len(nodes)) for child in reversed(items(node.children()))]
        below.append([])
        nodes.append(ReadNode(node, class_name(node), below[-1]))
    return tuple(nodes)
