"""State as Avro: canonical savepoints and exports."""
