"""Making of the new checkpoint from which a restored query continues."""
