"""Directories of savepoints: listing, leases, shared files, disposal."""
