"""flinkish's savepoint format: metadata, writer, reader, disposal (DESIGN section 5)."""
