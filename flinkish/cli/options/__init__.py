"""Options that several commands share, and their conversion for the client."""
