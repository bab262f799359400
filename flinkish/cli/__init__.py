"""The command line: one module a command; parses, calls, renders, computes nothing."""
