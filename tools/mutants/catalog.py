"""The list of deliberate faults: each must be noticed by a test of the fast tier.

A fault is a change that a person could make by mistake, and that costs a user data, time or the
truth. It names the definition it is made in, wherever that stands (:mod:`tools.mutants.source`),
and what becomes of it (:mod:`tools.mutants.operators`). Where that code itself changes, the fault
has to follow: ``tests/tools/test_mutants.py`` says so.
"""

from __future__ import annotations

from tools.mutants import faults_engine, faults_jobs, faults_restoring, faults_saving

MUTANTS = (
    *faults_saving.MUTANTS,
    *faults_restoring.MUTANTS,
    *faults_engine.MUTANTS,
    *faults_jobs.MUTANTS,
)
