"""Starting drivers: ``spark-submit``, the supervisor, calls for one answer, logs, secrets."""
