"""The options that select the Spark for an application of flinkish itself."""

from __future__ import annotations

from flinkish.cli.options.arguments import F
from flinkish.cli.options.program import (
    client_python_option,
    conf_option,
    master_option,
    python_option,
    spark_home_option,
)

_OPTIONS = (
    master_option,
    spark_home_option,
    python_option,
    client_python_option,
    conf_option,
)


def spark_options(function: F) -> F:
    """Add the options that select the Spark; they are fields of a ``Program``."""
    for option in reversed(_OPTIONS):  # decorators apply from the last to the first
        function = option(function)
    return function
