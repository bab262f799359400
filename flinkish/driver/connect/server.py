"""The server of Spark Connect in the driver's own JVM: the session behind a client's session.

``spark.api.mode=connect`` and ``spark-pipelines`` start one in the process of the program unless it
names a server (``SparkSession.Builder.getOrCreate``, 4.0 to 4.3).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from flinkish.errors import UnsupportedSession

_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
_PORT = "spark.connect.grpc.binding.port"


def is_client_session(session: Any) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def base_session() -> Any:
    """Return the classic session beside the server of this process; None if there is none."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return None
    return SparkSession._instantiatedSession


def session_behind(client: Any) -> Any:
    """Return the classic session of the server for a client (``SparkConnectClient``).

    Its server must be in this process (:func:`base_session`).
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
    """Stop Spark: first the client, which still needs an answer of a server here.

    A client that is left open asks the server once more when Python exits, for minutes if there is
    none any more (``SparkConnectClient._on_exit``, 4.3).
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

    The queries of a client of ``sc://HOST`` run in that server, whose JVM nothing here can ask for
    a plan or a batch boundary. A local server is in this process, and served from Spark 4.0 on. The
    conditions are those of ``SparkSession.Builder.getOrCreate`` in PySpark 3.5 to 4.3.
    """
    from pyspark import __version__ as spark

    remote = str(options.get("spark.remote") or environ.get("SPARK_REMOTE") or "")
    if not remote.startswith("local"):
        return refused_server(remote) if remote else None
    if not spark.startswith("3."):
        return None
    return UnsupportedSession(
        "the program asks for a Spark Connect session with a server of its own, which is served "
        "from Spark 4.0 on",
        hint="drop .remote('local') and SPARK_REMOTE: the same program runs in a classic session "
        "of this process",
    )


def refused_server(remote: str) -> UnsupportedSession:
    """Return why a session of a server elsewhere is refused, and what to do instead. Pure."""
    return UnsupportedSession(
        f"the program asks for a Spark Connect session ({remote}): its queries run in that server, "
        "and savepoints need their driver",
        hint="drop .remote(...) and SPARK_REMOTE, and name the cluster with: flinkish run -m "
        "MASTER; what the server has committed can be saved from its checkpoints: flinkish "
        "savepoint --from-checkpoint URL",
    )


def prepare_server() -> None:
    """Make ``getOrCreate`` start a server in this process, with the master of ``spark-submit``.

    Two drivers on one host may have one each: it gets a free port, unless the settings name one.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    SparkContext._ensure_initialized()
    os.environ["SPARK_API_MODE"] = "connect"
    os.environ["SPARK_CONNECT_MODE"] = "1"  # Spark 4.1's name for it
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
