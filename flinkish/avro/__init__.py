"""Avro's container files and binary encoding, read with bounds; of the standard library alone."""
