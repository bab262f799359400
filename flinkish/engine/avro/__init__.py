"""State as Avro, for canonical savepoints and exports."""
