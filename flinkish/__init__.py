"""flinkish: Apache Flink's job lifecycle for PySpark Structured Streaming.

``flinkish.Client`` and ``flinkish.Savepoint`` are the entry points for Python programs,
``flinkish.Program`` and ``flinkish.RestoreOptions`` say what is run and how it is restored.
``flinkish.uid`` and ``flinkish.uid_hash`` name operators, ``flinkish.history_batch`` numbers
batches, and ``flinkish.attach`` serves a program that another launcher has started. All of these
names are imported on first access, because importing this package must cost nothing.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from flinkish.client import Program, RestoreOptions
    from flinkish.client.client import Client
    from flinkish.client.savepoints import Savepoint
    from flinkish.driver.attached.attachment import attach
    from flinkish.history import history_batch
    from flinkish.operators.tagging import uid, uid_hash

__all__ = [
    "Client",
    "Program",
    "RestoreOptions",
    "Savepoint",
    "__version__",
    "attach",
    "history_batch",
    "uid",
    "uid_hash",
]

if not TYPE_CHECKING:  # otherwise type checkers would accept any name as an attribute

    def __getattr__(name: str) -> object:
        if name in ("uid", "uid_hash"):
            from flinkish.operators import tagging

            return getattr(tagging, name)
        if name == "attach":
            from flinkish.driver.attached import attachment

            return attachment.attach
        if name == "history_batch":
            from flinkish import history

            return history.history_batch
        if name in ("Client", "Program", "RestoreOptions", "Savepoint"):
            from flinkish import client

            return getattr(client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
