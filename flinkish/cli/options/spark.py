"""The options that select the Spark for an application of flinkish itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkish.cli.options.arguments import F
from flinkish.cli.options.program import (
    client_python_option,
    conf_option,
    master_option,
    python_option,
    spark_home_option,
)
from flinkish.cli.session import Session
from flinkish.client.program import own_application
from flinkish.launch.spark_submit import Installation
from flinkish.messages.launch import Launch, Program

_OPTIONS = (
    master_option,
    spark_home_option,
    python_option,
    client_python_option,
    conf_option,
)


def spark_options(function: F) -> F:
    """Add the options that select the Spark for the application."""
    for option in reversed(_OPTIONS):  # decorators apply from the last to the first
        function = option(function)
    return function


def prepared(session: Session, options: Mapping[str, Any]) -> tuple[Launch, Installation]:
    """Return the Spark application to start, by :func:`spark_options`. Raises LaunchFailed."""
    return own_application(Program(**options), session.config)
