"""The tiers of the suite, how the slow ones are run, and the record that they were.

A test's tier is its marker: none is the fast tier (``make test``), ``deep`` runs in ``make
test-deep`` (with the fast tier), ``matrix`` in ``make test-matrix``. CONTRIBUTING.md has the table.

* :mod:`.records`: what ``tests/deep_record.json`` says, and whether that will do; pure.
* :mod:`.plugin`: pytest's part: shards, resuming, the log of outcomes, the summary at the end.
* ``python -m tests.support.tiers``: run a tier, whole or in parts, and record it.
"""
