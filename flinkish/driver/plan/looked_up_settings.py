"""The settings, besides time zone and ANSI mode, that expressions and readers of text look up.

Facts used (the classes of Spark 3.5.9 and 4.3.0 that call ``SQLConf``, and the results of
expressions that ran with both values):

* Some expressions keep the value that was set when the program made them (``chunkBase64``,
  ``legacySizeOfNull`` ...); others look the value up when they run. Where the optimizer has
  replaced an expression by a ``StaticInvoke``, the kept value is an argument of the call.
* ``JacksonParser`` and ``UnivocityParser`` choose their formatters by the parser policy, for
  timestamps and dates, with and without a pattern.
* ``decimalOperations.allowPrecisionLoss`` decides whether a decimal result that needs more than 38
  digits loses digits of the fraction (``adjustPrecisionScale``) or overflows, so the values differ,
  though the types often look alike.
* A setting that changes a result's type or the text of an expression can be seen in the plan, and
  is not listed in this module (but ``TIMESTAMP_TYPE`` is, where text becomes a timestamp). Nor is
  one that only makes a query fail (``encode`` of characters that a charset lacks).
* ``to_csv``, ``to_json`` and ``to_xml`` write timestamps and dates by the parser policy; the first
  and the last write bytes by ``binaryOutputStyle`` (4.x). With ``truncateForEmptyRegexSplit``
  (4.x), ``split`` with an empty pattern and a limit loses the rest of the text.
* ``spark.sql.legacy.charVarcharAsString``, ICU's case mappings, ``json.enablePartialResults`` and
  ``legacy.json.allowEmptyString`` were found to have no effect. Spark 4 pads a cast to ``char(n)``
  with ``preserveCharVarcharTypeInfo``; without that setting the plan has no trace of the type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flinkish.driver.plan.analyzed_settings import is_string
from flinkish.operators.state_semantics import (
    ANSI,
    COMPLEX_TO_STRING,
    IGNORE_NULL_FIELDS,
    MAP_DEDUP,
    PRECISION_LOSS,
    SIZE_OF_NULL,
    TIME_PARSER,
    TIME_ZONE,
    TIMESTAMP_TYPE,
)

#: Maximum digits of a decimal, and the number of fraction digits that Spark never gives up.
_DIGITS, _FRACTION = 38, 6
_FALLBACK = "spark.sql.legacy.{}.enableDateTimeParsingFallback"
#: The reader options for the pattern of a timestamp or date.
_PATTERNS = ("timestampformat", "dateformat")
_SPLIT = "spark.sql.legacy.truncateForEmptyRegexSplit"
_QUOTED_NULL = "spark.sql.legacy.nullValueWrittenAsQuotedEmptyStringCsv"
_BINARY = "spark.sql.binaryOutputStyle"
#: How CSV and XML write bytes by default: ``[FF 00]``.
_BINARY_DEFAULT = "HEX_DISCRETE"
_PYTHON_ARROW = "spark.sql.execution.pythonUDF.arrow.enabled"
#: For each ``PythonUDF.evalType`` of a plain function: whether Arrow passes the values.
_PYTHON_TYPES = {100: "false", 101: "true"}

#: Settings that may change keys or values; an unreadable expression counts as needing all of them.
DECIDING = (
    TIME_ZONE,
    ANSI,
    TIME_PARSER,
    COMPLEX_TO_STRING,
    SIZE_OF_NULL,
    MAP_DEDUP,
    PRECISION_LOSS,
    IGNORE_NULL_FIELDS,
    TIMESTAMP_TYPE,
)
#: Returns the session's value of a setting; None where this Spark does not know it.
Session = Callable[[str], str | None]


@dataclass(frozen=True)
class LookedUp:
    """A looked-up setting and its value; ``certain`` as in :class:`.state_semantics.Dependence`."""

    setting: str
    value: str
    certain: bool = True


@dataclass(frozen=True)
class _Lookup:
    """Where an expression gets a setting's value: its own copy (``kept``), or the session.

    ``argument`` is the position of that copy among the arguments of the ``StaticInvoke`` that
    replaces the expression.
    """

    setting: str
    kept: str | None = None
    argument: int | None = None


_LOOKUPS: Mapping[str, tuple[_Lookup, ...]] = {
    "ArrayExists": (
        _Lookup("spark.sql.legacy.followThreeValuedLogicInArrayExists", "followThreeValuedLogic"),
    ),
    "ArrayInsert": (_Lookup("spark.sql.legacy.negativeIndexInArrayInsert", "legacyNegativeIndex"),),
    "Base64": (_Lookup("spark.sql.chunkBase64String.enabled", "chunkBase64", 1),),
    "Size": (_Lookup(SIZE_OF_NULL, "legacySizeOfNull"),),
    **dict.fromkeys(
        (
            "CreateMap",
            "MapConcat",
            "MapFromArrays",
            "MapFromEntries",
            "StringToMap",
            "TransformKeys",
        ),
        (_Lookup(MAP_DEDUP),),
    ),
}
#: Expressions that may return the type that the session's setting calls a timestamp.
_TIMES = frozenset({"Cast", "GetTimestamp", "MakeTimestamp", "ParseToTimestamp"})
_TIMESTAMP_TYPES = {"TIMESTAMP_LTZ": "timestamp", "TIMESTAMP_NTZ": "timestamp_ntz"}


def looked_up(name: str, expression: Any, session: Session) -> Iterator[LookedUp]:
    """Yield the settings that an expression reads itself, with their values.

    ``name`` is the simple name of the expression's class.
    """
    call = name == "StaticInvoke"
    meant = str(expression.staticObject().getSimpleName()).rstrip("$") if call else name
    for each in _LOOKUPS.get(meant, ()):
        if not call or each.argument is not None:
            yield from _value(each, expression, session, call=call)
    if name in _TIMES:
        yield from _timestamp_type(expression, session)
    elif name in ("Add", "Divide", "Multiply", "Subtract"):
        yield from _digits(name, expression)
    elif name == "PythonUDF":
        arrow = _PYTHON_TYPES.get(int(expression.evalType()))
        if arrow is not None and session(_PYTHON_ARROW) is not None:
            yield LookedUp(_PYTHON_ARROW, arrow, certain=False)
    elif name == "StringSplit" and _is_cut(expression):
        yield LookedUp(_SPLIT, session(_SPLIT) or "true")  # Spark 3.5 always truncates
    if name == "Cast" and _text_of_complex(expression):
        yield from _session(COMPLEX_TO_STRING, session)


def parsing(
    format: str, options: Mapping[str, str], session: Session, *, moments: bool
) -> Iterator[LookedUp]:
    """Yield the settings that affect how a format's text is parsed.

    ``format`` is ``csv``, ``json`` or ``xml``. ``options`` are the reader's options, by their names
    in lower case. ``moments`` says whether timestamps or dates are read.
    """
    policy = session(TIME_PARSER)
    if not moments or policy is None:
        return
    pattern = any(each in options for each in _PATTERNS)
    yield LookedUp(TIME_PARSER, policy, certain=pattern)
    setting = _FALLBACK.format(format)
    if format != "xml" and "enabledatetimeparsingfallback" not in options:
        # If the setting is unset, Spark falls back without a pattern or with the policy LEGACY.
        given = session(setting) or ""
        known = given.lower() in ("true", "false")
        falls = policy.upper() == "LEGACY" or not pattern
        yield LookedUp(setting, given.lower() if known else str(falls).lower(), certain=False)


def writing(
    format: str,
    options: Mapping[str, str],
    session: Session,
    *,
    nulls: bool = False,
    moments: bool = False,
    binary: bool = False,
) -> Iterator[LookedUp]:
    """Yield the settings that affect how a format's text is written.

    ``format`` and ``options`` are as for :func:`parsing`. ``nulls`` says whether a field may be
    null, ``moments`` whether timestamps or dates are written, ``binary`` whether bytes are.
    """
    if nulls and format == "json" and "ignorenullfields" not in options:
        yield from _session(IGNORE_NULL_FIELDS, session)
    if nulls and format == "csv" and not options.get("nullvalue"):
        yield from _session(_QUOTED_NULL, session)
    if binary and format != "json":
        yield LookedUp(_BINARY, session(_BINARY) or _BINARY_DEFAULT)
    if moments:
        pattern = any(each in options for each in _PATTERNS)
        yield from _session(TIME_PARSER, session, certain=pattern)


def fractions(name: str, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Return the number of a result's fraction digits with and without PRECISION_LOSS. Pure.

    ``name`` is ``Add``, ``Divide``, ``Multiply`` or ``Subtract``. ``one`` and ``other`` are the
    precision and the scale of each operand.
    """
    (digits, scale), (digits_2, scale_2) = one, other
    if name == "Multiply":
        whole, fraction = digits + digits_2 + 1 - scale - scale_2, scale + scale_2
    elif name == "Divide":
        whole, fraction = digits - scale + scale_2, max(_FRACTION, scale + digits_2 + 1)
    else:
        whole = max(digits - scale, digits_2 - scale_2) + 1
        fraction = max(scale, scale_2)
    if whole + fraction <= _DIGITS:
        return fraction, fraction
    lossy = max(_DIGITS - whole, min(fraction, _FRACTION))
    whole, fraction = min(whole, _DIGITS), min(fraction, _DIGITS)
    if name == "Divide" and whole + fraction > _DIGITS:
        fraction -= (whole + fraction - _DIGITS) // 2 + 1
    return lossy, fraction


def _is_cut(split: Any) -> bool:
    """Return whether a text may be split by an empty pattern into a limited number of parts."""
    regex, limit = (
        each.eval(None) if bool(each.foldable()) else default
        for each, default in ((split.regex(), ""), (split.limit(), 1))
    )
    return None not in (regex, limit) and not str(regex) and int(limit) > 0


def _value(each: _Lookup, expression: Any, session: Session, *, call: bool) -> Iterator[LookedUp]:
    value = session(each.setting)
    if value is None:
        return
    if call:
        value = str(expression.arguments().apply(each.argument).eval(None)).lower()
    elif each.kept is not None:
        value = str(bool(getattr(expression, each.kept)())).lower()
    yield LookedUp(each.setting, value)


def _session(setting: str, session: Session, *, certain: bool = True) -> Iterator[LookedUp]:
    value = session(setting)
    if value is not None:
        yield LookedUp(setting, value, certain)


def _timestamp_type(expression: Any, session: Session) -> Iterator[LookedUp]:
    """Yield the setting for the type of timestamps, if text is converted to that type."""
    value = session(TIMESTAMP_TYPE)
    kind = str(expression.dataType().simpleString())
    children = expression.children()
    text = not children.isEmpty() and is_string(str(children.apply(0).dataType().simpleString()))
    if value is not None and text and _TIMESTAMP_TYPES.get(value.upper()) == kind:
        yield LookedUp(TIMESTAMP_TYPE, value, certain=False)


def _digits(name: str, expression: Any) -> Iterator[LookedUp]:
    types = [expression.left().dataType(), expression.right().dataType()]
    if not all(str(each.simpleString()).startswith("decimal") for each in types):
        return
    one, other = ((int(each.precision()), int(each.scale())) for each in types)
    lossy, whole = fractions(name, one, other)
    if lossy != whole:
        # The result's type shows the value in force, which Spark 4 keeps and 3.5 looks up.
        yield LookedUp(PRECISION_LOSS, str(int(expression.dataType().scale()) == lossy).lower())


def _text_of_complex(cast: Any) -> bool:
    kind = str(cast.child().dataType().simpleString())
    text = is_string(str(cast.dataType().simpleString()))
    return text and kind.startswith(("array<", "map<", "struct<"))
