"""The tiers of the suite, what of the slow ones is due, how it is run, and the record that it was.

A test's tier is its marker: none is the fast tier (``make test``), ``deep`` runs in ``make
test-deep``, ``matrix`` in ``make test-matrix``. CONTRIBUTING.md has the table.

* :mod:`.sources`, :mod:`.graph`: what a test file depends on; pure.
* :mod:`.due`: which files are due, since when and why. :mod:`.parts`: what the tiers consist of.
* :mod:`.records`: ``tests/tier_records.json``. :mod:`.repository`: what git says.
* :mod:`.runner`: runs files, the most due first.
* :mod:`.plugin`: pytest's part. :mod:`.rooms`: the seconds of the fast tier.
"""
