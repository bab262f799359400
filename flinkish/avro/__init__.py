"""Avro's container files and binary encoding, read with bounds; only zstandard needs a library."""
