"""Starting drivers: ``spark-submit``, the supervisor, one-answer driver calls, logs, secrets."""
