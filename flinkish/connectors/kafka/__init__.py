"""Kafka's connector. Pure, except for ``topics``, which asks a broker where no driver runs."""
