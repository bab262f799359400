"""Mutated input for every reader of a file that may come from elsewhere: ``make fuzz N=100000``.

``targets`` has the readers and real files for each, ``mutations`` makes others of them, ``worker``
reads them in a process with a limit of memory and time, ``run`` looks after workers and collects
what is found; ``found/`` keeps inputs that were trouble once, which are read again by every run of
``make test``.
"""
