"""What a restore continues from: a savepoint, plain Spark checkpoints, or a job's checkpoints."""
