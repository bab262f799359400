"""Spark's classes for plans and their trees through Py4J, wherever this Spark has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinkish.errors import Incompatible

_STREAMING = "org.apache.spark.sql.execution.streaming"
#: Where classes of Spark's streaming engine live: 3.5, 4.0 first, then the packages of 4.1 on.
_PACKAGES = ("", ".runtime", ".checkpointing", ".operators.stateful")


def streaming_class(jvm: Any, simple_name: str) -> Any:
    """The ``Class`` of Spark's streaming engine with that name; Incompatible when there is none."""
    for package in _PACKAGES:
        found = find_class(jvm, f"{_STREAMING}{package}.{simple_name}")
        if found is not None:
            return found
    raise Incompatible(
        f"this Spark has no {simple_name} where flinkish knows it",
        hint="see which versions of Spark flinkish supports: flinkish compat",
    )


def streaming_object(jvm: Any, simple_name: str) -> Any:
    """The Scala object of Spark's streaming engine with that name; Incompatible when none."""
    return scala_object(streaming_class(jvm, f"{simple_name}$"))


def find_class(jvm: Any, name: str) -> Any | None:
    """The ``Class`` with that full name, or None when this Spark has none."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        return jvm.java.lang.Class.forName(name, False, loader)
    except Exception as error:
        # Its type is Py4J's or PySpark's, by version; the Java class is in the text.
        if "ClassNotFoundException" in str(error):
            return None
        raise


def scala_object(class_: Any) -> Any:
    """The instance of a Scala object's class (its name ends with ``$``)."""
    return class_.getField("MODULE$").get(None)


def items(sequence: Any) -> list[Any]:
    """The elements of a Scala ``Seq``."""
    return [sequence.apply(i) for i in range(sequence.size())]


def walk(plan: Any) -> Iterator[Any]:
    """The nodes of a plan in pre-order, as ``TreeNode.collect`` visits them."""
    stack = [plan]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(items(node.children()))
