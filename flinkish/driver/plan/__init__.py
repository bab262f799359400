"""Queries as Spark has planned them: operators, sources, schemas and uids."""
