"""The registry's tables as a list of forward steps; the schema's version is their number.

The SQL text is the same for SQLite and PostgreSQL: types that both know (``DOUBLE PRECISION`` has
SQLite's REAL affinity, ``BIGINT`` its INTEGER affinity), JSON as TEXT, booleans as 0 and 1. Tables
carry a prefix because a PostgreSQL database may be shared with other programs.

Version 1 is the first step. Never edit a released step: append a new one.

This module imports almost nothing, because ``fast_list``, which must start quickly, asks it whether
the file of a SQLite registry exists.
"""

from __future__ import annotations

import errno
import os

VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS flinkish_schema (
    version BIGINT PRIMARY KEY,
    applied DOUBLE PRECISION NOT NULL,
    flinkish_version TEXT NOT NULL
)
"""

#: Each step is one version. Its statements and the version's row are one transaction.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE flinkish_jobs (
            job_id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            state TEXT NOT NULL,
            start_time DOUBLE PRECISION NOT NULL,
            end_time DOUBLE PRECISION,
            launch TEXT NOT NULL,
            log_path TEXT,
            checkpoint_dir TEXT,
            supervisor TEXT,
            driver TEXT,
            heartbeat DOUBLE PRECISION,
            spark_version TEXT,
            application_id TEXT,
            exit_status BIGINT,
            failure TEXT,
            acknowledged DOUBLE PRECISION,
            revision BIGINT NOT NULL
        )
        """,
        "CREATE INDEX flinkish_jobs_by_state ON flinkish_jobs (state, start_time)",
        "CREATE INDEX flinkish_jobs_by_name ON flinkish_jobs (name)",
        """
        CREATE TABLE flinkish_states (
            job_id TEXT NOT NULL REFERENCES flinkish_jobs (job_id),
            number BIGINT NOT NULL,
            state TEXT NOT NULL,
            time DOUBLE PRECISION NOT NULL,
            reason TEXT,
            PRIMARY KEY (job_id, number)
        )
        """,
        # A program may stop a query and start another with the same name: both rows stay, and
        # `seen` (the job's revision at the last heartbeat with that query) shows which is current.
        # `facts` (QueryFacts) is what a savepoint of the query needs when its driver is gone: the
        # status is written with every heartbeat, the facts when the query starts.
        """
        CREATE TABLE flinkish_queries (
            job_id TEXT NOT NULL REFERENCES flinkish_jobs (job_id),
            name TEXT NOT NULL,
            query_id TEXT NOT NULL,
            status TEXT NOT NULL,
            seen BIGINT NOT NULL,
            facts TEXT,
            PRIMARY KEY (job_id, name, query_id)
        )
        """,
        "CREATE INDEX flinkish_queries_by_id ON flinkish_queries (query_id)",
        """
        CREATE TABLE flinkish_requests (
            request_id TEXT PRIMARY KEY,
            job_id TEXT NOT NULL REFERENCES flinkish_jobs (job_id),
            number BIGINT NOT NULL,
            kind TEXT NOT NULL,
            state TEXT NOT NULL,
            created DOUBLE PRECISION NOT NULL,
            arguments TEXT NOT NULL,
            requester TEXT,
            started DOUBLE PRECISION,
            finished DOUBLE PRECISION,
            progress TEXT,
            result TEXT,
            error TEXT
        )
        """,
        "CREATE UNIQUE INDEX flinkish_requests_by_job ON flinkish_requests (job_id, number)",
        # No foreign key: a savepoint may come from a job of another registry (savepoint import).
        """
        CREATE TABLE flinkish_savepoints (
            path TEXT PRIMARY KEY,
            job_id TEXT NOT NULL,
            created DOUBLE PRECISION NOT NULL,
            format TEXT NOT NULL,
            bytes BIGINT NOT NULL,
            files BIGINT NOT NULL,
            duration DOUBLE PRECISION NOT NULL,
            queries TEXT NOT NULL,
            cause TEXT NOT NULL,
            request_id TEXT,
            disposed DOUBLE PRECISION
        )
        """,
        "CREATE INDEX flinkish_savepoints_by_job ON flinkish_savepoints (job_id, created)",
        # The record is the whole upgrade (messages.upgrades); the columns are for conditions.
        """
        CREATE TABLE flinkish_upgrades (
            upgrade_id TEXT PRIMARY KEY,
            job_id TEXT NOT NULL,
            new_job_id TEXT,
            old_again_id TEXT,
            state TEXT NOT NULL,
            created DOUBLE PRECISION NOT NULL,
            owner TEXT,
            record TEXT NOT NULL,
            revision BIGINT NOT NULL
        )
        """,
        # What the queries of jobs hold (registry.claims).
        """
        CREATE TABLE flinkish_claims (
            resource TEXT NOT NULL,
            job_id TEXT NOT NULL REFERENCES flinkish_jobs (job_id),
            query TEXT NOT NULL,
            since BIGINT NOT NULL,
            PRIMARY KEY (resource, job_id, query)
        )
        """,
    ),
)

#: The condition on ``flinkish_jobs`` for jobs that ran and failed without being acknowledged.
UNACKNOWLEDGED = (
    "flinkish_jobs.state = 'FAILED' AND flinkish_jobs.acknowledged IS NULL AND EXISTS (SELECT 1 "
    "FROM flinkish_states s WHERE s.job_id = flinkish_jobs.job_id AND s.state = 'RUNNING')"
)

#: The newest version that this flinkish reads and writes.
VERSION = len(MIGRATIONS)


def is_absent(path: str) -> bool:
    """Return whether there is no registry at the absolute ``path`` yet: no file, or an empty one.

    Raises OSError if that is unknown: a directory cannot be entered, or a link is broken (its disk
    may not be mounted).
    """
    try:
        return os.stat(path).st_size == 0 and not os.path.isdir(path)
    except FileNotFoundError:
        pass
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.exists(there):
        raise FileNotFoundError(errno.ENOENT, f"the link {there} leads nowhere", path)
    return True
