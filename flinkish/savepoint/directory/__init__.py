"""Directories of savepoints: listing, leases, sharing, disposal."""
