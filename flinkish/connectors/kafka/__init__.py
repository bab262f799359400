"""Kafka, pure but for `topics`, the client that asks a broker where no driver runs."""
