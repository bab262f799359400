"""The registries of ``tests/registry``, for what starts jobs and records them there."""

from __future__ import annotations

from tests.registry.conftest import cluster as cluster
from tests.registry.conftest import make_job as make_job
from tests.registry.conftest import registry as registry
from tests.registry.conftest import registry_url as registry_url
from tests.registry.conftest import sqlite_registry as sqlite_registry
