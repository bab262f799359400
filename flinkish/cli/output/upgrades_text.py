"""Upgrades as JSON data and as rows of a table. Pure."""

from __future__ import annotations

from typing import Any

from flinkish.cli.output.text import iso_time, local_time
from flinkish.messages.upgrades import Upgrade


def document(upgrade: Upgrade) -> dict[str, Any]:
    """Return an upgrade as JSON data. Pure."""
    return {
        "upgrade_id": upgrade.upgrade_id,
        "kind": upgrade.kind.value,
        "state": upgrade.state.value,
        "job_id": upgrade.job_id,
        "name": upgrade.name,
        "created": iso_time(upgrade.created),
        "ended": iso_time(upgrade.ended),
        "savepoint": upgrade.savepoint,
        "old_savepoint": upgrade.old_savepoint,
        "new_job_id": upgrade.new_job_id,
        "old_again_id": upgrade.old_again_id,
        "failure": None if upgrade.failure is None else dict(upgrade.failure),
        "committed": {name: list(batches) for name, batches in upgrade.committed.items()},
    }


def upgrade_row(upgrade: Upgrade) -> tuple[str, str, str, str]:
    """Return an upgrade as a row: when, its state, its id, why it was given up."""
    reason = str((upgrade.failure or {}).get("message") or "")
    return local_time(upgrade.created), upgrade.state.value, upgrade.upgrade_id, reason
