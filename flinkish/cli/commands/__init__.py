"""One module a command: its options, the call of the client, how the answer is shown."""
