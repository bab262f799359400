"""The JSON documents of the commands about flinkish itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict


class SettingRecord(TypedDict):
    """A configuration key and its value."""

    key: str
    value: Annotated[str | None, "passwords are hidden"]
    origin: Annotated[str, "where the value comes from"]


class ConfigDocument(TypedDict):
    """The effective configuration."""

    settings: list[SettingRecord]


class CompletionDocument(TypedDict):
    """The completion script of a shell."""

    shell: str
    script: str


class CommandDocuments(TypedDict):
    """A command and the summaries of its documents."""

    command: str
    documents: list[str]


class SchemasDocument(TypedDict):
    """The commands that print documents."""

    commands: list[CommandDocuments]


class SchemaDocument(TypedDict):
    """The JSON Schema of a command's documents."""

    command: str
    schema: Mapping[str, Any]
