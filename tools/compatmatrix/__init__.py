"""Measures which Spark can go on with the savepoint of which: see ``__main__``."""
