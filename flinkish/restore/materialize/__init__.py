"""Making the new checkpoint that a restored query goes on from."""
