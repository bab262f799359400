"""The savepoints that a registry knows, of its jobs and imported ones."""

from __future__ import annotations

from collections.abc import Iterable

from flinkish.messages.savepoints import SavepointRecord
from flinkish.registry.job_table import JobTable
from flinkish.registry.rows import SAVEPOINT_COLUMNS, savepoint_of, savepoint_values
from flinkish.registry.statements import in_lists


class SavepointTable(JobTable):
    """The savepoints of a database; a base of :class:`.job_registry.Registry`."""

    def add_savepoint(self, record: SavepointRecord) -> None:
        """Register a savepoint, or update the record of the one at that path."""
        values = savepoint_values(record)
        columns = list(values)
        news = ", ".join(f"{c} = excluded.{c}" for c in columns if c != "path")
        self._database.write(
            lambda tx: tx.execute(
                f"INSERT INTO flinkish_savepoints ({', '.join(columns)}) "
                f"VALUES ({', '.join(':' + c for c in columns)}) "
                f"ON CONFLICT (path) DO UPDATE SET {news}",
                **values,
            )
        )

    def savepoints(
        self, job_id: str | None = None, *, include_disposed: bool = False
    ) -> list[SavepointRecord]:
        """Return the savepoints of one job or of all jobs, oldest first."""
        conditions, values = ["1 = 1"], {}
        if job_id is not None:
            conditions.append("job_id = :id")
            values["id"] = job_id
        if not include_disposed:
            conditions.append("disposed IS NULL")
        rows = self._read(
            f"SELECT {SAVEPOINT_COLUMNS} FROM flinkish_savepoints "
            f"WHERE {' AND '.join(conditions)} ORDER BY created, path",
            **values,
        )
        return [savepoint_of(row) for row in rows]

    def last_savepoints(self, job_ids: Iterable[str]) -> dict[str, SavepointRecord]:
        """Return the newest savepoint of each job that has one (disposed ones do not count)."""
        last: dict[str, SavepointRecord] = {}
        for marks, values in in_lists(job_ids):
            rows = self._read(
                f"SELECT {SAVEPOINT_COLUMNS} FROM flinkish_savepoints s "
                f"WHERE job_id IN ({marks}) AND disposed IS NULL AND created = ("
                "SELECT MAX(created) FROM flinkish_savepoints n "
                "WHERE n.job_id = s.job_id AND n.disposed IS NULL) ORDER BY path",
                **values,
            )
            last.update((row["job_id"], savepoint_of(row)) for row in rows)
        return last

    def mark_disposed(self, path: str, when: float | None = None) -> bool:
        """Record that the savepoint at ``path`` is gone, and return whether one was known there."""
        changed = self._database.write(
            lambda tx: tx.execute(
                "UPDATE flinkish_savepoints SET disposed = :at "
                "WHERE path = :path AND disposed IS NULL",
                at=self.now() if when is None else when,
                path=path,
            )
        )
        return changed > 0
