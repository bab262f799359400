"""The initial values of the buffers of an aggregate function.

A ``DeclarativeAggregate`` has these values as expressions, ``initialValues``. An
``ImperativeAggregate`` puts them into a row. A ``TypedImperativeAggregate`` serializes them before
they reach the state (``serializeAggregateBufferInPlace``). This is the same from Spark 3.5 to 4.3.
"""

from __future__ import annotations

import decimal
from typing import Any

from flinkish.driver.plan.plan_classes import items
from flinkish.operators.state_semantics import Initial

_ROW = "GenericInternalRow"
_NO_METHOD = "does not exist"  # Py4J's message for an unknown method


def initial_buffers(jvm: Any, function: Any) -> tuple[Initial | None, ...]:
    """Return the initial value of each of a function's buffers; None where it is unknown.

    ``function`` is an ``AggregateFunction`` of a physical plan.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    count = int(function.aggBufferAttributes().size())
    try:
        values = _declared(function)
        if values is None:
            values = _put_into_a_row(jvm, function, count)
    except (Py4JError, PySparkException):  # a user's function may raise anything
        return (None,) * count
    return tuple(map(_python_value, values))


def _declared(function: Any) -> list[Any] | None:
    """Return the values of a ``DeclarativeAggregate``; None for other functions."""
    try:
        expressions = items(function.initialValues())
    except Exception as error:
        if _NO_METHOD not in str(error):
            raise
        return None
    return [expression.eval(None) for expression in expressions]


def _put_into_a_row(jvm: Any, function: Any, count: int) -> list[Any]:
    first = int(function.mutableAggBufferOffset())
    row = getattr(jvm.org.apache.spark.sql.catalyst.expressions, _ROW)(first + count)
    function.initialize(row)
    types = [attribute.dataType() for attribute in items(function.aggBufferAttributes())]
    try:
        function.serializeAggregateBufferInPlace(row)
    except Exception as error:
        if _NO_METHOD not in str(error):
            raise
    return [row.get(first + index, data_type) for index, data_type in enumerate(types)]


def _python_value(value: Any) -> Initial | None:
    if value is None or isinstance(value, bool | int | float | bytes):
        return Initial(value)
    if isinstance(value, bytearray):
        return Initial(bytes(value))
    name = str(value.getClass().getSimpleName())
    if name == "Decimal":
        return Initial(decimal.Decimal(str(value.toString())))
    if name == "UTF8String":
        return Initial(str(value.toString()))
    return None
