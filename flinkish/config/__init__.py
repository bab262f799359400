"""Configuration: all keys of flinkish, the layers that set their values, and secret values.

Every command imports this package, so it must be light: no TOML parser or path library is loaded
unless there is a file to read.
"""

from __future__ import annotations

from flinkish.config.keys import KEYS, Key, canonical, environment_name
from flinkish.config.loader import (
    Config,
    Setting,
    environment_warnings,
    read_toml,
    working_directory,
)
from flinkish.config.secrets import MASK, is_secret, mask_secrets
from flinkish.config.values import parse_boolean, parse_duration, parse_moment, sqlite_path

__all__ = [
    "KEYS",
    "MASK",
    "Config",
    "Key",
    "Setting",
    "canonical",
    "environment_name",
    "environment_warnings",
    "is_secret",
    "mask_secrets",
    "parse_boolean",
    "parse_duration",
    "parse_moment",
    "read_toml",
    "sqlite_path",
    "working_directory",
]
