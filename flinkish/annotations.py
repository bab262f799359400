"""What the promise about an exported class or function is, as in Flink's ``flink-annotations``.

An annotation holds for the members of a class too, unless they have one of their own. What has none
is internal. The decorators do nothing: ``make api-check`` reads them, and compares what they
stand for with what is recorded. docs/compatibility.md has the promises.
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
