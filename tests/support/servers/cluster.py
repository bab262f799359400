"""A Spark standalone cluster on loopback: a master, and workers as processes of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.support.servers import jars
from tests.support.servers.process import accepts, free_port, running


@contextmanager
def standalone_cluster(
    directory: Path, environ: Mapping[str, str], workers: int = 1
) -> Iterator[str]:
    """The URL of a master with workers of two cores and 1 GB each; logs are in ``directory``.

    ``environ`` is added to the processes' environment, which executors inherit.
    """
    home = jars.spark_jars().parent
    start = str(home / "bin" / "spark-class")
    port, web = free_port(), free_port()
    environment = {
        **environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    package = "org.apache.spark.deploy"
    master = [start, f"{package}.master.Master", "--host", "127.0.0.1"]
    master += ["--port", str(port), "--webui-port", str(web)]
    with ExitStack() as stack:
        up = partial(accepts, port)
        stack.enter_context(running("cluster", master, directory / "master.log", up, environment))
        for number in range(workers):
            own = free_port()
            worker = [start, f"{package}.worker.Worker", "--host", "127.0.0.1", "--cores", "2"]
            worker += ["--memory", "1g", "--webui-port", str(own)]
            worker += ["--work-dir", str(directory / f"work{number}"), f"spark://127.0.0.1:{port}"]
            log = directory / f"worker{number}.log"
            up = partial(accepts, own)
            stack.enter_context(running(f"cluster#worker{number}", worker, log, up, environment))
        yield f"spark://127.0.0.1:{port}"
