"""Kafka. Pure, except for `topics`, the client that asks a broker where no driver runs."""
