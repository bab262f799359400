"""The examples of README.md and docs/, found, checked against runs and rewritten from them."""
