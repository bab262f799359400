"""Property tests of two tiers: a few examples, the same in each run, and many random ones.

What they ask of damaged bytes is :func:`attempt`: the truth, or an error of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

_Result = TypeVar("_Result")
_Error = TypeVar("_Error", bound=Exception)


def attempt(act: Callable[[], _Result], error: type[_Error]) -> _Result | _Error:
    """What a call returns, or the error of this kind that it raises."""
    try:
        return act()
    except error as raised:
        return raised


def examples(
    few: int, many: int, *strategies: SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Check a property with examples of ``strategies``.

    The fast tier has ``few`` of them, always the same; the deep one ``many``, others in each run.
    """

    def decorate(check: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.deep)])
        def test(count: int) -> None:
            chosen = settings(max_examples=count, deadline=None, derandomize=count == few)
            chosen(given(*strategies)(check))()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        test.__module__, test.__qualname__ = check.__module__, check.__qualname__
        return test

    return decorate
