"""``uid`` and ``uid_hash``: names of operators that survive changes of the program.

``df.transform(uid("dedup-flights"))`` names the operator at the top of ``df``, which may be a
source, stateless or stateful. The name is kept as a Scala ``TreeNodeTag``
(``org.apache.spark.sql.catalyst.trees``) on the DataFrame's logical plan, which every DataFrame
made from this one shares. The name changes no column, no plan and no result, so a program still
runs with plain ``spark-submit``.

A Spark Connect DataFrame has no JVM plan yet, so this module keeps the name under the client's plan
id. The server puts that id on its own plan as the tag ``plan_id`` (``LogicalPlan.PLAN_ID_TAG``), by
which a server in this process finds the name.

Nothing here imports Spark: the plan is accessed through the DataFrame itself.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from flinkish.annotations import public
from flinkish.errors import InvalidUid, UsageError
from flinkish.operators.uids import check_uid, check_uid_hash

#: Name of the tree node tag that holds a :class:`Tag` as JSON.
TAG_NAME = "flinkish.uid"
#: Plan nodes that only rename a DataFrame, or give a hint.
ALIASES = frozenset({"SubqueryAlias", "View", "ResolvedHint"})
#: The plans of Spark Connect's client that only rename a DataFrame, or give a hint.
_CLIENT_ALIASES = frozenset({"SubqueryAlias", "Hint"})
#: The tag on a JVM plan that holds the id of the Spark Connect client's plan.
PLAN_ID = "plan_id"

DataFrameT = TypeVar("DataFrameT")

_warned = False
#: The tags on the plans of Spark Connect's client, by the plan's id.
_of_client: dict[int, Tag] = {}


@dataclass(frozen=True)
class Tag:
    """The data that a call of ``uid`` or ``uid_hash`` leaves on a plan node.

    Attributes
    ----------
    token
        Unique to the first call on a node. If a plan has the same token at two places, one
        DataFrame is used twice.
    location
        Place of the first call, ``/dir/app.py:12``.
    """

    token: str
    uid: str | None = None
    uid_hash: str | None = None
    location: str | None = None

    def encode(self) -> str:
        """Return the tag's value on the plan node."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Tag:
        """Return the tag of an encoded value (see :meth:`encode`)."""
        return cls(**json.loads(text))


@public
def uid(name: str) -> Callable[[DataFrameT], DataFrameT]:
    """Name the operator at the top of a DataFrame: ``df.transform(uid("counts"))``.

    Where one step of the program creates several operators (SQL text), the name is that of its
    outermost stateful one. Giving the same name again is allowed.

    Parameters
    ----------
    name
        The uid, at least one character; unique in the job.

    Returns
    -------
    callable
        A function that takes a DataFrame and returns the same DataFrame. With a Spark Connect
        server in another process it does nothing, and warns once.

    Raises
    ------
    InvalidUid, UsageError
        The name is not a uid, or (when applied) the DataFrame already has another uid; or the
        object is not a DataFrame.
    """
    checked = check_uid(name)
    location = _caller()

    def named(df: DataFrameT) -> DataFrameT:
        return _mark(df, Tag(_token(), uid=checked, location=location))

    return named


@public
def uid_hash(operator_id: str) -> Callable[[DataFrameT], DataFrameT]:
    """Set the operator id under which a DataFrame's top operator looks up its state.

    Flink's ``setUidHash``: a restore looks up this id first, then the operator's own; new
    savepoints are written under the operator's own id.

    Parameters
    ----------
    operator_id
        32 hex digits, as ``flinkish savepoint show`` prints them.

    Returns
    -------
    callable
        A function that takes and returns the DataFrame, as :func:`uid` returns it.

    Raises
    ------
    InvalidUid, UsageError
        The id is not 32 hex digits, or (when applied) the DataFrame already has another uid hash;
        or the object is not a DataFrame.
    """
    checked = check_uid_hash(operator_id)
    location = _caller()

    def marked(df: DataFrameT) -> DataFrameT:
        return _mark(df, Tag(_token(), uid_hash=checked, location=location))

    return marked


def merge(before: Tag, new: Tag) -> Tag:
    """Merge two tags of one operator; the first call's token and place stay. Pure.

    Raises
    ------
    InvalidUid
        The tags contradict each other.
    """
    for what, old, other in (
        ("uid", before.uid, new.uid),
        ("uid hash", before.uid_hash, new.uid_hash),
    ):
        if old is not None and other is not None and old != other:
            where = f" ({before.location})" if before.location else ""
            raise InvalidUid(
                f"the DataFrame already has the {what} {old!r}{where}, so it cannot have "
                f"{other!r} too",
                hint="name each DataFrame once; a select() or filter() on it is another operator",
            )
    return replace(before, uid=before.uid or new.uid, uid_hash=before.uid_hash or new.uid_hash)


def tag_of(node: Any, key: Any) -> Tag | None:
    """Return the tag on a JVM plan node, if any; ``key`` is that of :func:`tag_key`."""
    value = node.getTagValue(key)
    return Tag.decode(str(value.get())) if value.isDefined() else None


def client_tag_of(node: Any, key: Any) -> Tag | None:
    """Return the tag on the client's plan from which a JVM plan node was made, if any.

    ``key`` is that of :data:`PLAN_ID`.
    """
    value = node.getTagValue(key)
    return _of_client.get(int(value.get())) if value.isDefined() else None


@functools.cache
def tag_key(jvm: Any, name: str = TAG_NAME) -> Any:
    """Return Spark's key of the tag ``name``."""
    return getattr(jvm, "org.apache.spark.sql.catalyst.trees.TreeNodeTag")(name)


def _mark(df: DataFrameT, tag: Tag) -> DataFrameT:
    plan = getattr(df, "_plan", None)
    if type(df).__module__.startswith("pyspark.sql.connect.") and plan is not None:
        _mark_client(plan, tag)
        return df
    jdf = getattr(df, "_jdf", None)
    if jdf is None:
        raise UsageError(
            f"uid() and uid_hash() name DataFrames, not {type(df).__name__}",
            hint='write df.transform(uid("a-name"))',
        )
    key = tag_key(df.sparkSession._jvm)  # type: ignore[attr-defined]  # a pyspark DataFrame
    node = jdf.logicalPlan()
    while node.nodeName() in ALIASES and node.children().size() == 1:
        node = node.children().apply(0)
    before = tag_of(node, key)
    node.setTagValue(key, (tag if before is None else merge(before, tag)).encode())
    return df


def _mark_client(plan: Any, tag: Tag) -> None:
    """Name a plan of Spark Connect's client; warn once if the server is in another process."""
    global _warned
    while type(plan).__name__ in _CLIENT_ALIASES and plan._child is not None:
        plan = plan._child
    number = getattr(plan, "_root_plan_id", None) or plan._plan_id
    _of_client[number] = merge(_of_client[number], tag) if number in _of_client else tag
    if not _warned and "SPARK_LOCAL_REMOTE" not in os.environ:  # set by PySpark for its own server
        import warnings

        _warned = True
        warnings.warn(
            "flinkish: uids have no effect on a Spark Connect server in another process",
            stacklevel=4,
        )


def _token() -> str:
    return os.urandom(8).hex()


def _caller() -> str | None:
    """Return the place of the first frame outside flinkish."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(own):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
