"""Annotations of exported classes and functions: stability promises, as in ``flink-annotations``.

An annotation also holds for a class's members, unless they have their own. A name without an
annotation is internal. The decorators do nothing: ``make api-check`` reads them, and compares the
API that they mark with the recorded API. docs/compatibility.md has the promises.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


def public(api: T) -> T:
    """Promise that programs written against ``api`` run until the next major release."""
    return api


def public_evolving(api: T) -> T:
    """Promise that programs written against ``api`` run until the next minor release."""
    return api


def experimental(api: T) -> T:
    """Promise nothing: ``api`` may change in every release."""
    return api
