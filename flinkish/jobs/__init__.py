"""The control plane: job registry, job states, request mailbox, launcher (DESIGN section 3)."""
