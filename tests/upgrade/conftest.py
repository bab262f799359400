"""The client in this process; drivers are real processes without Spark (:mod:`tests.cli`)."""

from __future__ import annotations

from tests.cli.conftest import cli as cli
from tests.cli.conftest import private as private
from tests.client.conftest import told as told
