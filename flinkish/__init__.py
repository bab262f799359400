"""flinkish: Apache Flink's job lifecycle for PySpark Structured Streaming.

``flinkish.uid`` and ``flinkish.uid_hash`` name operators; they are imported when first asked for,
because importing this package must cost nothing.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # of this name, so that type checkers know it; typing costs start-up time
if TYPE_CHECKING:
    from flinkish.operators.tagging import uid, uid_hash

__all__ = ["__version__", "uid", "uid_hash"]


def __getattr__(name: str) -> object:
    if name in ("uid", "uid_hash"):
        from flinkish.operators import tagging

        return getattr(tagging, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
