"""State stores: their files, versions and records."""
