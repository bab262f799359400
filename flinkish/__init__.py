"""flinkish: Apache Flink's job lifecycle for PySpark Structured Streaming.

``flinkish.Client`` and ``flinkish.Savepoint`` are the front door for Python programs,
``flinkish.uid`` and ``flinkish.uid_hash`` name operators. They are imported when first asked for,
because importing this package must cost nothing.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # of this name, so that type checkers know it; typing costs start-up time
if TYPE_CHECKING:
    from flinkish.client.client import Client
    from flinkish.client.savepoints import Savepoint
    from flinkish.operators.tagging import uid, uid_hash

__all__ = ["Client", "Savepoint", "__version__", "uid", "uid_hash"]


if not TYPE_CHECKING:  # else type checkers would take any name for one of this package

    def __getattr__(name: str) -> object:
        if name in ("uid", "uid_hash"):
            from flinkish.operators import tagging

            return getattr(tagging, name)
        if name in ("Client", "Savepoint"):
            from flinkish import client

            return getattr(client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
