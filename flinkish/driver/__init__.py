"""The part of flinkish that runs inside the Spark driver, beside the user's program."""
