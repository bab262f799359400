"""Verdicts with their reasons, as the tables of pairs have them."""

from __future__ import annotations

AS_IS = ("as-is", "same-state")
REPLACED = ("migrate", "column-replaced")
#: Where the old column or field may be the new one: the state has only names.
UNKNOWN = ("incompatible", "column-replaced")
REORDERED = ("migrate", "columns-reordered")
ADDED = ("migrate", "column-added")
REMOVED = ("migrate", "column-removed")
KEY = ("incompatible", "key-changed")
TYPE = ("incompatible", "type-changed")
WIDER = ("migrate", "type-widened")
DEFINITION = ("incompatible", "definition-changed")
WIDENED = ("as-is", "same-state")
NARROWED = ("incompatible", "nullability-narrowed")
#: As before Spark 4.3: what is never null is so in the state's schema, too.
STRICT_NULLS = {"spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "false"}
