"""Configuration: every key flinkish knows, where a value may come from, and what of it is secret.

Imported by every command, hence light: nothing here reads a TOML parser or a path library unless
a file is there to be read.
"""

from __future__ import annotations

from flinkish.config.keys import KEYS, Key, canonical, environment_name
from flinkish.config.loader import Config, Setting, environment_warnings
from flinkish.config.secrets import MASK, is_secret, mask_secrets
from flinkish.config.values import parse_boolean, parse_duration, sqlite_path

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
    "sqlite_path",
]
