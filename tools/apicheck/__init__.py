"""Compare what flinkish exports with what is recorded: the promise of docs/compatibility.md.

* :mod:`.promise`: the table of annotations and releases.
* :mod:`.python_api`: exported classes and functions as stubs, and their comparison (by griffe).
* :mod:`.interface`: commands, options, exit codes, JSON documents and format versions.
"""
