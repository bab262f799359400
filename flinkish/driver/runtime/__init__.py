"""The job inside its driver: its queries from start to end."""
