"""The job inside its driver: its queries from their start to their end."""
