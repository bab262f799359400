"""What the columns of an operator's state are to the program: the part that no schema tells.

Spark's state schemas have the columns of aggregation buffers as ``sum, sum, count``, and the keys
of a join as ``field0``. Which sum of what they are stands in the plan only, so savepoints keep it,
and a restore compares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: Role of the stores of an operator that has one input.
ONLY = ""
#: Traits: facts on the operator as a whole that say what its state means.
JOIN_TYPE = "join type"
TIME_MODE = "time mode"
OUTPUT_MODE = "output mode"


def variable_type(name: str) -> str:
    """The trait that says what a state variable is: a value, a list, a map."""
    return f"type of variable {name}"


def variable_ttl(name: str) -> str:
    """The trait that says whether the rows of a state variable expire."""
    return f"time to live of variable {name}"


@dataclass(frozen=True)
class Column:
    """One column of a key or value.

    ``name`` is what the program calls it: a column (``user``), an aggregate (``sum(amount)``).
    ``origin`` is what it is computed from, down to the columns of the sources. ``detail`` is what
    neither name nor type show: how windows are cut, the input types of an opaque aggregate.
    ``nullable`` is False where the program never lets it be null: schemas of Spark 4.3 say of all
    columns that they could (``statefulOperator.alwaysNullableOutput``), and code that reads the
    state goes by the program.
    """

    name: str
    origin: str
    detail: str = ""
    nullable: bool = True


@dataclass(frozen=True)
class StateSemantics:
    """The columns of an operator's state.

    ``keys`` and ``values`` are by role: :data:`ONLY`, or ``left`` and ``right`` of a join. Values
    are the buffers of an aggregation, the input columns of a join; empty where the schema says all.
    """

    keys: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    values: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    traits: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data, for a savepoint."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> StateSemantics:
        """The inverse of :meth:`to_json`; keys of a newer flinkish are ignored."""

        def columns(name: str) -> dict[str, tuple[Column, ...]]:
            return {
                role: tuple(
                    Column(c["name"], c["origin"], c.get("detail", ""), c.get("nullable", True))
                    for c in listed
                )
                for role, listed in (data.get(name) or {}).items()
            }

        return StateSemantics(columns("keys"), columns("values"), dict(data.get("traits") or {}))
