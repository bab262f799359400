"""flinkish's savepoint format: metadata, writer, reader and disposal."""
