"""A Spark standalone cluster on loopback: a master, and workers as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.support.servers import jars
from tests.support.servers.process import accepts, free_port, running


def spark_home(python: str) -> Path:
    """The Spark of an interpreter's pyspark."""
    if python == sys.executable:
        return jars.spark_jars().parent
    script = (
        "import importlib.util as u; print(u.find_spec('pyspark').submodule_search_locations[0])"
    )
    found = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


@contextmanager
def standalone_cluster(
    directory: Path,
    environ: Mapping[str, str],
    workers: int = 1,
    *,
    memory: str = "1g",
    python: str = sys.executable,
) -> Iterator[str]:
    """The URL of a master with workers of two cores each; logs are in ``directory``.

    ``environ`` is added to the processes' environment, which executors inherit. ``python`` has the
    Spark, and runs what the workers run.
    """
    home = spark_home(python)
    start = str(home / "bin" / "spark-class")
    port, web = free_port(), free_port()
    environment = {
        **environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": python,
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
            worker += ["--memory", memory, "--webui-port", str(own)]
            worker += ["--work-dir", str(directory / f"work{number}"), f"spark://127.0.0.1:{port}"]
            log = directory / f"worker{number}.log"
            up = partial(accepts, own)
            stack.enter_context(running(f"cluster#worker{number}", worker, log, up, environment))
        yield f"spark://127.0.0.1:{port}"
