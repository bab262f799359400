"""The server of Spark Connect in the driver's own JVM: the session behind a client's session.

``spark.api.mode=connect`` and ``spark-pipelines`` start such a server in that JVM (below: in this
process), unless the program names a server (``SparkSession.Builder.getOrCreate``, 4.0 to 4.3).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from flinkish.config import mask_secrets
from flinkish.errors import UnsupportedSession

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
_PORT = "spark.connect.grpc.binding.port"


def is_client_session(session: Any) -> bool:
    """Return whether a session is a client of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def base_session() -> Any:
    """Return the classic session beside the server in this process; None without such a session."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return None
    return SparkSession._instantiatedSession


def session_behind(client: Any) -> Any:
    """Return the classic session of the server for a client (``SparkConnectClient``).

    The client's server must be in this process (:func:`base_session`).
    """
    from pyspark.sql import SparkSession

    return SparkSession(base_session().sparkContext, holder_of(client).session())


def holder_of(client: Any) -> Any:
    """Return the server's ``SessionHolder`` for a client."""
    jvm = base_session()._jvm
    service = getattr(getattr(jvm, _SERVICE), "MODULE$")
    return service.getOrCreateIsolatedSession(
        client._user_id or "", client._session_id, jvm.scala.Option.empty()
    )


def stop_session(session: Any) -> None:
    """Stop Spark, but first its client, which needs an answer from a server in this process.

    A client that is left open asks the server once more when Python exits, and keeps trying for
    minutes if the server is gone (``SparkConnectClient._on_exit``, 4.3).
    """
    module = sys.modules.get("pyspark.sql.connect.session")
    client = None if module is None else module.SparkSession._default_session
    if client is not None:
        client.stop()
    session.stop()


def connect_refusal(
    options: Mapping[str, Any], environ: Mapping[str, str]
) -> UnsupportedSession | None:
    """Return why a session that is about to be built is refused, or None.

    The queries of a client of ``sc://HOST`` run in the server on HOST. This process cannot ask that
    server's JVM for a plan or a batch boundary. A local server is in this process; flinkish
    supports it from Spark 4.0 on. The conditions are those of ``SparkSession.Builder.getOrCreate``
    in PySpark 3.5 to 4.3.
    """
    from pyspark import __version__ as spark

    remote = str(options.get("spark.remote") or environ.get("SPARK_REMOTE") or "")
    if not remote.startswith("local"):
        return refused_server(remote) if remote else None
    if not spark.startswith("3."):
        return None
    return UnsupportedSession(
        "the program asks for a Spark Connect session with a server of its own, which flinkish "
        "supports from Spark 4.0 on",
        hint="drop .remote('local') and SPARK_REMOTE: the same program runs in a classic session "
        "of this process",
    )


def refused_server(remote: str | None = None) -> UnsupportedSession:
    """Return why a session of a server in another process is refused, and what to do. Pure.

    The token in the URL ``remote`` is masked: the error goes to the job's log and the registry.
    """
    where = f" ({mask_secrets(remote)})" if remote else ""
    return UnsupportedSession(
        f"the program asks for a Spark Connect session of a server in another process{where}: its "
        "queries run there, and flinkish cannot take savepoints of them",
        hint="drop .remote(...) and SPARK_REMOTE, and name the cluster with: flinkish run -m "
        "MASTER; what the server has committed can be saved from its checkpoints: flinkish "
        "savepoint --from-checkpoint URL",
    )


def prepare_server() -> None:
    """Make ``getOrCreate`` start a server in this process, with the master of ``spark-submit``.

    The server gets a free port, unless the settings name one: two drivers may be on one host.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    SparkContext._ensure_initialized()
    os.environ["SPARK_API_MODE"] = "connect"
    os.environ["SPARK_CONNECT_MODE"] = "1"  # the variable's name in Spark 4.1
    os.environ["MASTER"] = str(SparkConf().get("spark.master", "local[*]"))
    jvm: Any = SparkContext._jvm
    properties = jvm.java.lang.System
    if properties.getProperty(_PORT) is None:
        properties.setProperty(_PORT, "0")
    original = DefaultChannelBuilder.default_port

    def port_here() -> int:
        session = base_session()
        if session is not None:
            with suppress(Exception):
                return int(getattr(getattr(session._jvm, _SERVICE), "MODULE$").localPort())
        return int(original())

    builder: Any = DefaultChannelBuilder
    builder.default_port = staticmethod(port_here)
