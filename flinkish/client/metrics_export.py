"""Metrics in the forms that Prometheus reads: as text, in a file, or over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flinkish.client.metrics import Metric
from flinkish.errors import FlinkishError, UsageError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """Return metrics in Prometheus' text format. Pure."""
    from prometheus_client import generate_latest

    listed = list(metrics)
    return generate_latest(_collected(lambda: listed)).decode()


@contextmanager
def served(read: Callable[[], Iterable[Metric]], host: str, port: int) -> Iterator[int]:
    """Serve metrics over HTTP in the block, and yield the port; 0 asks for a free one.

    ``read``: returns the metrics; called for each request, from a thread of the server. If it
    raises an error, the server answers the request with the status 500.

    Raises FlinkishError if the address cannot be used.
    """
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, host, _collected(read))
    except (OSError, UnicodeError) as error:  # UnicodeError: not the name of a host
        raise FlinkishError(
            f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}",
            hint="name another address: --listen [HOST:]PORT",
        ) from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _collected(read: Callable[[], Iterable[Metric]]) -> CollectorRegistry:
    """Return a registry of the library that calls ``read`` for each collection."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

    class Numbers(Collector):
        def describe(self) -> Iterable[GaugeMetricFamily]:
            """Return nothing: the library would otherwise collect the metrics for their names."""
            return ()

        def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
            """Yield the metrics as objects of the library."""
            for metric in read():
                family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                metric_family = family(metric.name, metric.help)
                for sample in metric.samples:
                    labels = {name: _encodable(value) for name, value in sample.labels.items()}
                    metric_family.add_sample(metric.name, labels, sample.value)
                yield metric_family

    # Not the library's default registry, which adds metrics of this process.
    own = CollectorRegistry()
    own.register(Numbers())
    return own


def write_text(path: str, text: str) -> None:
    """Write metrics to a temporary file and rename it, so that readers never see a partial file.

    ``path``: the file; its directory must exist. ``text``: what :func:`prometheus_text` returns.

    Raises UsageError if ``path`` is a directory or a URL; StorageError if it cannot be written.
    """
    from flinkish.storage import is_local, locate, write_atomically

    location = locate(path)
    if not is_local(location) or os.path.isdir(location):
        raise UsageError(f"{path} is not a local file", hint="name a file, such as flinkish.prom")
    write_atomically(location, text.encode())


def _encodable(text: str) -> str:
    """Return ``text`` without lone surrogates, which cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
