"""The JSON documents of the commands as types, which their schemas and the docs are made from."""
