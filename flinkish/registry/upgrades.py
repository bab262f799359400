"""The records of upgrades: a part of the registry.

Each change states the revision that it is based on. If two processes carry out one upgrade, the one
that has been overtaken notices at its next step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from flinkish.errors import Corrupt, Locked, RegistryError, UpgradeNotFound, UsageError
from flinkish.messages.codec import decode, decode_fields, encode, encode_fields
from flinkish.messages.upgrades import Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.database import Row, Transaction
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef
from flinkish.registry.purging import Purging
from flinkish.registry.rows import dump
from flinkish.registry.statements import is_prefix

_COLUMNS = "upgrade_id, owner, record"
_FINAL = ", ".join(f"'{state.value}'" for state in UpgradeState if state.is_final)
_UNFINISHED = (
    f"SELECT {_COLUMNS} FROM flinkish_upgrades WHERE state NOT IN ({_FINAL}) "
    "ORDER BY created, upgrade_id"
)


def holds_name(upgrade: Upgrade, name: str) -> bool:
    """Return whether an unfinished upgrade holds a name even while no job of that name runs. Pure.

    Between the end of the old job and the start of the new one, no other job may resume from the
    old job's state. With a shadow, the old job runs until the shadow is promoted.
    """
    is_between = upgrade.kind is not UpgradeKind.SHADOW or upgrade.state is UpgradeState.PROMOTING
    return is_between and upgrade.name == name


def holds_job(upgrade: Upgrade, job: JobRecord) -> bool:
    """Return whether an unfinished upgrade prevents a restart of one of its jobs. Pure.

    It does if the upgrade continues without the job: the old job was stopped for it, or the new job
    is being given up. Otherwise the upgrade itself needs the restart.
    """
    if job.job_id == upgrade.new_job_id:
        return upgrade.state in (UpgradeState.ENDING, UpgradeState.RETURNING)
    if job.job_id != upgrade.job_id:
        return False
    shadow = upgrade.kind is UpgradeKind.SHADOW
    stopped_with = upgrade.old_savepoint if shadow else upgrade.savepoint
    is_stopping = upgrade.state in (UpgradeState.STOPPING, UpgradeState.PROMOTING)
    return stopped_with is not None or (is_stopping and job.state is JobState.FINISHED)


def refuse_held(
    rows: Callable[[str], Sequence[Row]], *, name: str | None = None, job: JobRecord | None = None
) -> None:
    """Refuse a start in the middle of an unfinished upgrade.

    ``rows`` runs a query, in a transaction or as a reader. ``name`` is the name of the job to be
    started, if it must be unique; ``job`` is the job itself, if known, because a job of the upgrade
    may use the upgrade's name.

    Raises Locked if an upgrade holds the job (:func:`holds_job`) or the name (:func:`holds_name`).
    """
    for row in rows(_UNFINISHED):
        upgrade, _ = _upgrade_of(row)
        own = (upgrade.job_id, upgrade.new_job_id, upgrade.old_again_id)
        if job is not None and job.job_id in own:
            held = holds_job(upgrade, job)
        else:
            held = name is not None and holds_name(upgrade, name)
        if held:
            raise _in_upgrade(upgrade.name, upgrade.job_id, upgrade.upgrade_id)


def _in_upgrade(name: str, job_id: str, upgrade_id: str) -> Locked:
    return Locked(
        f"job {name} ({job_id}) is in upgrade {upgrade_id}, which is not finished",
        hint=f"finish it with: flinkish upgrade resume {upgrade_id}; or undo it with: flinkish "
        f"upgrade rollback {upgrade_id}",
        upgrade_id=upgrade_id,
    )


class UpgradeRecords(Purging):
    """Upgrades, on top of jobs and their queries."""

    def add_upgrade(self, upgrade: Upgrade, owner: ProcessRef) -> Upgrade:
        """Record a new upgrade, carried out by ``owner``; return it.

        Raises Locked if another upgrade of the job is not finished.
        """

        def work(tx: Transaction) -> Upgrade:
            self._database.serialize(tx)
            rows = tx.rows(
                f"SELECT upgrade_id FROM flinkish_upgrades WHERE state NOT IN ({_FINAL}) "
                "AND :id IN (job_id, new_job_id, old_again_id)",
                id=upgrade.job_id,
            )
            if rows:
                raise _in_upgrade(upgrade.name, upgrade.job_id, str(rows[0]["upgrade_id"]))
            tx.execute(
                "INSERT INTO flinkish_upgrades (upgrade_id, job_id, state, created, owner, record, "
                "revision) VALUES (:id, :job, :state, :created, :owner, :record, :revision)",
                id=upgrade.upgrade_id,
                job=upgrade.job_id,
                state=upgrade.state.value,
                created=upgrade.created,
                owner=dump(encode_fields(owner)),
                record=dump(encode(upgrade)),
                revision=upgrade.revision,
            )
            return upgrade

        return self._database.write(work)

    def save_upgrade(self, upgrade: Upgrade, owner: ProcessRef) -> Upgrade:
        """Record the next version of an upgrade; return it with its new revision.

        If its state is final, ``ended`` becomes the present time by the registry's clock.

        Raises Locked if the version does not follow the recorded one, because another process has
        taken over.
        """
        ended = self.now() if upgrade.state.is_final else upgrade.ended
        following = replace(upgrade, revision=upgrade.revision + 1, ended=ended)

        def work(tx: Transaction) -> Upgrade:
            changed = tx.execute(
                "UPDATE flinkish_upgrades SET state = :state, new_job_id = :new, "
                "old_again_id = :again, owner = :owner, record = :record, revision = :revision "
                "WHERE upgrade_id = :id AND revision = :seen",
                state=following.state.value,
                new=following.new_job_id,
                again=following.old_again_id,
                owner=dump(encode_fields(owner)),
                record=dump(encode(following)),
                revision=following.revision,
                id=following.upgrade_id,
                seen=upgrade.revision,
            )
            if not changed:
                raise Locked(
                    f"another process has taken over upgrade {upgrade.upgrade_id}",
                    hint=f"follow it with: flinkish status {upgrade.job_id}",
                    upgrade_id=upgrade.upgrade_id,
                )
            return following

        return self._database.write(work)

    def upgrade(self, reference: str) -> tuple[Upgrade, ProcessRef | None]:
        """Return the upgrade with this id or unique prefix (at least 4 digits), and its process.

        Raises UpgradeNotFound, and UsageError if the prefix is not unique or the text is blank.
        """
        text = reference.strip().lower()
        if not text:
            raise UsageError(
                "the upgrade id is missing", hint="see a job's upgrades with: flinkish status JOB"
            )
        rows: list[Row] = []
        if is_prefix(text):
            rows = self._read(
                f"SELECT {_COLUMNS} FROM flinkish_upgrades "
                "WHERE substr(upgrade_id, 1, :length) = :start",
                start=text,
                length=len(text),
            )
        if not rows:
            raise UpgradeNotFound(f"no upgrade has the id {reference!r}")
        if len(rows) > 1:
            raise UsageError(
                f"{len(rows)} upgrades begin with {reference!r}", hint="give more digits of the id"
            )
        return _upgrade_of(rows[0])

    def upgrades_of(self, job_id: str) -> list[Upgrade]:
        """Return the upgrades that a job was part of in any role, oldest first."""
        rows = self._read(
            f"SELECT {_COLUMNS} FROM flinkish_upgrades "
            "WHERE :id IN (job_id, new_job_id, old_again_id) ORDER BY created, upgrade_id",
            id=job_id,
        )
        return [_upgrade_of(row)[0] for row in rows]

    def unfinished_upgrades(self) -> list[Upgrade]:
        """Return the upgrades that are not finished, oldest first."""
        return [_upgrade_of(row)[0] for row in self._read(_UNFINISHED)]

    def check_not_in_upgrade(
        self, *, name: str | None = None, job: JobRecord | None = None
    ) -> None:
        """Raise Locked if an unfinished upgrade prevents a start; see :func:`refuse_held`."""
        refuse_held(self._read, name=name, job=job)

    def jobs_in_upgrades(self) -> set[str]:
        """Return the ids of the jobs of upgrades that are not finished."""
        rows = self._read(
            "SELECT job_id, new_job_id, old_again_id FROM flinkish_upgrades "
            f"WHERE state NOT IN ({_FINAL})"
        )
        return {str(value) for row in rows for value in row.values() if value is not None}


def _upgrade_of(row: Row) -> tuple[Upgrade, ProcessRef | None]:
    try:
        owner: Any = json.loads(row["owner"]) if row["owner"] else None
        return (
            decode(Upgrade, json.loads(row["record"])),
            None if owner is None else decode_fields(ProcessRef, owner),
        )
    except (Corrupt, ValueError, TypeError) as error:
        raise RegistryError(
            f"the registry has a damaged row of upgrade {row['upgrade_id']}: {error}"
        ) from error
