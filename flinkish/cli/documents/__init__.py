"""The JSON documents of the commands as types, from which their schemas and docs are made."""
