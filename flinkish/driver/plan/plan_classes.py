"""Access to Spark's plan classes and plan trees through Py4J, across Spark versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinkish.errors import Incompatible

_STREAMING = "org.apache.spark.sql.execution.streaming"
#: Sub-packages of Spark's streaming engine: 3.5 and 4.0 first, then those of 4.1 on.
_PACKAGES = ("", ".runtime", ".checkpointing", ".operators.stateful")


def streaming_class(jvm: Any, simple_name: str) -> Any:
    """Return the ``Class`` of Spark's streaming engine with that simple name.

    Raises Incompatible when this Spark does not have it.
    """
    for package in _PACKAGES:
        found = find_class(jvm, f"{_STREAMING}{package}.{simple_name}")
        if found is not None:
            return found
    raise Incompatible(
        f"this Spark has no {simple_name} where flinkish knows it",
        hint="see which versions of Spark flinkish supports: flinkish compat",
    )


def streaming_object(jvm: Any, simple_name: str) -> Any:
    """Return the Scala object of Spark's streaming engine with that simple name.

    Raises Incompatible when this Spark does not have it.
    """
    return scala_object(streaming_class(jvm, f"{simple_name}$"))


def find_class(jvm: Any, name: str) -> Any | None:
    """Return the ``Class`` with that full name, or None when this Spark does not have it."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        return jvm.java.lang.Class.forName(name, False, loader)
    except Exception as error:
        # The error's type is Py4J's or PySpark's, by version; its text names the Java class.
        if "ClassNotFoundException" in str(error):
            return None
        raise


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
