"""One module per command: its options, the call of the client, the rendering of the answer."""
